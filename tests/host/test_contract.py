"""The fake machine and the real one behave alike: one suite for both."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from localpv import errors
from localpv.host import loop
from localpv.host.devices import Devices, KernelDevices
from localpv.host.feeds import Feed
from localpv.host.folders import FileKind, Folders, KernelFolders
from localpv.host.model import methods
from localpv.host.mounts import KernelMounts, Mounts
from localpv.host.trees import KernelTrees, Trees
from localpv.host.uevents import KernelUevents, Uevents
from localpv.host.wiper import KernelWiper, Wiper
from localpv.host.workers import Workers
from localpv.testing import fake_host, fake_volume_host
from localpv.testing.waiting import PATIENCE_SECONDS

T = TypeVar("T")
MIB = 1024 * 1024


class Real:
    """The machine that the tests run on."""

    def __init__(self, folder: Path, make_disk: Callable[..., Path], mount: Callable[..., None]) -> None:
        self.folder, self.make_disk, self._mount = folder, make_disk, mount
        workers = Workers()
        real_devices, real_mounts = KernelDevices(workers=workers), KernelMounts()
        self.devices: Devices = real_devices
        self.mounts: Mounts = real_mounts
        self.folders: Folders = KernelFolders(workers=workers)
        self.uevents: Uevents = KernelUevents()
        self.trees: Trees = KernelTrees(workers=workers, mounts=real_mounts)
        self.wiping: Wiper = KernelWiper(workers=workers, devices=real_devices)

    def format(self, disk: Path) -> None:
        subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)

    def mount(self, disk: Path, at: Path) -> None:
        self._mount(disk, at)

    def unmount(self, at: Path) -> None:
        subprocess.run(["umount", at], check=True)

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True)

    def write_file(self, path: Path) -> None:
        path.write_text("secret")

    def link(self, path: Path, target: Path) -> None:
        path.symlink_to(target)

    def rename(self, path: Path, new: Path) -> None:
        path.rename(new)

    def spoil(self, disk: Path) -> None:
        """Put something on a disk, in its file system if it has one."""
        if subprocess.run(["blkid", "-p", disk], stdout=subprocess.DEVNULL, check=False).returncode == 0:
            at = self.folder.parent / "spoiled"
            at.mkdir()
            subprocess.run(["mount", disk, at], check=True)
            (at / "file").write_text("secret")
            subprocess.run(["umount", at], check=True)
        else:
            with open(disk, "r+b") as device:
                device.write(b"secret")

    @contextmanager
    def hold(self, disk: Path) -> Iterator[None]:
        fd = os.open(disk, os.O_RDONLY | os.O_EXCL)
        yield
        os.close(fd)

    @contextmanager
    def loop_on(self, disk: Path) -> Iterator[str]:
        with loop.attached(disk, read_only=True) as device:
            yield device.name


class Fake:
    """A machine in memory."""

    folder = Path("/mnt/disks")

    def __init__(self) -> None:
        self.machine = fake_host.FakeMachine()
        self.machine.make_folder(self.folder)
        self.devices: Devices = fake_host.FakeDevices(self.machine)
        self.mounts: Mounts = fake_host.FakeMounts(self.machine)
        self.folders: Folders = fake_host.FakeFolders(self.machine)
        self.uevents: Uevents = fake_host.FakeUevents(self.machine)
        self.trees: Trees = fake_volume_host.FakeTrees(self.machine)
        self.wiping: Wiper = fake_host.FakeWiper(self.machine)
        self.format: Any = self.machine.make_file_system
        self.mount, self.unmount = self.machine.mount, self.machine.unmount
        self.make_folder, self.write_file, self.link = (
            self.machine.make_folder,
            self.machine.write_file,
            self.machine.link,
        )

    def make_disk(self, mib: int = 16) -> Path:
        path = Path(f"/dev/sd{'bcdefg'[len(self.machine.disks)]}")
        return self.machine.add_disk(path, size_bytes=mib * MIB).path

    def rename(self, path: Path, new: Path) -> None:
        self.machine.rename(path, new)

    def spoil(self, disk: Path) -> None:
        self.machine.disks[disk].dirty = True

    @contextmanager
    def hold(self, disk: Path) -> Iterator[None]:
        self.machine.disks[disk].held = True
        yield
        self.machine.disks[disk].held = False

    @contextmanager
    def loop_on(self, disk: Path) -> Iterator[str]:
        yield self.machine.attach_loop("/dev/loop99", disk).kernel_name
        self.machine.detach_loop("/dev/loop99")


@pytest.fixture(params=["real", "fake"])
async def world(request: pytest.FixtureRequest) -> Real | Fake:
    if request.param == "fake":
        return Fake()
    folder = request.getfixturevalue("tmp_path") / "disks"
    folder.mkdir()
    return Real(folder, request.getfixturevalue("make_disk"), request.getfixturevalue("mount"))


async def soon(feed: Feed[T]) -> T:
    return await asyncio.wait_for(anext(feed), PATIENCE_SECONDS)


async def test_entries_are_told_by_what_they_are(world: Real | Fake) -> None:
    disk = world.make_disk()
    world.make_folder(world.folder / "dir")
    world.write_file(world.folder / "file")
    world.link(world.folder / "disk", disk)
    world.link(world.folder / "dir-link", world.folder / "dir")
    world.link(world.folder / "nowhere", Path("/dev/nowhere"))

    found = {entry.name: entry for entry in await world.folders.entries(world.folder)}

    assert {name: entry.kind for name, entry in found.items()} == {
        "dir": FileKind.DIRECTORY,
        "dir-link": FileKind.DIRECTORY,
        "disk": FileKind.BLOCK_DEVICE,
        "file": FileKind.OTHER,
        "nowhere": FileKind.DANGLING_LINK,
    }
    assert found["disk"].is_link and found["disk"].target == disk
    assert found["disk"].device == (await world.devices.describe(disk)).number


async def test_a_missing_folder_and_a_missing_device_are_not_found(world: Real | Fake) -> None:
    with pytest.raises(FileNotFoundError):
        await world.folders.entries(world.folder / "missing")
    with pytest.raises(FileNotFoundError):
        await world.devices.describe(world.folder / "missing")
    world.write_file(world.folder / "file")
    with pytest.raises(errors.HostError):
        await world.devices.describe(world.folder / "file")


async def test_a_device_is_described_through_its_link(world: Real | Fake) -> None:
    disk = world.make_disk(16)
    world.link(world.folder / "disk", disk)
    described = await world.devices.describe(world.folder / "disk")
    assert (described.path, described.size_bytes, described.opens_exclusively) == (disk, 16 * MIB, True)
    assert described.identity.same_device((await world.devices.describe(disk)).identity)
    assert not described.identity.same_device((await world.devices.describe(world.make_disk(16))).identity)


async def test_a_mounted_device_tells_where_and_does_not_open_exclusively(world: Real | Fake) -> None:
    disk, place = world.make_disk(), world.folder / "vol"
    world.format(disk)
    world.make_folder(place)
    world.mount(disk, place)
    described = await world.devices.describe(disk)
    assert described.mounted_at == (str(place),) and described.opens_exclusively is False
    assert described.fs_type == "ext4" and described.fs_uuid
    mount = (await world.mounts.table()).at(place)
    assert mount is not None and mount in await world.mounts.everywhere(described.number)
    assert (await world.devices.behind(mount)).same_device(described.identity)
    assert 0 < (await world.folders.capacity(place)).total_bytes <= 16 * MIB


@pytest.mark.alone
async def test_a_loop_device_tells_what_it_lies_on_and_holds_it(world: Real | Fake) -> None:
    disk = world.make_disk()
    with world.loop_on(disk) as name:
        assert await world.devices.below(name) == (await world.devices.describe(disk)).number
        described = await world.devices.describe(disk)
        assert described.holders == (name,) and described.in_use_by
    assert await world.devices.below(disk.name) is None
    assert (await world.devices.describe(disk)).holders == ()


async def test_mounts_folders_and_devices_tell_when_they_change(world: Real | Fake) -> None:
    later = world.folder / "later"
    async with (
        world.mounts.changes() as mounts,
        world.folders.changes([world.folder, later]) as folders,
        world.uevents.changes() as uevents,
    ):
        disk = world.make_disk()
        number = (await world.devices.describe(disk)).number
        while (await soon(uevents)).device != number:
            pass
        world.make_folder(later)
        assert {await soon(folders), await soon(folders)} == {world.folder, later}
        world.make_folder(later / "vol")
        while await soon(folders) != later:
            pass
        world.format(disk)
        world.mount(disk, later / "vol")
        assert await soon(mounts) == "mounts"
        world.unmount(later / "vol")
        assert await soon(mounts) == "mounts"


async def test_a_volume_is_emptied_and_what_is_elsewhere_refused(world: Real | Fake) -> None:
    volume = world.folder / "vol"
    world.make_folder(volume / "sub")
    world.write_file(volume / "sub" / "file")
    world.link(world.folder / "link", volume)
    with pytest.raises(errors.OutsideFolder):
        await world.trees.empty(world.folder / "link", inside=world.folder)
    for path in (world.folder, world.folder.with_name("disks2"), world.folder / "missing"):
        with pytest.raises(errors.OutsideFolder):
            await world.trees.empty(path, inside=world.folder)
    assert await world.trees.empty(volume, inside=world.folder) == 2
    assert await world.folders.entries(volume) == ()


async def test_a_volume_with_a_mount_inside_is_not_emptied(world: Real | Fake) -> None:
    disk, volume = world.make_disk(), world.folder / "vol"
    world.format(disk)
    world.make_folder(volume / "sub")
    world.write_file(volume / "file")
    world.mount(disk, volume / "sub")
    with pytest.raises(errors.DeviceBusy):
        await world.trees.empty(volume, inside=world.folder)
    assert len(await world.folders.entries(volume)) == 2


async def test_a_disk_is_wiped_only_when_it_is_the_right_one_and_free(world: Real | Fake) -> None:
    disk, other = world.make_disk(), world.make_disk()
    world.format(disk)
    identity = (await world.devices.describe(disk)).identity
    with pytest.raises(errors.DeviceChanged):
        await world.wiping.wipe(other, methods.Zero(), expected=identity)
    with world.hold(disk), pytest.raises(errors.DeviceBusy):
        await world.wiping.wipe(disk, methods.Zero(), expected=identity)
    assert (await world.devices.describe(disk)).signatures
    told: list[methods.Progress] = []
    await world.wiping.wipe(disk, methods.Zero(), expected=identity, on_progress=told.append)
    assert (await world.devices.describe(disk)).signatures == ()
    assert told and told[0].total == 16 * MIB
    await world.wiping.wipe(disk, methods.FsReset(), expected=identity)


async def test_blank_device_is_told_from_one_with_something_on_it(world: Real | Fake) -> None:
    disk = world.make_disk()
    assert (await world.devices.contents(await world.devices.describe(disk))).blank
    world.spoil(disk)
    found = await world.devices.contents(await world.devices.describe(disk))
    assert str(found) == "it holds data of an unknown kind near byte 0"


async def test_empty_file_system_is_told_from_one_with_files(world: Real | Fake) -> None:
    disk = world.make_disk()
    world.format(disk)
    assert (await world.devices.contents(await world.devices.describe(disk))).blank
    world.spoil(disk)
    found = await world.devices.contents(await world.devices.describe(disk))
    assert (found.names, found.count) == (("file",), 1)


async def test_device_in_use_is_not_looked_into(world: Real | Fake) -> None:
    disk = world.make_disk()
    with world.hold(disk):
        found = await world.devices.contents(await world.devices.describe(disk))
    assert found.unknown and not found.blank


async def test_directory_is_empty_or_tells_a_few_names(world: Real | Fake) -> None:
    world.make_folder(world.folder / "a")
    assert (await world.folders.contents(world.folder / "a", top=False)).blank
    world.make_folder(world.folder / "a" / "lost+found")
    assert (await world.folders.contents(world.folder / "a", top=True)).blank
    assert (await world.folders.contents(world.folder / "a", top=False)).names == ("lost+found",)
    for number in range(5):
        world.write_file(world.folder / "a" / f"file{number}")
    found = await world.folders.contents(world.folder / "a", top=True)
    assert str(found) == "it holds 'file0', 'file1', 'file2' and 2 more"
    world.write_file(world.folder / "a" / "lost+found" / "#1")
    assert (await world.folders.contents(world.folder / "a", top=True)).count == 6


async def test_directory_is_known_by_its_inode_under_every_name(world: Real | Fake) -> None:
    for name in ("a", "b"):
        world.make_folder(world.folder / name)
    mount = (await world.mounts.table()).containing(world.folder)
    assert mount is not None
    first, second = [await world.devices.directory(world.folder / name, mount) for name in ("a", "b")]
    assert not first.same_file(second)
    world.rename(world.folder / "a", world.folder / "c")
    assert first.same_file(await world.devices.directory(world.folder / "c", mount))
    world.make_folder(world.folder / "a")
    assert not first.same_file(await world.devices.directory(world.folder / "a", mount))
    inodes = {entry.name: entry.inode for entry in await world.folders.entries(world.folder)}
    assert inodes["c"] == first.inode
    assert len({*inodes.values()}) == 3
