"""Orders to clean: which are still open, and how a person gives one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from localpv import errors
from localpv.agent.clean import plans, states
from localpv.api.kinds.localdisk import Cleaning, CleaningState, CleanOrder, DiskKind, LocalDisk, LocalDiskSpec
from localpv.disk import labels

BY_HAND = "by-hand"
"""What an order is said to be for when there is no volume."""


def open_order(disk: LocalDisk) -> CleanOrder | None:
    """The order that this record still waits to see done, or None."""
    order = disk.spec.clean
    if order is None:
        return None
    cleaning = cleaning_for(disk, order)
    return None if cleaning is not None and cleaning.state == CleaningState.VERIFIED else order


def cleaning_for(disk: LocalDisk, order: CleanOrder) -> Cleaning | None:
    """What is known of the cleaning for this order; that for another volume says nothing about this one."""
    cleaning = disk.status.cleaning
    return cleaning if cleaning is not None and cleaning.volume_uid == order.volume_uid else None


def order_by_hand(
    disk: LocalDisk, method: Sequence[str] = (), *, now: datetime, token: str, volume_released: bool = False
) -> LocalDiskSpec:
    """The spec with a person's order to clean; ConfigurationError with what to do first when that must not be.

    No method means the one of the disk's class. `token` must be new each time: without a volume it stands in the place
    of the volume's UID, and what was verified for an earlier order must not count for this one. `volume_released` is
    the caller's word that the volume which offers the disk is Released, or gone.
    """
    spec = disk.spec
    name, uid = (spec.volume.name, spec.volume.uid) if spec.volume else (BY_HAND, "")
    if spec.volume is not None and not volume_released:
        raise errors.ConfigurationError(
            f"the disk belongs to volume {name}, which may be in use",
            hint="delete the claim first; the disk can be wiped when the volume is Released",
        )
    if spec.volume is None and disk.status.reason in (labels.DUPLICATE, labels.OTHER_ENGINE):
        raise errors.ConfigurationError(
            f"what is on the disk may be somebody else's: {disk.status.message}",
            hint="wipe it as what it is there, or take it out there",
        )
    if (order := open_order(disk)) is not None:
        raise errors.ConfigurationError(
            f"the disk is to be cleaned already, for {order.volume_name}",
            hint=f"see how far it is: localpv explain {disk.metadata.name}",
        )
    identity = spec.identity or disk.status.identity
    if identity is None or not disk.status.kind:
        raise errors.ConfigurationError(
            "nobody knows yet which disk this is", hint="wait until the agent of the node has seen it"
        )
    if method:
        plan = plans.read(method, kind=DiskKind(disk.status.kind))
        if plans.is_command(plan):
            raise errors.ConfigurationError(
                f"{method[0]} is no built-in method, and commands come from the configuration of the class",
                hint="leave the method out for the one of the class",
            )
    order = CleanOrder(
        volume_name=name,
        volume_uid=uid or f"{BY_HAND}-{token}",
        method=tuple(method),
        requested_at=states.timestamp(_after_failure(disk, now)),
    )
    return msgspec.structs.replace(spec, clean=order, identity=identity)


def _after_failure(disk: LocalDisk, now: datetime) -> datetime:
    """An order does not wait for a failure before it, and times are written in whole seconds."""
    ended = states.instant(disk.status.cleaning.finished_at) if disk.status.cleaning is not None else None
    return max(now, ended + timedelta(seconds=1)) if ended is not None else now
