"""The ConfigMap and the DaemonSet of each group of nodes.

Names come from the selection of the nodes, so reordering groups changes nothing. What a group is to do is in its
ConfigMap, which changes without a restart of pods; the DaemonSet changes with the image and with tolerations.

A group that is removed, or whose selection changes, is retired first: its discoverers link no more devices but those
of volumes, unclaimed volumes are withdrawn, and when no disk needs the group any more its pods go.

What if we die here: the ConfigMap is there before the pods that read it and goes after them, and it says which nodes
and which classes the group was. So whoever comes next finds every group that was begun, and never one whose meaning is
lost. All writes are server-side applies of the same object or deletions of the very object that was seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Iterable

import msgspec

from localpv import errors
from localpv.api.kinds.cluster import ConfigMap, Node
from localpv.api.kinds.localstorage import LocalStorage, NodeGroup
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.workloads import DaemonSet
from localpv.api.objects import Object
from localpv.client.objects import Selection
from localpv.config import local_storage
from localpv.config.local_storage import GroupDevices, NodeConfiguration
from localpv.disk import labels
from localpv.manager.operator.informers import BY_STORAGE, Disk, Informers
from localpv.manager.operator.objects import NodeObjects
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome

LONGEST_NAME = 40
"""As much of the name of a LocalStorage as the names of its objects have."""

SETTLE_SECONDS = 180.0
"""How long links of a retired group to devices that no volume has may take to disappear. A kubelet brings a changed
ConfigMap into pods within two minutes."""

RETIRED_SECONDS = 10.0
"""How often a retired group is looked at."""

PODS_SECONDS = 2.0
"""How often pods that are stopping are looked at: nobody watches pods for this."""

log = logging.getLogger(__name__)


class NameTaken(errors.ConfigurationError):
    """An object of a name that a group needs is somebody else's."""


def object_name(storage: str, group: str) -> str:
    """Name of the ConfigMap and the DaemonSet of a group; different for different LocalStorages of a namespace."""
    if len(storage) > LONGEST_NAME:
        digest = hashlib.sha256(storage.encode()).hexdigest()[:8]
        storage = f"{storage[: LONGEST_NAME - 9].rstrip('-.')}-{digest}"
    return f"{storage}-{group}"


def in_force(config_map: ConfigMap) -> tuple[NodeGroup, GroupDevices] | None:
    """What a ConfigMap of ours says about its group; None when somebody has spoiled it."""
    try:
        configuration = local_storage.read(config_map.data.get(local_storage.KEY, ""))
        nodes = msgspec.json.decode(config_map.metadata.annotations.get(labels.NODES, ""), type=NodeGroup)
    except (errors.LocalpvError, msgspec.MsgspecError):
        return None
    group = configuration.groups.get(config_map.metadata.labels.get(labels.NODE_GROUP, ""))
    return (nodes, group) if group is not None else None


class NodeGroups:
    """Makes what groups need and takes away what they do not."""

    def __init__(self, informers: Informers, *, objects: NodeObjects, clock: Clock) -> None:
        self._seen = informers
        self._objects = objects
        self._clock = clock
        self._config_maps = informers.client.untyped(ConfigMap.resource)
        self._daemon_sets = informers.client.untyped(DaemonSet.resource)
        self._pods = informers.client.objects(Pod)
        self._retired_at: dict[str, float] = {}
        """Since when a retired group, by the UID of its ConfigMap, has nothing but devices that nobody has."""

    def of(self, storage: LocalStorage) -> tuple[dict[str, ConfigMap], dict[str, DaemonSet]]:
        """What there is of a LocalStorage, by group."""
        uid = storage.metadata.uid
        maps, sets = self._seen.config_maps.find(BY_STORAGE, uid), self._seen.daemon_sets.find(BY_STORAGE, uid)
        return {_group(each): each for each in maps}, {_group(each): each for each in sets}

    async def ensure(self, storage: LocalStorage) -> None:
        """Every group of the spec has its ConfigMap and its DaemonSet."""
        for group, nodes in local_storage.groups(storage).items():
            configuration = local_storage.node_configuration(storage, [group])
            await self._apply_config_map(storage, group, nodes, configuration)
            name = object_name(storage.metadata.name, group)
            if (pods := self._objects.daemon_set(storage, name, group, nodes)) is None:
                continue
            if self._seen.daemon_sets.get(name, storage.metadata.namespace) is None:
                await self._check_name(storage, self._daemon_sets.find(name, storage.metadata.namespace))
            await self._daemon_sets.apply(pods, force=True)

    async def retire_removed(self, storage: LocalStorage) -> Outcome:
        """Take away the groups that the spec does not have any more."""
        wanted = local_storage.groups(storage)
        maps, sets = self.of(storage)
        outcomes = [
            await self._retire(storage, group, maps.get(group), sets.get(group), wanted.values())
            for group in {**maps, **sets}
            if group not in wanted
        ]
        waits = [outcome.after for outcome in outcomes if isinstance(outcome, LookAgain)]
        return LookAgain(after=min(waits)) if waits else Done()

    async def retire_all(self, storage: LocalStorage) -> None:
        """Link no more devices: the LocalStorage is going."""
        for config_map in self.of(storage)[0].values():
            await self._mark_retired(storage, config_map)

    def needing(self, storage: LocalStorage) -> list[Disk]:
        """Disks of a LocalStorage that belong to a volume, on nodes that are there."""
        return [
            disk
            for disk in self._seen.disks.find(BY_STORAGE, storage.key)
            if disk.spec.volume is not None and not self._seen.is_away(disk.spec.node_name)
        ]

    def linked(self, storage: LocalStorage) -> list[Disk]:
        """Disks that no volume has and that still have a link, on nodes that are there. Only an agent can tell that the
        link has gone, and take its record away."""
        return [
            disk
            for disk in self._seen.disks.find(BY_STORAGE, storage.key)
            if disk.spec.volume is None
            and disk.status.reason != labels.GONE
            and not self._seen.is_away(disk.spec.node_name)
        ]

    async def stop(self, storage: LocalStorage, group: str, daemon_set: DaemonSet | None) -> bool:
        """Let the pods of a group go; whether they are gone, those of nodes that are away aside."""
        if daemon_set is not None:
            meta = daemon_set.metadata
            with contextlib.suppress(errors.NotFound):
                # Its pods go with it, each in its own time.
                await self._daemon_sets.delete(meta.name, meta.namespace, uid=meta.uid, propagation="Background")
        selector = f"{labels.LOCAL_STORAGE}={storage.metadata.uid},{labels.NODE_GROUP}={group}"
        selection = Selection(namespace=storage.metadata.namespace, labels=selector)
        pods = (await self._pods.list(selection)).items
        return all(not pod.spec.node_name or self._seen.is_away(pod.spec.node_name) for pod in pods)

    async def forget(self, config_map: ConfigMap) -> None:
        """The last trace of a group goes."""
        meta = config_map.metadata
        self._retired_at.pop(meta.uid, None)
        with contextlib.suppress(errors.NotFound):
            await self._config_maps.delete(meta.name, meta.namespace, uid=meta.uid)

    async def _retire(
        self,
        storage: LocalStorage,
        group: str,
        config_map: ConfigMap | None,
        daemon_set: DaemonSet | None,
        wanted: Iterable[NodeGroup],
    ) -> Outcome:
        known = in_force(config_map) if config_map is not None else None
        live = [*wanted]
        needing = [disk for disk in self.needing(storage) if self._belongs(storage, disk, known, live)]
        linked = [disk for disk in self.linked(storage) if self._belongs(storage, disk, known, live)]
        if config_map is not None and (needing or linked):
            await self._mark_retired(storage, config_map)
        if needing:
            return LookAgain(after=RETIRED_SECONDS)
        if linked and config_map is not None:
            since = self._retired_at.setdefault(config_map.metadata.uid, self._clock.monotonic())
            if self._clock.monotonic() - since < SETTLE_SECONDS:
                return LookAgain(after=RETIRED_SECONDS)
        if not await self.stop(storage, group, daemon_set):
            return LookAgain(after=PODS_SECONDS)
        if config_map is not None:
            await self.forget(config_map)
        log.info("removed group storage=%s group=%s", storage.key, group)
        return Done()

    def _belongs(
        self, storage: LocalStorage, disk: Disk, known: tuple[NodeGroup, GroupDevices] | None, live: list[NodeGroup]
    ) -> bool:
        """Whether a disk may be there through a retired group. When in doubt it is: the group stays a little longer."""
        node = self._seen.nodes.get(disk.spec.node_name)
        if known is None or node is None:
            return True
        nodes, retired = known
        same = [each for each in retired.devices if each.storage_class_name == disk.spec.storage_class_name]
        if not same or not local_storage.selects(nodes, node):
            return False
        taken_over = any(
            local_storage.selects(group, node) and all(each in group.devices for each in same) for group in live
        )
        return not (taken_over and self._has_rules(storage, node))

    def _has_rules(self, storage: LocalStorage, node: Node) -> bool:
        """Whether a node has told that it has the rules of this generation."""
        return any(
            report.spec.node_name == node.metadata.name
            and report.spec.local_storage_uid == storage.metadata.uid
            and report.status.generation >= storage.metadata.generation
            for report in self._seen.reports.find(BY_STORAGE, storage.key)
        )

    async def _mark_retired(self, storage: LocalStorage, config_map: ConfigMap) -> None:
        known = in_force(config_map)
        if known is None or known[1].retired:
            return
        nodes, devices = known
        group = _group(config_map)
        configuration = local_storage.read(config_map.data[local_storage.KEY])
        retired = msgspec.structs.replace(devices, retired=True, generation=storage.metadata.generation)
        marked = msgspec.structs.replace(configuration, groups={group: retired})
        await self._apply_config_map(storage, group, nodes, marked)

    async def _apply_config_map(
        self, storage: LocalStorage, group: str, nodes: NodeGroup, configuration: NodeConfiguration
    ) -> None:
        name, namespace = object_name(storage.metadata.name, group), storage.metadata.namespace
        if self._seen.config_maps.get(name, namespace) is None:
            await self._check_name(storage, self._config_maps.find(name, namespace))
        selection = msgspec.json.encode(msgspec.structs.replace(nodes, devices=())).decode()
        data = {local_storage.KEY: configuration.text()}
        await self._config_maps.apply(self._objects.config_map(storage, name, group, selection, data), force=True)

    async def _check_name(self, storage: LocalStorage, finding: Awaitable[Object | None]) -> None:
        """Never take over what is not of this very LocalStorage: an earlier one of its name may be about to go."""
        found = await finding
        if found is None:
            return
        meta = found["metadata"]
        if (meta.get("labels") or {}).get(labels.LOCAL_STORAGE) != storage.metadata.uid:
            raise NameTaken(
                f"{found['kind']} {meta['namespace']}/{meta['name']} is there and does not belong to LocalStorage"
                f" {storage.key}",
                hint="it goes by itself if an earlier LocalStorage of this name made it; otherwise delete it",
            )


def _group(obj: ConfigMap | DaemonSet) -> str:
    return obj.metadata.labels.get(labels.NODE_GROUP, "")
