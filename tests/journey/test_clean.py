"""Released devices become clean devices: real loop devices, by every method, whatever is in the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import replace

import pytest
from tests.journey.machine import MIB, PATTERN, Machine, holds_old_data, open_machine

from localpv.agent.clean.reconciler import Limits
from localpv.api.kinds.localdisk import CleaningState, VolumeMode
from localpv.api.kinds.meta import Kind
from localpv.config import cleaners
from localpv.host import loop
from localpv.observe.recorder import Recorder
from localpv.testing.waiting import PATIENCE_SECONDS

VERIFIED = CleaningState.VERIFIED
WAITING = CleaningState.WAITING
FAILED = CleaningState.FAILED
RUNNING = CleaningState.RUNNING

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root")
machine = pytest.fixture(open_machine)


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(("dd-zero", "2"), marks=pytest.mark.seed("CLN-1")),
        pytest.param(("blkdiscard",), marks=pytest.mark.seed("CLN-2")),
        pytest.param(("shred", "2"), marks=pytest.mark.seed("CLN-4")),
    ],
    ids=lambda words: words[0],
)
async def test_device_that_is_overwritten_holds_nothing_of_the_old_data(
    machine: Machine, method: tuple[str, ...]
) -> None:
    device = machine.device("sdb")
    disk = await machine.record("sdb")
    await machine.order(disk, *method)

    async with machine.cleaning():
        cleaning = await machine.until(disk, VERIFIED)

    assert not holds_old_data(device)
    assert cleaning.volume_uid == "uid-1"
    assert cleaning.attempt == 1
    assert cleaning.method == method
    assert cleaning.bytes_done == cleaning.bytes_total > 0
    assert cleaning.finished_at is not None


@pytest.mark.seed("CLN-3")
async def test_reset_is_the_default_of_devices_under_a_file_system_and_leaves_none(machine: Machine) -> None:
    device = machine.device("sdb")
    machine.make_file_system(device, "-L", "old-label")
    disk = await machine.record("sdb", mode=VolumeMode.FILESYSTEM)
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, VERIFIED)

    assert cleaning.method == ("fs-reset",)
    found = await machine.devices.describe(device)
    assert found.signatures == ()
    assert b"old-label" not in device.read_bytes()


@pytest.mark.seed("CLN-6")
async def test_command_of_the_class_gets_the_device(machine: Machine) -> None:
    device = machine.device("sdb", size=4 * MIB)
    command = machine.script(
        "wipe.sh",
        f'echo "$LOCAL_PV_BLKDEVICE $1" > {machine.folder}/args',
        'dd if=/dev/zero of="$LOCAL_PV_BLKDEVICE" bs=1M count=4 conv=fsync 2>/dev/null',
    )
    words = (*command, "two")
    machine.settings = replace(machine.settings, block_cleaner=cleaners.read(words, for_devices=True))
    disk = await machine.record("sdb")
    await machine.order(disk, *words)

    async with machine.cleaning():
        await machine.until(disk, VERIFIED)

    assert (machine.folder / "args").read_text() == f"{device} two\n"
    assert not holds_old_data(device)


async def test_command_that_only_says_it_cleaned_is_not_believed(machine: Machine) -> None:
    device = machine.device("sdb")
    machine.make_file_system(device)
    command = machine.script("lazy.sh", "exit 0")
    machine.settings = replace(machine.settings, block_cleaner=cleaners.read(command, for_devices=True))
    disk = await machine.record("sdb")
    await machine.order(disk, *command)

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "NotClean"
    assert cleaning.next_attempt_at is not None


@pytest.mark.seed("DEL-4")
async def test_command_that_fails_leaves_its_words_on_the_record(machine: Machine) -> None:
    machine.device("sdb")
    command = machine.script("bad.sh", "echo the controller is gone >&2", "exit 3")
    machine.settings = replace(machine.settings, block_cleaner=cleaners.read(command, for_devices=True))
    disk = await machine.record("sdb")
    await machine.order(disk, *command)

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "CommandFailed"
    assert "the controller is gone" in cleaning.error
    assert cleaning.attempt == 1


async def test_method_that_the_device_cannot_do_touches_nothing(machine: Machine) -> None:
    device = machine.device("sdb")
    disk = await machine.record("sdb")
    await machine.order(disk, "hdparm", "normal")

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "NotSupported"
    assert holds_old_data(device)


async def test_another_device_behind_the_link_is_left_alone(machine: Machine) -> None:
    device = machine.device("sdb")
    other = machine.device("other", linked=False)
    disk = await machine.record("sdb")
    (machine.disks / "sdb").unlink()
    (machine.disks / "sdb").symlink_to(other)
    await machine.order(disk, "dd-zero")

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "IdentityChanged"
    assert holds_old_data(device) and holds_old_data(other)


@pytest.mark.seed("CLN-7")
async def test_link_that_leads_out_of_dev_is_refused(machine: Machine) -> None:
    machine.device("sdb")
    disk = await machine.record("sdb")
    outside = machine.folder / "precious"
    outside.write_bytes(PATTERN)
    (machine.disks / "sdb").unlink()
    (machine.disks / "sdb").symlink_to(outside)
    await machine.order(disk, "dd-zero")

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "OutsideFolder"
    assert outside.read_bytes() == PATTERN


async def test_mounted_device_waits_until_it_is_unmounted(machine: Machine) -> None:
    device = machine.device("sdb")
    machine.make_file_system(device)
    disk = await machine.record("sdb")
    pod = machine.mount(device, machine.folder / "pod")
    (pod / "file").write_bytes(PATTERN)
    await machine.order(disk, "dd-zero")

    async with machine.cleaning():
        cleaning = await machine.until(disk, WAITING)
        assert cleaning.reason == "InUse" and str(pod) in cleaning.error
        assert (pod / "file").read_bytes() == PATTERN
        machine.unmount(pod)
        await machine.until(disk, VERIFIED)

    assert not holds_old_data(device)


async def test_device_that_a_process_has_open_waits_for_its_end(machine: Machine) -> None:
    device = machine.device("sdb")
    disk = await machine.record("sdb")
    with device.open("r+b") as held:
        process = await asyncio.create_subprocess_exec("sleep", "3600", stdin=held)
    try:
        await machine.order(disk, "dd-zero")
        async with machine.cleaning():
            cleaning = await machine.until(disk, WAITING)
            assert f"sleep (process {process.pid})" in cleaning.error
            assert holds_old_data(device)
            process.kill()
            await process.wait()
            await machine.until(disk, VERIFIED)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert not holds_old_data(device)


async def test_device_below_a_loop_device_waits(machine: Machine) -> None:
    device = machine.device("sdb")
    disk = await machine.record("sdb")
    above = machine.attach(device)
    await machine.order(disk, "dd-zero")
    async with machine.cleaning():
        cleaning = await machine.until(disk, WAITING)
        assert above.name in cleaning.error
        assert holds_old_data(device)
        loop.detach(above)
        await machine.until(disk, VERIFIED)
    assert not holds_old_data(device)


@pytest.mark.seed("DEL-7")
async def test_two_links_to_one_device_are_cleaned_one_after_the_other(machine: Machine) -> None:
    device = machine.device("sdb", size=64 * MIB)
    (machine.disks / "again").symlink_to(device)
    one, two = await machine.record("sdb"), await machine.record("again")
    await machine.order(one, "shred", "3")
    await machine.order(two, "shred", "3")

    both_running = 0
    async with machine.cleaning():
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                states = [await machine.status(disk) for disk in (one, two)]
                both_running += all(state is not None and state.state == RUNNING for state in states)
                if all(state is not None and state.state == VERIFIED for state in states):
                    break
                await asyncio.sleep(0.01)

    assert both_running == 0
    assert not holds_old_data(device)


class Told(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[str] = []
        self.end = asyncio.Event()

    def event(self, about: Kind, reason: str, message: str, *, warning: bool = False, part: str = "") -> None:
        self.reasons.append(str(reason))
        if reason == "CleaningFinished":
            self.end.set()


@pytest.mark.alone
@pytest.mark.seed("DEL-10")
async def test_events_tell_of_start_and_end(machine: Machine) -> None:
    machine.device("sdb")
    disk = await machine.record("sdb")
    await machine.order(disk, "dd-zero")
    told = Told()
    async with machine.cleaning(events=told):
        await machine.until(disk, VERIFIED)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await told.end.wait()
    assert told.reasons == ["CleaningStarted", "CleaningFinished"]


async def test_bounded_number_of_disks_is_cleaned_at_once(machine: Machine) -> None:
    disks = []
    for number in range(4):
        machine.device(f"disk-{number}", size=8 * MIB)
        disks.append(await machine.record(f"disk-{number}"))
        await machine.order(disks[-1], "shred", "1")
    most = 0
    async with machine.cleaning(limits=Limits(at_once=1)), asyncio.timeout(PATIENCE_SECONDS):
        while True:
            states = [await machine.status(disk) for disk in disks]
            most = max(most, sum(state is not None and state.state == RUNNING for state in states))
            if all(state is not None and state.state == VERIFIED for state in states):
                break
            await asyncio.sleep(0.005)
    assert most == 1
