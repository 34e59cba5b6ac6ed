"""Only what nobody uses is wiped, and what is refused is refused by name."""

from __future__ import annotations

import pytest
from tests.unit.cli import builders

from localpv import errors
from localpv.cli import wipe


def test_a_retained_volume_is_wiped_for_its_own_uid() -> None:
    plan = wipe.make_plan(builders.disk(phase="Releasing"), [builders.volume()], ("shred", "1"))
    assert plan.spec is not None
    assert plan.spec.clean is not None
    assert (plan.spec.clean.volume_uid, plan.spec.clean.method) == (builders.UID, ("shred", "1"))
    assert plan.spec.clean.requested_at


def test_an_order_names_the_claim_unless_the_volume_is_retained() -> None:
    for policy, claim in (("Retain", ""), ("Delete", "uid-of-claim")):
        volume = builders.volume(persistentVolumeReclaimPolicy=policy)
        plan = wipe.make_plan(builders.disk(phase="Releasing"), [volume])
        assert plan.spec is not None
        assert plan.spec.clean is not None
        assert plan.spec.clean.claim_uid == claim


def test_a_disk_whose_volume_was_deleted_is_wiped_for_that_volume() -> None:
    disk = builders.disk(phase="Unavailable", status={"reason": "NotCleaned", "eligible": False})
    plan = wipe.make_plan(disk, [])
    assert plan.spec is not None
    assert plan.spec.clean is not None
    assert plan.spec.clean.volume_uid == builders.UID


def test_a_bound_volume_is_refused_with_its_claim() -> None:
    with pytest.raises(errors.ConfigurationError, match="local-pv-1 is bound to claim default/data") as refused:
        wipe.make_plan(builders.disk(phase="Releasing"), [builders.volume("Bound")])
    assert "delete the claim default/data" in refused.value.hint


@pytest.mark.parametrize("phase", ["Available", "Pending", "Failed", ""])
def test_a_volume_that_is_not_released_is_refused(phase: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="local-pv-1"):
        wipe.make_plan(builders.disk(phase="Releasing"), [builders.volume(phase)])


@pytest.mark.parametrize("path", ["/mnt/fast/nvme1", "/mnt/fast/nvme1/"])
def test_a_volume_that_somebody_else_made_for_the_same_path_protects_the_disk(path: str) -> None:
    foreign = builders.volume("Bound", name="by-hand", uid="other", path=path)
    with pytest.raises(errors.ConfigurationError, match="volume by-hand is bound"):
        wipe.make_plan(builders.disk(phase="Releasing"), [builders.volume(), foreign])


def test_a_volume_of_the_same_path_on_another_node_does_not_matter() -> None:
    disk = builders.disk(node="node-b", phase="Releasing", spec={"volume": {"name": "local-pv-9", "uid": "nine"}})
    assert wipe.make_plan(disk, [builders.volume("Bound")]).spec is not None


def test_a_later_volume_of_the_same_name_and_path_protects_the_disk_too() -> None:
    with pytest.raises(errors.ConfigurationError, match="is bound"):
        wipe.make_plan(builders.disk(phase="Unavailable"), [builders.volume("Bound", uid="later")])


@pytest.mark.parametrize("phase", ["InUse", "Missing"])
def test_a_disk_that_is_mounted_or_not_there_is_refused(phase: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="node-a/nvme1 is"):
        wipe.make_plan(builders.disk(phase=phase), [builders.volume()])


def test_only_of_a_disk_that_was_cleaned_it_is_said_to_be_clean() -> None:
    offered = builders.disk(phase="Published")
    cleaned = builders.disk(
        phase="Published",
        status={"cleaning": {"volumeUID": "old", "state": "Verified", "finishedAt": "2030-01-01T00:00:00Z"}},
    )
    with pytest.raises(errors.ConfigurationError, match="any claim may take") as refused:
        wipe.make_plan(offered, [builders.volume("Available")])
    assert "what it held when it was found is still on it" in refused.value.hint
    with pytest.raises(errors.ConfigurationError, match="any claim may take") as refused:
        wipe.make_plan(cleaned, [builders.volume("Available")])
    assert "cleaned at 2030-01-01" in refused.value.hint


def test_a_disk_that_is_about_to_be_offered_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match="about to be offered"):
        wipe.make_plan(builders.disk(phase="Available", spec={"volume": None}), [])
    with pytest.raises(errors.ConfigurationError, match="about to be offered"):
        wipe.make_plan(builders.disk(phase="Available", spec={"volume": {"name": "local-pv-1"}}), [])


@pytest.mark.parametrize("state", ["Waiting", "Running", "Verified"])
def test_a_disk_that_is_being_wiped_is_only_followed(state: str) -> None:
    assert wipe.make_plan(builders.cleaned(state=state), [builders.volume()]).spec is None


def test_another_method_for_a_wiping_under_way_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match="with shred 3"):
        wipe.make_plan(builders.cleaned(), [builders.volume()], ("fs-reset",))


def test_a_failed_order_gives_way_to_a_new_one_for_the_same_volume() -> None:
    plan = wipe.make_plan(builders.cleaned(state="Failed"), [builders.volume()], ("fs-reset",))
    assert plan.spec is not None
    assert plan.spec.clean is not None
    assert (plan.spec.clean.volume_uid, plan.spec.clean.method) == (builders.UID, ("fs-reset",))
    assert plan.spec.clean.claim_uid == "uid-of-claim", "the manager takes an order for another claim back"


def test_nobody_can_have_a_program_run_on_a_node() -> None:
    with pytest.raises(errors.LocalpvError):
        wipe.make_plan(builders.disk(phase="Releasing"), [builders.volume()], ("/bin/sh", "-c", "true"))


def test_what_will_be_destroyed_is_announced() -> None:
    text = "\n".join(wipe.announcement(wipe.make_plan(builders.disk(phase="Releasing"), [builders.volume()]), ()))
    for part in (
        "node-a/nvme1",
        "/mnt/fast/nvme1",
        "10Gi",
        "SN-node-a-nvme1",
        "local-pv-1",
        "default/data",
        "class fast",
    ):
        assert part in text


@pytest.mark.parametrize("reason", ["DuplicateDevice", "MatchedByOtherEngine"])
def test_a_disk_that_somebody_else_may_have_is_refused_with_the_reason(reason: str) -> None:
    status = {"reason": reason, "message": "It is the same disk as entry a of class fast.", "eligible": False}
    disk = builders.disk(phase="Unavailable", spec={"volume": None}, status=status)
    with pytest.raises(errors.ConfigurationError, match="may be somebody else's: It is the same disk as entry a"):
        wipe.make_plan(disk, [])
