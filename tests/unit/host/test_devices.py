"""What is read about a device, from a made-up machine, and which device is taken for another one."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.host.test_identities import DISK, PART, SECTORS, Loops, Machine, mount_of

from localpv import errors
from localpv.host import contents, devices
from localpv.host.contents import BLANK, Contents
from localpv.host.devices import KernelDevices
from localpv.host.identities import Opened
from localpv.host.model.devices import BlockDevice, DeviceKind, DeviceNumber, Signature
from localpv.host.model.identity import Identity
from localpv.host.mounts import KernelMounts
from localpv.host.sysfs import Attributes
from localpv.host.workers import Workers
from localpv.testing.fake_host import block_device


class Nodes(Loops):
    """Nodes below /dev that are files, with the numbers of the device in them."""

    def number(self, path: Path) -> DeviceNumber:
        return DeviceNumber.parse(path.read_text())

    def opened(self, path: Path, own: Attributes, number: DeviceNumber) -> Opened:
        return Opened(size_bytes=own.number("size") * 512, loop=self.loop_status(path))


class World:
    def __init__(self, root: Path) -> None:
        self.machine, self.root = Machine(root), root
        (root / "sys/block").mkdir()
        self.devices = KernelDevices(
            workers=Workers(),
            dev=root / "dev",
            sys=root / "sys",
            proc=root / "proc",
            run=root / "run",
            loops_seconds=-1.0,
            identities=Nodes,
        )
        identities = self.devices._identities
        assert isinstance(identities, Nodes)
        identities.statuses = self.machine.identities.statuses

    def add(self, name: str, number: DeviceNumber, **files: Any) -> Path:
        own = self.machine.add(name, number, **files)
        if "on" not in files:
            (self.root / "sys/block" / name).symlink_to(own.folder)
        return self._node(name, number)

    def add_loop(self, minor: int, **status: Any) -> Path:
        own = self.machine.add_loop(minor, **status)
        (self.root / "sys/block" / f"loop{minor}").symlink_to(own.folder)
        return self._node(f"loop{minor}", DeviceNumber(7, minor))

    def _node(self, name: str, number: DeviceNumber) -> Path:
        path = self.root / "dev" / name
        path.write_text(str(number))
        return path


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_disk_is_described_by_what_the_kernel_says(world: World) -> None:
    path = world.add(
        "sda",
        DISK,
        queue__logical_block_size=4096,
        queue__rotational=1,
        queue__discard_max_bytes=7,
        queue__write_zeroes_max_bytes=9,
        ro=1,
        removable=1,
        device__vendor="ATA",
    )
    world.add("sda1", PART, on="sda", partition=1, ro=0)
    (world.root / "sys/devices/sda/holders/dm-0").mkdir(parents=True)
    (world.root / "sys/devices/sda/slaves/sdz").mkdir(parents=True)
    world.add_loop(0, below=DISK)
    world.add_loop(1, below=PART)
    (world.root / "link").symlink_to(path)
    found = await world.devices.describe(world.root / "link", exclusive=False)
    assert (found.path, found.kernel_name, found.kind) == (path, "sda", DeviceKind.DISK)
    assert (found.size_bytes, found.logical_block_size) == (SECTORS * 512, 4096)
    assert (found.rotational, found.read_only, found.removable, found.vendor) == (True, True, True, "ATA")
    assert (found.discard_max_bytes, found.write_zeroes_max_bytes) == (7, 9)
    assert (found.partitions, found.holders, found.slaves) == (("sda1",), ("dm-0", "loop0"), ("sdz",))
    assert (found.parent, found.part_label, found.swap, found.opens_exclusively) == ("", "", False, None)
    part = await world.devices.describe(world.root / "dev/sda1", exclusive=True)
    assert (part.kind, part.parent, part.logical_block_size, part.read_only) == (
        DeviceKind.PARTITION,
        "sda",
        4096,
        False,
    )
    assert (part.partitions, part.holders, part.opens_exclusively) == ((), ("loop1",), True)


async def test_device_that_the_kernel_does_not_have_is_refused(world: World) -> None:
    (world.root / "dev/sdx").write_text("8:99")
    with pytest.raises(errors.HostError, match="no device 8:99"):
        await world.devices.describe(world.root / "dev/sdx")


async def test_block_size_that_is_not_told_is_the_smallest(world: World) -> None:
    found = await world.devices.describe(world.add("sda", DISK), exclusive=False)
    assert (found.logical_block_size, found.rotational, found.read_only) == (512, False, False)


async def test_mounts_of_the_device_and_of_its_node_are_told(world: World) -> None:
    path = world.add("sda", DISK)
    lines = ["20 1 8:0 / /data rw - xfs /dev/sda rw", "21 1 0:5 /sda /raw rw - devtmpfs udev rw"]
    (world.root / "proc/self/mountinfo").write_text("\n".join([*lines, "22 1 8:1 / /no rw - xfs /dev/sda1 rw", ""]))
    (world.root / "proc/1").mkdir()
    (world.root / "proc/1/mountinfo").write_text("30 1 8:0 / /on-the-host rw - xfs /dev/sda rw\n")
    found = await world.devices.describe(path, exclusive=False)
    assert found.mounted_at == ("/data", "/raw", "/on-the-host")
    mounts = KernelMounts(proc=world.root / "proc")
    places = [str(mount.mount_point) for mount in await mounts.everywhere(DISK)]
    assert places == ["/data", "/on-the-host"]


def test_swap_is_a_device_of_that_number_and_no_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    block = os.stat_result((0o60000, 0, 0, 0, 0, 0, 0, 0, 0, 0), {"st_rdev": os.makedev(8, 0)})
    file = os.stat_result((0o100000, 0, 0, 0, 0, 0, 0, 0, 0, 0), {"st_rdev": os.makedev(8, 16)})
    known = {"/dev/sda": block, "/swap": file}

    def stat(path: str) -> os.stat_result:
        if path not in known:
            raise FileNotFoundError(path)
        return known[path]

    assert not world.devices._is_swap(DISK), "the kernel may have no list"
    text = "Filename Type Size Used Priority\n/gone file 1 0 -1\n/swap file 1 0 -2\n/dev/sda partition 1 0 -3\n"
    (world.root / "proc/swaps").write_text(text)
    with monkeypatch.context() as made_up:
        made_up.setattr(os, "stat", stat)
        found = [world.devices._is_swap(number) for number in (DISK, PART, DeviceNumber(8, 16))]
    assert found == [True, False, False]


async def test_loop_device_lies_on_a_device_or_on_a_file(world: World) -> None:
    world.add_loop(0, below=DISK)
    world.add_loop(1)
    found = [await world.devices.below(name) for name in ("loop0", "loop1", "loop2")]
    assert found == [DISK, None, None]


async def test_list_of_loop_devices_is_read_again_when_one_came_or_went(world: World) -> None:
    world.devices._loops_seconds = 3600.0
    path = world.add("sda", DISK)
    assert (await world.devices.describe(path, exclusive=False)).holders == ()
    world.add_loop(0, below=DISK)
    assert (await world.devices.describe(path, exclusive=False)).holders == ()
    await world.devices.below("loop0")
    assert (await world.devices.describe(path, exclusive=False)).holders == ("loop0",)


async def test_what_is_behind_a_mount_is_its_device_or_the_file_system_alone(world: World, tmp_path: Path) -> None:
    world.add("sda", DISK, device__serial="S1")
    mount = mount_of(tmp_path, DISK)
    found = await world.devices.behind(mount)
    assert (found.serial, found.mount_id) == ("S1", mount.mount_id)
    (world.root / "dev/sda").unlink()
    known = await world.devices.behind(mount)
    assert (known.serial, known.mount_id) == ("S1", mount.mount_id), "the node is not there, its names are"
    memory = await world.devices.behind(mount_of(tmp_path, DeviceNumber(0, 44), "tmpfs"))
    assert (memory.serial, memory.major_minor) == ("", "0:44")


# Which device it is.


DEVICE = block_device(
    path=Path("/dev/sdb"), kernel_name="sdb", number=DeviceNumber(0, 0), size_bytes=4096, disk_sequence=5
)


@pytest.mark.parametrize(
    ("number", "size", "sequence", "same"),
    [
        ((0, 0), 4096, 5, True),
        ((0, 1), 4096, 5, False),
        ((0, 0), 4097, 5, False),
        ((0, 0), 4096, 6, False),
        ((0, 0), 4096, 0, False),
    ],
)
def test_open_device_is_another_one_by_number_size_or_count(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: tuple[int, int],
    size: int,
    sequence: int,
    same: bool,
) -> None:
    monkeypatch.setattr(devices, "size_of", lambda fd: size)
    monkeypatch.setattr(devices, "sequence_of", lambda fd: sequence)
    device = dataclasses.replace(DEVICE, number=DeviceNumber(*number))
    with open(tmp_path / "file", "w") as file:
        if same:
            devices.refuse_another(file.fileno(), device, "now")
            devices.refuse_another(file.fileno(), dataclasses.replace(device, names=Identity()), "now")
            return
        with pytest.raises(errors.DeviceChanged, match="became another disk now"):
            devices.refuse_another(file.fileno(), device, "now")


@pytest.mark.parametrize(("code", "free"), [(0, True), (errno.EBUSY, False), (errno.EIO, None)])
def test_device_is_claimed_only_if_the_kernel_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, free: bool | None
) -> None:
    real, path = os.open, tmp_path / "disk"
    path.touch()

    def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if code:
            assert flags & os.O_EXCL
            raise OSError(code, os.strerror(code))
        return real(path, flags, *rest, **more)

    with monkeypatch.context() as made_up:
        made_up.setattr(os, "open", opened)
        if free is None:
            with pytest.raises(errors.HostError, match="does not open"):
                devices.opens_exclusively(path)
        else:
            assert devices.opens_exclusively(path) is free


# What is on it.


@pytest.mark.parametrize("kind", ["", "ext4", "xfs", "swap"])
async def test_contents_are_those_of_the_blocks_or_of_the_file_system_of_that_very_device(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    node = tmp_path / "node"
    node.write_bytes(bytes(4096))
    usage = "other" if kind == "swap" else "filesystem"
    signatures = (Signature(type=kind, usage=usage),) if kind else ()
    device = dataclasses.replace(DEVICE, path=node, signatures=signatures, names=Identity())
    logs: list[bool | None] = []

    async def log_is_clean(path: Path) -> bool:
        return True

    def of_file_system(fd: int, device: BlockDevice, *, log_is_clean: bool | None) -> Contents:
        logs.append(log_is_clean)
        return Contents(names=("a",), count=1)

    monkeypatch.setattr(contents, "xfs_log_is_clean", log_is_clean)
    monkeypatch.setattr(contents, "of_file_system", of_file_system)
    monkeypatch.setattr(devices, "size_of", lambda fd: os.fstat(fd).st_size)
    found = await world.devices.contents(device)
    match kind:
        case "swap":
            assert found.data == "swap (other)" and logs == []
        case "":
            assert found == BLANK and logs == []
        case _:
            assert found.names == ("a",) and logs == [True if kind == "xfs" else None]
    if kind != "swap":
        with pytest.raises(errors.DeviceChanged):
            await world.devices.contents(dataclasses.replace(device, size_bytes=8192))
    assert str(node) not in map(os.path.realpath, Path("/proc/self/fd").iterdir())


async def test_xfs_whose_log_nobody_can_read_is_not_called_empty(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def missing(path: Path) -> bool:
        raise errors.NotSupported("xfs_logprint is not installed")

    monkeypatch.setattr(contents, "xfs_log_is_clean", missing)
    xfs = dataclasses.replace(DEVICE, signatures=(Signature(type="xfs", usage="filesystem"),))
    assert (await world.devices.contents(xfs)).unknown == "xfs_logprint is not installed"


async def test_directory_is_known_by_its_file_system_and_inode(world: World, tmp_path: Path) -> None:
    found = await world.devices.directory(tmp_path, mount_of(tmp_path, DeviceNumber(0, 44), "tmpfs"))
    known = Identity(filesystem_id="boot-boot-1-0:44", inode=os.stat(tmp_path).st_ino)
    assert (found.filesystem_id, found.inode) == (known.filesystem_id, known.inode)
