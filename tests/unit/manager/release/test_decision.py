"""What is to be done with a disk of a volume: every situation, and its neighbours that differ in one thing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from localpv.api import well_known
from localpv.api.kinds.localdisk import (
    Cleaning,
    CleanOrder,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    OfferedVolume,
)
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import ClaimReference, PersistentVolume, PersistentVolumeSpec, PersistentVolumeStatus
from localpv.disk.labels import FINALIZER, RECLAIM
from localpv.manager.release import decision
from localpv.manager.release.decision import (
    Action,
    CallOff,
    Delete,
    Forget,
    Free,
    Hold,
    Keep,
    Order,
    Remember,
    TakeBack,
    Tell,
    Wait,
)

UID, CLAIM = "uid-1", "claim-1"
EARLIER, LATER = "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"
FOR_CLAIM = CleanOrder(volume_name="pv-1", volume_uid=UID, claim_uid=CLAIM, requested_at=EARLIER)
OF_A_PERSON = CleanOrder(volume_name="pv-1", volume_uid=UID, requested_at=LATER)
VERIFIED = Cleaning(volume_uid=UID, state="Verified")
FAILED = Cleaning(volume_uid=UID, state="Failed")


def a_disk(
    *,
    volume: OfferedVolume | None = None,
    policy: str = "Delete",
    order: CleanOrder | None = None,
    cleaning: Cleaning | None = None,
    **status: Any,
) -> LocalDisk:
    return LocalDisk(
        metadata=ObjectMeta(name="disk"),
        spec=LocalDiskSpec(
            node_name="n1",
            storage_class_name="fast",
            entry="a",
            path="/mnt/fast/a",
            volume_mode="Filesystem",
            volume=volume or OfferedVolume(name="pv-1", uid=UID, reclaim_policy=policy),
            clean=order,
        ),
        status=LocalDiskStatus(cleaning=cleaning, **{"phase": "Published", "eligible": True, **status}),
    )


def a_volume(
    phase: str = "Available",
    *,
    claim: str | None = None,
    policy: str = "Delete",
    uid: str = UID,
    held: bool = True,
    deleting: bool = False,
    changed: str | None = None,
    **annotations: str,
) -> PersistentVolume:
    return PersistentVolume(
        metadata=ObjectMeta(
            name="pv-1",
            uid=uid,
            finalizers=(FINALIZER,) if held else (),
            deletion_timestamp=LATER if deleting else None,
            annotations=annotations,
        ),
        spec=PersistentVolumeSpec(
            persistent_volume_reclaim_policy=policy,
            claim_ref=ClaimReference(name="c", namespace="ns", uid=claim) if claim is not None else None,
        ),
        status=PersistentVolumeStatus(phase=phase, last_phase_transition_time=changed),
    )


def without_volume(**spec: Any) -> LocalDisk:
    disk = a_disk(**spec)
    return msgspec.structs.replace(disk, spec=msgspec.structs.replace(disk.spec, volume=None))


def used(volume: PersistentVolume) -> PersistentVolume:
    """The binder has left its word on it: somebody had it."""
    meta = msgspec.structs.replace(volume.metadata, annotations={well_known.BOUND_BY_CONTROLLER: "yes"})
    return msgspec.structs.replace(volume, metadata=meta)


RELEASED = a_volume("Released", claim=CLAIM)
KEPT = a_volume("Released", claim=CLAIM, policy="Retain")
RECYCLED = a_volume("Released", claim=CLAIM, **{RECLAIM: "Recycle"})
GOING = a_volume("Released", claim=CLAIM, deleting=True)
KEPT_GOING = a_volume("Released", claim=CLAIM, policy="Retain", deleting=True, changed=EARLIER)
ODD_GOING = a_volume("Released", claim=CLAIM, policy="Burn", deleting=True)
BOUND_GOING = a_volume("Bound", claim=CLAIM, deleting=True)
UNUSED_GOING = a_volume(deleting=True)
LOOSE = a_volume(held=False)

SITUATIONS: dict[str, tuple[LocalDisk, PersistentVolume | None, Action | str]] = {
    # A disk without a volume, which a person has ordered to be cleaned.
    "a person's order, not done": (without_volume(order=OF_A_PERSON), None, Wait()),
    "a person's order, failed": (without_volume(order=OF_A_PERSON, cleaning=FAILED), None, Wait()),
    "a person's order, done": (without_volume(order=OF_A_PERSON, cleaning=VERIFIED), None, CallOff(cleaned=True)),
    "a volume whose UID is not known": (a_disk(volume=OfferedVolume(name="pv-1")), a_volume(), Wait()),
    # The volume is gone.
    "gone, never ordered": (a_disk(), None, Order()),
    "gone, ordered": (a_disk(order=FOR_CLAIM), None, Wait()),
    "gone, clean": (a_disk(order=FOR_CLAIM, cleaning=VERIFIED), None, Forget()),
    "gone, clean for another": (
        a_disk(order=FOR_CLAIM, cleaning=Cleaning(volume_uid="uid-0", state="Verified")),
        None,
        Wait(),
    ),
    "gone, ordered for another": (
        a_disk(order=CleanOrder(volume_name="pv-0", volume_uid="uid-0"), cleaning=VERIFIED),
        None,
        Order(),
    ),
    "gone, verified without an order": (a_disk(cleaning=VERIFIED), None, Order()),
    "gone, kept": (a_disk(policy="Retain"), None, Tell(decision.NOT_CLEANED, decision.KEPT)),
    "gone, kept, ordered": (a_disk(policy="Retain", order=OF_A_PERSON), None, Wait()),
    "gone, kept, clean": (a_disk(policy="Retain", order=OF_A_PERSON, cleaning=VERIFIED), None, Forget()),
    # The volume is another one.
    "replaced": (a_disk(), a_volume(uid="uid-2"), Remember(a_volume(uid="uid-2"))),
    "another policy": (a_disk(policy="Retain"), RELEASED, Remember(RELEASED)),
    # It is not held.
    "not held": (a_disk(), LOOSE, Hold(LOOSE)),
    "not held, released": (
        a_disk(),
        a_volume("Released", claim=CLAIM, held=False),
        Hold(a_volume("Released", claim=CLAIM, held=False)),
    ),
    "not held and going": (a_disk(), a_volume(held=False, deleting=True), Wait()),
    "not held, released and clean": (
        a_disk(order=FOR_CLAIM, cleaning=VERIFIED),
        a_volume("Released", claim=CLAIM, held=False),
        Delete(a_volume("Released", claim=CLAIM, held=False)),
    ),
    # It is released.
    "released": (a_disk(), RELEASED, Order(CLAIM)),
    "released, ordered": (a_disk(order=FOR_CLAIM), RELEASED, Wait()),
    "released, failed": (a_disk(order=FOR_CLAIM, cleaning=FAILED), RELEASED, Wait()),
    "released, clean": (a_disk(order=FOR_CLAIM, cleaning=VERIFIED), RELEASED, Delete(RELEASED)),
    "released, clean, recycled": (a_disk(order=FOR_CLAIM, cleaning=VERIFIED), RECYCLED, Free(RECYCLED)),
    "released by another claim": (
        a_disk(order=FOR_CLAIM, cleaning=VERIFIED),
        a_volume("Released", claim="claim-2"),
        Order("claim-2"),
    ),
    "released, ordered for another volume": (
        a_disk(order=CleanOrder(volume_name="pv-0", volume_uid="uid-0", claim_uid=CLAIM)),
        RELEASED,
        Order(CLAIM),
    ),
    "released without a claim": (a_disk(), a_volume("Released"), Wait()),
    "released, clean, not held and going": (
        a_disk(order=FOR_CLAIM, cleaning=VERIFIED),
        a_volume("Released", claim=CLAIM, held=False, deleting=True),
        Wait(),
    ),
    "kept": (a_disk(policy="Retain"), KEPT, Wait()),
    "kept, a person's order": (a_disk(policy="Retain", order=OF_A_PERSON), KEPT, Wait()),
    "kept, a person's order, done": (a_disk(policy="Retain", order=OF_A_PERSON, cleaning=VERIFIED), KEPT, Wait()),
    "kept, ordered before": (a_disk(policy="Retain", order=FOR_CLAIM), KEPT, CallOff(cleaned=False)),
    "kept, cleaned before": (
        a_disk(policy="Retain", order=FOR_CLAIM, cleaning=VERIFIED),
        KEPT,
        CallOff(cleaned=True),
    ),
    "the policy of old": (
        a_disk(policy="Recycle"),
        a_volume("Released", claim=CLAIM, policy="Recycle"),
        "VolumeUnsupportedReclaimPolicy",
    ),
    "no known policy": (
        a_disk(policy="Burn"),
        a_volume("Released", claim=CLAIM, policy="Burn"),
        "VolumeUnknownReclaimPolicy",
    ),
    # It is not released.
    "offered": (a_disk(), a_volume(), Wait()),
    "in use": (a_disk(), a_volume("Bound", claim=CLAIM), Wait()),
    "in use again while it is cleaned": (
        a_disk(order=FOR_CLAIM),
        a_volume("Bound", claim="claim-2"),
        CallOff(cleaned=False),
    ),
    "in use again after it was cleaned": (
        a_disk(order=FOR_CLAIM, cleaning=VERIFIED),
        a_volume("Bound", claim="claim-2"),
        CallOff(cleaned=True),
    ),
    "offered, not fit any more": (a_disk(eligible=False), a_volume(), TakeBack()),
    "offered, missing": (a_disk(eligible=False, phase="Missing"), a_volume(), TakeBack()),
    "offered, nobody has looked": (a_disk(eligible=None), a_volume(), Wait()),
    "in use, not fit any more": (a_disk(eligible=False), a_volume("Bound", claim=CLAIM), Wait()),
    "in use, missing": (a_disk(eligible=False, phase="Missing"), a_volume("Bound", claim=CLAIM), "DiskMissing"),
    # Somebody has deleted it, and only others hold it.
    "going without us, used and not fit any more": (
        a_disk(eligible=False),
        used(a_volume(held=False, deleting=True)),
        Wait(),
    ),
    "going without us, unused and not fit any more": (
        a_disk(eligible=False),
        a_volume(held=False, deleting=True),
        TakeBack(),
    ),
    "going without us, in use and missing": (
        a_disk(eligible=False, phase="Missing"),
        a_volume("Bound", claim=CLAIM, held=False, deleting=True),
        "DiskMissing",
    ),
    # Somebody has deleted it.
    "going, unused": (a_disk(), UNUSED_GOING, TakeBack()),
    "going, unused, ordered": (a_disk(order=FOR_CLAIM), UNUSED_GOING, Wait()),
    "going, unused, clean": (a_disk(order=FOR_CLAIM, cleaning=VERIFIED), UNUSED_GOING, Delete(UNUSED_GOING)),
    "going, in use": (a_disk(), BOUND_GOING, Wait()),
    "going, in use, ordered": (a_disk(order=FOR_CLAIM), BOUND_GOING, CallOff(cleaned=False)),
    "going, in use, cleaned": (a_disk(order=FOR_CLAIM, cleaning=VERIFIED), BOUND_GOING, CallOff(cleaned=True)),
    "going, released": (a_disk(), GOING, Order(CLAIM)),
    "going, released, ordered": (a_disk(order=FOR_CLAIM), GOING, Wait()),
    "going, released, ordered for another claim": (
        a_disk(order=msgspec.structs.replace(FOR_CLAIM, claim_uid="claim-2")),
        GOING,
        Order(CLAIM),
    ),
    "going, released, clean": (a_disk(order=FOR_CLAIM, cleaning=VERIFIED), GOING, Delete(GOING)),
    "going, its claim taken off": (a_disk(), used(a_volume(deleting=True)), Order("")),
    "going, kept": (a_disk(policy="Retain"), KEPT_GOING, Keep(KEPT_GOING)),
    "going, kept, ordered": (a_disk(policy="Retain", order=FOR_CLAIM), KEPT_GOING, CallOff(cleaned=False)),
    "going, kept, cleaned": (
        a_disk(policy="Retain", order=FOR_CLAIM, cleaning=VERIFIED),
        KEPT_GOING,
        CallOff(cleaned=True),
    ),
    "going, kept, a person's order": (a_disk(policy="Retain", order=OF_A_PERSON), KEPT_GOING, Wait()),
    "going, kept, a person's order, done": (
        a_disk(policy="Retain", order=OF_A_PERSON, cleaning=VERIFIED),
        KEPT_GOING,
        Delete(KEPT_GOING),
    ),
    "going, kept, a person's order in the same second": (
        a_disk(policy="Retain", order=msgspec.structs.replace(OF_A_PERSON, requested_at=EARLIER), cleaning=VERIFIED),
        KEPT_GOING,
        Delete(KEPT_GOING),
    ),
    "going, kept, used since the person's order": (
        a_disk(policy="Retain", order=msgspec.structs.replace(OF_A_PERSON, requested_at=EARLIER), cleaning=VERIFIED),
        a_volume("Released", claim=CLAIM, policy="Retain", deleting=True, changed=LATER),
        CallOff(cleaned=True),
    ),
    "going, kept, nobody knows since when": (
        a_disk(policy="Retain", order=OF_A_PERSON, cleaning=VERIFIED),
        a_volume("Released", claim=CLAIM, policy="Retain", deleting=True),
        Delete(a_volume("Released", claim=CLAIM, policy="Retain", deleting=True)),
    ),
    "going, kept, nobody knows when it was ordered": (
        a_disk(policy="Retain", order=msgspec.structs.replace(OF_A_PERSON, requested_at=None), cleaning=VERIFIED),
        KEPT_GOING,
        Delete(KEPT_GOING),
    ),
    "going, no known policy": (a_disk(policy="Burn"), ODD_GOING, "VolumeUnknownReclaimPolicy"),
}


@pytest.mark.parametrize(("disk", "volume", "action"), SITUATIONS.values(), ids=SITUATIONS)
def test_each_situation_has_its_action(disk: LocalDisk, volume: PersistentVolume | None, action: Action | str) -> None:
    decided = decision.decide(disk, volume, owned=volume is not None)
    if isinstance(action, str):
        assert isinstance(decided, Tell) and decided.reason == action and decided.message
    else:
        assert decided == action


@pytest.mark.parametrize(("disk", "volume", "action"), SITUATIONS.values(), ids=SITUATIONS)
def test_volume_that_was_not_made_for_the_disk_is_left_alone(
    disk: LocalDisk, volume: PersistentVolume | None, action: Action | str
) -> None:
    offered = disk.spec.volume
    decided = decision.decide(disk, volume, owned=False)
    if volume is None or offered is None or not offered.uid:
        return
    if volume.metadata.uid == offered.uid:
        assert isinstance(decided, Tell) and decided.reason == "NotOurVolume"
    else:
        assert decided == decision.decide(disk, None, owned=False)


def test_where_volumes_may_not_be_held_they_are_cleaned_all_the_same() -> None:
    loose = a_volume("Released", claim=CLAIM, held=False)
    assert decision.decide(a_disk(), LOOSE, owned=True, holds=False) == Wait()
    assert decision.decide(a_disk(), loose, owned=True, holds=False) == Order(CLAIM)
    assert decision.decide(a_disk(), loose, owned=True) == Hold(loose)


def test_offer_of_a_local_storage_that_goes_is_taken_back_before_its_agent_has_heard_of_it() -> None:
    claimed, unclaimed = a_volume("Bound", claim=CLAIM), a_volume("Available")
    assert decision.decide(a_disk(), unclaimed, owned=True) == Wait()
    assert decision.decide(a_disk(), unclaimed, owned=True, retired=True) == TakeBack()
    assert decision.decide(a_disk(), claimed, owned=True, retired=True) == Wait()
    assert decision.decide(a_disk(), a_volume("Released", claim=CLAIM), owned=True, retired=True) == Order(CLAIM)


def test_missing_disk_is_told_in_the_words_of_who_looked() -> None:
    bound = a_volume("Bound", claim=CLAIM)
    seen = a_disk(phase="Missing", message="pulled out")
    assert decision.decide(seen, bound, owned=True) == Tell("DiskMissing", "pulled out")
    unsaid = decision.decide(a_disk(phase="Missing"), bound, owned=True)
    assert isinstance(unsaid, Tell) and "/mnt/fast/a" in unsaid.message
