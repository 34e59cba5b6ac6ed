"""The operator: every LocalStorage becomes classes, pods on nodes and a status.

Three queues, each of keys that are looked at one at a time: LocalStorages to bring about, LocalStorages whose status
may have changed, and classes of ours that may be needed no more. Whatever happens only puts keys into them. Only one
operator may run in a cluster: who starts it takes a lease first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from localpv import errors
from localpv.api.kinds.cluster import ConfigMap, Node
from localpv.api.kinds.localstorage import LocalStorage
from localpv.api.kinds.volumes import StorageClass
from localpv.api.kinds.workloads import DaemonSet
from localpv.client.client import Client
from localpv.disk import labels
from localpv.manager.operator import classes as storage_classes
from localpv.manager.operator import status as statuses
from localpv.manager.operator import verdict as verdicts
from localpv.manager.operator.classes import Classes
from localpv.manager.operator.deletion import Deletion, Leave
from localpv.manager.operator.informers import BY_STORAGE, Disk, Informers, Report
from localpv.manager.operator.node_groups import NodeGroups, in_force
from localpv.manager.operator.objects import NodeObjects
from localpv.manager.operator.tally import Tally
from localpv.manager.operator.verdict import Verdict
from localpv.observe.recorder import ApiRecorder
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller, Done, LookAgain, Outcome, Reconcile
from localpv.runtime.group import Group
from localpv.runtime.queue import Observing, WorkQueue, unobserved

STATUS_SECONDS = 1.0
"""One LocalStorage's status is written at most so often, however many nodes report."""

log = logging.getLogger(__name__)


def _nowhere(name: str) -> bool:
    return False


class Operator:
    """Runs until cancelled."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        objects: NodeObjects,
        clock: Clock,
        is_configured: Callable[[str], bool] = _nowhere,
        observe: Observing = unobserved,
        leave: Leave | None = None,
    ) -> None:
        """Serves the LocalStorages of one namespace, or of all without one; those of others are told where to go.
        `leave` takes away what serves a LocalStorage where there are no pods."""
        self._namespace = namespace
        self._clock = clock
        self._seen = Informers(client, namespace, clock)
        self._recorder = ApiRecorder(client, component="localpv-operator", clock=clock)
        self._storages = client.objects(LocalStorage)
        self._classes = Classes(self._seen, objects=objects, recorder=self._recorder, is_configured=is_configured)
        self._groups = NodeGroups(self._seen, objects=objects, clock=clock)
        how = {"leave": leave} if leave is not None else {}
        self._deletion = Deletion(self._seen, groups=self._groups, recorder=self._recorder, clock=clock, **how)
        self._verdicts: dict[str, Verdict] = {}
        self._tallies: dict[str, Tally] = {}
        self._troubles: dict[str, str] = {}
        self._written: dict[str, float] = {}
        """When each status was written last."""

        self._work: WorkQueue[str] = WorkQueue(clock=clock, observer=observe("local-storages"))
        self._reporting: WorkQueue[str] = WorkQueue(clock=clock, observer=observe("local-storage-statuses"))
        self._unused: WorkQueue[str] = WorkQueue(clock=clock, observer=observe("local-storage-classes"))
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Wait until everything that exists has been seen."""
        await self._ready.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        seen = self._seen
        group = Group(clock=self._clock)
        group.add("events", self._recorder.run)
        for name, cache in (
            ("storages", seen.storages),
            ("nodes", seen.nodes),
            ("classes", seen.classes),
            ("reports", seen.reports),
            ("disks", seen.disks),
            ("config maps", seen.config_maps),
            ("daemon sets", seen.daemon_sets),
        ):
            group.add(name, cache.run, ready=cache.wait_synced)
        group.add("handlers", self._follow, ready=self._ready.wait)
        group.add("operator", self._controller("operator", self.step, self._work).run)
        group.add("statuses", self._controller("statuses", self.write_status, self._reporting).run)
        group.add("unused classes", self._controller("unused classes", self.remove_class, self._unused).run)
        await group.run()

    def _controller(self, name: str, reconcile: Reconcile[str], queue: WorkQueue[str]) -> Controller[str]:
        return Controller(name, reconcile, queue=queue, clock=self._clock)

    async def _follow(self) -> None:
        """Begin to listen when everything is there, so that sums are made once."""
        seen = self._seen
        seen.disks.add_event_handler(self._disk_changed)
        seen.reports.add_event_handler(self._report_changed)
        seen.nodes.add_event_handler(self._node_changed)
        seen.storages.add_event_handler(self._storage_changed)
        seen.classes.add_event_handler(self._class_changed)
        seen.config_maps.add_event_handler(self._config_map_changed)
        seen.daemon_sets.add_event_handler(self._daemon_set_changed)
        self._ready.set()
        await asyncio.get_running_loop().create_future()

    # The steps.

    async def step(self, key: str) -> Outcome:
        """Bring one LocalStorage about.

        What if we die here: the finalizer is there before anything else, so nothing that was made is ever left without
        somebody who takes it away; every other write is repeated with the same outcome.
        """
        storage = self._seen.storages.by_key(key)
        if storage is None:
            return Done()
        try:
            outcome = await self._step(storage)
        except errors.Conflict:
            raise
        except errors.LocalpvError as error:
            self._troubles[key] = f"{error}{'; ' + error.hint if error.hint else ''}"
            self._reporting.add(key)
            raise
        if self._troubles.pop(key, ""):
            self._reporting.add(key)
        return outcome

    async def _step(self, storage: LocalStorage) -> Outcome:
        if storage.metadata.deleting:
            self._reporting.add(storage.key)
            return await self._deletion.step(storage)
        if not self._judge(storage).accepted:
            return Done()
        if labels.LOCAL_STORAGE not in storage.metadata.finalizers:
            storage = await self._hold(storage)
        await self._classes.ensure(storage)
        await self._groups.ensure(storage)
        return await self._groups.retire_removed(storage)

    async def _hold(self, storage: LocalStorage) -> LocalStorage:
        meta = storage.metadata
        changed = {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "finalizers": [*meta.finalizers, labels.LOCAL_STORAGE],
        }
        return await self._storages.patch(meta.name, {"metadata": changed}, meta.namespace)

    async def write_status(self, key: str) -> Outcome:
        """Write the status of one LocalStorage if it is not what is there, and not more often than people can read."""
        storage = self._seen.storages.by_key(key)
        if storage is None:
            return Done()
        now = self._clock.monotonic()
        if (wait := self._written.get(key, now - STATUS_SECONDS) + STATUS_SECONDS - now) > 0:
            return LookAgain(after=wait)
        maps, sets = self._groups.of(storage)
        known = [found for each in maps.values() if (found := in_force(each)) is not None]
        facts = statuses.Facts(
            verdict=self._judge(storage),
            in_force=min((devices.generation for _, devices in known), default=0),
            tally=self._tallies[key],
            daemon_sets=[*sets.values()],
            trouble=self._troubles.get(key, ""),
            deleting=self._deletion.waiting(storage) if storage.metadata.deleting else None,
        )
        wanted = statuses.compute(storage, facts, now=self._clock.now())
        if wanted == storage.status:
            return Done()
        meta = storage.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": statuses.body(wanted)}
        self._written[key] = now
        try:
            await self._storages.patch(meta.name, patch, meta.namespace, subresource="status")
        except errors.NotFound:
            return Done()
        self._tell_verdict(storage, facts.verdict)
        return Done()

    async def remove_class(self, name: str) -> Outcome:
        return await self._classes.remove_unused(name)

    def _tell_verdict(self, storage: LocalStorage, verdict: Verdict) -> None:
        before = next((each for each in storage.status.conditions if each.type == statuses.ACCEPTED), None)
        if before is not None and before.reason == verdict.reason and before.observed_generation == verdict.generation:
            return
        if not verdict.accepted:
            self._recorder.event(storage, verdict.reason, verdict.message[:1000], warning=True)
        elif before is None or before.status != "True":
            self._recorder.event(storage, statuses.ACCEPTED, verdict.message)

    def _judge(self, storage: LocalStorage) -> Verdict:
        meta = storage.metadata
        known = self._verdicts.get(storage.key)
        if known is None or (known.uid, known.generation) != (meta.uid, meta.generation):
            known = self._verdicts[storage.key] = verdicts.judge(storage, namespace=self._namespace)
        return known

    def _expect(self, storage: LocalStorage) -> None:
        """Which nodes are meant: those of the spec, or, while that is refused, of what is in force."""
        if self._judge(storage).accepted:
            groups, generation = storage.spec.nodes, storage.metadata.generation
        else:
            known = [found for each in self._groups.of(storage)[0].values() if (found := in_force(each)) is not None]
            groups = tuple(nodes for nodes, _ in known)
            generation = min((devices.generation for _, devices in known), default=0)
        self._tallies[storage.key].expect(groups, generation, self._seen.nodes.list())

    # What wakes whom.

    def _storage_changed(self, old: LocalStorage | None, new: LocalStorage | None) -> None:
        storage = new or old
        assert storage is not None
        key = storage.key
        for name in storage_classes.named_by(old) if old is not None else ():
            self._unused.add(name)
        if new is None:
            for known in (self._verdicts, self._troubles, self._written):
                known.pop(key, None)
            self._tallies.pop(key, None)
            return
        if old is not None and _same(old, new):
            return  # our own status
        if old is None or old.metadata.uid != new.metadata.uid:
            self._tallies[key] = self._counted(new)
        self._expect(new)
        self._work.add(key)
        self._reporting.add(key)

    def _counted(self, storage: LocalStorage) -> Tally:
        """What is there of a LocalStorage that was seen first. There are sums of LocalStorages that exist alone: nodes
        can name any."""
        tally = Tally()
        for report in self._seen.reports.find(BY_STORAGE, storage.key):
            if report.spec.local_storage_uid == storage.metadata.uid:
                tally.report(None, report)
        for disk in self._seen.disks.find(BY_STORAGE, storage.key):
            tally.disk(disk, 1)
        return tally

    def _report_changed(self, old: Report | None, new: Report | None) -> None:
        report = new or old
        assert report is not None
        storage = self._seen.storages.by_key(report.storage)
        tally = self._tallies.get(report.storage)
        if storage is None or tally is None or report.spec.local_storage_uid != storage.metadata.uid:
            return
        tally.report(old, new)
        self._reporting.add(report.storage)
        self._wake_waiting(report.storage)

    def _disk_changed(self, old: Disk | None, new: Disk | None) -> None:
        if old is not None and old.spec.storage_class_name in self._classes.kept:
            # Its volume may have been the last one of the class.
            self._unused.add_after(old.spec.storage_class_name, STATUS_SECONDS)
        for disk, by in ((old, -1), (new, 1)):
            tally = self._tallies.get(disk.storage) if disk is not None else None
            if disk is not None and tally is not None:
                tally.disk(disk, by)
                self._reporting.add(disk.storage)
                self._wake_waiting(disk.storage)

    def _wake_waiting(self, key: str) -> None:
        """A LocalStorage that is to go, or a group that is removed, waits for disks and reports."""
        storage = self._seen.storages.by_key(key)
        if storage is not None and (storage.metadata.deleting or len(self._groups.of(storage)[0]) > _groups(storage)):
            self._work.add_after(key, STATUS_SECONDS)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None
        if old is not None and new is not None and _same_node(old, new):
            return  # a heartbeat
        for key, tally in self._tallies.items():
            tally.node(node.key, new)
            self._reporting.add(key)
            self._wake_waiting(key)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if new is not None:
            if old is None and storage_classes.is_ours(new):
                self._unused.add(new.key)
            return
        assert old is not None
        for storage in self._seen.storages.list():
            if old.key in storage_classes.named_by(storage):
                self._work.add(storage.key)

    def _config_map_changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        if old is None or new is None or (old.data, old.metadata.labels) != (new.data, new.metadata.labels):
            self._owned_changed(new or old)

    def _daemon_set_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            self._owned_changed(new or old)
        elif old.status != new.status and (key := _owner(new)):
            self._reporting.add(key)

    def _owned_changed(self, obj: ConfigMap | DaemonSet | None) -> None:
        if obj is not None and (key := _owner(obj)):
            self._work.add(key)
            self._reporting.add(key)


def _owner(obj: ConfigMap | DaemonSet) -> str:
    kind = LocalStorage.resource.kind
    names = (each.name for each in obj.metadata.owner_references if each.kind == kind)
    return next((f"{obj.metadata.namespace}/{name}" for name in names), "")


def _groups(storage: LocalStorage) -> int:
    return len(storage.spec.nodes)


def _same(old: LocalStorage, new: LocalStorage) -> bool:
    """Whether nothing but the status has changed."""
    a, b = old.metadata, new.metadata
    return (a.uid, a.generation, a.finalizers, a.deleting) == (b.uid, b.generation, b.finalizers, b.deleting)


def _same_node(old: Node, new: Node) -> bool:
    def ready(node: Node) -> str:
        return next((each.status for each in node.status.conditions if each.type == "Ready"), "")

    return (old.metadata.labels, old.spec.taints, ready(old)) == (new.metadata.labels, new.spec.taints, ready(new))
