"""Whether a disk is empty is seen without changing a byte of it, and in doubt it is not."""

# ruff: noqa: ASYNC221, ASYNC230 - a test may wait for its own tools

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from localpv.host import contents
from localpv.host.contents import Contents
from localpv.host.devices import KernelDevices

MIB = 1024 * 1024
TYPES = ("ext2", "ext3", "ext4", "xfs", "btrfs")
LEAST_MIB = {"xfs": 320, "btrfs": 128}
"""Their tools refuse smaller ones."""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make(device: Path, kind: str) -> None:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([f"mkfs.{kind}", "-q", str(device)], check=True, **quiet)  # type: ignore[call-overload]


async def look(devices: KernelDevices, device: Path) -> Contents:
    return await devices.contents(await devices.describe(device))


@pytest.mark.parametrize("kind", TYPES)
async def test_file_system_is_looked_into_without_a_change(
    kind: str, devices: KernelDevices, make_disk: Callable[..., Path], tmp_path: Path, mount: Callable[..., None]
) -> None:
    device, at = make_disk(LEAST_MIB.get(kind, 32)), tmp_path / "at"
    at.mkdir()
    make(device, kind)
    before = digest(device)
    assert (await look(devices, device)).blank
    assert digest(device) == before
    mount(device, at)
    (at / "precious").write_text("x")
    subprocess.run(["umount", at], check=True)
    before = digest(device)
    found = await look(devices, device)
    assert found.names == ("precious",)
    assert digest(device) == before
    mount(device, at)
    (at / "precious").unlink()
    subprocess.run(["umount", at], check=True)
    assert (await look(devices, device)).blank
    assert f" {device} " not in Path("/proc/self/mountinfo").read_text()
    os.close(os.open(device, os.O_RDONLY | os.O_EXCL))  # nobody has it any more


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
async def test_file_system_whose_journal_holds_what_is_not_seen_is_not_called_empty(
    kind: str, devices: KernelDevices, make_disk: Callable[..., Path], tmp_path: Path, mount: Callable[..., None]
) -> None:
    device, at = make_disk(LEAST_MIB.get(kind, 32)), tmp_path / "at"
    at.mkdir()
    make(device, kind)
    mount(device, at)
    (at / "precious").write_text("x")
    subprocess.run(["xfs_io", "-x", "-c", "shutdown -f", at], check=True)  # as when the power fails, the log on disk
    subprocess.run(["umount", at], check=True)
    before = digest(device)

    found = await look(devices, device)

    assert "not unmounted cleanly" in found.unknown
    assert digest(device) == before
    mount(device, at)
    assert (at / "precious").exists()


async def test_file_system_that_nobody_can_look_into_is_not_called_empty(
    devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    device = make_disk(64)
    make(device, "ext4")
    with open(device, "r+b") as file:  # the table of groups: the superblock is as it was
        file.seek(2048)
        file.write(b"\xff" * 4096)
    assert (await look(devices, device)).unknown
    subprocess.run(["wipefs", "-qa", device], check=True)
    subprocess.run(["mkfs.minix", device], check=True, stdout=subprocess.DEVNULL)
    assert "minix" in (await look(devices, device)).unknown


async def test_what_wipefs_leaves_of_a_file_system_is_not_blank(
    devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    for kind in TYPES:
        device = make_disk(320)
        make(device, kind)
        subprocess.run(["wipefs", "-qa", device], check=True)
        assert (await look(devices, device)).data, kind


@pytest.mark.parametrize("place", [0, 511, MIB - 1, 200 * MIB - 1, 199 * MIB, 64 * MIB + 5, 128 * MIB, 100 * MIB])
async def test_bytes_anywhere_that_is_looked_at_are_found(
    place: int, devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    device = make_disk(200)
    with open(device, "r+b") as file:
        file.seek(place)
        file.write(b"x")
    assert (await look(devices, device)).data


async def test_remains_in_the_middle_of_a_device_are_found(
    devices: KernelDevices, make_disk: Callable[..., Path]
) -> None:
    device, dice = make_disk(400), random.Random(7)
    with open(device, "r+b") as file:
        for _ in range(80):  # a tenth of it
            file.seek(dice.randrange(4, 395) * MIB)
            file.write(dice.randbytes(MIB // 2))
    assert (await look(devices, device)).data


def test_large_directory_is_counted_to_a_bound(tmp_path: Path) -> None:
    for number in range(many := 3000):
        os.close(os.open(tmp_path / f"{number:05}", os.O_CREAT | os.O_WRONLY))
    began = time.thread_time()
    found = contents.of_directory(tmp_path, top=False)
    assert found.count < many
    assert "at least" in str(found)
    assert time.thread_time() - began < 1
