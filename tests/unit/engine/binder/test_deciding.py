"""What is to be done about a claim or a volume, as it follows from the two."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.volume.samples import claim, reference, storage_class, volume

from localpv.api import well_known
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.disk import labels
from localpv.engine.binder import claims, defaults, volumes
from localpv.engine.binder.claims import Ask, Assign, Bind, Listers, Lose, Stay
from localpv.engine.binder.volumes import Leave, Release, SetPhase, Unbind
from localpv.observe import claim_events
from localpv.volume.volume_index import VolumeIndex

COMPLETED = {well_known.BIND_COMPLETED: "yes"}


def decided(
    wish: PersistentVolumeClaim,
    *offered: PersistentVolume,
    of: StorageClass | None = None,
    default: str = "",
    promised: tuple[str, ...] = (),
) -> claims.Action:
    around = Listers(
        classes=lambda name: of if of is not None and of.key == name else None,
        default_class=lambda: default,
        unscheduled_pods=lambda key: (),
    )
    return claims.decide(wish, VolumeIndex(offered), around, promised=promised)


def reasons(action: claims.Action) -> list[str]:
    assert isinstance(action, Stay)
    return [one.reason for one in action.why]


def test_a_free_volume_that_fits_is_bound() -> None:
    assert decided(claim(), volume(), of=storage_class()) == Bind(volume())


def test_a_volume_promised_to_another_claim_is_not_bound() -> None:
    action = decided(claim(), volume("pv"), of=storage_class(), promised=("pv",))
    assert isinstance(action, Stay) and action.for_any


def test_a_claim_without_a_class_is_given_the_default() -> None:
    assert decided(claim(storageClassName=None), default="fast") == Assign("fast")
    assert reasons(decided(claim(storageClassName=""), default="fast")) == ["FailedBinding"]


def test_a_claim_without_a_class_takes_a_volume_without_one_before_the_default() -> None:
    plain = volume(storageClassName="")
    assert decided(claim(storageClassName=None), plain, default="fast") == Bind(plain)


def test_somebody_outside_is_asked_to_make_a_volume() -> None:
    outside = storage_class(provisioner="example.com/disks")
    assert decided(claim(), of=outside) == Ask("example.com/disks", for_any=True)


@pytest.mark.parametrize("provisioner", ["kubernetes.io/no-provisioner", "example.com/disks"])
def test_a_claim_of_a_class_that_waits_is_not_woken_by_volumes_that_become_free(provisioner: str) -> None:
    # It would not take them, and be woken again, for ever.
    wish = claim(annotations={well_known.SELECTED_NODE: "one"})
    action = decided(wish, volume(), of=storage_class(waits=True, provisioner=provisioner))
    assert isinstance(action, Ask | Stay) and not action.for_any


@pytest.mark.parametrize("annotation", [well_known.VOLUME_GROUP, labels.SPREAD])
def test_nothing_is_chosen_for_a_claim_with_a_wish_and_what_was_reserved_for_it_is_bound(annotation: str) -> None:
    wish = claim(annotations={annotation: "anything"})
    assert decided(wish, volume(), of=storage_class()) == Stay()
    reserved = volume(claimRef=reference())
    assert decided(wish, reserved, of=storage_class()) == Bind(reserved)


@pytest.mark.seed("RAW-11")
def test_why_no_volume_suits_is_counted() -> None:
    action = decided(claim(), volume("a", volumeMode="Block"), volume("b", volumeMode="Block"), of=storage_class())
    assert reasons(action) == ["ProvisioningFailed", "FailedBinding"]
    assert isinstance(action, Stay)
    assert "2 are of another volumeMode" in action.why[1].message


@pytest.mark.parametrize(
    ("wish", "offered", "expected"),
    [
        (claim(annotations=COMPLETED), (), Lose(claim_events.LOST_REFERENCE)),
        (claim(annotations=COMPLETED, volumeName="pv"), (), Lose(claim_events.LOST_VOLUME)),
        (
            claim(annotations=COMPLETED, volumeName="pv"),
            (volume("pv", claimRef=reference(uid="another")),),
            Lose(claim_events.MISBOUND),
        ),
    ],
)
def test_a_claim_that_was_bound_and_has_nothing_is_lost(
    wish: PersistentVolumeClaim, offered: tuple[PersistentVolume, ...], expected: claims.Action
) -> None:
    assert decided(wish, *offered) == expected


CLAIM = claim(uid="mine", volumeName="pv")
ELSEWHERE = claim(uid="mine", volumeName="another")
MINE = reference(uid="mine")
OURS = {"pv.kubernetes.io/provisioned-by": "localpv.dev/localpv"}


@pytest.mark.parametrize(
    ("of_volume", "holder", "expected"),
    [
        pytest.param({"phase": "Pending"}, None, SetPhase("Available"), id="nobody's"),
        pytest.param({"phase": "Released"}, None, SetPhase("Available"), id="freed by hand"),
        pytest.param({"phase": "Available"}, None, Leave(), id="free"),
        pytest.param({"phase": "Pending", "claimRef": reference()}, None, SetPhase("Available"), id="reserved"),
        pytest.param({"phase": "Available", "claimRef": MINE}, CLAIM, SetPhase("Bound"), id="bound"),
        pytest.param({"phase": "Bound", "claimRef": MINE}, CLAIM, Leave(), id="bound and told"),
        pytest.param({"phase": "Bound", "claimRef": MINE}, None, Release(), id="claim not heard of"),
        pytest.param({"phase": "Bound", "claimRef": MINE}, claim(uid="new"), Release(), id="claim made anew"),
        pytest.param({"phase": "Bound", "claimRef": MINE}, claim(uid="mine"), Leave(), id="half bound"),
        pytest.param({"phase": "Bound", "claimRef": MINE}, ELSEWHERE, Unbind(), id="claim has another"),
        pytest.param({"phase": "Released", "claimRef": MINE}, None, Leave(), id="retained"),
    ],
)
def test_a_volume_is_kept_in_the_phase_that_its_claim_gives_it(
    of_volume: dict[str, Any], holder: PersistentVolumeClaim | None, expected: volumes.Action
) -> None:
    assert volumes.decide(volume("pv", **of_volume), holder) == expected


@pytest.mark.parametrize(
    ("policy", "annotations", "reason"),
    [
        ("Delete", {}, "VolumeFailedDelete"),
        ("Delete", {"pv.kubernetes.io/provisioned-by": "kubernetes.io/gone"}, "VolumeFailedDelete"),
        ("Recycle", {}, "VolumeFailedRecycle"),
        ("Burn", {}, "VolumeUnknownReclaimPolicy"),
        ("Retain", {}, None),
        ("Delete", OURS, None),
        ("Delete", {"pv.kubernetes.io/migrated-to": "example.com"}, None),
    ],
)
def test_a_released_volume_fails_only_if_nobody_looks_after_it(
    policy: str, annotations: dict[str, str], reason: str | None
) -> None:
    released = volume(phase="Released", claimRef=MINE, annotations=annotations, persistentVolumeReclaimPolicy=policy)
    action = volumes.decide(released, None)
    if reason is None:
        assert action == Leave()
    else:
        assert isinstance(action, SetPhase) and action.why is not None
        assert (action.phase, action.why.reason) == ("Failed", reason)


def test_a_volume_made_for_a_claim_that_has_another_is_released_to_its_maker() -> None:
    made = volume(phase="Bound", claimRef=MINE, annotations=OURS, persistentVolumeReclaimPolicy="Delete")
    assert volumes.decide(made, ELSEWHERE) == SetPhase("Released")


def test_of_several_default_classes_the_youngest_counts() -> None:
    def marked(name: str, created: str, value: str = "true") -> StorageClass:
        annotations = {"storageclass.kubernetes.io/is-default-class": value}
        return storage_class(metadata={"name": name, "creationTimestamp": created, "annotations": annotations})

    old, young = marked("old", "2026-01-01T00:00:00Z"), marked("young", "2026-02-01T00:00:00Z")
    not_any_more = marked("never", "2026-03-01T00:00:00Z", "false")
    assert defaults.default_class([young, not_any_more, old]) == "young"
    assert defaults.default_class([not_any_more]) == ""
