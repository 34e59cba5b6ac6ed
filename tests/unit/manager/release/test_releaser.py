"""A released volume becomes a free disk, and only through a verified cleaning."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from tests.unit.manager import worlds
from tests.unit.manager.worlds import CLASS, World, replace, settings

from localpv import errors
from localpv.api.kinds.localdisk import Cleaning, CleaningState, CleanOrder, DiskKind, OfferedVolume, Phase
from localpv.config import local_storage
from localpv.config.settings import Configuration, Reclaim
from localpv.disk import labels
from localpv.manager.publish import names
from localpv.manager.release import decision
from localpv.runtime.controller import Done, LookAgain
from localpv.testing.clock import FakeClock


@pytest.fixture
def world() -> World:
    return World()


def finish(world: World) -> None:
    """The agent sees what the manager has written, the manager what the agent has."""
    for _ in range(3):
        world.settle()
        world.look()
    world.settle()


def test_words_on_volumes_are_those_that_publishing_writes() -> None:
    assert labels.RECYCLE == Reclaim.RECYCLE
    assert {decision.DELETE, decision.RETAIN} == {Reclaim.DELETE, Reclaim.RETAIN}


@pytest.mark.seed("DEL-1", "DEL-6")
def test_released_volume_is_cleaned_then_deleted_then_offered_anew(world: World) -> None:
    first = world.released()
    world.settle()
    order = world.disk.spec.clean
    assert order is not None
    assert (order.volume_uid, order.volume_name, order.method) == (first.metadata.uid, first.key, ("fs-clean",))
    assert first.spec.claim_ref is not None and order.claim_uid == first.spec.claim_ref.uid
    world.clean(CleaningState.RUNNING)
    world.settle()
    assert world.volume is not None
    world.clean()
    world.settle()
    assert world.volume is None
    assert (world.disk.spec.volume, world.disk.spec.clean, world.disk.spec.identity) == (None, None, None)
    world.look()
    world.settle()
    assert world.volume is not None and world.volume.metadata.uid != first.metadata.uid


@pytest.mark.parametrize("change", ["gone", "another volume", "no volume"])
def test_record_that_is_another_one_by_now_is_not_acted_upon(world: World, change: str) -> None:
    world.released()
    world.see()
    world.records.checks.clear()
    if change == "gone":
        del world.records.disks[world.name]
    else:
        other = OfferedVolume(name="another", uid="another") if change == "another volume" else None
        world.records.change(world.disk, spec=replace(world.disk.spec, volume=other))
    before = dict(world.records.disks), dict(world.volumes.now)
    assert world.step() == Done()
    assert (world.records.disks, world.volumes.now) == before


def test_device_is_cleaned_with_the_cleaner_for_devices(world: World) -> None:
    world.released()
    world.report(kind=DiskKind.BLOCK_DEVICE)
    world.settle()
    assert world.disk.spec.clean is not None and world.disk.spec.clean.method == ("fs-reset",)


@pytest.mark.seed("DEL-2")
@pytest.mark.parametrize("policy", ["Delete", "Retain", "Recycle", "Odd"])
@pytest.mark.parametrize("phase", ["Pending", "Available", "Bound", "Released", "Failed"])
def test_only_released_volumes_with_policy_delete_are_ordered_to_be_cleaned(
    world: World, phase: str, policy: str
) -> None:
    world.published()
    world.bind()
    world.policy(policy)
    assert world.volume is not None
    world.volumes.phase(world.volume.key, phase)
    world.settle()
    assert (world.disk.spec.clean is not None) is ((phase, policy) == ("Released", "Delete"))
    assert world.volume is not None


def test_odd_reclaim_policy_is_told_once(world: World) -> None:
    world.released()
    world.policy("Recycle")
    world.settle()
    world.settle()
    assert world.events.reasons(world.volume.key if world.volume else "").count("VolumeUnsupportedReclaimPolicy") == 1


@pytest.mark.seed("DEL-4", "DEL-5")
def test_volume_stays_when_its_cleaning_fails(world: World) -> None:
    first = world.released()
    world.settle()
    world.clean(CleaningState.FAILED, error="no luck")
    finish(world)
    assert world.volume is not None and world.volume.metadata.uid == first.metadata.uid
    assert world.disk.spec.clean is not None
    reasons = world.events.reasons(first.key)
    assert reasons.count("CleaningFailed") == reasons.count("VolumeFailedDelete") == 1
    world.clean()
    finish(world)
    assert world.volume is not None and world.volume.metadata.uid != first.metadata.uid


@pytest.mark.seed("DEL-3")
def test_deletion_that_fails_is_tried_again(world: World) -> None:
    first = world.released()
    world.settle()
    world.clean()
    world.see()
    world.weather.calls_left, world.weather.error = 2, lambda: errors.InternalError("no")
    with pytest.raises(errors.InternalError):
        world.step()
    assert world.volume is not None and world.volume.metadata.uid == first.metadata.uid
    assert "VolumeFailedDelete" in world.events.reasons(first.key)
    world.settle()
    assert world.volume is None


@pytest.mark.seed("DEL-3", "DEL-8")
@pytest.mark.parametrize("takes_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("calls", range(14))
@pytest.mark.parametrize("reclaim", [Reclaim.DELETE, Reclaim.RECYCLE])
def test_manager_that_dies_at_any_call_of_a_release_brings_the_disk_back_clean(
    reclaim: Reclaim, calls: int, takes_effect: bool
) -> None:
    world = World(reclaim=reclaim)
    first = world.released()
    world.weather.calls_left, world.weather.takes_effect = calls, takes_effect
    deaths = 0
    for _ in range(8):
        try:
            world.settle()
        except worlds.Killed:
            deaths += 1
            world.restart()
        if world.volume is not None and world.volume.status.phase == "Released" and not world.volume.spec.claim_ref:
            world.volumes.phase(world.volume.key, "Available")
        cleaning = world.disk.status.cleaning
        if world.disk.spec.clean is not None and (cleaning is None or cleaning.state != CleaningState.VERIFIED):
            world.clean()
        else:
            world.look()
    world.settle()
    assert world.volume is not None and world.volume.status.phase == "Available"
    assert (world.volume.metadata.uid == first.metadata.uid) is (reclaim is Reclaim.RECYCLE)
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == world.volume.metadata.uid
    assert world.disk.spec.clean is None
    assert world.dirty == ""
    assert deaths <= 1


def test_volume_that_others_hold_by_finalizers_is_waited_for(world: World) -> None:
    world.released()
    world.settle()
    world.volumes.set_others("others/hold")
    world.clean()
    finish(world)
    assert world.volume is not None and world.volume.metadata.deleting
    assert world.disk.spec.clean is not None, "the disk belongs to the volume as long as it is there"
    world.volumes.set_others()
    finish(world)
    assert world.volume is not None and not world.volume.metadata.deleting


# Deleted by hand.


@pytest.mark.parametrize("holds", [True, False], ids=["held", "not held"])
@pytest.mark.parametrize("begun", [True, False], ids=["during", "before"])
@pytest.mark.seed("DEL-9")
def test_volume_deleted_by_hand_before_its_cleaning_ends_comes_back_only_after_it(
    world: World, begun: bool, holds: bool
) -> None:
    world.volumes.holds = holds
    first = world.released()
    if begun:
        world.settle()
        world.clean(CleaningState.RUNNING)
        world.settle()
    world.volumes.remove(first.key)
    finish(world)
    assert (world.volume is not None and world.volume.metadata.deleting) is holds
    assert world.disk.spec.clean is not None and world.disk.spec.clean.volume_uid == first.metadata.uid
    world.clean()
    finish(world)
    assert world.volume is not None and world.volume.metadata.uid != first.metadata.uid


def test_kept_volume_deleted_by_hand_leaves_its_disk_as_it_is_and_says_so(world: World) -> None:
    world.published()
    world.bind()
    world.policy("Retain")
    world.settle()
    world.release()
    world.settle()
    assert world.volume is not None
    world.volumes.remove(world.volume.key)
    finish(world)
    assert world.volume is None
    assert world.disk.spec.clean is None
    assert world.disk.spec.volume is not None
    assert world.disk.status.conditions[0].reason == "NotCleaned"
    assert "localpv wipe" in world.disk.status.conditions[0].message


def test_person_who_wipes_such_a_disk_gets_it_offered_again(world: World) -> None:
    test_kept_volume_deleted_by_hand_leaves_its_disk_as_it_is_and_says_so(world)
    offered = world.disk.spec.volume
    assert offered is not None
    order = CleanOrder(volume_name=offered.name, volume_uid=offered.uid)
    world.records.change(world.disk, spec=replace(world.disk.spec, clean=order))
    finish(world)
    world.clean()
    finish(world)
    assert world.volume is not None
    assert world.disk.status.conditions == ()


def test_person_may_wipe_the_disk_of_a_kept_volume_which_stays(world: World) -> None:
    first = world.released()
    world.policy("Retain")
    world.settle()
    offered = world.disk.spec.volume
    assert offered is not None
    order = CleanOrder(volume_name=offered.name, volume_uid=offered.uid)
    world.records.checks.clear()
    world.records.change(world.disk, spec=replace(world.disk.spec, clean=order))
    finish(world)
    assert world.disk.spec.clean == order
    world.clean()
    finish(world)
    assert world.volume is not None and world.volume.metadata.uid == first.metadata.uid


def test_order_for_a_disk_without_a_volume_ends_with_its_cleaning(world: World) -> None:
    world.find_disk()
    world.report(eligible=False, phase=Phase.UNAVAILABLE)
    world.records.checks.clear()
    order = CleanOrder(volume_name="by-hand", volume_uid="by-hand-1")
    spec = replace(world.disk.spec, clean=order, identity=world.disk.status.identity)
    world.records.change(world.disk, spec=spec)
    finish(world)
    assert (world.disk.spec.clean, world.volume) == (order, None)
    world.clean()
    finish(world)
    assert world.disk.spec.clean is None
    assert world.volume is not None


def test_disk_without_a_volume_that_was_cleaned_is_not_tied_to_what_it_was(world: World) -> None:
    world.find_disk()
    world.fits = False
    world.report(eligible=False, phase=Phase.UNAVAILABLE)
    world.records.checks.clear()
    order = CleanOrder(volume_name="by-hand", volume_uid="by-hand-1")
    world.records.change(world.disk, spec=replace(world.disk.spec, clean=order, identity=world.disk.status.identity))
    finish(world)
    world.clean()
    finish(world)
    assert (world.disk.spec.clean, world.disk.spec.identity, world.volume) == (None, None, None)


# Offered again.


@pytest.mark.seed("LVD-4")
def test_recycled_volume_is_the_same_and_available_after_cleaning() -> None:
    world = World(reclaim=Reclaim.RECYCLE)
    first = world.released()
    world.settle()
    world.clean()
    world.settle()
    assert world.volume is not None and world.volume.metadata.uid == first.metadata.uid
    assert world.volume.spec.claim_ref is None
    world.volumes.phase(first.key, "Available")
    finish(world)
    assert world.disk.spec.clean is None
    assert world.disk.spec.volume == OfferedVolume(name=first.key, uid=first.metadata.uid, reclaim_policy="Delete")


def test_recycled_raw_volume_is_not_offered_with_what_a_weaker_method_left() -> None:
    """The order is from before an upgrade, whose default was another, or a person has named the method."""
    world = World(reclaim=Reclaim.RECYCLE)
    disk = world.find_disk(kind=DiskKind.BLOCK_DEVICE)
    world.records.change(disk, spec=replace(disk.spec, volume_mode="Block"))
    finish(world)
    world.bind()
    world.settle()
    world.release()
    world.settle()
    order = world.disk.spec.clean
    assert order is not None and order.method == ("zeroout",)
    world.records.change(world.disk, spec=replace(world.disk.spec, clean=replace(order, method=("fs-reset",))))
    world.clean()
    finish(world)
    assert world.volume is None, "the next tenant would read what the last one wrote"
    finish(world)
    (told,) = [each for each in world.disk.status.conditions if each.reason == labels.NOT_ERASED]
    assert "localpv wipe" in told.message


@pytest.mark.seed("LVD-4")
def test_cleaning_for_an_earlier_claim_does_not_pass_for_that_of_a_later_one() -> None:
    world = World(reclaim=Reclaim.RECYCLE)
    test = world.released()
    world.settle()
    world.clean()
    world.see()
    world.step()
    # The manager is down from here, after it has freed the volume: the next tenant comes and goes.
    world.volumes.phase(test.key, "Available")
    world.bind()
    world.release()
    world.restart()
    world.settle()
    assert world.volume is not None and world.volume.spec.claim_ref is not None, "not freed a second time"
    assert world.disk.spec.clean is not None and world.disk.spec.clean.claim_uid == "claim-2"
    assert world.disk.status.cleaning is None, "the agent must clean again"


def test_user_who_offers_a_released_volume_by_hand_stops_its_cleaning(world: World) -> None:
    first = world.released()
    world.settle()
    assert world.disk.spec.clean is not None
    world.volumes.change(first.key, spec=replace(first.spec, claim_ref=None))
    world.volumes.phase(first.key, "Available")
    world.settle()
    assert world.disk.spec.clean is None
    assert "CleaningCalledOff" in world.events.reasons(first.key)


def test_policy_changed_to_retain_stops_the_cleaning(world: World) -> None:
    world.released()
    world.settle()
    world.policy("Retain")
    world.settle()
    assert world.disk.spec.clean is None
    assert world.volume is not None


def test_recycled_disk_is_recorded_with_the_file_system_that_cleaning_made() -> None:
    world = World(reclaim=Reclaim.RECYCLE)
    world.released()
    world.settle()
    world.clean()
    world.report(identity=replace(world.disk.status.identity, fs_uuid="new"))
    world.settle()
    assert world.volume is not None
    world.volumes.phase(world.volume.key, "Available")
    world.settle()
    assert world.disk.spec.identity is not None and world.disk.spec.identity.fs_uuid == "new"


# Others' volumes, and what cannot be done.


def test_volume_of_another_disk_is_never_touched_on_behalf_of_a_forged_record(world: World) -> None:
    victim = world.released()
    world.records.checks.clear()
    forged = world.find_disk("evil")
    order = CleanOrder(volume_name=victim.key, volume_uid=victim.metadata.uid)
    spec = replace(forged.spec, volume=OfferedVolume(name=victim.key, uid=victim.metadata.uid), clean=order)
    forged = world.records.change(forged, spec=spec)
    done = Cleaning(volume_uid=victim.metadata.uid, state=CleaningState.VERIFIED)
    world.records.change(forged, status=replace(forged.status, cleaning=done))
    world.settle()
    assert world.volume is not None and world.volume.metadata.uid == victim.metadata.uid
    assert world.volume.spec.claim_ref is not None


@pytest.mark.parametrize("phase", ["Available", "Bound", "Released"])
def test_volume_with_the_recorded_uid_is_left_alone_when_it_was_not_made_for_the_disk(world: World, phase: str) -> None:
    world.released()
    world.volumes.phase(names.volume_name("disk1", worlds.NODE, CLASS), phase)
    action = decision.decide(world.disk, world.volume, owned=False)
    assert isinstance(action, decision.Tell) and action.reason == "NotOurVolume"


def test_volume_made_anew_by_somebody_takes_the_place_of_the_old(world: World) -> None:
    first = world.published()
    world.bind()
    world.settle()
    bound = world.volumes.now[first.key]
    world.volumes.now[first.key] = replace(bound, metadata=replace(bound.metadata, uid="restored"))
    world.settle()
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == "restored"
    assert world.disk.spec.clean is None
    assert "VolumeReplaced" in world.events.reasons(first.key)


@pytest.mark.seed("OPR-17", "OPR-18")
def test_disk_of_a_local_storage_that_is_gone_is_offered_again_only_after_all_of_it_was_cleaned(world: World) -> None:
    """Deletion does not wait for a node that is away; it comes back with a volume, and later a LocalStorage has it."""
    folder = f"/dev/{local_storage.LINKS}/{CLASS}/filesystem"
    its = dataclasses.replace(settings(), host_dir=folder, mount_dir=folder)
    configuration = Configuration(classes={CLASS: its})
    world.listers.configuration = configuration
    world.find_disk(kind=DiskKind.BLOCK_DEVICE)
    world.records.change(world.disk, spec=replace(world.disk.spec, path=f"{folder}/disk1"))
    world.settle()
    world.bind()
    world.listers.configuration = dataclasses.replace(configuration, classes={})
    world.release()
    world.settle()
    order = world.disk.spec.clean
    assert order is not None and order.method == ("zeroout",), "how it was to be cleaned nobody knows any more"
    assert world.disk.spec.volume is not None

    world.listers.configuration = configuration
    world.settle()
    assert world.disk.spec.clean is not None and world.disk.spec.volume is not None, "not before it is clean"
    world.clean()
    world.settle()
    assert world.disk.spec.clean is None


def test_class_that_left_the_configuration_is_told_and_nothing_is_cleaned(world: World) -> None:
    world.released()
    configuration = world.listers.configuration
    world.listers.configuration = dataclasses.replace(configuration, classes={})
    world.settle()
    assert world.disk.spec.clean is None
    assert world.disk.status.conditions[0].reason == "NotConfigured"
    world.listers.configuration = Configuration(classes={CLASS: settings()})
    world.settle()
    assert world.disk.spec.clean is not None
    assert world.disk.status.conditions == ()


def test_missing_disk_of_a_volume_in_use_is_told_on_the_volume_until_it_is_back(world: World) -> None:
    first = world.published()
    world.bind()
    world.missing = True
    world.look()
    world.report(message="The disk is gone.")
    world.settle()
    assert world.volume is not None
    assert (world.volume.status.reason, world.volume.status.message) == ("DiskMissing", "The disk is gone.")
    assert world.events.reasons(first.key).count("DiskMissing") == 1
    assert (first.key, "DiskMissing") in world.events.warnings
    world.missing = False
    world.look()
    world.settle()
    assert (world.volume.status.reason, world.volume.status.phase) == ("", "Bound")
    assert world.disk.status.conditions == ()


@pytest.mark.seed("DEL-10")
def test_events_tell_that_a_cleaning_runs_and_that_it_takes_long(world: World) -> None:
    first = world.released()
    world.settle()
    now = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    world.clean(CleaningState.RUNNING, started_at=now, bytes_done=1, bytes_total=4)
    world.settle()
    world.report(cleaning=replace(world.disk.status.cleaning, bytes_done=2))
    world.see()
    again = world.step()
    assert isinstance(again, LookAgain) and 0 < again.after <= 600
    assert world.events.reasons(first.key).count("CleaningStarted") == 1, "progress is no news"
    world.clock = FakeClock(start=world.clock.now() + timedelta(seconds=601))
    world.restart()
    world.step()
    assert "CleaningLong" in world.events.reasons(first.key)
    assert "50 %" in world.events.told[-1][2]


def test_each_step_of_a_release_is_told_and_counted_once(world: World) -> None:
    first = world.released()
    world.settle()
    world.clean(CleaningState.RUNNING, started_at="2030-01-01T00:00:00Z")
    world.settle()
    world.clean(CleaningState.FAILED, error="a bad block")
    world.settle()
    world.clean()
    finish(world)
    told = [reason for reason in world.events.reasons(first.key) if reason != "VolumePublished"]
    assert told == ["CleaningStarted", "CleaningFailed", "VolumeFailedDelete", "VolumeDelete", "CleaningFinished"]
    failures = [(first.key, "CleaningFailed"), (first.key, "VolumeFailedDelete")]
    assert [each for each in world.events.warnings if each[0] == first.key] == failures
    of_release = ["ordered Filesystem", "deleted Filesystem"]
    assert world.figures.counted == ["published Filesystem", *of_release, "published Filesystem"]


def test_recycled_volume_is_told_and_counted() -> None:
    world = World(reclaim=Reclaim.RECYCLE)
    first = world.released()
    world.settle()
    world.clean()
    finish(world)
    assert world.events.reasons(first.key).count("VolumeRecycled") == 1
    assert world.figures.counted[-1] == "recycled Filesystem"
    assert world.volume is not None and world.volume.metadata.uid == first.metadata.uid


def test_agent_cleans_unless_somebody_says_otherwise(world: World) -> None:
    world.released()
    world.settle()
    assert world.disk.spec.clean is not None and world.disk.spec.clean.job == ""


def test_warnings_are_those_that_somebody_should_look_at(world: World) -> None:
    first = world.published()
    world.bind()
    bound = world.volumes.now[first.key]
    world.volumes.now[first.key] = replace(bound, metadata=replace(bound.metadata, uid="restored"))
    world.settle()
    assert (first.key, "VolumeReplaced") in world.events.warnings
    world.release()
    world.settle()
    world.bind()
    world.settle()
    assert (first.key, "CleaningCalledOff") in world.events.warnings
    assert world.disk.spec.clean is None


def test_changed_policy_is_remembered_without_a_word_and_the_order_of_a_person_stays(world: World) -> None:
    first = world.published()
    world.bind()
    world.settle()
    world.policy("Retain")
    world.release()
    world.settle()
    assert world.disk.spec.volume is not None and world.disk.spec.volume.reclaim_policy == "Retain"
    assert "VolumeReplaced" not in world.events.reasons(first.key)
    order = CleanOrder(volume_name=first.key, volume_uid=first.metadata.uid, requested_at="2030-01-01T00:00:00Z")
    world.records.checks.clear()
    world.records.change(world.disk, spec=replace(world.disk.spec, clean=order))
    world.policy("Burn")
    world.settle()
    assert world.disk.spec.clean == order


def test_order_for_the_former_volume_does_not_pass_to_the_one_that_took_its_place(world: World) -> None:
    first = world.released()
    world.settle()
    world.clean()
    now = world.volumes.now[first.key]
    world.volumes.now[first.key] = replace(now, metadata=replace(now.metadata, uid="restored"))
    world.see()
    world.step()
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == "restored"
    assert world.disk.spec.clean is None


def test_disk_of_which_nobody_has_seen_the_kind_is_not_ordered_to_be_cleaned(world: World) -> None:
    world.released()
    world.report(kind="")
    world.settle()
    assert world.disk.spec.clean is None
    world.report(kind=DiskKind.MOUNT_POINT)
    world.settle()
    assert world.disk.spec.clean is not None


def test_cleaning_of_another_volume_stays_on_the_record_until_there_is_a_new_one(world: World) -> None:
    """It tells by what method the disk was cleaned last, should this one never begin."""
    world.released()
    before = Cleaning(volume_uid="uid-0", state=CleaningState.VERIFIED, method=("fs-reset",))
    world.report(cleaning=before)
    world.settle()
    assert world.disk.spec.clean is not None
    assert world.disk.status.cleaning == before


def test_disk_whose_volume_is_held_is_looked_at_again_at_once(world: World) -> None:
    first = world.published()
    world.volumes.change(first.key, metadata=replace(first.metadata, finalizers=()))
    world.see()
    assert world.step() == LookAgain(after=0)
    world.see()
    assert world.step() == Done()


def test_disk_that_is_back_is_looked_at_again_at_once(world: World) -> None:
    world.published()
    world.bind()
    world.missing = True
    world.look()
    world.settle()
    world.missing = False
    world.look()
    world.see()
    assert world.step() == LookAgain(after=0)


@pytest.mark.parametrize(("passed", "again"), [(0, 600.0), (599.0, 1.0), (599.5, 0.5), (600, None), (900, None)])
def test_running_cleaning_is_looked_at_again_when_it_begins_to_take_long(
    world: World, passed: float, again: float | None
) -> None:
    first = world.released()
    world.settle()
    started = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    world.clean(CleaningState.RUNNING, started_at=started)
    world.clock = FakeClock(start=world.clock.now() + timedelta(seconds=passed))
    world.restart()
    assert world.step() == (Done() if again is None else LookAgain(after=again))
    assert ("CleaningLong" in world.events.reasons(first.key)) is (again is None)
    assert "% done" not in world.events.told[-1][2], "nobody knows of how much"


def test_second_cleaning_of_a_disk_is_told_like_the_first(world: World) -> None:
    for _ in range(2):
        if world.name in world.records.disks:
            world.bind()
            world.settle()
            world.release()
        else:
            world.released()
        world.settle()
        assert world.volume is not None
        name = world.volume.key
        before = world.events.reasons(name).count("CleaningStarted")
        world.clean(CleaningState.RUNNING)
        world.settle()
        assert world.events.reasons(name).count("CleaningStarted") == before + 1
        world.clean()
        finish(world)


def test_conflict_while_a_volume_is_deleted_is_no_failure_to_tell_of(world: World) -> None:
    first = world.released()
    world.settle()
    world.clean()
    world.see()
    world.weather.calls_left, world.weather.error = 2, lambda: errors.Conflict("somebody wrote first")
    with pytest.raises(errors.Conflict):
        world.step()
    assert "VolumeFailedDelete" not in world.events.reasons(first.key)
    world.weather.calls_left, world.weather.error = 2, lambda: errors.InternalError("no")
    with pytest.raises(errors.InternalError):
        world.step()
    assert (first.key, "VolumeFailedDelete") in world.events.warnings
    finish(world)
    assert world.volumes.now
