"""The loop of whoever provisions: one queue of names of volumes, so that nothing happens to one twice at a time.

Everything that happens to a claim, its PersistentVolume, its PoolVolume or a pool only puts names into the queue. Only
one may run in a cluster: the manager has a lease for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.csi import CSIStorageCapacity
from localpv.api.kinds.localpool import LocalPool, PoolSnapshot, PoolVolume
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.client.client import Client
from localpv.config.settings import Configuration
from localpv.manager.provision import persistent_volume
from localpv.manager.provision.assume_cache import AssumeCache
from localpv.manager.provision.capacity import Capacities
from localpv.manager.provision.deleter import Deleter
from localpv.manager.provision.provisioner import Provisioner, provisioner_of
from localpv.manager.provision.resizer import Resizer
from localpv.manager.provision.writes import Writes
from localpv.observe.recorder import ApiRecorder, Recorder
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller, Done, Outcome
from localpv.runtime.group import Group
from localpv.runtime.queue import Observing, WorkQueue, unobserved
from localpv.volume import fit, pool_names
from localpv.volume.informers import VolumeInformers
from localpv.volume.pool_ledger import PoolKey, PoolLedger, key_of

COMPONENT = "localpv-manager"
WORKERS = 16
"""Volumes that are worked on at the same time: a step is two or three calls to the API server, and mostly waits."""


class Provisioning:
    """Runs until cancelled, beside the informers it is given."""

    def __init__(
        self,
        client: Client,
        *,
        informers: VolumeInformers,
        configuration: Callable[[], Configuration],
        clock: Clock,
        capacity_in: str = "",
        recorder: Recorder | None = None,
        observe: Observing = unobserved,
    ) -> None:
        """With `capacity_in`, a namespace, what is free is written there for kube-scheduler."""
        self._clock = clock
        self._recorder = recorder or ApiRecorder(client, component=COMPONENT, clock=clock)
        self._writes = Writes(client, informers=informers)
        self._ledger = PoolLedger()
        self._pools = informers.informer(LocalPool)
        self._snapshots = informers.informer(PoolSnapshot)
        self._classes = informers.informer(StorageClass)
        self._nodes = informers.informer(Node)
        assumed = AssumeCache()
        self._provisioner = Provisioner(
            writes=self._writes,
            ledger=self._ledger,
            assumed=assumed,
            classes=self._classes,
            nodes=self._nodes,
            configuration=configuration,
            recorder=self._recorder,
        )
        self._deleter = Deleter(writes=self._writes, recorder=self._recorder)
        self._resizer = Resizer(
            writes=self._writes,
            ledger=self._ledger,
            assumed=assumed,
            classes=self._classes,
            recorder=self._recorder,
            clock=clock,
        )
        self._capacities = (
            Capacities(client, namespace=capacity_in, informers=informers, classes=self._classes, ledger=self._ledger)
            if capacity_in
            else None
        )
        self._queue: WorkQueue[str] = WorkQueue(clock=clock, observer=observe("provision"))
        self._counted: WorkQueue[str] = WorkQueue(clock=clock, observer=observe("capacity"))
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Wait until everything that exists has been seen."""
        await self._ready.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        # The ledger first, so that whoever is told of a change finds it counted.
        self._pools.add_event_handler(self._ledger.pool_changed)
        self._writes.orders.add_event_handler(self._ledger.volume_changed)
        self._snapshots.add_event_handler(self._ledger.snapshot_changed)
        for informer in (self._pools, self._writes.orders, self._snapshots, self._classes, self._nodes):
            await informer.wait_synced()
        await self._writes.volumes.wait_synced()
        await self._writes.claims.wait_synced()
        self._pools.add_event_handler(self._pool_changed)
        self._writes.orders.add_event_handler(self._order_changed)
        self._snapshots.add_event_handler(self._snapshot_changed)
        self._writes.volumes.add_event_handler(self._volume_changed)
        self._writes.claims.add_event_handler(self._claim_changed)
        self._classes.add_event_handler(self._class_changed)
        group = Group(clock=self._clock)
        group.add("events", self._recorder.run)
        controller = Controller("provision", self.step, queue=self._queue, clock=self._clock, workers=WORKERS)
        group.add("provision", controller.run)
        if (capacities := self._capacities) is not None:
            await capacities.informer.wait_synced()
            capacities.informer.add_event_handler(self._capacity_changed)
            group.add("capacity", Controller("capacity", capacities.step, queue=self._counted, clock=self._clock).run)
        await group.run(on_ready=self._ready.set)

    async def step(self, name: str) -> Outcome:
        """Look at one volume, wherever it is on its way."""
        volume = self._writes.volumes.get(name)
        if volume is None:
            return await self._provisioner.step(name)
        if not persistent_volume.order_uid(volume):
            return Done()  # made by somebody else
        outcome = await self._deleter.step(volume)
        current = self._writes.volumes.get(name)
        if current is not None and current.status.phase == fit.BOUND and not current.metadata.deleting:
            return await self._resizer.step(current)
        return outcome

    # What wakes whom.

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        claim = new or old
        assert claim is not None
        if provisioner_of(claim) == pool_names.DRIVER:
            self._queue.add(pool_names.volume_name(claim.metadata.uid))
        if new is None:
            self._recorder.forget(claim.key)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        assert volume is not None
        if volume.spec.csi is not None and volume.spec.csi.driver == pool_names.DRIVER:
            self._queue.add(volume.key)

    def _order_changed(self, old: PoolVolume | None, new: PoolVolume | None) -> None:
        order = new or old
        assert order is not None
        self._queue.add(order.key)
        self._promises_changed(key_of(order), less=_size(new) < _size(old))

    def _snapshot_changed(self, old: PoolSnapshot | None, new: PoolSnapshot | None) -> None:
        snapshot = new or old
        assert snapshot is not None
        self._promises_changed(key_of(snapshot), less=_size(new) < _size(old))

    def _pool_changed(self, old: LocalPool | None, new: LocalPool | None) -> None:
        for pool in (old, new):
            if pool is not None:
                if self._capacities is not None:
                    for name in self._capacities.follow(pool):
                        self._counted.add(name)
                self._wake(pool)

    def _promises_changed(self, key: PoolKey, *, less: bool) -> None:
        if self._capacities is not None:
            for name in self._capacities.of_pool(key):
                self._counted.add(name)
        if less and (pool := self._ledger.pool(key)) is not None:
            self._wake(pool)

    def _wake(self, pool: LocalPool) -> None:
        """There may be room for who waits for it."""
        for waiting in (self._provisioner.waiting, self._resizer.waiting):
            for name, class_name in waiting.items():
                if class_name in pool.spec.class_names:
                    self._queue.add(name)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        changed = new or old
        assert changed is not None
        if self._capacities is not None:
            for name in self._capacities.of_class(changed.key):
                self._counted.add(name)
        if old is None and changed.provisioner != pool_names.DRIVER:
            return
        for claim in self._writes.claims.list():
            if provisioner_of(claim) == pool_names.DRIVER and fit.class_of(claim) == changed.key:
                self._queue.add(pool_names.volume_name(claim.metadata.uid))

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        one = new or old
        assert one is not None
        self._counted.add(one.metadata.name)


def _size(one: PoolVolume | PoolSnapshot | None) -> int:
    return max(one.spec.size_bytes, one.status.size_bytes) if one is not None else 0
