"""What the server asks of whoever runs the pods: their logs, and a process inside one of their containers.

The server only carries bytes between a client and this door. Without anybody behind it, logs and exec are refused with
the reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from localpv.api.objects import Object
from localpv.api.pod_logs import PodLogOptions
from localpv.host.containers import Process


class PodAccess(Protocol):
    """The pods of this machine. Raises ApiErrors: BadRequest for a container that does not run."""

    def logs(self, pod: Object, container: str, options: PodLogOptions) -> AsyncIterator[bytes]: ...

    async def exec(
        self, pod: Object, container: str, command: tuple[str, ...], *, stdin: bool, tty: bool
    ) -> Process: ...
