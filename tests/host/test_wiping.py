"""A device is wiped only when it is the right one and nobody uses it, and is called clean only after a look."""

# ruff: noqa: ASYNC110, ASYNC221, ASYNC230 - a test may wait for its own tools

from __future__ import annotations

import asyncio
import dataclasses
import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import erasure, loop, readback
from localpv.host import wiper as wiping_module
from localpv.host.devices import KernelDevices
from localpv.host.filesystems import KernelFileSystems
from localpv.host.model import methods
from localpv.host.model.methods import Method, Progress, Readback
from localpv.host.wiper import KernelWiper
from localpv.host.workers import Control, Workers

MIB = 1024 * 1024
REMOVES_SIGNATURES = methods.Command(("/bin/sh", "-c", 'wipefs -q -a "$LOCAL_PV_BLKDEVICE"'))


def write_data(device: Path) -> None:
    """Random data everywhere, and a file system on top."""
    size = int(subprocess.check_output(["blockdev", "--getsize64", device]))
    with open(device, "r+b") as disk:
        disk.write(os.urandom(size))
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "nodiscard", device], check=True)


def read_all(device: Path) -> bytes:
    subprocess.run(["blockdev", "--flushbufs", device], check=True)
    return device.read_bytes()


@pytest.mark.seed("CLN-1", "CLN-2", "CLN-4")
@pytest.mark.parametrize(
    "method", [methods.Zero(), methods.Zero(2), methods.ZeroOut(), methods.Discard(), methods.Shred(2)]
)
async def test_every_byte_is_gone(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path], method: Method
) -> None:
    disk = make_disk(9)
    write_data(disk)
    told: list[Progress] = []

    await wiping.wipe(disk, method, expected=(await devices.describe(disk)).identity, on_progress=told.append)

    assert read_all(disk) == bytes(9 * MIB)
    assert told and all(progress.done <= progress.total for progress in told)


async def test_zeroes_are_written_where_the_device_cannot_make_them(make_disk: Callable[..., Path]) -> None:
    disk = make_disk(9)
    write_data(disk)
    fd = os.open(disk, os.O_RDWR | os.O_DIRECT)
    try:
        erasure.zero(fd, 9 * MIB, Control(), passes=1, offload=False)
    finally:
        os.close(fd)
    assert read_all(disk) == bytes(9 * MIB)


async def test_zeroout_lets_the_device_do_it_and_reads_all_of_it_back(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    disk = make_disk(9)
    write_data(disk)
    told: list[Progress] = []
    identity = (await devices.describe(disk)).identity
    await wiping.wipe(disk, methods.ZeroOut(), expected=identity, verify=Readback.SAMPLE, on_progress=told.append)
    steps = [progress.step for progress in told]
    assert "zeroing by the device" in steps and not any(step.startswith("zeroing 1/1") for step in steps)


@pytest.mark.parametrize("honoured", [["punch"], ["punch", "discard"]], ids=" and ".join)
async def test_zeroout_goes_on_where_a_device_zeroes_only_a_part_of_itself(
    wiping: KernelWiper,
    devices: KernelDevices,
    make_disk: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    honoured: list[str],
) -> None:
    """As devices do that pass over what is not aligned, or where a discard is a hint."""
    disk = make_disk(9)
    write_data(disk)
    for name in honoured:
        real = getattr(erasure, name)
        monkeypatch.setattr(
            erasure, name, lambda fd, size, control, real=real: real(fd, size // MIB // 2 * MIB, control) or True
        )
    await wiping.wipe(disk, methods.ZeroOut(), expected=(await devices.describe(disk)).identity)
    assert read_all(disk) == bytes(9 * MIB)


async def test_zeroout_writes_where_the_device_can_neither_zero_nor_discard(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = make_disk(9)
    write_data(disk)
    described = await devices.describe(disk)
    plain = dataclasses.replace(described, discard_max_bytes=0, write_zeroes_max_bytes=0)

    async def describe(path: Path, **_: object) -> object:
        return plain

    monkeypatch.setattr(devices, "describe", describe)
    monkeypatch.setattr(erasure, "punch", lambda *_: False)
    told: list[Progress] = []
    await wiping.wipe(disk, methods.ZeroOut(), expected=described.identity, on_progress=told.append)
    assert read_all(disk) == bytes(9 * MIB)
    assert told[-1].total == 9 * MIB


async def test_zeroout_does_not_take_a_trim_of_an_ata_drive_for_zeroes(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it answers to a read after that may be different each time."""
    disk = make_disk(9)
    write_data(disk)
    drive = dataclasses.replace(await devices.describe(disk), vendor="ATA")

    async def describe(path: Path, **_: object) -> object:
        return drive

    def discard(*_: object) -> None:
        raise AssertionError("a discard was believed")

    monkeypatch.setattr(devices, "describe", describe)
    monkeypatch.setattr(erasure, "punch", lambda *_: False)
    monkeypatch.setattr(erasure, "discard", discard)
    await wiping.wipe(disk, methods.ZeroOut(), expected=drive.identity)
    assert read_all(disk) == bytes(9 * MIB)


@pytest.mark.seed("CLN-3")
async def test_fs_reset_leaves_no_signature(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    disk = make_disk()
    write_data(disk)
    await wiping.wipe(disk, methods.FsReset(), expected=(await devices.describe(disk)).identity)
    assert (await devices.describe(disk)).signatures == ()


async def test_device_after_fs_reset_counts_as_blank_for_whoever_makes_a_file_system_next(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    disk = make_disk()
    write_data(disk)
    await wiping.wipe(disk, methods.FsReset(), expected=(await devices.describe(disk)).identity)
    content = await KernelFileSystems(workers=Workers()).content(await devices.describe(disk))
    assert content.blank


@pytest.mark.seed("CLN-6")
async def test_a_command_finds_the_device_in_its_environment(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    disk = make_disk()
    write_data(disk)
    identity = (await devices.describe(disk)).identity
    await wiping.wipe(disk, REMOVES_SIGNATURES, expected=identity)
    assert (await devices.describe(disk)).signatures == ()


async def test_a_command_that_only_says_so_is_not_believed(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    disk = make_disk()
    write_data(disk)
    with pytest.raises(errors.NotClean):
        await wiping.wipe(disk, methods.Command(("/bin/true",)), expected=(await devices.describe(disk)).identity)
    with pytest.raises(errors.CommandFailed):
        await wiping.wipe(disk, methods.Command(("/bin/false",)), expected=(await devices.describe(disk)).identity)


async def test_a_command_that_does_nothing_is_not_believed_where_there_is_only_raw_data(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    disk = make_disk(8)
    disk.write_bytes(b"raw data" * MIB)
    identity = (await devices.describe(disk)).identity
    with pytest.raises(errors.NotClean, match="/bin/true ended well"):
        await wiping.wipe(disk, methods.Command(("/bin/true",)), expected=identity)

    await wiping.wipe(disk, REMOVES_SIGNATURES, expected=identity)
    assert (await devices.describe(disk)).signatures == ()


async def test_another_disk_behind_the_same_link_is_not_wiped(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path], tmp_path: Path
) -> None:
    recorded, other = make_disk(), make_disk()
    write_data(other)
    before = read_all(other)
    link = tmp_path / "vol"
    link.symlink_to(recorded)
    identity = (await devices.describe(link)).identity
    link.unlink()
    link.symlink_to(other)

    with pytest.raises(errors.DeviceChanged, match="inode was"):
        await wiping.wipe(link, methods.Zero(), expected=identity)
    assert read_all(other) == before


async def test_another_file_behind_the_same_loop_device_is_not_wiped(
    wiping: KernelWiper, devices: KernelDevices, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).write_bytes(b"precious" * (MIB // 8))
    with loop.attached(tmp_path / "first") as device:
        identity = (await devices.describe(device)).identity
    with loop.attached(tmp_path / "second") as device:
        expected = dataclasses.replace(identity, major_minor=str((await devices.describe(device)).number))
        with pytest.raises(errors.DeviceChanged):
            await wiping.wipe(device, methods.Zero(), expected=expected)
    assert (tmp_path / "second").read_bytes() == b"precious" * (MIB // 8)


async def test_a_disk_replaced_between_look_and_act_is_not_wiped(devices: KernelDevices, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).write_bytes(b"precious" * (MIB // 8))
    device = loop.attach(tmp_path / "first")
    described = await devices.describe(device)
    loop.detach(device)
    again = loop.attach(tmp_path / "second")
    try:
        # The kernel may have given out another number meanwhile; the look must not match in either case.
        described = dataclasses.replace(described, path=again, number=(await devices.describe(again)).number)
        with pytest.raises(errors.DeviceChanged):
            wiping_module._work(methods.Zero(), described, Readback.FULL)(Control())
    finally:
        loop.detach(again)
    assert (tmp_path / "second").read_bytes() == b"precious" * (MIB // 8)


async def test_a_mounted_device_is_not_wiped(
    wiping: KernelWiper,
    devices: KernelDevices,
    make_disk: Callable[..., Path],
    mount: Callable[..., None],
    tmp_path: Path,
) -> None:
    disk = make_disk()
    write_data(disk)
    identity = (await devices.describe(disk)).identity
    (tmp_path / "mnt").mkdir()
    mount(disk, tmp_path / "mnt")
    with pytest.raises(errors.DeviceBusy, match="mounted at"):
        await wiping.wipe(disk, methods.Zero(), expected=identity)


@pytest.mark.parametrize("method", [methods.Zero(), methods.FsReset(), REMOVES_SIGNATURES])
async def test_a_device_that_somebody_claims_is_not_wiped(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path], method: Method
) -> None:
    disk = make_disk(8)
    identity = (await devices.describe(disk)).identity
    fd = os.open(disk, os.O_RDONLY | os.O_EXCL)
    try:
        with pytest.raises(errors.DeviceBusy):
            await wiping.wipe(disk, method, expected=identity)
    finally:
        os.close(fd)
    await wiping.wipe(disk, method, expected=identity)


async def test_a_device_nobody_can_identify_is_not_wiped(wiping: KernelWiper, make_disk: Callable[..., Path]) -> None:
    from localpv.host.model.identity import Identity

    with pytest.raises(errors.DeviceChanged):
        await wiping.wipe(make_disk(8), methods.Zero(), expected=Identity(size_bytes=8 * MIB))


async def test_nobody_can_mount_a_device_that_is_being_wiped_and_a_cancelled_wiping_stops(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path], tmp_path: Path
) -> None:
    disk = make_disk(256)
    identity = (await devices.describe(disk)).identity
    started = asyncio.Event()
    wiped = asyncio.create_task(
        wiping.wipe(disk, methods.Shred(50), expected=identity, on_progress=lambda _: started.set())
    )
    await started.wait()
    described = await devices.describe(disk)
    assert described.opens_exclusively is False
    with pytest.raises(errors.DeviceBusy):
        await wiping.wipe(disk, methods.Zero(), expected=identity)
    wiped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wiped
    assert (await devices.describe(disk)).opens_exclusively is True
    await wiping.wipe(disk, methods.Zero(), expected=identity, verify=Readback.SAMPLE)


async def test_a_cancelled_wiping_ends_its_command(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path], tmp_path: Path
) -> None:
    disk = make_disk(8)
    pid = tmp_path / "pid"
    command = methods.Command(("/bin/sh", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 60 & sleep 60"))
    wiped = asyncio.create_task(wiping.wipe(disk, command, expected=(await devices.describe(disk)).identity))
    while not pid.exists():
        await asyncio.sleep(0.01)
    wiped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wiped
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


@pytest.mark.parametrize("method", [methods.AtaErase(), methods.NvmeFormat()])
async def test_a_drive_that_cannot_erase_itself_is_refused_by_name(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path], method: Method
) -> None:
    disk = make_disk(8)
    with pytest.raises(errors.NotSupported):
        await wiping.wipe(disk, method, expected=(await devices.describe(disk)).identity)


async def test_a_read_only_device_is_refused(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    disk = make_disk(8, read_only=True)
    with pytest.raises(errors.NotSupported, match="read-only"):
        await wiping.wipe(disk, methods.Zero(), expected=(await devices.describe(disk)).identity)


@pytest.mark.parametrize("place", [0, 5 * MIB + 17, 9 * MIB - 1])
async def test_one_byte_that_is_left_is_found(make_disk: Callable[..., Path], place: int) -> None:
    disk = make_disk(9)
    with open(disk, "r+b") as file:
        file.seek(place)
        file.write(b"\1")
    fd = os.open(disk, os.O_RDWR | os.O_DIRECT)
    try:
        for how in Readback:
            with pytest.raises(errors.NotClean):
                readback.verify_zero(fd, 9 * MIB, how, Control())
    finally:
        os.close(fd)


async def test_a_drive_that_only_says_it_erased_itself_is_found_out(make_disk: Callable[..., Path]) -> None:
    fd = os.open(make_disk(8), os.O_RDWR)
    try:
        canaries = readback.Canaries(fd, 8 * MIB, 512)
        canaries.write()
        with pytest.raises(errors.NotClean):
            canaries.verify_gone()
        erasure.zero(fd, 8 * MIB, Control(), passes=1, offload=True)
        canaries.verify_gone()
    finally:
        os.close(fd)


@pytest.mark.parametrize("method", [methods.AtaErase(), methods.NvmeFormat(), methods.Discard()], ids=str)
async def test_a_drive_that_did_nothing_is_found_out_though_it_held_nothing_but_zeroes(
    wiping: KernelWiper,
    devices: KernelDevices,
    make_disk: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    method: Method,
) -> None:
    async def does_nothing(_: object) -> None:
        pass

    for name in ("check_ata", "check_nvme", "erase_ata", "format_nvme"):
        monkeypatch.setattr(erasure, name, does_nothing)
    monkeypatch.setattr(erasure, "discard", lambda *_: None)
    disk = make_disk(8)
    with pytest.raises(errors.NotClean, match="said that it erased itself"):
        await wiping.wipe(disk, method, expected=(await devices.describe(disk)).identity)


@pytest.mark.parametrize("method", [methods.AtaErase(), methods.NvmeFormat()], ids=str)
async def test_a_drive_that_erased_only_a_part_of_itself_is_found_out(
    wiping: KernelWiper,
    devices: KernelDevices,
    make_disk: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    method: Method,
) -> None:
    async def is_fine(_: object) -> None:
        pass

    async def erase_all_but_the_end(path: Path) -> None:
        fd = os.open(path, os.O_RDWR)
        try:
            erasure.zero(fd, 8 * MIB, Control(), passes=1, offload=True)
            os.pwrite(fd, b"old", 8 * MIB - 3)
            os.fsync(fd)
        finally:
            os.close(fd)

    for name in ("check_ata", "check_nvme"):
        monkeypatch.setattr(erasure, name, is_fine)
    for name in ("erase_ata", "format_nvme"):
        monkeypatch.setattr(erasure, name, erase_all_but_the_end)
    disk = make_disk(8)
    with pytest.raises(errors.NotClean, match="old data is left"):
        await wiping.wipe(disk, method, expected=(await devices.describe(disk)).identity)


@pytest.mark.parametrize(
    "method", [methods.Zero(), methods.NvmeFormat(), methods.FsReset(), REMOVES_SIGNATURES], ids=str
)
async def test_partitions_of_a_wiped_device_are_forgotten_by_the_kernel(
    wiping: KernelWiper, devices: KernelDevices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    async def is_fine(_: object) -> None:
        pass

    async def erase(path: Path) -> None:
        path.write_bytes(bytes(8 * MIB))

    monkeypatch.setattr(erasure, "check_nvme", is_fine)
    monkeypatch.setattr(erasure, "format_nvme", erase)
    table = bytearray(512)
    struct.pack_into("<B3xB3xII", table, 446, 0, 0x83, 2048, 4096)
    table[510:512] = b"\x55\xaa"
    image = tmp_path / "image"
    image.write_bytes(table)
    os.truncate(image, 8 * MIB)
    with loop.attached(image, partitions=True) as disk:
        subprocess.run(["partx", "-a", disk], check=False, stderr=subprocess.DEVNULL)
        before = await devices.describe(disk)
        assert before.partitions == (f"{disk.name}p1",)
        await wiping.wipe(disk, method, expected=before.identity)
        assert (await devices.describe(disk)).partitions == ()


async def test_a_device_below_a_loop_device_is_not_wiped(
    wiping: KernelWiper, devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    disk = make_disk(8)
    identity = (await devices.describe(disk)).identity
    with loop.attached(disk) as above:
        await asyncio.sleep(0.25)
        with pytest.raises(errors.DeviceBusy, match=above.name):
            await wiping.wipe(disk, methods.Zero(), expected=identity)
    await asyncio.sleep(0.25)
    await wiping.wipe(disk, methods.Zero(), expected=identity)
