"""Room on a node for volumes that are still to be made: of our pools by the ledger, of other drivers as they tell it.

The ledger counts what is written; what was given to claims of other pods and is not written yet is counted beside it.
All claims of a pod are looked at together, the largest first. Nothing of this is watched before there is a class whose
volumes somebody makes: most machines have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from localpv.api import selectors, well_known
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.csi import CSIDriver, CSIStorageCapacity
from localpv.api.kinds.localpool import LocalPool, PoolSnapshot, PoolVolume
from localpv.api.kinds.volumes import PersistentVolumeClaim, StorageClass
from localpv.api.quantity import NANO
from localpv.client.informer import Informer
from localpv.client.informer_factory import InformerFactory
from localpv.engine.scheduler import filter_messages
from localpv.engine.scheduler.assume_cache import AssumeCache, Reservation
from localpv.volume import fit, pool_ledger, pool_names
from localpv.volume.pool_ledger import PoolKey, PoolLedger

Wanted = tuple[PersistentVolumeClaim, StorageClass]


class StorageCapacity:
    """`changed` is called when there may be more room than before."""

    def __init__(self, informers: InformerFactory, assume_cache: AssumeCache, *, changed: Callable[[], None]) -> None:
        self._informers, self._assume_cache, self._changed = informers, assume_cache, changed
        self._ledger = PoolLedger()
        self._volumes: Informer[PoolVolume] | None = None
        self._drivers: Informer[CSIDriver] | None = None
        self._capacities: Informer[CSIStorageCapacity] | None = None

    def class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        """The handler of a cache of classes."""
        if new is None:
            return
        if new.provisioner == pool_names.DRIVER:
            self._follow_pools()
        elif new.provisioner not in ("", well_known.NO_PROVISIONER):
            self._follow_drivers()

    async def ready(self) -> None:
        """Wait until all is known that classes, as far as they are known, ask for."""
        for informer in (self._volumes, self._drivers, self._capacities):
            if informer is not None:
                await informer.wait_synced()
        if self._volumes is not None:
            await self._informers.informer(LocalPool).wait_synced()
            await self._informers.informer(PoolSnapshot).wait_synced()

    def reserve(self, node: Node, wanted: Sequence[Wanted]) -> tuple[Reservation, ...] | str:
        """What the claims take of the pools of a node, all together; why a node will not do where it has no room."""
        taken: dict[PoolKey, int] = {}
        found: list[Reservation] = []
        for claim, storage_class in sorted(wanted, key=lambda each: -fit.wanted(each[0])):
            if storage_class.provisioner == pool_names.DRIVER:
                reserved = self._reserve(claim, storage_class, node, taken)
                if isinstance(reserved, str):
                    return filter_messages.lacking_space(f"node {node.metadata.name}: {reserved}")
                if reserved is not None:
                    taken[reserved.pool] = taken.get(reserved.pool, 0) + reserved.size_bytes
                    found.append(reserved)
            elif not self._has_capacity(claim, storage_class, node):
                return filter_messages.NO_SPACE
        return tuple(found)

    def room(self, reserved: Sequence[Reservation]) -> int:
        """Bytes that pools have left in which something is reserved, before that."""
        pools = (self._ledger.pool(key) for key in {each.pool for each in reserved})
        return sum(self._ledger.free(pool) - self._assumed(pool) for pool in pools if pool is not None)

    def _reserve(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node, taken: dict[PoolKey, int]
    ) -> Reservation | str | None:
        if self._volumes is not None and self._volumes.get(pool_names.volume_name(claim.metadata.uid)) is not None:
            return None  # the ledger has it
        name, size = storage_class.key, -(-fit.wanted(claim) // NANO)
        pools = [pool for pool in self._ledger.of_class(name) if pool.spec.node_name == node.metadata.name]
        if not pools:
            return f"no pool of class {name}"
        also = {pool.key: taken.get(pool_ledger.key_of(pool), 0) + self._assumed(pool) for pool in pools}
        best = max(pools, key=lambda pool: self._ledger.free(pool) - also[pool.key])
        if why := self._ledger.lacking(best, size, also=also[best.key]):
            return why
        return Reservation(claim, pool_ledger.key_of(best), pool_ledger.needed(best, size))

    def _assumed(self, pool: LocalPool) -> int:
        return self._assume_cache.reserved_in(pool_ledger.key_of(pool))

    def _has_capacity(self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node) -> bool:
        """As kube-scheduler asks it: each claim for itself, and only of drivers that tell what they have."""
        if self._drivers is None or self._capacities is None:
            return True
        driver = self._drivers.get(storage_class.provisioner)
        if driver is None or not driver.spec.storage_capacity:
            return True
        return any(
            capacity.storage_class_name == storage_class.key
            and (limit := capacity.maximum_volume_size or capacity.capacity) is not None
            and fit.amount(limit) >= fit.wanted(claim)
            and capacity.node_topology is not None
            and selectors.from_object(msgspec.to_builtins(capacity.node_topology)).matches(node.metadata.labels)
            for capacity in self._capacities.list()
        )

    def _follow_pools(self) -> None:
        if self._volumes is not None:
            return
        pools, snapshots = self._informers.informer(LocalPool), self._informers.informer(PoolSnapshot)
        self._volumes = self._informers.informer(PoolVolume)
        # The ledger first: whoever is told of a change finds it counted.
        pools.add_event_handler(self._ledger.pool_changed)
        self._volumes.add_event_handler(self._ledger.volume_changed)
        snapshots.add_event_handler(self._ledger.snapshot_changed)
        pools.add_event_handler(lambda old, new: self._changed())
        self._volumes.add_event_handler(self._volume_changed)
        snapshots.add_event_handler(lambda old, new: self._changed() if old is not None else None)

    def _follow_drivers(self) -> None:
        if self._drivers is None:
            self._drivers = self._informers.informer(CSIDriver)
            self._capacities = self._informers.informer(CSIStorageCapacity)
            self._drivers.add_event_handler(lambda old, new: self._changed())
            self._capacities.add_event_handler(lambda old, new: self._changed())

    def _volume_changed(self, old: PoolVolume | None, new: PoolVolume | None) -> None:
        if new is not None:
            self._assume_cache.written(new.spec.claim.uid)
        if old is not None and (new is None or pool_ledger.promised_to(new) < pool_ledger.promised_to(old)):
            self._changed()
