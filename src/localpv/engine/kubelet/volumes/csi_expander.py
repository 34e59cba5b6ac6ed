"""Volumes that grew: the driver makes what pods see of them as large, and the claim says so, as a kubelet does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from localpv import errors
from localpv.api.kinds.meta import write_time
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import Condition, PersistentVolumeClaim
from localpv.api.objects import Object
from localpv.engine.kubelet.volumes import csi_request
from localpv.engine.kubelet.volumes.claims import Bound, Lookup
from localpv.engine.kubelet.volumes.csi_driver import EXPANDS, Drivers, source_of
from localpv.engine.kubelet.volumes.volume_spec import DriverError
from localpv.runtime.clock import Clock
from localpv.volume import fit

PENDING, IN_PROGRESS, INFEASIBLE = "NodeResizePending", "NodeResizeInProgress", "NodeResizeInfeasible"
SUCCEEDED, FAILED = "FileSystemResizeSuccessful", "VolumeResizeFailed"
"""Reasons of events, as a kubelet calls them."""

NODE_ERROR = "NodeResizeError"
RESIZE_CONDITIONS = frozenset({"Resizing", "FileSystemResizePending", "ControllerResizeError", NODE_ERROR})
"""Conditions of a claim that end with its growth."""

_INFEASIBLE_CODES = ("INVALID_ARGUMENT", "OUT_OF_RANGE", "NOT_FOUND")

OnEvent = Callable[[Pod, str, str, bool], None]
"""Told a pod, a reason, a sentence, and whether it is a warning."""


def is_due(claim: PersistentVolumeClaim) -> bool:
    """Whether the volume has grown, and the node has its part still to do."""
    return claim.status.allocated_resource_statuses.get(fit.STORAGE) in (PENDING, IN_PROGRESS)


class CsiExpander:
    """Grows volumes that pods have."""

    def __init__(self, *, drivers: Drivers, lookup: Lookup, clock: Clock, on_event: OnEvent) -> None:
        self._drivers, self._lookup, self._clock, self._on_event = drivers, lookup, clock, on_event

    async def expand(self, pod: Pod, bound: Bound, *, place: Path, staging: Path) -> None:
        """Grow the volume at a place as far as its PersistentVolume says, if its claim waits for that.

        What the driver refuses is told in the claim and an event, and is no reason to stop the pod.
        """
        claim, spec = bound.claim, bound.spec
        if not is_due(claim):
            return
        try:
            driver = self._drivers.get(source_of(spec).driver)
            if not driver.can(EXPANDS):
                return
            size = bound.volume.spec.capacity.get(fit.STORAGE, "0")
            if claim.status.allocated_resource_statuses[fit.STORAGE] != IN_PROGRESS:
                claim = await self._tell(claim, {"allocatedResourceStatuses": {fit.STORAGE: IN_PROGRESS}})
            request = {
                "volume_id": source_of(spec).volume_handle,
                "volume_path": str(place),
                "staging_target_path": str(staging),
                "capacity_range": {"required_bytes": fit.size(bound.volume) // 10**9},
                "volume_capability": driver.capability(spec),
                "secrets": await csi_request.secret(spec, source_of(spec).node_expand_secret_ref, self._lookup),
            }
            await driver.node("NodeExpandVolume", request)
        except DriverError as error:
            return await self._refused(pod, claim, error)
        kept = [_written(each) for each in claim.status.conditions if each.type not in RESIZE_CONDITIONS]
        done = {"capacity": {fit.STORAGE: size}, "allocatedResourceStatuses": {fit.STORAGE: None}}
        await self._tell(claim, done | {"conditions": kept or None})
        self._on_event(pod, SUCCEEDED, f"volume {spec.name} of claim {claim.key} has {size} now", False)

    async def _refused(self, pod: Pod, claim: PersistentVolumeClaim, error: DriverError) -> None:
        known = next((each for each in claim.status.conditions if each.type == NODE_ERROR), None)
        if known is None or known.message != error.message:
            condition: Object = {
                "type": NODE_ERROR,
                "status": "True",
                "message": error.message,
                "lastTransitionTime": write_time(self._clock.now())[:19] + "Z",
            }
            others = [_written(each) for each in claim.status.conditions if each.type != NODE_ERROR]
            status: Object = {"conditions": [*others, condition]}
            if error.code in _INFEASIBLE_CODES:
                # Tried again only when whoever makes volumes larger has found another size.
                status["allocatedResourceStatuses"] = {fit.STORAGE: INFEASIBLE}
            await self._tell(claim, status)
            self._on_event(pod, FAILED, error.message, True)

    async def _tell(self, claim: PersistentVolumeClaim, status: Object) -> PersistentVolumeClaim:
        await self._lookup.set_claim_status(claim, status)
        now = await self._lookup.claim(claim.metadata.namespace, claim.metadata.name)
        if now is None or now.metadata.uid != claim.metadata.uid:
            raise errors.NotFound(f"claim {claim.key} is gone")
        return now


def _written(condition: Condition) -> Object:
    found = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    return {key: value for key, value in found.items() if value}
