"""What to do with a disk that belongs to a volume. It computes and never waits; `releaser` acts on it.

Everything follows from the LocalDisk and the volume as they are now, so it can be asked at any time, after any crash.
"""

from __future__ import annotations

from dataclasses import dataclass

from localpv.api.kinds.localdisk import CleaningState, LocalDisk, Phase
from localpv.api.kinds.meta import read_time
from localpv.api.kinds.volumes import PersistentVolume
from localpv.disk import labels
from localpv.manager import volumes

DELETE = "Delete"
RETAIN = "Retain"
DISK_MISSING = "DiskMissing"
NOT_CLEANED = "NotCleaned"
KEPT = (
    "The volume of this disk was deleted before the disk was cleaned, and its data was to be kept;"
    " when nobody needs it any more, run `localpv wipe`."
)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is to be done until something changes."""


@dataclass(frozen=True, slots=True)
class Remember:
    """Record the volume's UID and reclaim policy, which are other ones than the LocalDisk says."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the volume from going without us: an earlier version made it, or somebody took the finalizer off."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Order:
    """Order the cleaning, for the claim that left the data."""

    claim_uid: str = ""


@dataclass(frozen=True, slots=True)
class CallOff:
    """Take the order back: the volume is not released any more."""

    cleaned: bool
    """Whether the cleaning was verified before."""


@dataclass(frozen=True, slots=True)
class Delete:
    """The disk is clean: delete the volume, or let it go when somebody else has deleted it."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Keep:
    """Somebody has deleted a volume whose data is to be kept: say so on the disk, then let the volume go."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Free:
    """The disk is clean: offer the same volume again."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Forget:
    """The volume is gone and the disk is clean: the disk belongs to nobody."""


@dataclass(frozen=True, slots=True)
class TakeBack:
    """The disk cannot be offered any more, and nobody has claimed the volume."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Something that only a person can mend."""

    reason: str
    message: str


Action = Wait | Remember | Hold | Order | CallOff | Delete | Keep | Free | Forget | TakeBack | Tell


def decide(
    disk: LocalDisk, volume: PersistentVolume | None, *, owned: bool, holds: bool = True, retired: bool = False
) -> Action:
    """What to do with a disk whose volume's UID is recorded, or that somebody has ordered to be cleaned.

    `volume` is the one that has the recorded name; `owned` says whether it was made for this disk, `holds` whether
    volumes may be held by our finalizer, `retired` whether the LocalStorage that the disk was found by is going.
    """
    offered = disk.spec.volume
    if offered is None or not offered.uid:
        # An order that a person gave for a disk without a volume.
        return CallOff(cleaned=True) if is_verified(disk) else Wait()
    if volume is None or (volume.metadata.uid != offered.uid and not owned):
        return _without_volume(disk, offered.uid, offered.reclaim_policy)
    if not owned:
        message = f"Volume {volume.key} was not made for this disk; it is left alone."
        return Tell("NotOurVolume", message)
    if volume.metadata.uid != offered.uid:
        # Restored from a backup, or made anew by hand: the disk's data, whatever it is, goes with it.
        return Remember(volume)
    policy = volume.spec.persistent_volume_reclaim_policy
    if offered.reclaim_policy != policy:
        return Remember(volume)
    held = volumes.is_held(volume)
    if held and volume.metadata.deleting:
        return _leaving(disk, volume, policy)
    if holds and not held and not volume.metadata.deleting and not is_verified(disk):
        return Hold(volume)
    if volume.status.phase == "Released" and volume.spec.claim_ref is not None:
        return _released(disk, volume, policy, claim_uid=volume.spec.claim_ref.uid)
    if disk.spec.clean is not None:
        return CallOff(is_verified(disk))
    # One that somebody else keeps from going stays recorded, so that its disk is cleaned when it is gone.
    leaving = volume.metadata.deleting and not volumes.is_unused(volume)
    if volumes.is_unclaimed(volume) and (retired or volumes.is_withdrawn(disk)) and not leaving:
        return TakeBack()
    if disk.status.phase == Phase.MISSING:
        return Tell(DISK_MISSING, disk.status.message or f"{disk.spec.path} is not there any more.")
    return Wait()


def is_verified(disk: LocalDisk) -> bool:
    """Whether the cleaning that is ordered is done and was checked.

    An earlier one for the same volume is taken off the status before a new one is ordered, so none is mistaken for it.
    """
    order, cleaning = disk.spec.clean, disk.status.cleaning
    return (
        order is not None
        and cleaning is not None
        and cleaning.volume_uid == order.volume_uid
        and cleaning.state == CleaningState.VERIFIED
    )


def _released(disk: LocalDisk, volume: PersistentVolume, policy: str, *, claim_uid: str) -> Action:
    order = disk.spec.clean
    if policy != DELETE:
        if order is not None and order.claim_uid:
            return CallOff(is_verified(disk))
        if policy == RETAIN:
            # An order that names no claim is a person's, who wants this disk wiped in spite of the policy.
            return Wait()
        return _odd(volume, policy)
    if order is None or (order.volume_uid, order.claim_uid) != (volume.metadata.uid, claim_uid):
        return Order(claim_uid)
    if not is_verified(disk) or volume.metadata.deleting:
        return Wait()
    return Free(volume) if volume.metadata.annotations.get(labels.RECLAIM) == labels.RECYCLE else Delete(volume)


def _leaving(disk: LocalDisk, volume: PersistentVolume, policy: str) -> Action:
    """Somebody has deleted the volume, and it waits for us to let it go."""
    order, claim = disk.spec.clean, volume.spec.claim_ref
    if volumes.is_unused(volume):
        if order is None:
            return TakeBack()
        return Delete(volume) if is_verified(disk) else Wait()
    if volume.status.phase != "Released" and not volumes.is_unclaimed(volume):
        # In use, or nobody can tell: it is looked at again when it is released.
        return CallOff(is_verified(disk)) if order is not None else Wait()
    claim_uid = claim.uid if claim is not None else ""
    if policy == DELETE:
        if order is None or (order.volume_uid, order.claim_uid) != (volume.metadata.uid, claim_uid):
            return Order(claim_uid)
        return Delete(volume) if is_verified(disk) else Wait()
    if policy != RETAIN:
        return _odd(volume, policy)
    if order is None:
        return Keep(volume)
    if order.claim_uid or _used_since(volume, order.requested_at):
        return CallOff(is_verified(disk))
    # A person's order. Its claim is not known, so it must be younger than the last one.
    return Delete(volume) if is_verified(disk) else Wait()


def _used_since(volume: PersistentVolume, when: str | None) -> bool:
    """Whether the volume was bound or released after a moment: then by a claim that what was done before is not for."""
    changed = volume.status.last_phase_transition_time
    return changed is not None and when is not None and read_time(changed) > read_time(when)


def _odd(volume: PersistentVolume, policy: str) -> Tell:
    reason = "VolumeUnsupportedReclaimPolicy" if policy == labels.RECYCLE else "VolumeUnknownReclaimPolicy"
    return Tell(reason, f"Volume {volume.key} has the reclaim policy {policy}; set it to Delete or Retain.")


def _without_volume(disk: LocalDisk, uid: str, policy: str) -> Action:
    order = disk.spec.clean
    if order is not None and order.volume_uid == uid:
        return Forget() if is_verified(disk) else Wait()
    if policy == DELETE:
        return Order()
    return Tell(NOT_CLEANED, KEPT)
