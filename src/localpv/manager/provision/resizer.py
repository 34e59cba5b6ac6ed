"""Larger volumes for claims that ask for more: what external-resizer does, with the reservation in between.

1.  Say in the status of the claim to which size: allocatedResources, ControllerResizeInProgress.
2.  Raise the size in the PoolVolume, if the pool has room. That is the reservation.
3.  Wait until the agent has grown the volume.
4.  Raise the capacity of the PersistentVolume.
5.  Say that the node must grow the file system, which the kubelet does and then finishes; a raw device is done.

What was asked of an agent is finished before anything else is begun. Where the pool has no room, nothing was asked, and
the claim says ControllerResizeInfeasible: whoever asked can ask for less, down to what the claim has.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from localpv.api.kinds.localdisk import VolumeMode
from localpv.api.kinds.localpool import PoolVolume
from localpv.api.kinds.meta import write_time
from localpv.api.kinds.volumes import Condition, PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.api.objects import Object
from localpv.api.quantity import Quantity
from localpv.client.informer import Informer
from localpv.manager.provision import persistent_volume
from localpv.manager.provision.assume_cache import AssumeCache
from localpv.manager.provision.provisioner import NO_ROOM
from localpv.manager.provision.writes import Writes
from localpv.observe.recorder import Notice, Recorder
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome
from localpv.volume import fit, pool_ledger
from localpv.volume.pool_ledger import PoolLedger

IN_PROGRESS = "ControllerResizeInProgress"
INFEASIBLE = "ControllerResizeInfeasible"
NODE_PENDING = "NodeResizePending"
NODE_STATUSES = (NODE_PENDING, "NodeResizeInProgress", "NodeResizeInfeasible")

RESIZING = "Resizing"
FILE_SYSTEM_PENDING = "FileSystemResizePending"
CONTROLLER_ERROR = "ControllerResizeError"
CONDITIONS = (RESIZING, FILE_SYSTEM_PENDING, CONTROLLER_ERROR, "NodeResizeError")
"""Conditions about a growth; others on the claim are none of ours."""

FAILED = "VolumeResizeFailed"
REQUIRED = "FileSystemResizeRequired"
SUCCEEDED = "VolumeResizeSuccessful"
INFEASIBLE_SECONDS = 300.0

log = logging.getLogger(__name__)


class Resizer:
    """Looks at one bound PersistentVolume of ours, and its claim."""

    def __init__(
        self,
        *,
        writes: Writes,
        ledger: PoolLedger,
        classes: Informer[StorageClass],
        assumed: AssumeCache,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._writes = writes
        self._ledger = ledger
        self._classes = classes
        self._assumed = assumed
        self._recorder = recorder
        self._clock = clock
        self.waiting: dict[str, str] = {}
        """Names of volumes that wait for room, and their class."""

    async def step(self, volume: PersistentVolume) -> Outcome:
        name = volume.key
        self.waiting.pop(name, None)
        claim, order = self._writes.claim_of(name), self._writes.orders.get(name)
        if name in self._assumed:
            order = await self._writes.order_now(name)  # the answer to its growth got lost
            self._assumed.forget(name)
        if claim is None or order is None or order.metadata.deleting or not fit.is_for(volume, claim):
            return Done()
        if claim.metadata.deleting or claim.status.phase != fit.BOUND:
            return Done()
        wanted, has = _bytes(claim.spec.resources.requests), _bytes(claim.status.capacity)
        stage = claim.status.allocated_resource_statuses.get(fit.STORAGE, "")
        asked = _bytes(claim.status.allocated_resources)
        if wanted <= has or (stage in NODE_STATUSES and size_of(volume) >= min(wanted, asked or wanted)):
            return Done()  # nothing to do, or the kubelet's turn
        if not self._may_grow(volume):
            return Done()
        # What was asked of the agent comes first, though the claim may say something else by now.
        target = asked if stage == IN_PROGRESS and asked > has and self._was_asked(order, asked) else wanted
        if target != asked or stage not in (IN_PROGRESS, INFEASIBLE):
            claim = await self._begin(claim, target)
        return await self._grow(volume, claim, order, target)

    def _may_grow(self, volume: PersistentVolume) -> bool:
        storage_class = self._classes.get(volume.spec.storage_class_name)
        return storage_class is not None and storage_class.allow_volume_expansion

    def _was_asked(self, order: PoolVolume, size: int) -> bool:
        pool = self._ledger.pool(pool_ledger.key_of(order))
        return pool is not None and order.spec.size_bytes >= pool_ledger.needed(pool, size)

    async def _begin(self, claim: PersistentVolumeClaim, target: int) -> PersistentVolumeClaim:
        allocated = {fit.STORAGE: persistent_volume.size_text(target)}
        return await self._say(claim, IN_PROGRESS, self._condition(RESIZING), {"allocatedResources": allocated})

    async def _grow(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim, order: PoolVolume, target: int
    ) -> Outcome:
        key = pool_ledger.key_of(order)
        pool = self._ledger.pool(key)
        if pool is None:
            return await self._infeasible(claim, f"node {key.node} has no pool {key.pool}")
        size = pool_ledger.needed(pool, target)
        if order.spec.size_bytes < size:
            more = max(size - pool_ledger.promised_to(order), 0)
            on_its_way = self._assumed.in_pool(key)
            if more > self._ledger.free(pool) - on_its_way:
                why = self._ledger.lacking(pool, more, also=on_its_way)
                self.waiting[volume.key] = volume.spec.storage_class_name
                return await self._infeasible(claim, f"node {key.node}: {why}")
            with self._assumed.assuming(volume.key, key, more):
                order = await self._writes.change_order(order, {"spec": {"sizeBytes": size}})
            log.info("growing volume=%s bytes=%d", volume.key, size)
        status = order.status
        if status.size_bytes >= size:
            return await self._grown(volume, claim, order)
        if status.code and status.observed_generation >= order.metadata.generation:
            if status.code == NO_ROOM and status.size_bytes:
                # The pool has less than it said: what was promised is taken back, and the volume stays as it is.
                await self._writes.change_order(order, {"spec": {"sizeBytes": status.size_bytes}})
                self.waiting[volume.key] = volume.spec.storage_class_name
                return await self._infeasible(claim, f"node {key.node}: {status.message}")
            self._tell(claim, FAILED, f"node {key.node}: {status.code}: {status.message}", warning=True)
        return Done()  # woken by what the agent says

    async def _grown(self, volume: PersistentVolume, claim: PersistentVolumeClaim, order: PoolVolume) -> Outcome:
        size = persistent_volume.size_text(order.status.size_bytes)
        if size_of(volume) < order.status.size_bytes:
            await self._writes.change_volume(volume, {"spec": {"capacity": {fit.STORAGE: size}}})
        if order.spec.volume_mode == VolumeMode.BLOCK:
            await self._say(claim, None, None, {"capacity": {fit.STORAGE: size}})
            self._tell(claim, SUCCEEDED, "Resize volume succeeded")
            return Done()
        message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
        await self._say(claim, NODE_PENDING, self._condition(FILE_SYSTEM_PENDING, message))
        self._tell(claim, REQUIRED, "Require file system resize of volume on node")
        return Done()

    async def _infeasible(self, claim: PersistentVolumeClaim, why: str) -> Outcome:
        known = next((one for one in claim.status.conditions if one.type == CONTROLLER_ERROR), None)
        stage = claim.status.allocated_resource_statuses.get(fit.STORAGE)
        if stage != INFEASIBLE or known is None or known.message != why:
            await self._say(claim, INFEASIBLE, self._condition(CONTROLLER_ERROR, why))
        self._tell(claim, FAILED, why, warning=True)
        return LookAgain(after=INFEASIBLE_SECONDS)

    def _condition(self, kind: str, message: str = "") -> Condition:
        now = write_time(self._clock.now())[:19] + "Z"
        return Condition(type=kind, status="True", message=message, last_transition_time=now)

    async def _say(
        self,
        claim: PersistentVolumeClaim,
        stage: str | None,
        condition: Condition | None,
        more: Object | None = None,
    ) -> PersistentVolumeClaim:
        """Write how far the growth is; None for a stage or a condition that is over."""
        kept = [one for one in claim.status.conditions if one.type not in CONDITIONS]
        conditions = [_written(one) for one in (*kept, *([condition] if condition else []))]
        status: Object = {
            "conditions": conditions or None,
            "allocatedResourceStatuses": {fit.STORAGE: stage},
            **(more or {}),
        }
        return await self._writes.change_claim(claim, {"status": status}, "status")

    def _tell(self, claim: PersistentVolumeClaim, reason: str, message: str, *, warning: bool = False) -> None:
        self._recorder.event_once(claim, Notice(reason=reason, message=message, warning=warning))


def size_of(volume: PersistentVolume) -> int:
    return _bytes(volume.spec.capacity)


def _bytes(amounts: Mapping[str, str]) -> int:
    return Quantity.parse(amounts.get(fit.STORAGE, "0")).value


def _written(condition: Condition) -> Object:
    made: Object = {"type": condition.type, "status": condition.status}
    for name, value in (
        ("reason", condition.reason),
        ("message", condition.message),
        ("lastTransitionTime", condition.last_transition_time),
    ):
        if value:
            made[name] = value
    return made
