"""From an order to a verified disk, one transition after the other."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.clean.world import CHUNKS, SETTINGS, Killed, World

from localpv import errors
from localpv.agent.clean import progress as clean_progress
from localpv.agent.clean import reconciler
from localpv.agent.clean.reconciler import REFUSED_SECONDS, Limits
from localpv.agent.clean.states import Reason
from localpv.api.kinds.localdisk import Cleaning, CleanOrder, DiskKind
from localpv.config.cleaners import Cleaner as CleanerSetting
from localpv.host.model.methods import Progress
from localpv.runtime.controller import Done, LookAgain
from localpv.testing.clock import settle


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, limits=Limits(at_once=2, hung_seconds=600.0))


@pytest.mark.seed("DEL-5")
async def test_ordered_disk_is_clean_and_says_for_whom(world: World) -> None:
    name = world.add(uid="uid-7")

    assert await world.step(name) == Done()

    assert not world.disk(name).dirty
    cleaning = world.cleaning(name)
    assert (cleaning.state, cleaning.volume_uid, cleaning.attempt) == ("Verified", "uid-7", 1)
    assert cleaning.started_at is not None and cleaning.finished_at is not None
    assert cleaning.method == ("dd-zero", "1")
    assert cleaning.bytes_done == cleaning.bytes_total == CHUNKS


async def test_record_says_running_before_anything_is_touched(world: World) -> None:
    name = world.add()
    await world.step(name)
    assert [one.status.cleaning.state for one in world.records.writes if one.status.cleaning] == ["Running", "Verified"]


async def test_disk_without_an_order_is_never_touched(world: World) -> None:
    name = world.add(uid="")
    assert await world.step(name) == Done()
    assert world.executor.looked == []
    assert world.records.writes == []
    assert len(world.disk(name).dirty) == CHUNKS


async def test_disk_of_another_node_is_never_touched(world: World) -> None:
    name = world.add(node="node-2")
    assert await world.step(name) == Done()
    assert world.executor.looked == []
    assert len(world.disk(name).dirty) == CHUNKS


async def test_verified_order_is_not_done_twice(world: World) -> None:
    name = world.add()
    await world.to_end(name)
    world.disk(name).dirty.add(0)  # the next tenant's data
    await world.to_end(name)
    assert world.disk(name).dirty == {0}


async def test_what_was_verified_for_one_volume_does_not_count_for_the_next(world: World) -> None:
    name = world.add(uid="uid-1")
    await world.to_end(name)
    world.disk(name).dirty.add(0)
    world.order(name, "uid-2")
    await world.to_end(name)
    assert not world.disk(name).dirty
    assert (world.cleaning(name).volume_uid, world.cleaning(name).attempt) == ("uid-2", 1)


async def test_another_disk_in_its_place_is_refused_and_left_alone(world: World) -> None:
    name = world.add()
    world.disk(name).identity = "serial-other"

    assert await world.step(name) == LookAgain(after=REFUSED_SECONDS)

    assert len(world.disk(name).dirty) == CHUNKS
    cleaning = world.cleaning(name)
    assert (cleaning.state, cleaning.reason, cleaning.attempt) == ("Failed", "IdentityChanged", 0)
    assert "serial-other" in cleaning.error
    assert world.status(name).phase == "CleanFailed"
    assert world.told.refusals == ["IdentityChanged"]

    await world.step(name)
    assert len(world.records.writes) == 1, "the same refusal is written once"
    assert world.told.reasons == ["CleaningFailed"]

    world.disk(name).identity = "serial-sdb"
    await world.to_end(name)
    assert not world.disk(name).dirty


async def test_disk_without_a_recorded_identity_is_refused(world: World) -> None:
    name = world.add()
    world.change(name, lambda spec: msgspec.structs.replace(spec, identity=None))
    await world.step(name)
    assert world.cleaning(name).reason == "IdentityChanged"
    assert len(world.disk(name).dirty) == CHUNKS


@pytest.mark.seed("CLN-7")
@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ("/mnt/disks2/sdb", "sdb"),
        ("/mnt/disks/../disks2/sdb", "sdb"),
        ("/mnt/disks", "disks"),
        ("/mnt/disks/a/sdb", "sdb"),
        ("/mnt/disks/sdb", "sdc"),
        ("/dev/sda", "sda"),
    ],
)
async def test_path_outside_the_folder_of_its_class_is_refused(world: World, path: str, entry: str) -> None:
    name = world.add()
    world.executor.disks[entry] = world.executor.disks["sdb"]
    world.change(name, lambda spec: msgspec.structs.replace(spec, path=path, entry=entry))
    await world.step(name)
    assert world.cleaning(name).reason == "OutsideFolder"
    assert world.executor.looked == []


async def test_disk_of_a_class_that_is_not_configured_is_refused(world: World) -> None:
    name = world.add()
    world.settings.clear()
    await world.step(name)
    assert world.cleaning(name).reason == "OutsideFolder"
    assert world.executor.looked == []


async def test_command_that_is_not_the_one_of_the_class_is_refused(world: World) -> None:
    name = world.add(method=("/tmp/evil",))
    await world.step(name)
    assert world.cleaning(name).reason == "NotSupported"
    assert len(world.disk(name).dirty) == CHUNKS


async def test_making_the_file_system_anew_is_refused_before_anything_is_touched(world: World) -> None:
    name = world.add(method=("fs-remake",))
    disk = world.records.disks[name]
    status = msgspec.structs.replace(disk.status, kind=DiskKind.MOUNT_POINT)
    world.records.keep(msgspec.structs.replace(disk, status=status))
    await world.step(name)
    assert (world.cleaning(name).reason, world.cleaning(name).attempt) == ("NotSupported", 0)
    assert len(world.disk(name).dirty) == CHUNKS


@pytest.mark.seed("CLN-6")
async def test_command_of_the_class_is_run(world: World) -> None:
    command = ("/opt/wipe.sh", "3")
    world.settings["fast"] = dataclasses.replace(SETTINGS, block_cleaner=CleanerSetting(command, command))
    name = world.add(method=command)
    await world.to_end(name)
    assert world.cleaning(name).state == "Verified"
    assert world.cleaning(name).method == command


async def test_disk_in_use_waits_and_says_for_whom(world: World) -> None:
    name = world.add()
    world.disk(name).users = "is mounted at /var/lib/kubelet/pods/x"

    outcome = await world.step(name)

    assert isinstance(outcome, LookAgain) and outcome.after < 2
    cleaning = world.cleaning(name)
    assert (cleaning.state, cleaning.reason, cleaning.attempt) == ("Waiting", "InUse", 0)
    assert "/var/lib/kubelet/pods/x" in cleaning.error
    assert world.status(name).phase == "Releasing"
    assert len(world.disk(name).dirty) == CHUNKS

    world.disk(name).users = ""
    await world.to_end(name)
    assert world.cleaning(name).state == "Verified"


async def test_order_taken_back_before_it_was_begun_leaves_no_trace(world: World) -> None:
    name = world.add()
    world.disk(name).users = "is mounted"
    await world.step(name)
    world.order(name, None)
    assert await world.step(name) == Done()
    assert world.status(name).cleaning is None


async def test_order_taken_back_while_nobody_ran_stays_unclean(world: World) -> None:
    name = world.add()
    world.start(dies_at=7)
    with pytest.raises(Killed):
        await world.to_end(name)
    assert world.cleaning(name).state == "Running"
    world.order(name, None)
    world.start()
    await world.to_end(name)
    assert (world.cleaning(name).state, world.cleaning(name).reason) == ("Failed", "OrderChanged")


@pytest.mark.seed("DEL-4", "DEL-5")
async def test_failed_cleaning_says_why_and_is_tried_again_after_growing_waits(world: World) -> None:
    name = world.add()
    world.disk(name).fails = [OSError(5, "Input/output error"), errors.NotClean("old data is left", hint="zero it")]

    await world.step(name)
    cleaning = world.cleaning(name)
    assert (cleaning.state, cleaning.reason, cleaning.attempt) == ("Failed", "DiskError", 1)
    assert "Input/output error" in cleaning.error
    first = await world.step(name)
    assert isinstance(first, LookAgain) and 9 < first.after <= 12

    await world.clock.advance(first.after)
    await world.step(name)
    cleaning = world.cleaning(name)
    assert (cleaning.state, cleaning.reason, cleaning.attempt) == ("Failed", "NotClean", 2)
    assert cleaning.error == "old data is left (zero it)"
    second = await world.step(name)
    assert isinstance(second, LookAgain) and second.after > 1.5 * first.after

    await world.clock.advance(second.after)
    await world.step(name)
    cleaning = world.cleaning(name)
    assert (cleaning.state, cleaning.error, cleaning.next_attempt_at, cleaning.attempt) == ("Verified", "", None, 3)
    assert not world.disk(name).dirty


async def test_restart_does_not_shorten_the_wait_after_a_failure(world: World) -> None:
    name = world.add()
    world.disk(name).fails = [errors.HostError("no")] * 3
    await world.step(name)
    world.start()
    outcome = await world.step(name)
    assert isinstance(outcome, LookAgain) and outcome.after > 9
    assert world.cleaning(name).attempt == 1


async def test_order_given_after_a_failure_does_not_wait(world: World) -> None:
    name = world.add()
    world.disk(name).fails = [errors.HostError("no")]
    await world.step(name)
    await world.clock.advance(2)
    again = CleanOrder(
        volume_name="pv",
        volume_uid="uid-1",
        method=("shred", "1"),
        requested_at=world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    world.change(name, lambda spec: msgspec.structs.replace(spec, clean=again))
    assert await world.step(name) == Done()
    assert (world.cleaning(name).state, world.cleaning(name).method) == ("Verified", ("shred", "1"))


async def test_waits_never_grow_beyond_half_an_hour(world: World) -> None:
    name = world.add()
    world.disk(name).fails = [errors.HostError("no")] * 14
    await world.to_end(name)
    assert world.cleaning(name).attempt == 15
    assert world.clock.monotonic() < 14 * 1802


async def test_an_error_of_ours_is_a_failure_and_not_the_end(world: World) -> None:
    name = world.add()
    world.disk(name).fails = [ZeroDivisionError("oops")]
    await world.step(name)
    assert (world.cleaning(name).state, world.cleaning(name).reason) == ("Failed", "UnexpectedError")


async def test_attempts_are_counted_by_how_they_end(world: World) -> None:
    name = world.add()
    world.disk(name).fails = [ZeroDivisionError("oops")]
    await world.step(name)
    await world.clock.advance(3600)
    await world.step(name)
    assert world.cleaning(name).state == "Verified"
    assert [words[0] for words in world.told.counted] == ["began", "failed", "began", "verified"]
    assert len({words[1:3] for words in world.told.counted}) == 1, "the mode and the method are the same"
    assert world.told.counted[1][3] == "UnexpectedError"
    assert world.told.counted[3][3] == str(world.cleaning(name).bytes_total)


@pytest.mark.seed("DEL-10")
async def test_events_tell_that_it_began_takes_long_and_ended(world: World) -> None:
    name = world.add()
    world.disk(name).gate = asyncio.Event()
    running = asyncio.create_task(world.step(name))
    await world.clock.advance(170)
    assert world.told.reasons == ["CleaningStarted", "CleaningLong", "CleaningLong"], "after 60 s and 120 s"
    await world.clock.advance(60)
    assert world.told.reasons.count("CleaningLong") == 2, "the next one after 240 s"
    assert "can take long" in world.told.events[0][1]
    assert "50 % done" in world.told.events[1][1]
    world.disk(name).gate.set()
    await running
    assert world.told.reasons[-1] == "CleaningFinished"
    assert not any(warning for _, _, warning in world.told.events)


async def test_progress_is_written_at_most_once_a_second(world: World) -> None:
    name = world.add()
    world.disk(name).gate = asyncio.Event()
    running = asyncio.create_task(world.step(name))
    await world.clock.advance(0.9)
    assert len(world.records.writes) == 1
    await world.clock.advance(5)
    assert len(world.records.writes) == 2
    cleaning = world.cleaning(name)
    assert (cleaning.state, cleaning.bytes_done, cleaning.bytes_total, cleaning.step) == (
        "Running",
        CHUNKS // 2,
        CHUNKS,
        "wiping",
    )
    world.disk(name).gate.set()
    await running


async def test_server_that_is_away_during_a_cleaning_costs_nothing(world: World) -> None:
    name = world.add()
    world.disk(name).gate = asyncio.Event()
    running = asyncio.create_task(world.step(name))
    await world.clock.advance(0.5)
    world.records.troubles = [errors.ConnectionLost("away")] * 6
    await world.clock.advance(3)
    world.disk(name).gate.set()
    await world.clock.advance(60)
    await running
    assert (world.cleaning(name).state, world.cleaning(name).attempt) == ("Verified", 1)


async def test_disk_that_does_not_move_is_given_up(world: World) -> None:
    name = world.add()
    world.disk(name).gate = asyncio.Event()
    running = asyncio.create_task(world.step(name))
    await world.clock.advance(599)
    assert world.cleaning(name).state == "Running"
    await world.clock.advance(10)
    await running
    assert (world.cleaning(name).state, world.cleaning(name).reason) == ("Failed", "Hung")
    assert world.disk(name).running == 0


async def test_disk_that_does_not_move_lets_others_go_ahead_long_before_it_is_given_up(tmp_path: Path) -> None:
    world = World(tmp_path, limits=Limits(at_once=1))
    hung, waits, third = world.add("sdb"), world.add("sdc"), world.add("sdd")
    world.disk(hung).gate = gate = asyncio.Event()
    stuck = asyncio.create_task(world.step(hung))
    await world.clock.advance(1)
    await world.step(waits)
    await world.step(third)
    assert world.cleaning(waits).reason == world.cleaning(third).reason == "InLine"

    for _ in range(int(clean_progress.STALL_SECONDS) + 1):
        await world.clock.advance(1)
    assert world.called == [waits]
    await world.to_end(waits)
    assert world.cleaning(waits).state == "Verified"
    assert world.cleaning(hung).state == "Running"

    gate.set()
    await world.clock.advance(1)
    await stuck
    assert world.cleaning(hung).state == "Verified"
    await world.to_end(third)
    assert world.cleaning(third).state == "Verified"


@pytest.mark.seed("DEL-7")
async def test_hung_cleaning_that_cannot_be_stopped_keeps_the_next_one_away(world: World) -> None:
    name = world.add()
    world.disk(name).gate, world.disk(name).deaf = asyncio.Event(), True
    running = asyncio.create_task(world.step(name))
    await world.clock.advance(700)
    await running
    assert world.cleaning(name).reason == "Hung"
    await world.clock.advance(60)

    await world.step(name)
    assert (world.cleaning(name).state, world.cleaning(name).reason) == ("Waiting", "CleanedAlready")
    assert world.disk(name).most_running == 1

    world.disk(name).gate.set()  # the kernel lets go of it
    await world.clock.advance(1)
    await world.to_end(name)
    assert world.cleaning(name).state == "Verified"
    assert world.disk(name).most_running == 1


@pytest.mark.seed("DEL-7")
async def test_two_records_of_one_disk_are_never_cleaned_at_once(world: World) -> None:
    one, two = world.add("sdb"), world.add("link-to-sdb")
    world.disk(one).gate = asyncio.Event()
    world.disk(two).lock = world.disk(one).lock
    running = asyncio.create_task(world.step(one))
    await world.clock.advance(0.5)

    await world.step(two)

    assert (world.cleaning(two).state, world.cleaning(two).reason) == ("Waiting", "CleanedAlready")
    assert one in world.cleaning(two).error
    assert len(world.disk(two).dirty) == CHUNKS
    world.disk(one).gate.set()
    await running
    await world.to_end(two)
    assert world.cleaning(two).state == "Verified"


async def test_more_disks_than_places_wait_in_line(world: World) -> None:
    names = [world.add(entry) for entry in ("sdb", "sdc", "sdd")]
    gate = asyncio.Event()
    for name in names:
        world.disk(name).gate = gate
    running = [asyncio.create_task(world.step(name)) for name in names]
    await world.clock.advance(1)
    assert world.executor.running == 2
    assert (world.cleaning(names[2]).state, world.cleaning(names[2]).reason) == ("Waiting", "InLine")
    assert world.called == []
    gate.set()
    await asyncio.gather(*running)
    assert set(world.called) == {names[2]}
    await world.to_end(names[2])
    assert world.executor.most_running == 2


@pytest.mark.parametrize("uid", [None, "uid-2"])
async def test_order_that_changes_stops_the_cleaning_and_is_never_skipped(world: World, uid: str | None) -> None:
    name = world.add(uid="uid-1")
    world.disk(name).gate = asyncio.Event()
    running = asyncio.create_task(world.step(name))
    await world.clock.advance(5)
    world.order(name, uid)
    await world.clock.advance(30)
    await running
    assert world.disk(name).running == 0
    cleaning = world.cleaning(name)
    assert (cleaning.volume_uid, cleaning.state, cleaning.reason) == ("uid-1", "Failed", "OrderChanged")
    world.disk(name).gate.set()
    await world.to_end(name)
    if uid:
        assert (world.cleaning(name).volume_uid, world.cleaning(name).state) == (uid, "Verified")
        assert not world.disk(name).dirty
    else:
        assert world.cleaning(name).state == "Failed"


async def test_record_deleted_during_the_cleaning_stops_it(world: World) -> None:
    name = world.add()
    disk = world.disk(name)
    disk.gate = asyncio.Event()
    running = asyncio.create_task(world.step(name))
    await world.clock.advance(5)
    await world.records.delete(world.records.disks[name])
    await world.clock.advance(30)
    await running
    assert disk.running == 0
    assert name not in world.records.disks


async def test_somebody_elses_write_before_the_start_means_a_new_look(world: World) -> None:
    name = world.add()
    world.records.troubles = [errors.Conflict("somebody else wrote first")]
    with pytest.raises(errors.Conflict):
        await world.step(name)
    assert len(world.disk(name).dirty) == CHUNKS
    await world.to_end(name)
    assert world.cleaning(name).state == "Verified"


@pytest.mark.parametrize(
    ("only", "job", "cleaned"),
    [("", "", True), ("", "clean-sdb", False), ("own", "clean-sdb", True), ("own", "", True), ("other", "", False)],
)
async def test_order_is_left_to_whom_it_is_for(tmp_path: Path, only: str, job: str, cleaned: bool) -> None:
    world = World(tmp_path)
    name = world.add()
    world.only = {"own": name}.get(only, only)
    world.start()
    world.change(name, lambda spec: msgspec.structs.replace(spec, clean=_in_job(spec.clean, job)))
    assert await world.step(name) == Done()
    assert (not world.disk(name).dirty) is cleaned
    assert (world.executor.looked == [name]) is cleaned


def _in_job(order: CleanOrder | None, job: str) -> CleanOrder:
    assert order is not None
    return msgspec.structs.replace(order, job=job)


@pytest.mark.parametrize(
    "end", ["taken back", "in a job", "verified", "in use", "unknown kind", "not due", "nobody can tell who uses it"]
)
async def test_disk_that_does_not_go_on_leaves_the_line(world: World, end: str) -> None:
    """Or whoever is behind it would wait for its turn for ever."""
    first = [world.add("sda"), world.add("sdb")]
    gate = asyncio.Event()
    for name in first:
        world.disk(name).gate = gate
    running = [asyncio.create_task(world.step(name)) for name in first]
    await world.clock.advance(1)
    gone, last = world.add("sdd"), world.add("sde")
    await world.step(gone)
    await world.step(last)
    assert world.cleaning(gone).reason == world.cleaning(last).reason == "InLine"
    disk = world.records.disks[gone]
    match end:
        case "taken back":
            world.order(gone, None)
        case "in a job":
            world.change(gone, lambda spec: msgspec.structs.replace(spec, clean=_in_job(spec.clean, "job")))
        case "verified":
            _put(world, gone, cleaning=msgspec.structs.replace(world.cleaning(gone), state="Verified"))
        case "in use":
            world.disk(gone).users = "is mounted"
        case "unknown kind":
            _put(world, gone, kind="")
        case "nobody can tell who uses it":
            world.disk(gone).no_answer = errors.HostTimeout("no answer")
        case "not due":
            failed = msgspec.structs.replace(
                world.cleaning(gone), state="Failed", next_attempt_at="2030-01-01T00:20:00Z"
            )
            _put(world, gone, cleaning=failed)
    await world.step(gone)
    gate.set()
    await asyncio.gather(*running)
    assert set(world.called) == {last}
    assert len(world.executor.disks[disk.spec.entry].dirty) == CHUNKS


def _put(world: World, name: str, **status: object) -> None:
    disk = world.records.disks[name]
    world.records.keep(msgspec.structs.replace(disk, status=msgspec.structs.replace(disk.status, **status)))


async def test_disk_of_which_nobody_has_seen_the_kind_is_not_touched(world: World) -> None:
    name = world.add()
    _put(world, name, kind="")
    assert await world.step(name) == LookAgain(after=REFUSED_SECONDS)
    assert (world.cleaning(name).reason, world.executor.looked) == ("IdentityChanged", [])
    assert "it is looked at again when discovery has seen it" in world.cleaning(name).error


async def test_disk_that_was_in_use_waits_briefly_again_after_it_was_free(world: World) -> None:
    name = world.add()
    world.disk(name).users = "is mounted"
    waits = []
    for _ in range(4):
        outcome = await world.step(name)
        assert isinstance(outcome, LookAgain)
        waits.append(outcome.after)
    assert waits == sorted(waits) and waits[-1] > 4 * waits[0]
    world.order(name, None)
    await world.step(name)
    world.order(name, "uid-1")
    outcome = await world.step(name)
    assert isinstance(outcome, LookAgain) and outcome.after < 2


async def test_failed_disk_is_not_touched_a_moment_too_early(world: World) -> None:
    name = world.add()
    world.disk(name).fails = [errors.HostError("no")]
    await world.step(name)
    outcome = await world.step(name)
    assert isinstance(outcome, LookAgain)
    await world.clock.advance(outcome.after - 0.5)
    assert await world.step(name) == LookAgain(after=0.5)
    assert world.cleaning(name).attempt == 1


async def test_failure_is_told_once_with_its_reason_and_as_a_warning(world: World) -> None:
    name = world.add()
    world.disk(name).fails = [errors.NotClean("old data is left")]
    await world.step(name)
    assert [(reason, warning) for reason, _, warning in world.told.events] == [
        ("CleaningStarted", False),
        ("CleaningFailed", True),
    ]
    assert world.told.events[1][1] == "Cleaning of /mnt/disks/sdb failed: old data is left"


async def test_command_that_says_nothing_is_not_taken_for_hung(world: World) -> None:
    command = ("/opt/wipe.sh",)
    world.settings["fast"] = dataclasses.replace(SETTINGS, block_cleaner=CleanerSetting(command, command))
    name = world.add(method=command)
    world.disk(name).gate = gate = asyncio.Event()
    running = asyncio.create_task(world.step(name))
    await world.clock.advance(700)
    assert world.cleaning(name).state == "Running"
    gate.set()
    await world.clock.advance(1)
    await running
    assert world.cleaning(name).state == "Verified"


@pytest.mark.parametrize(
    ("state", "attempt", "kept"), [("Failed", 2, True), ("Verified", 2, True), ("Failed", 0, False)]
)
async def test_what_was_tried_is_remembered_when_its_order_is_taken_back(
    world: World, state: str, attempt: int, kept: bool
) -> None:
    name = world.add(uid="")
    before = Cleaning(volume_uid="uid-1", state=state, attempt=attempt, reason="Hung", error="it hangs")
    _put(world, name, cleaning=before)
    assert await world.step(name) == Done()
    assert world.status(name).cleaning == (before if kept else None)


async def test_record_that_is_cleaned_by_somebody_else_by_now_is_not_said_to_be_clean(world: World) -> None:
    name = world.add()
    world.disk(name).gate = gate = asyncio.Event()
    running = asyncio.create_task(world.step(name))
    await world.clock.advance(0.5)
    _put(world, name, cleaning=msgspec.structs.replace(world.cleaning(name), attempt=2))
    gate.set()
    await running
    assert (world.cleaning(name).state, world.cleaning(name).attempt) == ("Running", 2)


async def test_absent_server_is_not_asked_all_the_time_how_a_cleaning_may_end(world: World) -> None:
    name = world.add()
    world.disk(name).gate = gate = asyncio.Event()
    running = asyncio.create_task(world.step(name))
    await world.clock.advance(0.5)
    world.records.troubles = [errors.ConnectionLost("away")] * 3
    gate.set()
    await settle()
    assert len(world.records.troubles) == 2 and not running.done()
    await world.clock.advance(60)
    await running
    assert world.cleaning(name).state == "Verified"


@pytest.mark.parametrize(
    ("progress", "says"),
    [
        (Progress(done=3, total=4, step="zeroing"), "75 % done (zeroing)."),
        (Progress(done=3), "3 entries removed."),
        (Progress(done=0), "still at it."),
    ],
    ids=str,
)
def test_long_cleaning_says_how_far_it_is(world: World, progress: Progress, says: str) -> None:
    disk = world.records.disks[world.add()]
    assert reconciler._how_far(disk, progress) == f"Cleaning of /mnt/disks/sdb is under way: {says}"


@pytest.mark.parametrize(
    ("error", "word", "sentence"),
    [
        (errors.DeviceChanged("no", hint="put it back"), "IdentityChanged", "no (put it back)"),
        (errors.OutsideFolder("no"), "OutsideFolder", "no"),
        (errors.DeviceBusy("no"), "InUse", "no"),
        (errors.HostTimeout("no"), "Hung", "no"),
        (errors.NotSupported("no"), "NotSupported", "no"),
        (errors.NotClean("no"), "NotClean", "no"),
        (clean_progress.OrderChanged("no"), "OrderChanged", "no"),
        (OSError(5, "I/O"), "DiskError", "[Errno 5] I/O"),
        (errors.HostError("no"), "HostError", "no"),
        (ZeroDivisionError(), "UnexpectedError", "ZeroDivisionError"),
    ],
    ids=repr,
)
def test_each_error_has_its_word(error: Exception, word: str, sentence: str) -> None:
    assert reconciler._reason(error) == Reason(word, sentence)


@pytest.mark.parametrize("ours", [True, False])
async def test_order_of_another_configuration_with_a_class_of_this_name_is_left_to_its_agent(
    world: World, ours: bool
) -> None:
    name = world.add()
    here = dataclasses.replace(SETTINGS, host_dir="/mnt/elsewhere", mount_dir="/mnt/elsewhere")
    world.settings = {here.name: here}
    world.ours = lambda disk: ours
    world.start()

    outcome = await world.step(name)

    assert len(world.disk(name).dirty) == CHUNKS
    assert outcome == (LookAgain(after=REFUSED_SECONDS) if ours else Done())
    assert bool(world.records.writes) is ours
