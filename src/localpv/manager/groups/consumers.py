"""The pods that use claims which are placed together or apart, as far as a placer needs to know them.

Steps meet in API objects, and so the placer has no filters of its own: a program that schedules pods hands it the
scheduler's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolumeClaim

Claims = Sequence[PersistentVolumeClaim]


class Consumers(Protocol):
    """Pods by the claims that they use."""

    async def ready(self) -> None:
        """Wait until all pods and nodes are known."""

    def are_awaited(self, claims: Claims) -> bool:
        """Whether the class of one of the claims waits for its first consumer, and none of them has one."""

    def problem(self, claims: Claims, node: Node) -> str:
        """Why the pods that use the claims cannot all be on the node, in the scheduler's words; empty when they can."""

    def placed(self, claims: Claims, node: str) -> None:
        """The claims have volumes on a node by now, and so their pods will be there."""

    def on_change(self, handler: Callable[[Pod | None, Pod | None], None]) -> None:
        """Be told when a pod comes, changes or goes."""

    def claims_of(self, pod: Pod) -> Sequence[str]:
        """The keys of the claims that a pod uses."""


class Nobody:
    """Where others schedule and nobody tells: claims are placed by volumes and nodes alone."""

    async def ready(self) -> None:
        return

    def are_awaited(self, claims: Claims) -> bool:
        return False

    def problem(self, claims: Claims, node: Node) -> str:
        return ""

    def placed(self, claims: Claims, node: str) -> None:
        return

    def on_change(self, handler: Callable[[Pod | None, Pod | None], None]) -> None:
        return

    def claims_of(self, pod: Pod) -> Sequence[str]:
        return ()
