"""What the server asks of whoever runs the pods: their logs, and a process inside one of their containers.

The server only carries bytes between a client and this door. Without anybody behind it, logs and exec are refused with
the reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from localpv.api.objects import Object


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Which part of a container's log."""

    follow: bool = False
    previous: bool = False
    """Of the container before its last restart."""

    timestamps: bool = False
    tail_lines: int | None = None
    since: float | None = None
    """Seconds since the epoch; older lines are left out."""

    limit_bytes: int | None = None


class Process(Protocol):
    """A command that runs inside a container."""

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """What it writes, as (1, stdout) and (2, stderr), until it has closed both."""

    async def write(self, data: bytes) -> None:
        """Give it input, and wait until it can take more."""

    async def close_input(self) -> None: ...

    async def resize(self, width: int, height: int) -> None:
        """Its terminal has another size now."""

    async def wait(self) -> int:
        """Its exit code."""

    async def close(self) -> None:
        """Nobody listens any more: end it if it still runs, and let go of everything."""


class PodAccess(Protocol):
    """The pods of this machine. Raises ApiErrors: BadRequest for a container that does not run."""

    def logs(self, pod: Object, container: str, options: LogOptions) -> AsyncIterator[bytes]: ...

    async def exec(
        self, pod: Object, container: str, command: tuple[str, ...], *, stdin: bool, tty: bool
    ) -> Process: ...
