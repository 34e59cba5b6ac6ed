"""Pools of LVM, thick and thin, over the real tools and the device mapper.

What the pools do step by step, and who dies where, is shown over LVM in memory (`test_lvm_pool.py` of the unit tests);
here that real LVM is as that one is, and that no byte of an old volume is seen in a new one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.vm import hardware

from localpv import errors
from localpv.agent.pools.lvm_pool import LvmPool, ThinPool
from localpv.host.devices import KernelDevices
from localpv.host.lvm import CONFIG, KernelLvm
from localpv.host.model import methods
from localpv.host.wiper import KernelWiper
from localpv.host.workers import Workers

GROUP = "vgpools"
EXTENT = 4 * 1024 * 1024
ZERO = methods.ZeroOut()
BlankDisk = Callable[[str], Path]


@pytest.fixture
def disks(blank_disk: BlankDisk) -> Iterator[list[Path]]:
    found = [blank_disk("SCSIHDD"), blank_disk("SATASSD")]
    yield found
    subprocess.run(["umount", "/mnt"], check=False, capture_output=True)
    subprocess.run(["vgremove", "--config", CONFIG, "-f", "-y", GROUP], check=False, capture_output=True)
    for disk in found:
        subprocess.run(["pvremove", "-ff", "-y", str(disk)], check=False, capture_output=True)
    # Links that LVM makes by itself, without udev, it does not always remove, and then takes the name for taken.
    shutil.rmtree(Path("/dev") / GROUP, ignore_errors=True)
    hardware.run("dmsetup", "mknodes")


def lvm(disks: list[Path]) -> KernelLvm:
    workers = Workers()
    devices = KernelDevices(workers=workers)
    return KernelLvm(workers=workers, devices=devices, wiper=KernelWiper(workers=workers, devices=devices), only=disks)


def thick(disks: list[Path]) -> LvmPool:
    return LvmPool(name="fast", group=GROUP, lvm=lvm(disks), devices=disks)


def thin(disks: list[Path]) -> ThinPool:
    return ThinPool(name="fast", group=GROUP, thin_pool="thin", lvm=lvm(disks), devices=disks, overprovision=2.0)


@pytest.fixture(params=[thick, thin])
def pool(request: pytest.FixtureRequest, disks: list[Path]) -> LvmPool:
    made: LvmPool = request.param(disks)
    return made


async def test_a_new_volume_shows_nothing_of_the_old_one(pool: LvmPool) -> None:
    """As large as the whole group, so that it has every extent that the old one had."""
    state = await pool.state()
    size = state.unpromised_bytes if pool.kind == "lvm" else 10 * EXTENT
    for name in ("pvc-1", "pvc-2"):
        made = await pool.create(name, size)
        assert (made.size_bytes, made.ready) == (size, True)
        device = await pool.attach(name)
        assert hardware.is_zero(device)
        hardware.fill(device)
        assert hardware.old_mib(device) == size // 1024 // 1024
        await pool.remove(name, method=ZERO)
    assert (await pool.state()).volumes == {}


async def test_snapshots_clones_and_what_is_restored_have_the_bytes_of_the_moment(pool: LvmPool) -> None:
    await pool.create("pvc-1", 2 * EXTENT)
    device = await pool.attach("pvc-1")
    hardware.fill(device)
    taken = await pool.snapshot("snapshot-1", "pvc-1")
    assert (taken.is_snapshot, taken.size_bytes) == (True, 2 * EXTENT)
    assert taken == await pool.snapshot("snapshot-1", "pvc-1")
    hardware.run("blkdiscard", "-z", "-f", device)

    kept = await pool.attach("snapshot-1")
    assert hardware.old_mib(kept) == 8
    with pytest.raises(OSError), kept.open("r+b", buffering=0) as file:
        file.write(bytes(4096))

    await pool.create("pvc-2", 3 * EXTENT, source="snapshot-1")
    restored = await pool.attach("pvc-2")
    assert hardware.old_mib(restored) == 8
    assert (await pool.state()).volumes["pvc-2"].size_bytes == 3 * EXTENT

    # In use, and still what it is at one moment.
    held = os.open(restored, os.O_RDONLY | os.O_EXCL)
    try:
        await pool.create("pvc-3", 3 * EXTENT, source="pvc-2")
        with pytest.raises(errors.DeviceBusy):
            await pool.remove("pvc-2", method=ZERO)
    finally:
        os.close(held)
    assert hardware.old_mib(await pool.attach("pvc-3")) == 8

    if pool.kind == "lvm":
        for act in (pool.remove("pvc-1", method=ZERO), pool.expand("pvc-1", 3 * EXTENT)):
            with pytest.raises(errors.StillNeeded, match="snapshot-1"):
                await act
    for name in ("snapshot-1", "pvc-1", "pvc-2", "pvc-3"):
        await pool.remove(name, method=ZERO)
    state = await pool.state()
    assert state.volumes == {}
    if pool.kind == "lvm":
        await pool.create("all", state.unpromised_bytes)
        assert hardware.is_zero(await pool.attach("all"))


async def test_a_volume_grows_and_a_pool_is_never_over_its_size(pool: LvmPool) -> None:
    await pool.create("pvc-1", 2 * EXTENT)
    device = await pool.attach("pvc-1")
    hardware.run("mkfs.ext4", "-q", device)
    hardware.run("mount", device, "/mnt")
    assert (await pool.expand("pvc-1", 4 * EXTENT)).size_bytes == 4 * EXTENT
    assert (await pool.expand("pvc-1", 4 * EXTENT)).size_bytes == 4 * EXTENT
    hardware.run("resize2fs", device)
    with pytest.raises(errors.DeviceBusy):
        await pool.remove("pvc-1", method=ZERO)
    hardware.run("umount", "/mnt")
    state = await pool.state()
    with pytest.raises(errors.NoRoom):
        await pool.create("pvc-2", state.unpromised_bytes + EXTENT)
    with pytest.raises(errors.NoRoom):
        await pool.expand("pvc-1", state.capacity_bytes + EXTENT)
    with pytest.raises(errors.AlreadyThere):
        await pool.create("pvc-1", EXTENT)


async def test_what_others_made_is_counted_and_never_touched(disks: list[Path]) -> None:
    pool = thick(disks)
    await pool.create("pvc-1", EXTENT)
    hardware.run("lvcreate", "-y", "-l", "2", "-n", "theirs", GROUP)
    hardware.fill(Path(f"/dev/{GROUP}/theirs"))
    hardware.run("lvcreate", "-y", "-s", "-l", "2", "-n", "backup", f"{GROUP}/localpv-pvc-1")
    state = await pool.state()
    assert {*state.volumes} == {"pvc-1"}
    assert state.foreign_bytes == 4 * EXTENT
    for name in ("theirs", "backup"):
        await pool.remove(name, method=ZERO)
    with pytest.raises(errors.StillNeeded, match="backup"):
        await pool.remove("pvc-1", method=ZERO)
    assert hardware.old_mib(Path(f"/dev/{GROUP}/theirs")) == 8
    hardware.run("lvremove", "-y", f"{GROUP}/backup")
    await pool.remove("pvc-1", method=ZERO)
    assert hardware.run("lvs", "--noheadings", "-o", "lv_name", GROUP).split() == ["theirs"]


async def test_a_group_is_made_of_blank_devices_only(disks: list[Path]) -> None:
    hardware.run("mkfs.ext4", "-q", disks[1])
    with pytest.raises(errors.NotClean, match="not blank"):
        await thick(disks).state()
    hardware.run("wipefs", "-a", disks[1])
    with disks[1].open("r+b", buffering=0) as file:
        file.write(b"something that nobody knows")
    with pytest.raises(errors.NotClean, match="not blank"):
        await thick(disks).state()
    assert GROUP not in hardware.run("vgs", "--noheadings", "-o", "vg_name")
    hardware.blank(disks[1])
    assert (await thick(disks).state()).capacity_bytes == 14 * EXTENT


async def test_a_group_that_misses_a_disk_serves_what_is_there_and_makes_nothing(disks: list[Path]) -> None:
    pool = thick(disks)
    await pool.create("pvc-1", 2 * EXTENT)
    hardware.run("vgchange", "-an", GROUP)
    partial = thick(disks[:1])
    state = await partial.state()
    assert "misses 1 of its disks" in state.error
    assert state.volumes["pvc-1"].ready
    hardware.fill(await partial.attach("pvc-1"))
    with pytest.raises(errors.HostError, match="misses 1"):
        await partial.create("pvc-2", EXTENT)
    assert (await thick(disks).state()).error == ""


async def test_a_volume_whose_maker_died_is_wiped_before_it_is_handed_out(disks: list[Path]) -> None:
    pool = thick(disks)
    await pool.state()
    tags = ["--addtag", "localpv.dev", "--addtag", "localpv.dev/state=making"]
    hardware.run("lvcreate", "-y", "-Wn", "-Zn", "-l", "2", *tags, "-n", "localpv-pvc-1", GROUP)
    hardware.fill(Path(f"/dev/{GROUP}/localpv-pvc-1"))
    assert not (await pool.state()).volumes["pvc-1"].ready
    with pytest.raises(errors.DeviceBusy):
        await pool.attach("pvc-1")
    await pool.create("pvc-1", 2 * EXTENT)
    assert hardware.is_zero(await pool.attach("pvc-1"))


async def test_a_thin_pool_is_full_before_its_volumes_fail(disks: list[Path]) -> None:
    pool = thin(disks)
    state = await pool.state()
    assert state.capacity_bytes == 24 * EXTENT
    await pool.create("pvc-1", 12 * EXTENT)
    hardware.fill(await pool.attach("pvc-1"))
    state = await pool.state()
    assert (state.data_percent, state.error) == (100.0, "the thin pool is 100 % full")
    with pytest.raises(errors.NoRoom, match="full"):
        await pool.create("pvc-2", EXTENT)
    await pool.remove("pvc-1", method=ZERO)
    assert (await pool.state()).error == ""
    hardware.run("lvchange", "--zero", "n", f"{GROUP}/thin")
    with pytest.raises(errors.HostError, match="does not zero"):
        await pool.create("pvc-2", EXTENT)
