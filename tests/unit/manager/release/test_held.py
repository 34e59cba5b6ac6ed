"""A volume that somebody deletes by hand goes only when it is known what is on its disk."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from tests.unit.manager import worlds
from tests.unit.manager.release.test_releaser import finish
from tests.unit.manager.worlds import World, drive, replace

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.localdisk import CleaningState, CleanOrder, LocalDisk, OfferedVolume
from localpv.api.kinds.meta import write_time
from localpv.api.kinds.volumes import ClaimReference, PersistentVolume
from localpv.config.settings import Reclaim
from localpv.disk import labels
from localpv.manager import volumes as offers
from localpv.manager.release import holding
from localpv.manager.release.holding import Holding


@pytest.fixture
def world() -> World:
    return World()


def used_and_deleted_unseen(world: World, *, policy: str = "Delete") -> PersistentVolume:
    """Somebody claims the volume, leaves data, releases and deletes it, all while the manager is down."""
    world.bind()
    world.policy(policy)
    world.release()
    volume = world.volume
    assert volume is not None
    world.volumes.remove(volume.key)
    world.restart()
    return volume


def dies_after(world: World, calls: int, *, takes_effect: bool = True) -> None:
    world.weather.calls_left, world.weather.takes_effect = calls, takes_effect
    with pytest.raises(worlds.Killed):
        world.settle()
    world.restart()


def intended(world: World) -> OfferedVolume | None:
    return world.disk.spec.volume


# While the UID of the volume is not recorded.


@pytest.mark.parametrize("reclaim", [Reclaim.DELETE, Reclaim.RECYCLE])
@pytest.mark.seed("DEL-9")
def test_volume_used_and_deleted_before_its_uid_was_recorded_comes_back_only_clean(reclaim: Reclaim) -> None:
    world = World(reclaim=reclaim)
    world.find_disk()
    dies_after(world, 1)
    assert world.volume is not None
    assert intended(world) == OfferedVolume(name=world.volume.key), "created, and not recorded"
    first = used_and_deleted_unseen(world)
    finish(world)
    assert world.disk.spec.clean is not None and world.disk.spec.clean.volume_uid == first.metadata.uid
    world.clean()
    finish(world)
    assert world.volume is not None and world.volume.metadata.uid != first.metadata.uid


def test_kept_volume_used_and_deleted_before_its_uid_was_recorded_is_not_cleaned_and_not_offered(world: World) -> None:
    world.find_disk()
    dies_after(world, 1)
    first = used_and_deleted_unseen(world, policy="Retain")
    finish(world)
    assert world.volume is None
    assert intended(world) == OfferedVolume(name=first.key, uid=first.metadata.uid, reclaim_policy="Retain")
    assert world.disk.status.conditions[0].reason == "NotCleaned"
    assert world.disk.spec.clean is None


def test_volume_used_and_deleted_while_its_offer_is_taken_back_comes_back_only_clean(world: World) -> None:
    world.published()
    world.fits = False
    world.look()
    world.see()
    world.step()
    assert world.volume is not None
    assert intended(world) == OfferedVolume(name=world.volume.key), "the manager dies here"
    first = used_and_deleted_unseen(world)
    world.fits = True
    finish(world)
    assert world.disk.spec.clean is not None and world.disk.spec.clean.volume_uid == first.metadata.uid


def test_volume_deleted_before_its_uid_was_recorded_and_never_used_is_made_anew_without_cleaning(world: World) -> None:
    world.find_disk()
    dies_after(world, 1)
    assert world.volume is not None
    first = world.volume
    world.volumes.remove(first.key)
    world.records.checks.append(no_cleaning)
    finish(world)
    assert world.volume is not None and world.volume.metadata.uid != first.metadata.uid


def no_cleaning(old: LocalDisk, new: LocalDisk) -> None:
    assert new.spec.clean is None, "nothing was on it"


# Deleted by hand in each phase.


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
@pytest.mark.parametrize("phase", ["Pending", "Available"])
def test_deleted_volume_that_nobody_has_had_is_made_anew_without_cleaning(
    world: World, phase: str, policy: str
) -> None:
    first = world.published()
    world.policy(policy)
    world.volumes.phase(first.key, phase)
    world.records.checks.append(no_cleaning)
    world.volumes.remove(first.key)
    finish(world)
    assert world.volume is not None and world.volume.metadata.uid != first.metadata.uid
    assert world.disk.status.conditions == ()


def test_deleted_volume_that_is_reserved_for_a_claim_which_never_came_goes_too(world: World) -> None:
    first = world.published()
    reserved = ClaimReference(namespace="default", name="data")
    world.volumes.change(first.key, spec=replace(first.spec, claim_ref=reserved))
    world.volumes.remove(first.key)
    finish(world)
    assert world.volume is not None and world.volume.metadata.uid != first.metadata.uid


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
@pytest.mark.parametrize("phase", ["Bound", "Failed", "Pending", "Available"])
def test_deleted_volume_with_a_claim_stays_until_it_is_released(world: World, phase: str, policy: str) -> None:
    first = world.published()
    world.bind()
    world.policy(policy)
    world.volumes.phase(first.key, phase)
    world.volumes.remove(first.key)
    finish(world)
    assert world.volume is not None and world.volume.metadata.finalizers == (labels.FINALIZER,)
    assert world.disk.spec.clean is None
    world.release()
    finish(world)
    assert (world.volume is None) is (policy == "Retain")
    assert (world.disk.spec.clean is None) is (policy == "Retain")


def test_deleted_volume_whose_claim_somebody_took_off_is_cleaned_all_the_same(world: World) -> None:
    first = world.released()
    annotations = {**first.metadata.annotations, well_known.BOUND_BY_CONTROLLER: "yes"}
    meta = replace(first.metadata, annotations=annotations)
    world.volumes.change(first.key, metadata=meta, spec=replace(first.spec, claim_ref=None))
    world.volumes.phase(first.key, "Available")
    world.volumes.remove(first.key)
    world.records.checks.clear()
    finish(world)
    order = world.disk.spec.clean
    assert order is not None and (order.volume_uid, order.claim_uid) == (first.metadata.uid, "")
    world.clean()
    finish(world)
    assert world.volume is not None and world.volume.metadata.uid != first.metadata.uid


def test_offer_that_was_used_before_is_taken_back_and_cleaned_before_the_disk_is_offered_again(world: World) -> None:
    # Somebody took the claim off a released volume, which makes it an offer again; then its disk is not fit any more.
    first = world.released()
    annotations = {**first.metadata.annotations, well_known.BOUND_BY_CONTROLLER: "yes"}
    meta = replace(first.metadata, annotations=annotations)
    world.volumes.change(first.key, metadata=meta, spec=replace(first.spec, claim_ref=None))
    world.volumes.phase(first.key, "Available")
    world.volumes.before_delete.clear()
    world.records.checks.clear()
    world.fits = False
    world.look()
    finish(world)
    assert world.volume is not None and world.volume.metadata.deleting, "nobody can claim it any more"
    assert world.disk.spec.clean is not None and world.disk.spec.clean.volume_uid == first.metadata.uid
    world.fits = True
    world.clean()
    finish(world)
    assert world.volume is not None and world.volume.metadata.uid != first.metadata.uid


def test_volume_that_others_hold_is_let_go_last(world: World) -> None:
    first = world.published()
    world.volumes.set_others("kubernetes.io/pv-protection")
    world.volumes.remove(first.key)
    finish(world)
    assert world.volume is not None and offers.is_held(world.volume), "somebody could still get it"
    world.volumes.set_others()
    finish(world)
    assert world.volume is not None and world.volume.metadata.uid != first.metadata.uid


@pytest.mark.parametrize("takes_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("calls", range(6))
def test_kept_volume_goes_only_after_the_disk_says_that_it_is_not_clean(
    world: World, calls: int, takes_effect: bool
) -> None:
    world.released()
    world.policy("Retain")
    world.settle()
    assert world.volume is not None
    world.volumes.remove(world.volume.key)
    world.volumes.before_let_go.append(lambda _: says_not_cleaned(world))
    world.weather.calls_left, world.weather.takes_effect = calls, takes_effect
    try:
        world.settle()
    except worlds.Killed:
        world.restart()
    finish(world)
    assert world.volume is None
    says_not_cleaned(world)
    assert world.disk.spec.clean is None


def says_not_cleaned(world: World) -> None:
    assert world.disk.status.conditions[0].reason == "NotCleaned"
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == world.dirty


@pytest.mark.parametrize("used_again", [False, True], ids=["wiped", "wiped, then used again"])
def test_kept_volume_that_a_person_has_wiped_frees_its_disk_unless_it_was_used_again(
    world: World, used_again: bool
) -> None:
    first = world.released()
    world.policy("Retain")
    world.settle()
    world.records.checks.clear()
    now = world.clock.now()
    order = CleanOrder(volume_name=first.key, volume_uid=first.metadata.uid, requested_at=write_time(now))
    world.records.change(world.disk, spec=replace(world.disk.spec, clean=order))
    world.clean()
    if used_again:
        # The manager sees nothing of it.
        world.bind()
        world.release()
    assert world.volume is not None
    when = now + timedelta(minutes=5 if used_again else -5)
    status = replace(world.volume.status, last_phase_transition_time=write_time(when))
    world.volumes.change(first.key, status=status)
    world.volumes.remove(first.key)
    finish(world)
    assert (world.volume is None) is used_again
    if used_again:
        assert world.disk.status.conditions[0].reason == "NotCleaned"


# Where volumes come from, and what we may do to them.


@pytest.mark.parametrize("phase", ["Available", "Bound", "Released"])
def test_volume_of_an_earlier_version_is_held_before_anything_else(world: World, phase: str) -> None:
    world.volumes.holds = False
    first = world.published()
    if phase != "Available":
        world.bind()
        world.volumes.phase(first.key, phase)
    assert not offers.is_held(first)
    world.volumes.holds = True
    world.records.checks.append(lambda old, new: none_but_held(world))
    world.settle()
    assert world.volume is not None and offers.is_held(world.volume)


def none_but_held(world: World) -> None:
    assert world.volume is not None and offers.is_held(world.volume), "nothing is written before"


def test_volume_that_may_not_be_changed_is_neither_held_nor_asked_for_it(world: World) -> None:
    world.volumes.holds = False
    world.published()
    calls = world.weather.calls
    world.settle()
    assert world.volume is not None and world.volume.metadata.finalizers == ()
    assert world.weather.calls == calls


def test_volume_that_is_held_and_may_not_be_changed_any_more_says_so(world: World) -> None:
    first = world.released()
    world.settle()
    world.clean()
    world.see()
    world.volumes.before_let_go.append(forbid)
    with pytest.raises(errors.Forbidden):
        world.step()
    assert "VolumeFailedDelete" in world.events.reasons(first.key)
    assert world.volume is not None


def forbid(_: PersistentVolume) -> None:
    raise errors.Forbidden("persistentvolumes is forbidden: cannot patch")


def test_deleted_volume_of_a_class_that_left_the_configuration_waits_and_says_why(world: World) -> None:
    first = world.released()
    configuration = world.listers.configuration
    world.listers.configuration = dataclasses.replace(configuration, classes={})
    world.volumes.remove(first.key)
    finish(world)
    assert world.volume is not None and world.disk.spec.clean is None
    assert "NotConfigured" in world.events.reasons(first.key)
    world.listers.configuration = configuration
    finish(world)
    assert world.disk.spec.clean is not None


# Without a record.


class Keeper:
    """Looks after deleted volumes of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.holding = Holding(
            volumes=world.volumes, disk_of=lambda volume: world.view.get(world.name), recorder=world.events
        )

    def look(self, name: str) -> None:
        self.world.see()
        drive(self.holding.step(name))


def test_deleted_volume_without_a_record_goes_when_nobody_has_had_it(world: World) -> None:
    first = world.published()
    world.records.disks.clear()
    Keeper(world).look(first.key)
    assert world.volume is not None, "nobody has deleted it"
    world.volumes.remove(first.key)
    Keeper(world).look(first.key)
    assert world.volume is None


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
@pytest.mark.parametrize("phase", ["Bound", "Released", "Failed"])
def test_deleted_volume_without_a_record_stays_when_it_was_used_until_its_disk_is_found_again(
    world: World, phase: str, policy: str
) -> None:
    first = world.published()
    world.bind()
    world.policy(policy)
    world.volumes.phase(first.key, phase)
    world.records.disks.clear()
    world.volumes.remove(first.key)
    keeper = Keeper(world)
    keeper.look(first.key)
    keeper.look(first.key)
    assert world.volume is not None
    assert world.events.reasons(first.key).count(holding.WAITS) == 1, "told once"
    assert f"{holding.GIVE_UP} {first.key}" in world.events.told[-1][2]
    world.find_disk()
    world.release()
    finish(world)
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == first.metadata.uid
    assert (world.disk.spec.clean is not None) is (policy == "Delete")


@pytest.mark.parametrize(
    ("phase", "state", "said"),
    [
        ("Bound", None, "in use"),
        ("Released", None, "when /mnt/disks/disk1 is clean"),
        ("Released", CleaningState.FAILED, "failed: a bad block"),
    ],
)
def test_deleted_volume_says_what_it_waits_for(
    world: World, phase: str, state: CleaningState | None, said: str
) -> None:
    first = world.published()
    world.bind()
    world.volumes.remove(first.key)
    world.volumes.phase(first.key, phase)
    world.settle()
    if state is not None:
        world.clean(state, error="a bad block")
    Keeper(world).look(first.key)
    name, reason, message = world.events.told[-1]
    assert (name, reason) == (first.key, holding.WAITS)
    assert said in message


def test_deleted_volume_names_the_others_that_hold_it(world: World) -> None:
    first = world.published()
    world.bind()
    world.release()
    assert world.volume is not None
    assert holding.why(world.volume, world.disk).endswith("is clean or known to be unused.")
    world.volumes.set_others("a/one", "b/two")
    assert holding.why(world.volume, world.disk).endswith("unused, and a/one, b/two is taken off.")
    without_path = replace(world.volume, spec=replace(world.volume.spec, local=None))
    assert "No LocalDisk knows what is on its disk" in holding.why(without_path, None)
    assert first.key == without_path.key


def test_unused_volume_without_a_record_is_let_go_only_when_nobody_else_holds_it(world: World) -> None:
    first = world.published()
    world.records.disks.clear()
    world.volumes.set_others("others/hold")
    world.volumes.remove(first.key)
    keeper = Keeper(world)
    keeper.look(first.key)
    assert labels.FINALIZER in world.volumes.now[first.key].metadata.finalizers
    world.volumes.set_others()
    keeper.look(first.key)
    assert first.key not in world.volumes.now


def test_why_a_volume_waits_is_a_warning_only_when_nobody_knows_its_disk(world: World) -> None:
    first = world.published()
    world.bind()
    world.volumes.remove(first.key)
    keeper = Keeper(world)
    keeper.look(first.key)
    assert (first.key, holding.WAITS) not in world.events.warnings
    world.records.disks.clear()
    keeper.look(first.key)
    assert (first.key, holding.WAITS) in world.events.warnings


def test_volume_of_the_same_name_that_is_deleted_later_is_told_of_anew(world: World) -> None:
    first = world.published()
    world.bind()
    world.volumes.remove(first.key)
    keeper = Keeper(world)
    keeper.look(first.key)
    meta = world.volumes.now[first.key].metadata
    world.volumes.change(first.key, metadata=replace(meta, deletion_timestamp=None))
    keeper.look(first.key)
    world.volumes.change(first.key, metadata=replace(meta, deletion_timestamp="2030-01-02T00:00:00Z"))
    keeper.look(first.key)
    assert world.events.reasons(first.key).count(holding.WAITS) == 2
