"""Orders by hand, plans, places in line, locks and the times of a cleaning."""

from __future__ import annotations

import asyncio
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.clean.world import SETTINGS, World

from localpv import errors
from localpv.agent.clean import orders, plans, states
from localpv.agent.clean.locks import Locks
from localpv.agent.clean.slots import Slots
from localpv.api.kinds.localdisk import (
    Cleaning,
    DiskIdentity,
    DiskKind,
    LocalDisk,
    OfferedVolume,
)
from localpv.config import cleaners
from localpv.host.model import methods

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BLOCK, FOLDER = DiskKind.BLOCK_DEVICE, DiskKind.DIRECTORY


@pytest.mark.parametrize(
    ("words", "plan"),
    [
        (("dd-zero", "2"), plans.Wipe(methods.Zero(2))),
        (("/scripts/dd_zero.sh", "2"), plans.Wipe(methods.Zero(2))),
        (("zero",), plans.Wipe(methods.Zero(1))),
        (("blkdiscard",), plans.Wipe(methods.Discard())),
        (("zeroout",), plans.Wipe(methods.ZeroOut())),
        (("fs-reset",), plans.Wipe(methods.FsReset())),
        (("/scripts/quick_reset.sh",), plans.Wipe(methods.FsReset())),
        (("shred", "5"), plans.Wipe(methods.Shred(5))),
        (("hdparm", "normal"), plans.Wipe(methods.AtaErase())),
        (("nvme-format",), plans.Wipe(methods.NvmeFormat())),
        (("/opt/wipe", "-x"), plans.Wipe(methods.Command(("/opt/wipe", "-x")))),
    ],
)
def test_words_for_devices(words: tuple[str, ...], plan: plans.Plan) -> None:
    assert plans.read(words, kind=BLOCK) == plan


@pytest.mark.parametrize(
    ("words", "plan"),
    [
        (("fs-clean",), plans.Empty()),
        (("/scripts/fsclean.sh",), plans.Empty()),
        (("/opt/clean",), plans.Run(("/opt/clean",))),
    ],
)
def test_words_for_directories(words: tuple[str, ...], plan: plans.Plan) -> None:
    assert plans.read(words, kind=FOLDER) == plan
    assert plans.read(words, kind=DiskKind.MOUNT_POINT) == plan


@pytest.mark.parametrize(
    "words",
    [("fs-clean",), ("dd-zero", "0"), ("rm",), ("",), ("hdparm", "enhanced"), ("nvme-format", "none")],
)
def test_words_that_make_no_sense_for_devices_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(errors.NotSupported):
        plans.read(words, kind=BLOCK)


def test_every_configured_method_has_a_plan() -> None:
    for method in cleaners.METHODS.values():
        kind = BLOCK if method.for_devices else FOLDER
        assert plans.read((method.name,), kind=kind) is not None


@pytest.mark.seed("CLN-3")
def test_order_without_a_method_means_that_of_the_class(tmp_path: Path) -> None:
    disk = _disk(tmp_path)
    order = disk.spec.clean
    assert order is not None
    order = msgspec.structs.replace(order, method=())
    for mode, method in (("Filesystem", methods.FsReset()), ("Block", methods.ZeroOut())):
        assert plans.plan(order, SETTINGS, kind=BLOCK, volume_mode=mode) == plans.Wipe(method)
    assert plans.plan(order, SETTINGS, kind=FOLDER, volume_mode="Filesystem") == plans.Empty()


def test_order_by_hand_names_the_retained_volume(tmp_path: Path) -> None:
    disk = _change(_disk(tmp_path), clean=None, volume=OfferedVolume(name="pv-1", uid="u-1"))
    spec = orders.order_by_hand(disk, ("dd-zero",), now=NOW, token="t", volume_released=True)
    assert spec.clean is not None
    assert (spec.clean.volume_name, spec.clean.volume_uid) == ("pv-1", "u-1")
    assert spec.clean.requested_at == "2030-01-01T00:00:00Z"


def test_order_by_hand_in_the_second_of_a_failure_counts_as_given_after_it(tmp_path: Path) -> None:
    disk = _change(_disk(tmp_path), clean=None)
    failed = Cleaning(
        volume_uid="u-1",
        state="Failed",
        attempt=1,
        finished_at="2030-01-01T00:00:00Z",
        next_attempt_at="2030-01-01T00:10:00Z",
    )
    disk = msgspec.structs.replace(disk, status=msgspec.structs.replace(disk.status, cleaning=failed))
    spec = orders.order_by_hand(disk, now=NOW, token="t")
    assert spec.clean is not None
    assert states.seconds_until_due(failed, NOW, requested_at=spec.clean.requested_at) == 0


def test_order_by_hand_without_a_volume_freezes_what_the_disk_is_now(tmp_path: Path) -> None:
    disk = _change(_disk(tmp_path), clean=None, volume=None, identity=None)
    seen = DiskIdentity(serial="S")
    disk = msgspec.structs.replace(disk, status=msgspec.structs.replace(disk.status, identity=seen))
    spec = orders.order_by_hand(disk, now=NOW, token="t-1")
    assert spec.clean is not None
    assert spec.clean.volume_uid == "by-hand-t-1"
    assert spec.identity == seen


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"clean": None, "volume": OfferedVolume(name="pv-1", uid="u-1")}, "in use"),
        ({}, "already"),
        ({"clean": None, "identity": None}, "which disk"),
    ],
)
def test_order_by_hand_is_refused_with_a_hint(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=says) as caught:
        orders.order_by_hand(_change(_disk(tmp_path), **changes), now=NOW, token="t")
    assert caught.value.hint


def test_order_by_hand_runs_no_commands(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match="built-in"):
        orders.order_by_hand(_change(_disk(tmp_path), clean=None), ("/tmp/evil",), now=NOW, token="t")


async def test_disk_ordered_by_hand_is_cleaned(tmp_path: Path) -> None:
    world = World(tmp_path)
    name = world.add(uid="")
    world.change(name, lambda _: orders.order_by_hand(world.records.disks[name], ("shred", "1"), now=NOW, token="t"))
    await world.to_end(name)
    assert (world.cleaning(name).state, world.cleaning(name).volume_uid) == ("Verified", "by-hand-t")


def test_more_places_call_those_in_line_and_fewer_take_none_from_those_who_have_one() -> None:
    called: list[str] = []
    slots = Slots(1, call=called.append)
    assert slots.take("a")
    assert not slots.take("b")
    slots.resize(2)
    assert called == ["b"]
    assert slots.take("b")
    slots.resize(1)
    assert not slots.take("c")
    slots.give_back()
    assert not slots.take("c")
    slots.give_back()
    assert slots.take("c")


def test_places_are_given_in_order_and_those_who_leave_let_others_move_up() -> None:
    called: list[str] = []
    slots = Slots(1, call=called.append)
    assert slots.take("a")
    assert not slots.take("b")
    assert not slots.take("c")
    slots.leave("b")
    assert called == []
    slots.give_back()
    assert called == ["c"]
    assert not slots.take("d"), "c was first"
    assert slots.take("c")
    slots.give_back()
    assert slots.take("d")


def test_lock_is_one_per_disk_and_names_its_owner(tmp_path: Path) -> None:
    one, other = Locks(tmp_path / "locks"), Locks(tmp_path / "locks")
    held = one.take("device-8-16", owner="sdb")
    with pytest.raises(errors.DeviceBusy, match="record sdb"):
        other.take("device-8-16", owner="sdc")
    opened = [path for path in Path("/proc/self/fd").iterdir() if os.path.realpath(path).endswith("/device-8-16.lock")]
    assert len(opened) == 1, "whoever did not get it has not got it open"
    other.take("device-8-32", owner="sdc").give_up()
    held.give_up()
    other.take("device-8-16", owner="sdc").give_up()


def test_folder_that_cannot_be_used_for_locks_lets_nothing_begin(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file")
    with pytest.raises(errors.StoreError):
        Locks(tmp_path / "locks").take("device-8-16", owner="sdb")


def test_clock_that_was_set_back_holds_a_disk_up_for_half_an_hour_at_most() -> None:
    failed = Cleaning(volume_uid="u", state="Failed", next_attempt_at=states.timestamp(NOW + timedelta(days=900)))
    assert states.seconds_until_due(failed, NOW) == states.MOST_WAIT_SECONDS


def test_unreadable_time_holds_nothing_up() -> None:
    failed = Cleaning(volume_uid="u", state="Failed", next_attempt_at="soon")
    assert states.seconds_until_due(failed, NOW) == 0.0


def _disk(folder: Path) -> LocalDisk:
    world = World(folder)
    return world.records.disks[world.add()]


def _change(disk: LocalDisk, **changes: object) -> LocalDisk:
    return msgspec.structs.replace(disk, spec=msgspec.structs.replace(disk.spec, **changes))


def test_lock_goes_only_when_an_act_that_may_still_write_has_ended(tmp_path: Path) -> None:
    async def story() -> None:
        locks, may_end = Locks(tmp_path / "locks"), asyncio.Event()

        async def act() -> None:
            await may_end.wait()

        held, acting = locks.take("device-8-16", owner="sdb"), asyncio.create_task(act())
        held.leave_to(acting)
        held.give_up()
        with pytest.raises(errors.DeviceBusy):
            locks.take("device-8-16", owner="sdb")
        may_end.set()
        await acting
        await asyncio.sleep(0)
        again = locks.take("device-8-16", owner="sdb")
        again.leave_to(acting)
        again.give_up()
        again.give_up()  # which changes nothing
        locks.take("device-8-16", owner="sdb").give_up()

    asyncio.run(story())


def test_lock_names_who_has_it_now_and_is_for_root_alone(tmp_path: Path) -> None:
    locks = Locks(tmp_path / "state" / "locks")
    locks.take("device-8-16", owner="a-long-name-of-a-record").give_up()
    held = locks.take("device-8-16", owner="sdb")
    with pytest.raises(errors.DeviceBusy, match=r"for record sdb$"):
        locks.take("device-8-16", owner="sdc")
    held.give_up()
    modes = [stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) for name in ("locks", "locks/device-8-16.lock")]
    assert modes == [0o700, 0o600]


def test_file_system_that_cannot_lock_lets_nothing_begin_and_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(fd: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(errors.StoreError, match="No locks available"):
        Locks(tmp_path).take("device-8-16", owner="sdb")
    assert len(os.listdir("/proc/self/fd")) == before


def test_place_that_is_lent_is_taken_back() -> None:
    called: list[str] = []
    slots = Slots(1, call=called.append)
    assert slots.take("a") and not slots.take("b")
    slots.lend()
    assert called == ["b"] and slots.take("b")
    slots.take_back()
    assert not slots.take("c")
    slots.give_back()
    assert not slots.take("c"), "two were at work in one place, and one still is"
    slots.give_back()
    assert slots.take("c")


def test_who_leaves_the_line_lets_the_next_one_be_called() -> None:
    called: list[str] = []
    slots = Slots(1, call=called.append)
    assert slots.take("a") and not slots.take("b") and not slots.take("c")
    slots.give_back()
    assert called == ["b"]
    slots.leave("b")
    assert called == ["b", "c"]
    slots.leave("nobody")
    assert called == ["b", "c"]


@pytest.mark.parametrize(
    ("requested", "ended", "waits"),
    [(1, 0, False), (0, 0, True), (0, 1, True), (None, 0, True), (1, None, True)],
)
def test_only_an_order_given_after_the_failure_does_not_wait(
    requested: int | None, ended: int | None, waits: bool
) -> None:
    def at(second: int | None) -> str | None:
        return None if second is None else states.timestamp(NOW + timedelta(seconds=second))

    failed = Cleaning(volume_uid="u", state="Failed", finished_at=at(ended), next_attempt_at=at(60))
    assert (states.seconds_until_due(failed, NOW, requested_at=at(requested)) == 60.0) is waits
    assert states.seconds_until_due(failed, NOW + timedelta(seconds=59.5)) == 0.5
    assert states.seconds_until_due(failed, NOW + timedelta(seconds=61)) == 0.0


@pytest.mark.parametrize(("attempt", "seconds"), [(0, 10), (1, 10), (2, 20), (3, 40), (8, 1280), (9, 1800), (50, 1800)])
def test_wait_after_a_failure_doubles_up_to_half_an_hour(tmp_path: Path, attempt: int, seconds: int) -> None:
    disk = _cleaned(_disk(tmp_path), Cleaning(volume_uid="uid-1", state="Running", attempt=attempt))
    status = states.failed(disk, states.Reason("Hung", "it hangs"), now=NOW)
    assert status.cleaning is not None
    assert status.cleaning.next_attempt_at == states.timestamp(NOW + timedelta(seconds=seconds))
    assert (status.phase, status.reason, status.message) == ("CleanFailed", "Hung", "it hangs")


def test_attempts_are_counted_for_one_volume_and_kept_while_it_waits(tmp_path: Path) -> None:
    disk, why = _disk(tmp_path), states.Reason("InUse", "it is mounted")
    order = disk.spec.clean
    assert order is not None
    for uid, attempt in (("uid-1", 3), ("uid-0", 0)):
        before = _cleaned(disk, Cleaning(volume_uid=uid, state="Failed", attempt=3))
        for status in (states.waiting(before, order, why, method=()), states.refused(before, order, why, method=())):
            assert status.cleaning is not None and status.cleaning.attempt == attempt
            assert (status.reason, status.message) == ("InUse", "it is mounted")
        running = states.running(before, order, method=(), now=NOW, size=9)
        assert running.cleaning is not None and running.cleaning.attempt == attempt + 1
        assert (running.phase, running.reason, running.message) == (
            "Cleaning",
            "Cleaning",
            "The disk is being cleaned.",
        )
    fresh = states.waiting(disk, order, why, method=())
    assert fresh.cleaning is not None and fresh.cleaning.attempt == 0


@pytest.mark.parametrize(("policy", "says"), [("Retain", "when somebody deletes volume pv-1"), ("Delete", "manager")])
def test_clean_disk_says_who_offers_it_again(tmp_path: Path, policy: str, says: str) -> None:
    volume = OfferedVolume(name="pv-1", uid="uid-1", reclaim_policy=policy)
    disk = _cleaned(_change(_disk(tmp_path), volume=volume), Cleaning(volume_uid="uid-1", state="Running", attempt=1))
    status = states.verified(disk, now=NOW)
    assert (status.phase, status.reason) == ("Releasing", "Cleaned")
    assert says in status.message


@pytest.mark.parametrize(
    ("plan", "tells"),
    [
        (plans.Wipe(methods.Zero(1)), True),
        (plans.Wipe(methods.Shred(1)), True),
        (plans.Wipe(methods.Discard()), True),
        (plans.Wipe(methods.ZeroOut()), True),
        (plans.Wipe(methods.FsReset()), False),
        (plans.Wipe(methods.AtaErase()), False),
        (plans.Wipe(methods.NvmeFormat()), False),
        (plans.Wipe(methods.Command(("/x",))), False),
        (plans.Empty(), True),
        (plans.Run(("/x",)), False),
    ],
    ids=str,
)
def test_silence_means_that_it_hangs_only_of_what_tells_how_far_it_is(plan: plans.Plan, tells: bool) -> None:
    assert plans.tells_progress(plan) is tells
    command = isinstance(plan, plans.Run) or plan == plans.Wipe(methods.Command(("/x",)))
    assert plans.is_command(plan) is command


def _cleaned(disk: LocalDisk, cleaning: Cleaning) -> LocalDisk:
    return msgspec.structs.replace(disk, status=msgspec.structs.replace(disk.status, cleaning=cleaning))
