"""What to do about a volume. It computes and never waits; the binder acts on it."""

from __future__ import annotations

from dataclasses import dataclass

from localpv.api import well_known
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.engine.binder import claims
from localpv.observe import claim_events
from localpv.observe.recorder import Notice
from localpv.volume import fit

MIGRATED_TO = "pv.kubernetes.io/migrated-to"

AVAILABLE = fit.AVAILABLE
BOUND = fit.BOUND
RELEASED = "Released"
FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class SetPhase:
    phase: str
    why: Notice | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """The claim seems to be gone. To be sure of that the server must be asked: what follows may be a wiped disk."""


@dataclass(frozen=True, slots=True)
class Unbind:
    """The volume names a claim that has another volume: it is free again, or reserved as it was before."""


@dataclass(frozen=True, slots=True)
class Disagree:
    """The volume is reserved for a claim that it can never be bound to."""

    for_claim: Notice
    for_volume: Notice


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing is to be done, or it is done with the claim."""


Action = SetPhase | Release | Unbind | Disagree | Leave


def decide(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> Action:
    """What to do about a volume; `claim` is the one with the name that the volume's claimRef has, if there is one."""
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return _in_phase(volume, AVAILABLE)
    if claim is None or claim.metadata.uid != reference.uid:
        return reclaim(volume) if is_released(volume) else Release()
    if not claim.spec.volume_name:
        if fit.same_mode(volume, claim):
            return Leave()  # the claim's turn finishes it
        return Disagree(*claim_events.other_mode(volume, claim))
    if claim.spec.volume_name == volume.metadata.name:
        return _in_phase(volume, BOUND)
    if (
        well_known.PROVISIONED_BY in volume.metadata.annotations
        and volume.spec.persistent_volume_reclaim_policy == "Delete"
    ):
        # Made for this claim, which has another: whoever made it takes it back.
        return reclaim(volume) if is_released(volume) else SetPhase(RELEASED)
    return Unbind()


def is_released(volume: PersistentVolume) -> bool:
    """Whether it was told already that the claim is gone. A failure stays visible, and is no other state."""
    return volume.status.phase in (RELEASED, FAILED)


def reclaim(volume: PersistentVolume) -> Action:
    """A released volume: who maintains its disk does the rest; if nobody does, that is told."""
    annotations = volume.metadata.annotations
    made_by = annotations.get(well_known.PROVISIONED_BY, "")
    outside = bool(made_by) and not made_by.startswith(claims.BUILT_IN)
    policy = volume.spec.persistent_volume_reclaim_policy
    if policy == "Retain" or MIGRATED_TO in annotations:
        return Leave()
    if policy == "Delete":
        if outside or (not made_by and volume.spec.csi is not None):
            return Leave()
        return _failed(
            volume, "VolumeFailedDelete", "nobody here can delete this kind of volume; set the policy Retain"
        )
    if policy == "Recycle":
        return _failed(volume, "VolumeFailedRecycle", "nobody here can recycle this kind of volume")
    return _failed(volume, "VolumeUnknownReclaimPolicy", f"the reclaim policy {policy} is not known")


def _failed(volume: PersistentVolume, reason: str, message: str) -> Action:
    return _in_phase(volume, FAILED, Notice(reason=reason, message=message, warning=True))


def _in_phase(volume: PersistentVolume, phase: str, why: Notice | None = None) -> Action:
    return Leave() if volume.status.phase == phase else SetPhase(phase, why)
