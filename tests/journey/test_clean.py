"""Released disks become clean disks: real loop devices and directories, by every method, whatever is in the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.journey.machine import MIB, PATTERN, Machine, holds_old_data

from localpv.api.kinds import Kind
from localpv.api.kinds.localdisk import CleaningState, DiskKind
from localpv.lifecycle.clean.machine import Limits
from localpv.lifecycle.config import cleaners

SCRIPTS = Path(sys.modules["localpv"].__path__[0]) / "scripts"
VERIFIED, WAITING, FAILED, RUNNING = (
    CleaningState.VERIFIED,
    CleaningState.WAITING,
    CleaningState.FAILED,
    CleaningState.RUNNING,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    machine.records.open()
    try:
        yield machine
    finally:
        machine.close()


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
async def test_reset_is_the_default_and_leaves_no_file_system(machine: Machine) -> None:
    device = machine.device("sdb")
    subprocess.run(["mkfs.ext4", "-q", "-F", "-L", "old-label", device], check=True)
    disk = await machine.record("sdb")
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, VERIFIED)

    assert cleaning.method == ("fs-reset",)
    found = await machine.devices.describe(device)
    assert found.signatures == ()
    assert b"old-label" not in device.read_bytes()


def script(machine: Machine, name: str, *lines: str) -> tuple[str, ...]:
    """A command of the administrator, which is the cleaner of the class now."""
    path = machine.folder / name
    path.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
    path.chmod(0o755)
    return (str(path),)


@pytest.mark.seed("CLN-6")
async def test_command_of_the_class_gets_the_device(machine: Machine) -> None:
    device = machine.device("sdb", size=4 * MIB)
    command = script(
        machine,
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
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    command = script(machine, "lazy.sh", "exit 0")
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
    command = script(machine, "bad.sh", "echo the controller is gone >&2", "exit 3")
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
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
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
    with device.open("r+b") as held, subprocess.Popen(["sleep", "60"], stdin=held) as process:
        held.close()
        try:
            await machine.order(disk, "dd-zero")
            async with machine.cleaning():
                cleaning = await machine.until(disk, WAITING)
                assert f"sleep (process {process.pid})" in cleaning.error
                assert holds_old_data(device)
                process.kill()
                process.wait()
                await machine.until(disk, VERIFIED)
        finally:
            process.kill()
    assert not holds_old_data(device)


async def test_device_below_a_loop_device_waits(machine: Machine) -> None:
    device = machine.device("sdb")
    disk = await machine.record("sdb")
    above = subprocess.run(
        ["losetup", "-f", "--show", device], check=True, capture_output=True, text=True
    ).stdout.strip()
    try:
        await machine.order(disk, "dd-zero")
        async with machine.cleaning():
            cleaning = await machine.until(disk, WAITING)
            assert Path(above).name in cleaning.error or "open" in cleaning.error
            subprocess.run(["losetup", "-d", above], check=True)
            above = ""
            await machine.until(disk, VERIFIED)
    finally:
        if above:
            subprocess.run(["losetup", "-d", above], check=False)


@pytest.mark.seed("DEL-7")
async def test_two_links_to_one_device_are_cleaned_one_after_the_other(machine: Machine) -> None:
    device = machine.device("sdb", size=64 * MIB)
    (machine.disks / "again").symlink_to(device)
    one, two = await machine.record("sdb"), await machine.record("again")
    await machine.order(one, "shred", "3")
    await machine.order(two, "shred", "3")

    both_running = 0
    async with machine.cleaning():
        async with asyncio.timeout(50):
            while True:
                states = [await machine.status(disk) for disk in (one, two)]
                both_running += all(state is not None and state.state == RUNNING for state in states)
                if all(state is not None and state.state == VERIFIED for state in states):
                    break
                await asyncio.sleep(0.01)

    assert both_running == 0
    assert not holds_old_data(device)


class Told:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def tell(self, about: Kind, reason: str, message: str, *, warning: bool = False) -> None:
        self.reasons.append(str(reason))


@pytest.mark.seed("DEL-10")
async def test_events_tell_of_start_and_end(machine: Machine) -> None:
    machine.device("sdb")
    disk = await machine.record("sdb")
    await machine.order(disk, "dd-zero")
    told = Told()
    async with machine.cleaning(events=told):
        await machine.until(disk, VERIFIED)
        await asyncio.sleep(0.05)
    assert told.reasons == ["CleaningStarted", "CleaningFinished"]


@pytest.mark.seed("CLN-8")
async def test_directory_is_emptied_and_nothing_outside_is_touched(machine: Machine) -> None:
    volume, outside = machine.disks / "vol", machine.folder / "outside"
    outside.mkdir()
    (outside / "precious").write_text("keep")
    deep = volume / "/".join("abcdefgh")
    deep.mkdir(parents=True)
    (deep / "file").write_text("old")
    (volume / "link-to-folder").symlink_to(outside)
    (volume / "link-to-file").symlink_to(outside / "precious")
    (deep / "up").symlink_to("../../../../../../../../..")
    (volume / " odd\nname").write_text("old")
    os.mkfifo(volume / "fifo")
    locked = volume / "immutable"
    locked.write_text("old")
    immutable = subprocess.run(["chattr", "+i", locked], check=False, capture_output=True).returncode == 0
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, VERIFIED)

    assert immutable
    assert list(volume.iterdir()) == []
    assert (outside / "precious").read_text() == "keep"
    assert cleaning.method == ("fs-clean",)


async def test_directory_with_a_mount_inside_waits(machine: Machine) -> None:
    volume = machine.disks / "vol"
    volume.mkdir()
    (volume / "file").write_text("old")
    inside = machine.mount("tmpfs", volume / "inside", "-t", "tmpfs")
    (inside / "others").write_text("keep")
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, WAITING)
        assert str(inside) in cleaning.error
        assert (inside / "others").read_text() == "keep"
        assert (volume / "file").exists()
        machine.unmount(inside)
        await machine.until(disk, VERIFIED)

    assert list(volume.iterdir()) == []


@pytest.mark.parametrize("part", ["", "data"])
async def test_directory_that_a_pod_still_has_mounted_waits(machine: Machine, part: str) -> None:
    volume = machine.disks / "vol"
    (volume / "data").mkdir(parents=True)
    (volume / "data" / "file").write_text("old")
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    pod = machine.mount(volume / part, machine.folder / "pod", "--bind")
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, WAITING)
        assert str(pod) in cleaning.error
        assert (volume / "data" / "file").exists()
        machine.unmount(pod)
        await machine.until(disk, VERIFIED)


async def test_mount_point_is_emptied_and_stays_mounted(machine: Machine) -> None:
    device = machine.device("img", linked=False)
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    volume = machine.mount(device, machine.disks / "vol")
    (volume / "file").write_bytes(PATTERN)
    disk = await machine.record("vol", DiskKind.MOUNT_POINT)
    await machine.order(disk)

    async with machine.cleaning():
        await machine.until(disk, VERIFIED)

    assert volume.is_mount()
    assert [path.name for path in volume.iterdir()] == ["lost+found"]


async def test_mount_point_that_is_not_mounted_is_refused(machine: Machine) -> None:
    device = machine.device("img", linked=False)
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    volume = machine.mount(device, machine.disks / "vol")
    disk = await machine.record("vol", DiskKind.MOUNT_POINT)
    machine.unmount(volume)
    (volume / "on-the-root-disk").write_text("keep")
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "IdentityChanged"
    assert (volume / "on-the-root-disk").exists()


async def test_other_file_system_at_the_mount_point_is_refused(machine: Machine) -> None:
    first, second = machine.device("one", linked=False), machine.device("two", linked=False)
    for device in (first, second):
        subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    volume = machine.mount(first, machine.disks / "vol")
    disk = await machine.record("vol", DiskKind.MOUNT_POINT)
    machine.unmount(volume)
    machine.mount(second, volume)
    (volume / "others").write_text("keep")
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "IdentityChanged"
    assert (volume / "others").exists()


async def test_mount_over_a_plain_directory_is_refused(machine: Machine) -> None:
    volume = machine.disks / "vol"
    volume.mkdir()
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    machine.mount("tmpfs", volume, "-t", "tmpfs")
    (volume / "others").write_text("keep")
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "IdentityChanged"
    assert (volume / "others").exists()


@pytest.mark.seed("CLN-7")
async def test_directory_replaced_by_a_link_is_refused(machine: Machine) -> None:
    volume, outside = machine.disks / "vol", machine.folder / "outside"
    volume.mkdir()
    outside.mkdir()
    (outside / "precious").write_text("keep")
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    volume.rmdir()
    volume.symlink_to(outside)
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "OutsideFolder"
    assert (outside / "precious").read_text() == "keep"


async def test_command_for_file_systems_gets_the_directory_and_must_leave_nothing(machine: Machine) -> None:
    volume = machine.disks / "vol"
    volume.mkdir()
    (volume / "file").write_text("old")
    half = script(machine, "half.sh", f'test -e {machine.folder}/now && rm "$LOCAL_PV_FILESYSTEM"/*', "true")
    machine.settings = replace(machine.settings, fs_cleaner=cleaners.read(half, for_devices=False))
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    await machine.order(disk, *half)

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)
        assert cleaning.reason == "NotClean"
        assert "file" in cleaning.error
        (machine.folder / "now").touch()
        await machine.until(disk, VERIFIED)
    assert list(volume.iterdir()) == []


# Killed on the way


@contextlib.asynccontextmanager
async def agent_process(machine: Machine) -> AsyncIterator[asyncio.subprocess.Process]:
    """The cleaner in a process of its own, which can be killed. It has the records until then."""
    machine.records.close()
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.journey.agent", str(machine.folder))
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        machine.reopen()


@pytest.mark.seed("DEL-8", "DEL-6")
@pytest.mark.timeout(180)
async def test_killed_in_the_middle_of_wiping_the_next_process_wipes_it_all(machine: Machine) -> None:
    device = machine.device("sdb", size=192 * MIB)
    disk = await machine.record("sdb")
    await machine.order(disk, "shred", "4")

    for round in range(1, 4):
        async with agent_process(machine) as process:
            file = machine.folder / "records" / f"{disk.metadata.name}.json"
            async with asyncio.timeout(30):
                while f'"attempt":{round}' not in file.read_text().replace(" ", ""):
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.1 * round)
            assert process.returncode is None
            process.send_signal(signal.SIGKILL)
        cleaning = await machine.status(disk)
        assert cleaning is not None
        assert (cleaning.state, cleaning.attempt) == (RUNNING, round), "it was cut short and says so"

    async with machine.cleaning():
        cleaning = await machine.until(disk, VERIFIED, seconds=90)
    assert cleaning.attempt == 4
    assert not holds_old_data(device)
    assert not any(device.read_bytes())


async def test_what_a_killed_cleaning_left_running_is_waited_for(machine: Machine) -> None:
    device = machine.device("sdb", size=4 * MIB)
    command = script(
        machine,
        "slow.sh",
        f"test -e {machine.folder}/second && "
        'exec dd if=/dev/zero of="$LOCAL_PV_BLKDEVICE" bs=1M count=4 conv=fsync 2>/dev/null',
        f'sleep 60 >"$LOCAL_PV_BLKDEVICE" & echo $! >{machine.folder}/pid.new; mv {machine.folder}/pid.new {machine.folder}/pid',
        "wait",
    )
    machine.settings = replace(machine.settings, block_cleaner=cleaners.read(command, for_devices=True))
    disk = await machine.record("sdb")
    await machine.order(disk, *command)
    pid = machine.folder / "pid"

    async with agent_process(machine) as process:
        async with asyncio.timeout(30):
            while not pid.exists():
                await asyncio.sleep(0.02)
        process.kill()
    orphan = int(pid.read_text())
    try:
        (machine.folder / "second").touch()
        async with machine.cleaning():
            cleaning = await machine.until(disk, WAITING)
            assert f"process {orphan}" in cleaning.error
            os.kill(orphan, signal.SIGKILL)
            await machine.until(disk, VERIFIED)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(orphan, signal.SIGKILL)
    assert not holds_old_data(device)


# The scripts by hand


@pytest.mark.parametrize(
    ("script_name", "arguments"),
    [
        pytest.param("dd_zero.sh", ["2"], marks=pytest.mark.seed("CLN-1")),
        pytest.param("blkdiscard.sh", [], marks=pytest.mark.seed("CLN-2")),
        pytest.param("shred.sh", ["1"], marks=pytest.mark.seed("CLN-4")),
    ],
)
def test_script_wipes_the_device_by_hand(machine: Machine, script_name: str, arguments: list[str]) -> None:
    device = machine.device("sdb", size=8 * MIB)
    done = _run(script_name, *arguments, LOCAL_PV_BLKDEVICE=device)
    assert done.returncode == 0, done.stderr
    assert not holds_old_data(device)


@pytest.mark.seed("CLN-3")
def test_quick_reset_by_hand_leaves_no_signature(machine: Machine) -> None:
    device = machine.device("sdb")
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    assert _run("quick_reset.sh", LOCAL_PV_BLKDEVICE=device).returncode == 0
    assert subprocess.run(["wipefs", device], check=True, capture_output=True).stdout == b""


@pytest.mark.seed("CLN-8")
def test_fsclean_by_hand_empties_the_directory(machine: Machine) -> None:
    volume = machine.disks / "vol"
    (volume / "a").mkdir(parents=True)
    (volume / "a" / "file").write_text("old")
    done = _run("fsclean.sh", LOCAL_PV_FILESYSTEM=volume)
    assert done.returncode == 0, done.stderr
    assert list(volume.iterdir()) == []


@pytest.mark.parametrize("script_name", sorted(path.name for path in SCRIPTS.glob("*.sh")))
def test_script_without_a_disk_says_what_it_needs(script_name: str) -> None:
    done = _run(script_name)
    assert done.returncode == 2
    assert "LOCAL_PV_" in done.stderr


@pytest.mark.parametrize("script_name", ["hdparm.sh", "nvme_format.sh"])
def test_script_for_drives_refuses_what_is_none(machine: Machine, script_name: str) -> None:
    device = machine.device("sdb", size=8 * MIB)
    assert _run(script_name, LOCAL_PV_BLKDEVICE=device).returncode == 1
    assert holds_old_data(device)


def test_script_refuses_a_mounted_device_and_a_plain_file(machine: Machine) -> None:
    device = machine.device("sdb")
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    pod = machine.mount(device, machine.folder / "pod")
    (pod / "file").write_bytes(PATTERN)
    done = _run("dd_zero.sh", LOCAL_PV_BLKDEVICE=device)
    assert done.returncode == 1 and str(pod) in done.stderr
    assert (pod / "file").read_bytes() == PATTERN
    assert _run("dd_zero.sh", LOCAL_PV_BLKDEVICE=machine.folder / "sdb.img").returncode == 1


def _run(script_name: str, *arguments: str, **environment: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPTS / script_name, *arguments],
        env={"PATH": os.environ["PATH"], "LOCALPV_PYTHON": sys.executable}
        | {name: str(path) for name, path in environment.items()},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


async def test_bounded_number_of_disks_is_cleaned_at_once(machine: Machine) -> None:
    disks = []
    for number in range(4):
        machine.device(f"disk-{number}", size=8 * MIB)
        disks.append(await machine.record(f"disk-{number}"))
        await machine.order(disks[-1], "shred", "1")
    most = 0
    async with machine.cleaning(limits=Limits(at_once=1)), asyncio.timeout(50):
        while True:
            states = [await machine.status(disk) for disk in disks]
            most = max(most, sum(state is not None and state.state == RUNNING for state in states))
            if all(state is not None and state.state == VERIFIED for state in states):
                break
            await asyncio.sleep(0.005)
    assert most == 1
