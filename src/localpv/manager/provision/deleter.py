"""From a released PersistentVolume back to free space: first the bytes, then the volume, then its finalizer.

With Retain nothing is deleted: the PoolVolume is marked, so that it outlives a PersistentVolume that somebody deletes
by hand, and the PersistentVolume is let go. `localpv.dev/retained` can be taken off when the bytes are not needed.
"""

from __future__ import annotations

import logging

from localpv.api import well_known
from localpv.api.kinds.localpool import PoolVolume
from localpv.api.kinds.volumes import PersistentVolume
from localpv.disk import labels
from localpv.manager.provision import persistent_volume
from localpv.manager.provision.writes import Writes, without
from localpv.observe.recorder import Notice, Recorder
from localpv.runtime.controller import Done, Outcome
from localpv.volume import fit

RELEASED = "Released"
FAILED_DELETE = "VolumeFailedDelete"

log = logging.getLogger(__name__)


class Deleter:
    """Looks at one PersistentVolume of ours."""

    def __init__(self, *, writes: Writes, recorder: Recorder) -> None:
        self._writes = writes
        self._recorder = recorder

    async def step(self, volume: PersistentVolume) -> Outcome:
        order = self._order_of(volume)
        volume = await self._hold(volume, order)
        if not _is_to_go(volume):
            return Done()
        order = order or await self._order_now(volume)
        if order is not None:
            if order.metadata.deleting and order.status.code:
                message = f"node {order.spec.node_name}: {order.status.message}"
                self._recorder.event_once(volume, Notice(reason=FAILED_DELETE, message=message, warning=True))
            await self._writes.withdraw(order)
            return Done()  # woken when the agent is done
        left: PersistentVolume | None = volume
        if not volume.metadata.deleting:
            left = await self._writes.delete_volume(volume)
        if left is not None and well_known.PROVISIONER_FINALIZER in left.metadata.finalizers:
            finalizers = without(left, well_known.PROVISIONER_FINALIZER)
            await self._writes.change_volume(left, {"metadata": {"finalizers": finalizers}})
        log.info("deleted volume=%s uid=%s", volume.key, volume.metadata.uid)
        self._recorder.forget(volume.key)
        return Done()

    def _order_of(self, volume: PersistentVolume) -> PoolVolume | None:
        order = self._writes.orders.get(volume.key)
        if order is None or order.metadata.uid != persistent_volume.order_uid(volume):
            return None
        return order

    async def _order_now(self, volume: PersistentVolume) -> PoolVolume | None:
        """Asked of the server: an informer may not have seen it yet."""
        order = await self._writes.order_now(volume.key)
        return order if order is not None and order.metadata.uid == persistent_volume.order_uid(volume) else None

    async def _hold(self, volume: PersistentVolume, order: PoolVolume | None) -> PersistentVolume:
        """The finalizer as the policy wants it, which people may change at any time."""
        held = well_known.PROVISIONER_FINALIZER in volume.metadata.finalizers
        if volume.spec.persistent_volume_reclaim_policy == persistent_volume.DELETE:
            if order is not None and labels.RETAINED in order.metadata.annotations:
                await self._writes.change_order(order, {"metadata": {"annotations": {labels.RETAINED: None}}})
            if held or volume.metadata.deleting or volume.status.phase != fit.BOUND:
                return volume
            added = [*volume.metadata.finalizers, well_known.PROVISIONER_FINALIZER]
            return await self._writes.change_volume(volume, {"metadata": {"finalizers": added}})
        if not held:
            return volume
        order = order or await self._order_now(volume)
        if order is not None and labels.RETAINED not in order.metadata.annotations:
            # Before the volume can go: without it nobody would know that the bytes are to stay.
            await self._writes.change_order(order, {"metadata": {"annotations": {labels.RETAINED: "true"}}})
        finalizers = without(volume, well_known.PROVISIONER_FINALIZER)
        return await self._writes.change_volume(volume, {"metadata": {"finalizers": finalizers}})


def _is_to_go(volume: PersistentVolume) -> bool:
    if volume.spec.persistent_volume_reclaim_policy != persistent_volume.DELETE or volume.status.phase != RELEASED:
        return False
    return well_known.PROVISIONER_FINALIZER in volume.metadata.finalizers or not volume.metadata.deleting
