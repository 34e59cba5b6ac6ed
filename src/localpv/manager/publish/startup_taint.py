"""The taint that keeps pods off a new node until its volumes are published."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localdisk import LocalDisk
from localpv.client.client import Client
from localpv.client.objects import UntypedObjects
from localpv.config.settings import Configuration
from localpv.manager.agents import HasLinked, HasLooked, all_linked
from localpv.manager.listers import Listers
from localpv.manager.nodes import Nodes
from localpv.manager.publish.publisher import is_offerable
from localpv.runtime.controller import Done, LookAgain, Outcome

LOOK_EVERY_SECONDS = 10.0
"""How often a node without LocalDisks is asked for: as often as its kubelet asks the agent."""

log = logging.getLogger(__name__)


class Taints:
    """Looks after one node per call."""

    def __init__(
        self,
        client: Client,
        *,
        nodes: Nodes,
        disks: Callable[[str], Sequence[LocalDisk]],
        has_looked: HasLooked,
        listers: Listers,
        has_linked: HasLinked = all_linked,
    ) -> None:
        self._objects = client.untyped(Node.resource)
        self._nodes = nodes
        self._disks = disks
        self._has_looked, self._has_linked = has_looked, has_linked
        self._listers = listers

    async def step(self, name: str) -> Outcome:
        """Take the taint off a node whose time has come."""
        configuration, node = self._listers.configuration, self._nodes.get(name)
        if node is None or not has_taint(node, configuration):
            return Done()
        disks = self._disks(name)
        if not disks and not await self._has_looked(name):
            return LookAgain(after=LOOK_EVERY_SECONDS)
        if not await self._has_linked(node, disks):
            return LookAgain(after=LOOK_EVERY_SECONDS)
        if is_due(node, disks, configuration):
            await remove(node, self._objects, key=configuration.not_ready_taint_key)
        return Done()


def has_taint(node: Node, configuration: Configuration) -> bool:
    """Whether the node has the taint, and it is ours to remove."""
    key = configuration.not_ready_taint_key
    return configuration.remove_node_not_ready_taint and any(key and taint.key == key for taint in node.spec.taints)


def is_due(node: Node, disks: Iterable[LocalDisk], configuration: Configuration) -> bool:
    """Whether a node whose agent has looked has the taint and no reason any more: what can be offered is offered."""
    if not has_taint(node, configuration):
        return False
    for disk in disks:
        being_made = disk.spec.volume is not None and not disk.spec.volume.uid
        if not disk.status.phase or being_made or (disk.spec.volume is None and is_offerable(disk)):
            return False
    return True


async def remove(node: Node, nodes: UntypedObjects, *, key: str) -> None:
    """Take the taint off; Conflict when the node has changed since."""
    current = await nodes.get(node.metadata.name)
    taints = current["spec"].get("taints") or []
    meta = current["metadata"]
    if meta["uid"] != node.metadata.uid or all(taint["key"] != key for taint in taints):
        return
    left = [taint for taint in taints if taint["key"] != key]
    patch = {
        "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
        "spec": {"taints": left or None},
    }
    await nodes.patch(meta["name"], patch)
    log.info("removed taint node=%s key=%s", meta["name"], key)
