"""The manager: the only writer of PersistentVolumes. It puts publishing, releasing and the loss of nodes together.

One queue holds the names of LocalDisks, so that a disk is never published and released at the same time; everything
that happens to a disk, its volume, its class or its node only puts the disk's name into it. With a node, the manager
sees and serves that node alone, as the classic provisioner does. Only one manager may run for the same disks: who
starts it takes a lease first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from localpv import errors
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localdisk import LocalDisk
from localpv.api.kinds.volumes import PersistentVolume, StorageClass
from localpv.api.kinds.workloads import Job
from localpv.client.informer_factory import InformerFactory
from localpv.config.settings import Configuration
from localpv.disk import labels
from localpv.disk.records import Records
from localpv.manager.agents import HasLinked, HasLooked, all_linked, nobody
from localpv.manager.disk_index import DiskIndex
from localpv.manager.nodes import Nodes, OneNode
from localpv.manager.publish import adoption, names, ownership
from localpv.manager.publish.class_warnings import ClassWarnings
from localpv.manager.publish.publisher import Publisher
from localpv.manager.publish.startup_taint import Taints
from localpv.manager.release import jobs as jobs_of_cleaning
from localpv.manager.release.holding import Holding
from localpv.manager.release.jobs import Jobs
from localpv.manager.release.node_loss import NodeLoss
from localpv.manager.release.releaser import Releaser
from localpv.manager.volumes import ApiVolumes
from localpv.observe.conditions import DiskConditions
from localpv.observe.publishing import Publications
from localpv.observe.recorder import ApiRecorder
from localpv.runtime.backoff import Backoff
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller, Done, LookAgain, Outcome, Reconcile
from localpv.runtime.group import Group
from localpv.runtime.queue import Observing, WorkQueue, unobserved

WORKERS = 16
"""Disks that are worked on at the same time: a step is two or three calls to the API server, and mostly waits."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerScope:
    """Whom a manager serves."""

    node: str = ""
    """The one node that it sees; empty for all of them."""

    notices: Sequence[tuple[str, str]] = ()
    """Reasons and sentences that people should see on that Node."""

    has_looked: HasLooked = nobody
    """Whether the agent of a node has looked at all of its disks."""

    has_linked: HasLinked = all_linked
    """Whether the discoverers of a node have linked what LocalStorages mean."""


class Manager:
    """Runs until cancelled; give it a new configuration whenever there is one."""

    def __init__(
        self,
        informers: InformerFactory,
        *,
        records: Records,
        configuration: Configuration,
        clock: Clock,
        scope: ManagerScope | None = None,
        workers: int = WORKERS,
        recorder: Publications | None = None,
        observe: Observing = unobserved,
        jobs: Jobs | None = None,
    ) -> None:
        client, scope = informers.client, scope or ManagerScope()
        node = scope.node
        self._notices = scope.notices
        self.configuration = configuration
        self._jobs = jobs
        self._records = records
        self._clock = clock
        self._node = node
        self._client = client
        self._disks = DiskIndex()
        label = names.node_label(node) if node else ""
        self._volumes = ApiVolumes(client, informers=informers, clock=clock, node_label=label)
        self._one_node = OneNode(client.objects(Node), node, clock=clock) if node else None
        self._nodes: Nodes = self._one_node or informers.informer(Node)
        self._classes = informers.informer(StorageClass)
        self._recorder = recorder or Publications(to=ApiRecorder(client, component="localpv-manager", clock=clock))
        # It may be that of an earlier one, which lost the lease: what that has said is not what was said last.
        self._recorder.forget_all()
        conditions = DiskConditions(records=records, recorder=self._recorder, clock=clock)
        self._class_warnings = ClassWarnings(conditions=conditions, recorder=self._recorder, listers=self)
        self._publisher = Publisher(
            records=records,
            volumes=self._volumes,
            listers=self,
            conditions=conditions,
            recorder=self._recorder,
        )
        self._releaser = Releaser(
            records=records,
            volumes=self._volumes,
            owns=ownership.owns,
            listers=self,
            conditions=conditions,
            recorder=self._recorder,
            clock=clock,
            in_job=self._in_job,
        )
        self._node_loss = NodeLoss(
            client,
            volumes=self._volumes,
            nodes=self._nodes,
            is_ours=self._is_ours,
            remembers=self._remembers,
            listers=self,
            recorder=self._recorder,
            clock=clock,
        )
        self._holding = Holding(volumes=self._volumes, disk_of=self._disks.of_volume, recorder=self._recorder)
        self._taints = Taints(
            client,
            nodes=self._nodes,
            disks=self._disks.of_node,
            has_looked=scope.has_looked,
            has_linked=scope.has_linked,
            listers=self,
        )
        self._queue: WorkQueue[str] = WorkQueue(clock=clock, observer=observe("manager"))
        self._held: WorkQueue[str] = WorkQueue(clock=clock, observer=observe("held"))
        self._lost: WorkQueue[str] = WorkQueue(clock=clock, observer=observe("node-loss"))
        self._tainted: WorkQueue[str] = WorkQueue(clock=clock, observer=observe("taints"))
        if node:
            self._lost.close()  # who serves one node cannot see that it is gone, and nobody would take the keys
        self._workers = workers
        self._scan = asyncio.Event()
        self._reconfigured = asyncio.Event()
        self._scanned = asyncio.Event()
        self._synced = asyncio.Event()
        self._ready = asyncio.Event()

    # What publishing and releasing see beside disks and volumes.

    def storage_class(self, name: str) -> StorageClass | None:
        return self._classes.get(name)

    def node(self, name: str) -> Node | None:
        return self._nodes.get(name)

    # What others see of it.

    @property
    def synced(self) -> bool:
        """Whether everything that exists has been seen."""
        return self._ready.is_set()

    def disks(self) -> list[LocalDisk]:
        return [*self._disks]

    def volumes(self) -> list[PersistentVolume]:
        return [*self._volumes.informer.list()]

    # The component.

    def configure(self, configuration: Configuration) -> None:
        """Another configuration is in force: every disk and volume is looked at again."""
        self.configuration = configuration
        self._reconfigured.set()
        self._scan.set()
        for name in self._disks.names():
            self._queue.add(name)
        for volume in self._volumes.informer.list():
            self._lost.add(volume.key)
        for node in self._nodes.list():
            self._tainted.add(node.key)

    async def _seen(self) -> None:
        """Everything that a disk is looked at with."""
        for informer in (self._nodes, self._classes, self._volumes.informer):
            await informer.wait_synced()

    async def ready(self) -> None:
        """Wait until everything that exists has been seen."""
        await self._ready.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        self._volumes.add_event_handler(self._volume_changed)
        self._nodes.add_event_handler(self._node_changed)
        self._classes.add_event_handler(self._class_changed)
        group = Group(clock=self._clock)
        group.add("events", self._recorder.run)
        if self._one_node is not None:
            group.add("node", self._one_node.run)
        # Volumes are selected by their label: those of the classic provisioner get theirs before disks are looked at.
        group.add("adoption", self._adopt, ready=self._scanned.wait)
        group.add("strays", self._volumes.follow_strays, ready=self._seen)
        if (jobs := self._jobs) is not None:
            group.add("jobs", lambda: self._follow_jobs(jobs))
        group.add("disks", self._follow, ready=self._synced.wait)
        group.add("manager", self._controller("manager", self._reconcile, self._queue, workers=self._workers).run)
        group.add("held", self._controller("held", self._holding.step, self._held).run)
        group.add("taints", self._controller("taints", self._taints.step, self._tainted).run)
        if not self._node:
            # Who serves one node cannot see that it is gone.
            group.add("node-loss", self._controller("node-loss", self._node_loss.step, self._lost).run)
        await group.run(on_ready=self._ready.set)

    def _controller(
        self, name: str, reconcile: Reconcile[str], queue: WorkQueue[str], *, workers: int = 1
    ) -> Controller[str]:
        return Controller(name, reconcile, queue=queue, clock=self._clock, workers=workers)

    async def _reconcile(self, name: str) -> Outcome:
        disk = self._disks.get(name)
        again = await self._jobs.step(name, disk) if self._jobs is not None else None
        if disk is None:
            return Done()
        disk = await self._class_warnings.step(disk)
        belongs = disk.spec.volume is not None and bool(disk.spec.volume.uid)
        if belongs or disk.spec.clean is not None:
            outcome = await self._releaser.step(disk)
        else:
            outcome = await self._publisher.step(disk)
        if again is None:
            return outcome
        return LookAgain(after=min(again, outcome.after) if isinstance(outcome, LookAgain) else again)

    def _in_job(self, disk: LocalDisk) -> str:
        """The name of the Job that is to clean a disk; empty when its agent is."""
        if self._jobs is None or not self._jobs.informer.has_synced:
            return ""
        return jobs_of_cleaning.wanted(disk, self.configuration)

    async def _follow_jobs(self, jobs: Jobs) -> None:
        """Jobs are looked at only where some are wanted: without them there is no right to."""
        while not self.configuration.cleans_in_jobs:
            self._reconfigured.clear()
            await self._reconfigured.wait()
        jobs.informer.add_event_handler(self._job_changed)
        await jobs.informer.run()

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        assert job is not None
        self._queue.add(jobs_of_cleaning.disk_of(job))

    def _is_ours(self, volume: PersistentVolume) -> bool:
        return bool(adoption.node_of(volume, self.configuration))

    async def _remembers(self, volume: PersistentVolume) -> bool:
        """Whether a record says now that its disk belongs to this volume, and will until it was cleaned."""
        seen = self._disks.of_volume(volume)
        disk = await self._records.get(seen.metadata.name) if seen is not None else None
        offered = disk.spec.volume if disk is not None else None
        return offered is not None and offered.uid == volume.metadata.uid

    async def _learn_rights(self) -> None:
        if await self._volumes.learn_rights() and not self._volumes.holds:
            message = (
                "Volumes may not be changed, so they cannot be held by a finalizer: one that is used and deleted by"
                " hand while nobody looks may be missed. Allow patch on persistentvolumes."
            )
            log.warning("volumes are not held reason=%s", message)
            if (node := self._nodes.get(self._node)) is not None:
                self._recorder.event(node, "VolumesNotHeld", message, warning=True)

    async def _adopt(self) -> None:
        objects = self._client.objects(PersistentVolume)
        # What is said about a node, once, must find it.
        await self._nodes.wait_synced()
        await self._classes.wait_synced()
        backoff = Backoff()
        while True:
            self._scan.clear()
            try:
                await self._learn_rights()
                await adoption.adopt_all(
                    objects, volumes=self._volumes, configuration=self.configuration, node=self._node
                )
            except errors.LocalpvError as error:
                wait = backoff.next()
                log.warning("adoption waits seconds=%.1f reason=%s", wait, error)
                await self._clock.sleep(wait)
                continue
            backoff.reset()
            self._scanned.set()
            await self._scan.wait()

    async def _follow(self) -> None:
        await self._records.follow(self._disk_changed, synced=self._synced.set)

    # What wakes whom.

    def _disk_changed(self, old: LocalDisk | None, new: LocalDisk | None) -> None:
        if new is not None:
            self._disks.put(new)
            self._queue.add(new.key)
            self._tainted.add(new.spec.node_name)
        elif old is not None:
            self._disks.remove(old.key)
            for volume in self._volumes.at(old.spec.path):
                self._held.add(volume.key)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        assert volume is not None
        if named := volume.metadata.annotations.get(labels.DISK):
            self._queue.add(named)
        elif volume.spec.local is not None:
            for disk in self._disks.at(volume.spec.local.path):
                self._queue.add(disk.key)
        if new is None and volume.spec.local is not None:
            # Whoever else has its path on the node may have waited for it, such as the same disk in a class that was
            # renamed. Every node has disks of the same paths, and nothing is there for theirs.
            for disk in self._disks.at(volume.spec.local.path):
                if ownership.on_node(volume, disk.spec.node_name):
                    self._queue.add(disk.key)
        self._lost.add(volume.key)
        if volume.metadata.deleting:
            self._held.add(volume.key)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        storage_class = new or old
        assert storage_class is not None
        for disk in self._disks.of_class(storage_class.key):
            self._queue.add(disk.key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None
        if old is not None and new is not None and _same(old, new):
            return  # a heartbeat
        self._tainted.add(node.key)
        if old is None and node.key == self._node:
            for reason, message in self._notices:
                self._recorder.event(node, reason, message, warning=True)
        for disk in self._disks.of_node(node.key):
            self._queue.add(disk.key)
        if new is None or old is None or old.metadata.labels != new.metadata.labels:
            # By its labels any node can be the one that a volume is waiting for.
            for volume in self._volumes.informer.list():
                self._lost.add(volume.key)


def _same(old: Node, new: Node) -> bool:
    return (
        old.metadata.uid == new.metadata.uid
        and old.metadata.labels == new.metadata.labels
        and old.spec.taints == new.spec.taints
    )
