"""The component that serves the pools of a node: LocalPools are written, PoolVolumes and PoolSnapshots made true."""

from __future__ import annotations

from localpv.agent.pools.pool import PoolState
from localpv.agent.pools.pools import Pools
from localpv.agent.pools.reconciler import Key, Listers, Reconciler, Sort
from localpv.agent.pools.reporter import Reporter
from localpv.api.kinds.localpool import LocalPool, PoolPhase, PoolSnapshot, PoolVolume
from localpv.client.client import Client
from localpv.client.informer import SharedInformer
from localpv.client.objects import Selection
from localpv.csi.status import Code
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller
from localpv.runtime.group import Group
from localpv.runtime.queue import Observing, WorkQueue, unobserved

WORKERS = 8
"""Volumes of a node that are worked on at the same time; copies and wipes share the same disks."""


class PoolService:
    """Serves the pools of one node."""

    def __init__(
        self, *, node: str, pools: Pools, client: Client, clock: Clock, observe: Observing = unobserved
    ) -> None:
        self._pools, self._clock = pools, clock
        self._queue: WorkQueue[Key] = WorkQueue(clock=clock, observer=observe("pools"))
        own = Selection(fields=f"spec.nodeName={node}")
        self._local_pools = SharedInformer(client.objects(LocalPool), clock=clock, selection=own)
        self._volumes = SharedInformer(client.objects(PoolVolume), clock=clock, selection=own)
        self._snapshots = SharedInformer(client.objects(PoolSnapshot), clock=clock, selection=own)
        self._listers = Listers(volumes=self._volumes, snapshots=self._snapshots)
        self._reporter = Reporter(
            node=node,
            pools=pools,
            listers=self._listers,
            local_pools=self._local_pools,
            client=client,
            clock=clock,
            on_look=self._looked,
        )
        reconciler = Reconciler(
            node=node, pools=pools, listers=self._listers, client=client, clock=clock, changed=self._reporter.changed
        )
        self._controller = Controller("pools", reconciler.step, queue=self._queue, clock=clock, workers=WORKERS)

    async def run(self) -> None:
        self._volumes.add_event_handler(lambda old, new: self._told(Sort.VOLUME, old, new))
        self._snapshots.add_event_handler(lambda old, new: self._told(Sort.SNAPSHOT, old, new))
        self._pools.on_change(self._configured)
        group = Group(clock=self._clock)
        group.add("pools of this node", self._local_pools.run)
        group.add("volumes of pools", self._volumes.run)
        group.add("snapshots of pools", self._snapshots.run)
        group.add("pool reporter", self._reporter.run)
        group.add("pool volumes", self._controller.run)
        await group.run()

    def _configured(self) -> None:
        self._reporter.configured()
        for volume in self._volumes.list():
            self._queue.add(Key(Sort.VOLUME, volume.metadata.name))
        for snapshot in self._snapshots.list():
            self._queue.add(Key(Sort.SNAPSHOT, snapshot.metadata.name))

    def _told(self, sort: Sort, old: PoolVolume | PoolSnapshot | None, new: PoolVolume | PoolSnapshot | None) -> None:
        item = new or old
        assert item is not None
        if old is None or new is None:
            self._reporter.changed(item.spec.pool_name)  # what is ours and what is not has changed
        if new is None or old is None or old.metadata.generation != new.metadata.generation or new.metadata.deleting:
            self._queue.add(Key(sort, item.metadata.name))

    def _looked(self, pool: str, state: PoolState) -> None:
        """Have those looked at whose volume is not as their status says."""
        for sort, items in ((Sort.VOLUME, self._volumes.list()), (Sort.SNAPSHOT, self._snapshots.list())):
            for item in items:
                if item.spec.pool_name != pool or item.metadata.deleting:
                    continue
                found = state.volumes.get(item.metadata.name)
                is_there = found is not None and found.ready
                if item.status.phase == PoolPhase.READY:
                    if not is_there or (found is not None and found.abnormal != item.status.message):
                        self._queue.add(Key(sort, item.metadata.name))
                elif item.status.code == Code.DATA_LOSS.name and is_there:
                    self._queue.add(Key(sort, item.metadata.name))
