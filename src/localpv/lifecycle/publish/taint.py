"""The taint that keeps pods off a new node until its volumes are published."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from localpv.api.kinds import Node
from localpv.api.kinds.localdisk import LocalDisk
from localpv.client.objects import UntypedObjects
from localpv.lifecycle.config.settings import Configuration
from localpv.lifecycle.publish.publishing import is_offerable

log = logging.getLogger(__name__)


def is_due(node: Node, disks: Iterable[LocalDisk], configuration: Configuration) -> bool:
    """Whether the node has the taint and no reason any more: its disks were looked at, and those to offer are offered.

    A node without any LocalDisk keeps it: its agent has not looked yet.
    """
    key = configuration.not_ready_taint_key
    if not configuration.remove_node_not_ready_taint or not key:
        return False
    if all(taint.key != key for taint in node.spec.taints):
        return False
    count = 0
    for disk in disks:
        count += 1
        being_made = disk.spec.volume is not None and not disk.spec.volume.uid
        if not disk.status.phase or being_made or (disk.spec.volume is None and is_offerable(disk)):
            return False
    return count > 0


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
