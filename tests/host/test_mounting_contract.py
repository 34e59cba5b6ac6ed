"""What serves pods, the fake machine and the real one alike: one suite for both."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import loop
from localpv.host.devices import Devices, KernelDevices
from localpv.host.filesystems import FileSystems, KernelFileSystems
from localpv.host.folders import FileKind
from localpv.host.loop import Holders, LoopHolders
from localpv.host.mounter import KernelMounter, KernelSubPaths, Mounter, SubPaths
from localpv.host.mounts import KernelMounts, Mounts
from localpv.host.volume_files import (
    DiskFileSets,
    File,
    FileSets,
    KernelNodePaths,
    KernelOwnership,
    NodePaths,
    Ownership,
)
from localpv.host.workers import Workers
from localpv.testing import fake_host, fake_volume_host, waiting
from localpv.testing.waiting import PATIENCE_SECONDS

MIB = 1024 * 1024
NAME = f"localpv-test-of-contract-{os.getpid()}"


class Real:
    """The machine that the tests run on."""

    def __init__(self, folder: Path, make_disk: Callable[..., Path]) -> None:
        self.folder, self.make_disk = folder, make_disk
        workers = Workers()
        self.devices: Devices = KernelDevices(workers=workers)
        self.mounts: Mounts = KernelMounts()
        self.mounting: Mounter = KernelMounter(workers=workers)
        self.file_systems: FileSystems = KernelFileSystems(workers=workers)
        self.holding: Holders = LoopHolders(workers=workers)
        self.ownership: Ownership = KernelOwnership(workers=workers)
        self.sub_paths: SubPaths = KernelSubPaths(workers=workers)
        self.file_sets: FileSets = DiskFileSets(workers=workers)
        self.node_paths: NodePaths = KernelNodePaths(workers=workers)

    def spoil(self, disk: Path) -> None:
        disk.write_bytes(b"data")

    @contextmanager
    def claimed(self, disk: Path) -> Iterator[None]:
        fd = os.open(disk, os.O_RDONLY | os.O_EXCL)
        yield
        os.close(fd)


class Fake:
    """A machine in memory, with a folder for what is our own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machine = fake_host.FakeMachine()
        self.devices: Devices = fake_host.FakeDevices(self.machine)
        self.mounts: Mounts = fake_host.FakeMounts(self.machine)
        mounting = fake_volume_host.FakeMounter(self.machine)
        self.mounting: Mounter = mounting
        self.file_systems: FileSystems = fake_volume_host.FakeFileSystems(self.machine)
        self.holding: Holders = fake_volume_host.FakeHolders(self.machine)
        self.ownership: Ownership = fake_volume_host.FakeOwnership()
        self.sub_paths: SubPaths = fake_volume_host.FakeSubPaths(mounting)
        self.file_sets: FileSets = fake_volume_host.FakeFileSets()
        self.node_paths: NodePaths = fake_volume_host.FakeNodePaths(self.machine)

    def make_disk(self, mib: int = 16) -> Path:
        path = Path(f"/dev/sd{'bcdefg'[len(self.machine.disks)]}")
        return self.machine.add_disk(path, size_bytes=mib * MIB).path

    def spoil(self, disk: Path) -> None:
        self.machine.disks[disk].dirty = True

    @contextmanager
    def claimed(self, disk: Path) -> Iterator[None]:
        self.machine.disks[disk].held = True
        yield
        self.machine.disks[disk].held = False


World = Real | Fake


@pytest.fixture(params=["real", "fake"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "own"
    folder.mkdir()
    if request.param == "fake":
        yield Fake(folder)
        return
    yield Real(folder, request.getfixturevalue("make_disk"))
    for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        if str(folder) in line.split()[4]:
            subprocess.run(["umount", line.split()[4]], check=False)
    if found := loop.find(NAME):
        loop.detach(found.device)


def folder(world: World, name: str) -> Path:
    path = world.folder / name
    path.mkdir()
    return path


async def test_a_directory_is_shown_at_another_place_and_can_be_read_only_there(world: World) -> None:
    source, at = folder(world, "source"), folder(world, "at")
    async with world.mounting.opened(source) as opened:
        assert opened.kind is FileKind.DIRECTORY and opened.real_path == source
        await world.mounting.bind(opened, at, read_only=True)
    mount = (await world.mounts.table()).at(at)
    assert mount is not None and mount.read_only and mount.root.endswith("/own/source")
    await world.mounting.make_read_only(at, read_only=False)
    mount = (await world.mounts.table()).at(at)
    assert mount is not None and not mount.read_only
    await world.mounting.unmount(at)
    assert not (await world.mounts.table()).is_mount_point(at)
    await world.mounting.unmount(at)


async def test_nothing_there_cannot_be_opened_and_a_device_is_told(world: World) -> None:
    with pytest.raises(FileNotFoundError):
        async with world.mounting.opened(world.folder / "missing"):
            pass
    disk = world.make_disk()
    async with world.mounting.opened(disk) as opened:
        assert opened.kind is FileKind.BLOCK_DEVICE
        assert opened.device == (await world.devices.describe(disk)).number


async def test_nothing_is_mounted_where_no_folder_is(world: World) -> None:
    source = folder(world, "source")
    async with world.mounting.opened(source) as opened:
        with pytest.raises(errors.HostError):
            await world.mounting.bind(opened, world.folder / "missing")


async def test_a_blank_device_gets_a_file_system_and_is_mounted(world: World) -> None:
    disk, at, number = world.make_disk(), folder(world, "at"), str(uuid.uuid4())
    device = await world.devices.describe(disk)
    assert (await world.file_systems.content(device)).blank
    await world.file_systems.make(device, "ext4", uuid=number)
    content = await world.file_systems.content(await world.devices.describe(disk))
    assert (content.fs_type, content.uuid, content.blank) == ("ext4", number, False)
    await world.file_systems.check(device, "ext4")
    await world.mounting.mount(disk, at, fs_type="ext4")
    mount = (await world.mounts.table()).at(at)
    assert mount is not None and (mount.fs_type, mount.device) == ("ext4", device.number)
    with pytest.raises(errors.DeviceBusy):
        await world.file_systems.make(device, "ext4", uuid=number, unfinished=True)
    await world.mounting.unmount(at)


async def test_no_file_system_is_made_over_anything(world: World) -> None:
    disk, spoilt = world.make_disk(), world.make_disk()
    device = await world.devices.describe(disk)
    await world.file_systems.make(device, "ext4", uuid=str(uuid.uuid4()))
    world.spoil(spoilt)
    for path in (disk, spoilt):
        device = await world.devices.describe(path)
        before = await world.file_systems.content(device)
        with pytest.raises(errors.NotClean):
            await world.file_systems.make(device, "ext4", uuid=str(uuid.uuid4()))
        assert await world.file_systems.content(device) == before


async def test_an_unfinished_file_system_is_made_anew_but_never_another_ones(world: World) -> None:
    disk, spoilt, mine = world.make_disk(), world.make_disk(), str(uuid.uuid4())
    world.spoil(spoilt)
    await world.file_systems.make(await world.devices.describe(spoilt), "ext4", uuid=mine, unfinished=True)
    device = await world.devices.describe(disk)
    await world.file_systems.make(device, "ext4", uuid=mine)
    await world.file_systems.make(device, "ext4", uuid=mine, unfinished=True)
    with pytest.raises(errors.NotClean):
        await world.file_systems.make(device, "ext4", uuid=str(uuid.uuid4()), unfinished=True)


async def test_a_claimed_device_gets_no_file_system(world: World) -> None:
    disk = world.make_disk()
    device = await world.devices.describe(disk)
    with world.claimed(disk), pytest.raises(errors.DeviceBusy):
        await world.file_systems.make(device, "ext4", uuid=str(uuid.uuid4()))
    with pytest.raises(errors.NotSupported, match="ntfs"):
        await world.file_systems.make(device, "ntfs", uuid=str(uuid.uuid4()))


async def test_a_device_is_held_until_it_is_released_and_no_other_takes_its_place(world: World) -> None:
    disk, other = world.make_disk(), world.make_disk()
    number = (await world.devices.describe(disk)).number
    assert await world.holding.held(NAME) is None
    holder = await world.holding.hold(disk, number, name=NAME)
    assert await world.holding.hold(disk, number, name=NAME) == holder
    assert await world.holding.held(NAME) == number
    with pytest.raises(errors.DeviceChanged):
        await world.holding.hold(other, (await world.devices.describe(other)).number, name=NAME)
    await world.holding.release(NAME)
    await world.holding.release(NAME)
    assert await world.holding.held(NAME) is None


async def test_memory_is_mounted(world: World) -> None:
    at = folder(world, "at")
    await world.mounting.mount_memory(at, size_bytes=MIB)
    mount = (await world.mounts.table()).at(at)
    assert mount is not None and mount.fs_type == "tmpfs"


async def test_a_group_is_given_once_when_the_top_has_it(world: World) -> None:
    volume = folder(world, "volume")
    assert await world.ownership.give(volume, group=1234, unless_root_has_it=True)
    assert not await world.ownership.give(volume, group=1234, unless_root_has_it=True)
    assert await world.ownership.give(volume, group=1234)
    assert await world.ownership.give(volume, group=1235, unless_root_has_it=True)


async def test_a_part_of_a_volume_is_bound_and_steps_out_of_it_are_refused(world: World) -> None:
    volume, at = folder(world, "volume"), world.folder / "parts" / "0"
    await world.sub_paths.bind(volume, "a/b", at, read_only=True)
    mount = (await world.mounts.table()).at(at)
    assert mount is not None and mount.read_only
    for part in ("../own", "/etc", "a/../../own"):
        with pytest.raises(errors.OutsideFolder):
            await world.sub_paths.bind(volume, part, world.folder / "parts" / "1", read_only=False)


async def test_a_set_of_files_changes_as_a_whole_and_only_when_it_differs(world: World) -> None:
    at = folder(world, "at")
    assert await world.file_sets.replace(at, {"one": File(data=b"1")})
    assert not await world.file_sets.replace(at, {"one": File(data=b"1")})
    assert await world.file_sets.replace(at, {"two/deep": File(data=b"2")})
    for path in ("../one", "/one", "..data", ""):
        with pytest.raises(errors.OutsideFolder):
            await world.file_sets.replace(at, {path: File(data=b"x")})


async def test_a_path_is_what_was_asked_for_or_made_so(world: World) -> None:
    made, file = world.folder / "made", world.folder / "file"
    for kind in ("Directory", "File", "Socket", "BlockDevice"):
        with pytest.raises(FileNotFoundError):
            await world.node_paths.check(made, kind)
    await world.node_paths.check(made, "DirectoryOrCreate")
    await world.node_paths.check(made, "Directory")
    await world.node_paths.check(file, "FileOrCreate")
    await world.node_paths.check(file, "File")
    await world.node_paths.check(world.folder / "any", "")
    await world.node_paths.check(world.make_disk(), "BlockDevice")
    for path, kind in ((made, "File"), (file, "Directory"), (file, "Socket"), (made, "nonsense")):
        with pytest.raises(errors.HostError):
            await world.node_paths.check(path, kind)


async def test_who_gives_up_waiting_leaves_no_descriptor_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the real one: a path that answers too late, or just when nobody waits any more."""
    real, begun, go_on = os.open, threading.Event(), threading.Event()
    opened: list[int] = []

    def slow(path: object, flags: int, *rest: object, **options: object) -> int:
        if path != tmp_path:
            return real(path, flags, *rest, **options)  # type: ignore[arg-type]
        begun.set()
        go_on.wait(PATIENCE_SECONDS)
        opened.append(real(path, flags, *rest, **options))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(os, "open", slow)

    async def wait() -> None:
        async with KernelMounter(workers=Workers()).opened(tmp_path):
            raise AssertionError("it was opened")

    task = asyncio.create_task(wait())
    assert await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await waiting.eventually(lambda: opened and not Path(f"/proc/self/fd/{opened[0]}").exists())
