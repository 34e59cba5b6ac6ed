"""Whether the agent of a node has looked at its disks, also when it found none; and whether disks were linked first.

An agent writes nothing but LocalDisks, and without disks there is none to write. But its pod becomes Ready only when
every directory has been looked through, and the node's kubelet says so in the API. What it finds of LocalStorages it
finds when the discoverers have linked it, which those say in LocalStorageNodes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from localpv import errors
from localpv.api import taints
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localdisk import LocalDisk
from localpv.api.kinds.localstorage import LocalStorage, LocalStorageNode, NodeGroup
from localpv.api.kinds.pods import Pod
from localpv.client.client import Client
from localpv.client.objects import Selection
from localpv.config import local_storage

AGENTS = "app.kubernetes.io/name=localpv,app.kubernetes.io/component=agent"
"""Labels of the agents' pods."""

HasLooked = Callable[[str], Awaitable[bool]]
"""By the name of a node."""

HasLinked = Callable[[Node, Iterable[LocalDisk]], Awaitable[bool]]
"""By a node and the disks that are known of it."""

log = logging.getLogger(__name__)


class AgentPods:
    """The pods of the agents, in one namespace."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self._pods = client.objects(Pod)
        self._namespace = namespace

    async def have_looked(self, node: str) -> bool:
        selection = Selection(namespace=self._namespace, labels=AGENTS, fields=f"spec.nodeName={node}")
        try:
            pods = await self._pods.list(selection)
        except errors.Forbidden as error:
            log.debug("pods of agents cannot be read reason=%s", error)
            return False
        return any(_is_ready(pod) for pod in pods.items)


class Discoverers:
    """The discoverers of LocalStorages, as their reports tell."""

    def __init__(self, client: Client, *, storages: Callable[[], Iterable[LocalStorage]]) -> None:
        """`storages` are those that were accepted."""
        self._reports, self._storages = client.objects(LocalStorageNode), storages

    async def have_linked(self, node: Node, disks: Iterable[LocalDisk]) -> bool:
        """Whether every LocalStorage that means a node has its rules there, and what they link was found."""
        found = {disk.spec.path for disk in disks}
        for storage in self._storages():
            if storage.metadata.deleting or not any(_serves(group, node) for group in storage.spec.nodes):
                continue
            name = local_storage.report_name(storage.metadata.name, node.metadata.name)
            try:
                report = await self._reports.find(name, storage.metadata.namespace)
            except errors.Forbidden as error:
                log.debug("reports of discoverers cannot be read reason=%s", error)
                return True
            if report is None or report.spec.local_storage_uid != storage.metadata.uid:
                return False
            status = report.status
            # One that cannot do its work has looked, and a person must help.
            if not status.error and status.generation < storage.metadata.generation:
                return False
            if any(device.link and device.link not in found for device in status.devices):
                return False
        return True


def _serves(group: NodeGroup, node: Node) -> bool:
    return local_storage.selects(group, node) and not taints.keeps_daemons_away(node.spec.taints, group.tolerations)


async def all_linked(node: Node, disks: Iterable[LocalDisk]) -> bool:
    """Where there are no LocalStorages, or nobody knows of them."""
    return True


async def nobody(node: str) -> bool:
    """For a manager that cannot know."""
    return False


def _is_ready(pod: Pod) -> bool:
    ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
    return ready and not pod.metadata.deleting
