"""What is read about real devices, folders and paths."""

from __future__ import annotations

# ruff: noqa: ASYNC221 - a test may wait for its own tools
import asyncio
import fcntl
import itertools
import os
import struct
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from localpv import errors
from localpv.host import blkid, loop, openat
from localpv.host.devices import KernelDevices
from localpv.host.folders import KernelFolders
from localpv.host.model.devices import DeviceKind
from localpv.host.workers import Workers
from localpv.testing.waiting import PATIENCE_SECONDS


async def test_signatures_are_read_from_the_device_and_not_from_a_cache(
    devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    disk = make_disk()
    subprocess.run(["mkfs.ext4", "-q", "-L", "my disk", disk], check=True)
    described = await devices.describe(disk)
    assert (described.fs_type, described.fs_label, described.kind) == ("ext4", "my disk", DeviceKind.LOOP)
    subprocess.run(["mkswap", disk], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert [found.type for found in (await devices.describe(disk)).signatures] == ["swap"]
    subprocess.run(["wipefs", "-q", "-a", disk], check=True)
    assert (await devices.describe(disk)).signatures == ()


async def test_the_tool_answers_as_the_library_does(
    make_disk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = make_disk()
    for prepare in (["true"], ["mkfs.ext4", "-q", "-L", "my disk", str(disk)]):
        subprocess.run(prepare, check=True)
        fd = os.open(disk, os.O_RDONLY)
        try:
            with monkeypatch.context() as patch:
                by_library = blkid.probe(fd)
                patch.setattr(blkid, "_library", lambda: None)
                assert blkid.probe(fd) == by_library
        finally:
            os.close(fd)


async def test_partitions_have_identities_of_their_own(devices: KernelDevices, tmp_path: Path) -> None:
    image = tmp_path / "image"
    table = bytearray(512)
    table[440:444] = b"\x78\x56\x34\x12"
    for number in range(2):
        struct.pack_into("<B3xB3xII", table, 446 + 16 * number, 0, 0x83, 2048 + 16384 * number, 16384)
    table[510:512] = b"\x55\xaa"
    image.write_bytes(table)
    os.truncate(image, 32 * 1024 * 1024)
    with loop.attached(image, partitions=True) as disk:
        # By hand, for not every kernel reads every kind of table; it may have done so already.
        subprocess.run(["partx", "-a", disk], check=False, stderr=subprocess.DEVNULL)
        whole = await devices.describe(disk)
        assert whole.partitions == (f"{disk.name}p1", f"{disk.name}p2")
        assert [found.usage for found in whole.signatures] == ["partition-table"]
        one = await devices.describe(Path(f"{disk}p1"))
        two = await devices.describe(Path(f"{disk}p2"))
        assert one.kind is DeviceKind.PARTITION and one.parent == disk.name
        assert (one.names.part_uuid, two.names.part_uuid) == ("12345678-01", "12345678-02")
        assert not one.identity.same_device(two.identity)


@pytest.mark.alone
async def test_many_who_want_a_loop_device_at_once_each_get_their_own(tmp_path: Path) -> None:
    files = [tmp_path / str(number) for number in range(6)]
    for file in files:
        file.write_bytes(bytes(1024 * 1024))
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(loop.attach, files))
    try:
        assert len(set(made)) == 6
    finally:
        for device in made:
            loop.detach(device)
            loop.detach(device)  # twice is once


def test_who_attaches_takes_turns_with_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / f"{number}.img" for number in range(16)]
    for file in files:
        with file.open("wb") as made:
            made.truncate(1 << 20)
    monkeypatch.setattr(loop, "TURN_SECONDS", 50.0)
    calls: list[int] = []
    ioctl = fcntl.ioctl

    def told(fd: int, request: int, *more: Any) -> Any:
        calls.append(threading.get_ident())
        return ioctl(fd, request, *more)

    monkeypatch.setattr(fcntl, "ioctl", told)
    with ThreadPoolExecutor(8) as pool:
        devices = list(pool.map(loop.attach, files))
    monkeypatch.undo()
    for device in devices:
        loop.detach(device)
    turns = [who for who, _ in itertools.groupby(calls)]
    assert len(turns) <= len(files), "nobody asked for a number between another's number and device"


def test_nobody_waits_for_one_that_hangs_while_it_attaches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "TURN_SECONDS", 0.01)
    file = tmp_path / "disk.img"
    file.write_bytes(bytes(1 << 20))
    with open("/dev/loop-control", "rb") as control:
        fcntl.flock(control, fcntl.LOCK_EX)
        with loop.attached(file) as device:
            assert device.is_block_device()


def test_a_device_is_found_in_its_folder_by_link_and_by_node(make_disk: Callable[..., Path], tmp_path: Path) -> None:
    disk = make_disk()
    folder = tmp_path / "disks"
    folder.mkdir()
    (folder / "link").symlink_to(disk)
    os.mknod(folder / "node", 0o60600, os.stat(disk).st_rdev)
    assert openat.locate_device(folder, folder / "link").device_path == disk
    assert openat.locate_device(folder, folder / "node").device == openat.locate_device(folder, folder / "link").device


def test_links_that_lead_elsewhere_are_refused(make_disk: Callable[..., Path], tmp_path: Path) -> None:
    disk = make_disk()
    folder, outside = tmp_path / "disks", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    os.mknod(outside / "node", 0o60600, os.stat(disk).st_rdev)
    (folder / "to-node-outside").symlink_to(outside / "node")
    (folder / "way").symlink_to(outside)
    (folder / "char").symlink_to("/dev/null")
    (folder / "directory").mkdir()
    (folder / "file").touch()
    (folder / "circle").symlink_to(folder / "circle")
    for name in ("to-node-outside", "way/node", "char", "directory", "file", "circle", "missing"):
        with pytest.raises(errors.OutsideFolder):
            openat.locate_device(folder, folder / name)


async def test_a_folder_that_goes_and_comes_back_is_watched_again(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "disks"
    folder.mkdir(parents=True)
    async with KernelFolders(workers=Workers()).changes([folder]) as changes:

        async def told() -> None:
            assert await asyncio.wait_for(anext(changes), PATIENCE_SECONDS) == folder
            while changes._waiting:
                await anext(changes)

        folder.rmdir()
        await told()
        folder.parent.rmdir()
        await told()
        folder.mkdir(parents=True)
        await told()
        await asyncio.sleep(0.05)
        (folder / "vol").mkdir()
        await told()
        (folder / "vol").rename(folder / "other")
        await told()
