"""LocalStorages of `localpv up`: operator and discoverer of its own machine, in one process and without pods.

The operator makes a ConfigMap for each group of nodes, as on Kubernetes; where pods would read those that select their
node, the discoverer here is told. So groups that are removed, refused or going away are what they are there.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from localpv import errors
from localpv.agent.udev import lock
from localpv.agent.udev.discoverer import Discoverer
from localpv.api.kinds.cluster import ConfigMap, Node
from localpv.api.kinds.localstorage import LocalStorage, LocalStorageNode, NodeGroup
from localpv.api.objects import Object
from localpv.client.client import Client
from localpv.client.informer import SharedInformer
from localpv.client.objects import Selection
from localpv.config import local_storage
from localpv.config.local_storage import NodeConfiguration
from localpv.deploy.local_storage import NodePods
from localpv.disk import labels
from localpv.host.udev import NO_UDEV, HostUdev
from localpv.host.uevents import KernelUevents
from localpv.host.workers import Workers
from localpv.manager.operator.node_groups import in_force
from localpv.manager.operator.operator import Operator
from localpv.programs.observing import Observed
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group

log = logging.getLogger(__name__)

NAMESPACE = "default"
"""LocalStorages of this namespace have rules files with their name alone."""


class WithoutPods:
    """What the operator makes where this process serves all groups."""

    def __init__(self) -> None:
        objects = NodePods()
        self.storage_class, self.config_map = objects.storage_class, objects.config_map

    def daemon_set(self, owner: LocalStorage, name: str, group: str, nodes: NodeGroup) -> Object | None:
        return None


async def first(client: Client, *, state: Path, clock: Clock) -> None:
    """Wait until there is a LocalStorage, or was one: most machines never have any, and pay for nothing."""
    if (state / lock.NAME).exists():
        return
    found = asyncio.Event()
    informer = SharedInformer(client.objects(LocalStorage), clock=clock)
    informer.add_event_handler(lambda old, new: found.set())
    following, waiting = asyncio.create_task(informer.run()), asyncio.create_task(found.wait())
    try:
        await asyncio.wait({following, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (following, waiting):
            task.cancel()
        await asyncio.gather(following, waiting, return_exceptions=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Which machine is served, and where its state is."""

    node: str
    rules: Path
    state: Path

    @property
    def engine(self) -> str:
        """Tells files of this engine from those of a cluster that the machine is a node of, or of another engine."""
        return hashlib.sha256(os.path.realpath(self.state).encode("utf-8", "surrogateescape")).hexdigest()[:8]


async def serve(
    client: Client,
    machine: Machine,
    *,
    clock: Clock,
    observed: Observed,
    is_configured: Callable[[str], bool],
) -> None:
    """Serve the LocalStorages of all namespaces for this machine until cancelled."""
    udev = HostUdev(rules=machine.rules, workers=Workers(at_once=2))
    if not await udev.running():
        log.warning("LocalStorages get no devices reason=%s hint=start systemd-udevd", NO_UDEV)
    discoverer = Discoverer(
        node=machine.node,
        client=client,
        udev=udev,
        uevents=KernelUevents(),
        state=machine.state,
        clock=clock,
        namespace=NAMESPACE,
        engine=machine.engine,
    )
    groups = _Groups(client, machine.node, discoverer, udev, clock=clock)
    operator = Operator(
        client,
        namespace="",
        objects=WithoutPods(),
        clock=clock,
        is_configured=is_configured,
        observe=observed.queues,
        leave=groups.leave,
    )
    group = Group(clock=clock)
    group.add("groups of this machine", groups.run, ready=groups.ready)
    group.add("discoverer", discoverer.run)
    group.add("operator", operator.run)
    await group.run()


class _Groups:
    """Tells the discoverer of the groups that select this node, and lets it take away those that do so no more."""

    def __init__(self, client: Client, node: str, discoverer: Discoverer, udev: HostUdev, *, clock: Clock) -> None:
        self._client, self._name, self._discoverer, self._udev = client, node, discoverer, udev
        self._clock = clock
        ours = Selection(labels=labels.LOCAL_STORAGE)
        self._maps = SharedInformer(client.objects(ConfigMap), clock=clock, selection=ours)
        one = Selection(fields=f"metadata.name={node}")
        self._nodes = SharedInformer(client.objects(Node), clock=clock, selection=one)
        self._told: dict[str, NodeConfiguration] = {}
        self._left: set[str] = set()
        self._going: list[NodeConfiguration] = []
        self._woken = asyncio.Event()

    async def ready(self) -> None:
        await self._maps.wait_synced()
        await self._nodes.wait_synced()
        self._tell()

    async def run(self) -> None:
        for informer in (self._maps, self._nodes):
            informer.add_event_handler(self._changed)
        group = Group(clock=self._clock)
        group.add("config maps", self._maps.run)
        group.add("node", self._nodes.run)
        group.add("groups that go", self._let_go)
        await group.run()

    def _changed(self, old: object, new: object) -> None:
        if self._maps.has_synced and self._nodes.has_synced:
            self._tell()

    def _tell(self) -> None:
        node = self._nodes.get(self._name)
        if node is None:
            return  # nobody can tell what selects it
        told: dict[str, NodeConfiguration] = {}
        for each in self._maps.list():
            found = in_force(each)
            if found is None or not local_storage.selects(found[0], node):
                continue
            configuration = local_storage.read(each.data[local_storage.KEY])
            if configuration.uid not in self._left:
                told[configuration.key] = local_storage.merged(told.get(configuration.key), configuration)
        if told == self._told:
            return
        before, self._told = self._told, told
        self._discoverer.configure(told.values())
        self._going += [left for each in before.values() if (left := _without(each, told)).groups]
        self._woken.set()

    async def _let_go(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            going, self._going = self._going, []
            await self._discoverer.leave(going)

    async def leave(self, storage: LocalStorage) -> bool:
        """Take the rules of a LocalStorage away that is being deleted and has no volume; whether they are gone."""
        known = self._told.get(storage.key)
        self._left.add(storage.metadata.uid)
        self._tell()
        self._going.clear()
        if known is None or known.uid != storage.metadata.uid:
            known = local_storage.node_configuration(storage, local_storage.groups(storage))
        await self._discoverer.leave([known])
        if not await self._udev.running():
            return True  # what nobody reads makes no links; the next start with a udev takes the file away
        name = local_storage.report_name(storage.metadata.name, self._name)
        try:
            left = await self._client.objects(LocalStorageNode).find(name, storage.metadata.namespace)
        except errors.LocalpvError:
            return False
        return left is None or left.spec.local_storage_uid != storage.metadata.uid


def _without(configuration: NodeConfiguration, told: dict[str, NodeConfiguration]) -> NodeConfiguration:
    """The groups of a configuration that are told no more."""
    now = told.get(configuration.key)
    kept = now.groups if now is not None and now.uid == configuration.uid else {}
    return msgspec.structs.replace(
        configuration, groups={each: group for each, group in configuration.groups.items() if each not in kept}
    )
