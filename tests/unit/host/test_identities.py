"""How a device is known again: what is read of it from a made-up /sys, /dev and udev."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.unit.host.identity_world import FILE_SYSTEMS

from localpv import errors
from localpv.host import blkid, identities, loop
from localpv.host.identities import KernelIdentities, Opened
from localpv.host.model.devices import DeviceNumber, Signature
from localpv.host.model.identity import Identity, Twin
from localpv.host.mounts import KernelMounts, Mount
from localpv.host.sysfs import Attributes

SECTORS = 2048
DISK, PART = DeviceNumber(8, 0), DeviceNumber(8, 1)
FILES = DeviceNumber(254, 0)
"""Of the file system that files behind loop devices lie in."""


class Loops(KernelIdentities):
    """Loop devices answer as they are told to."""

    statuses: dict[str, loop.Status]

    def loop_status(self, path: Path) -> loop.Status | None:
        return self.statuses.get(path.name)


class Machine:
    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("dev/disk/by-id", "sys/class/block", "sys/dev/block", "run/udev/data", "proc/self"):
            (root / name).mkdir(parents=True)
        (root / "proc/self/mountinfo").write_text("")
        boot = root / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True)
        boot.write_text("boot-1\n")
        self.identities = Loops(
            dev=root / "dev",
            sys=root / "sys",
            proc=root / "proc",
            run=root / "run",
            mounts=KernelMounts(proc=root / "proc"),
        )
        self.identities.statuses = {}

    def add(self, name: str, number: DeviceNumber, *, on: str = "", **files: object) -> Attributes:
        folder = self.root / "sys/devices" / on / name
        folder.mkdir(parents=True)
        for file, text in {"dev": number, "size": SECTORS, **files}.items():
            path = folder / file.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{text}\n")
        for link in (f"class/block/{name}", f"dev/block/{number}"):
            (self.root / "sys" / link).symlink_to(folder)
        return Attributes(folder)

    def add_loop(self, minor: int, **status: Any) -> Attributes:
        kept: dict[str, Any] = {"file_system": FILES, "inode": 12, "below": DeviceNumber(0, 0), "offset_bytes": 0}
        kept |= {"size_limit_bytes": 0, "going": False, "name": b"", **status}
        self.identities.statuses[f"loop{minor}"] = loop.Status(**kept)
        return self.add(f"loop{minor}", DeviceNumber(7, minor), loop__backing_file="/elsewhere")

    def of_loop(self, minor: int, own: Attributes) -> Identity:
        opened = Opened(size_bytes=SECTORS * 512, loop=self.identities.statuses[f"loop{minor}"])
        return self.identities.of(DeviceNumber(7, minor), own, own, opened)

    def udev(self, number: DeviceNumber, *lines: str) -> None:
        (self.root / f"run/udev/data/b{number}").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# Loop devices.


def test_two_loop_devices_of_one_part_of_a_file_are_twins_by_its_lasting_name(machine: Machine) -> None:
    """Also while the other one is known only by the number of its file system, which nobody has looked at."""
    machine.udev(FILES, f"E:ID_FS_UUID={FILE_SYSTEMS[0]}")
    first, second = machine.add_loop(0), machine.add_loop(1)
    machine.add_loop(2, inode=13)
    machine.add_loop(3, offset_bytes=4096)
    machine.add_loop(4, size_limit_bytes=4096)
    name = f"inode {FILE_SYSTEMS[0]} 12 0 0"
    for own, minor, other in ((first, 0, 1), (second, 1, 0)):
        found = machine.of_loop(minor, own)
        assert (found.filesystem_id, found.inode) == (FILE_SYSTEMS[0], 12)
        assert found.twins == (Twin(name, f"loop{other}"),)


def test_loop_device_in_a_file_system_without_a_lasting_name_has_none_and_no_twins_by_it(machine: Machine) -> None:
    own = machine.add_loop(0)
    machine.add_loop(1)
    found = machine.of_loop(0, own)
    assert (found.filesystem_id, found.inode, found.inode_generation, found.twins) == ("", 0, 0, ())


def test_twin_of_a_loop_device_by_what_is_written_on_it_is_called_by_that(machine: Machine) -> None:
    machine.udev(FILES, f"E:ID_FS_UUID={FILE_SYSTEMS[0]}")
    machine.udev(DISK, "E:ID_FS_UUID=copied")
    machine.add("sda", DISK)
    own = machine.add_loop(0)
    opened = Opened(
        size_bytes=SECTORS * 512,
        found=blkid.Found(signatures=(Signature(type="xfs", usage="filesystem", uuid="copied"),)),
        loop=machine.identities.statuses["loop0"],
    )
    found = machine.identities.of(DeviceNumber(7, 0), own, own, opened)
    assert found.twins == (Twin("fs_uuid copied", "sda"),)


def test_loop_device_on_a_device_is_no_file(machine: Machine) -> None:
    machine.udev(FILES, f"E:ID_FS_UUID={FILE_SYSTEMS[0]}")
    machine.add("sda", DISK, serial="S1")
    own = machine.add_loop(0, below=DISK)
    found = machine.of_loop(0, own)
    assert (found.filesystem_id, found.inode) == ("", 0)
    assert machine.identities._below_loop("loop0") == "sda"
    machine.add_loop(1)
    assert [machine.identities._below_loop(name) for name in ("loop1", "sda")] == ["", ""]


def test_generation_of_the_file_is_read_with_its_name(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "inode_generation", lambda path, number, inode: 7)
    own = machine.add_loop(0)
    assert machine.of_loop(0, own).inode_generation == 0, "without a name of its file system it says nothing"
    again = Machine(machine.root / "again")
    again.udev(FILES, f"E:ID_FS_UUID={FILE_SYSTEMS[0]}")
    assert again.of_loop(0, again.add_loop(0)).inode_generation == 7


# Disks and partitions.


def test_partition_has_the_names_of_its_disk_with_its_number_and_begins_where_it_does(machine: Machine) -> None:
    disk = machine.add("sda", DISK, device__serial="S1", device__wwid="naa.5000", device__model="M", diskseq=9)
    own = machine.add("sda1", PART, on="sda", partition=1, start=64)
    machine.udev(PART, "E:ID_PART_ENTRY_UUID=of udev")
    found = machine.identities.of(PART, own, disk, Opened(size_bytes=512))
    assert (found.serial, found.wwn, found.model) == ("S1-part1", "0x5000-part1", "M")
    assert (found.part_uuid, found.offset_bytes, found.disk_sequence) == ("of udev", 64 * 512, 9)
    read = Opened(size_bytes=512, found=blkid.Found(part_uuid="read"), sequence=11)
    found = machine.identities.of(PART, own, disk, read)
    assert (found.part_uuid, found.disk_sequence) == ("read", 11)


def test_whole_disk_has_no_uuid_of_a_partition(machine: Machine) -> None:
    own = machine.add("sda", DISK, device__serial="S1")
    machine.udev(DISK, "E:ID_PART_ENTRY_UUID=of udev")
    found = machine.identities.of(DISK, own, own, Opened(size_bytes=512, found=blkid.Found(part_uuid="read")))
    assert (found.part_uuid, found.serial, found.boot_id, found.size_bytes) == ("", "S1", "boot-1", 512)


def test_disk_without_names_has_none(machine: Machine) -> None:
    own = machine.add("sda1", PART, on="sda", partition=1)
    found = machine.identities.of(PART, own, Attributes(own.folder.parent), Opened(size_bytes=512))
    assert (found.serial, found.wwn, found.by_id) == ("", "", ())


def test_part_of_a_loop_device_begins_where_both_do_and_has_no_limit_of_its_own(machine: Machine) -> None:
    disk = machine.add_loop(0, offset_bytes=4096, size_limit_bytes=8192)
    own = machine.add("loop0p1", DeviceNumber(259, 0), on="loop0", partition=1, start=8)
    opened = Opened(size_bytes=512, loop=machine.identities.statuses["loop0"])
    found = machine.identities.of(DeviceNumber(259, 0), own, disk, opened)
    assert (found.offset_bytes, found.size_limit_bytes) == (4096 + 8 * 512, 0)
    whole = machine.of_loop(0, disk)
    assert (whole.offset_bytes, whole.size_limit_bytes) == (4096, 8192)


def test_uuid_is_that_of_the_file_system_among_the_signatures(machine: Machine) -> None:
    own = machine.add("sda", DISK)
    table = Signature(type="gpt", usage="partition-table", uuid="of the table")
    xfs = Signature(type="xfs", usage="filesystem", uuid="of the file system")
    for signatures, uuid in (((table, xfs), xfs.uuid), ((table,), ""), ((), "")):
        found = machine.identities.of(DISK, own, own, Opened(size_bytes=512, found=blkid.Found(signatures=signatures)))
        assert found.fs_uuid == uuid


def test_names_below_by_id_are_those_of_udev_and_of_the_kernel_without_what_is_of_contents_or_the_model(
    machine: Machine,
) -> None:
    own = machine.add("dm-0", DISK, dm__uuid="LVM-1")
    machine.udev(
        DISK,
        "S:disk/by-id/scsi-S1",
        "S:disk/by-id/lvm-pv-uuid-x",
        "S:disk/by-id/usb-Stick-0:0",
        "S:disk/by-label/x",
        "E:ID_BUS=usb",
        "E:ID_SERIAL=Stick",
    )
    found = machine.identities.of(DISK, own, own, Opened(size_bytes=512))
    assert found.by_id == ("dm-uuid-LVM-1", "scsi-S1")
    assert machine.identities._names_of("dm-0") is not None
    assert machine.identities._names_of("dm-0").by_id == found.by_id  # type: ignore[union-attr]
    assert machine.identities._names_of("sdx") is None, "it has no numbers"


# What a device says when it is opened.


def test_device_that_is_no_block_device_is_refused(machine: Machine) -> None:
    with pytest.raises(errors.HostError, match="no block device"):
        machine.identities.number(Path("/dev/null"))


def test_drive_without_a_medium_is_told_from_one_that_does_not_open(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = machine.add("sda", DISK)

    def fails(code: int) -> Any:
        def opened(path: Path, flags: int) -> int:
            raise OSError(code, os.strerror(code))

        return opened

    for code in (errno.ENXIO, errno.ENOMEDIUM):
        monkeypatch.setattr(os, "open", fails(code))
        assert machine.identities.opened(Path("/dev/sda"), own, DISK) == Opened(size_bytes=SECTORS * 512)
    monkeypatch.setattr(os, "open", fails(errno.EIO))
    with pytest.raises(errors.HostError, match="does not open"):
        machine.identities.opened(Path("/dev/sda"), own, DISK)


def test_device_that_became_another_one_is_not_read(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    own = machine.add("null", DeviceNumber(1, 3))
    asked: list[int] = []

    def probe(fd: int) -> blkid.Found:
        asked.append(fd)
        return blkid.Found(part_uuid="read")

    monkeypatch.setattr(identities, "size_of", lambda fd: 4096)
    monkeypatch.setattr(blkid, "probe", probe)
    open_before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(errors.DeviceChanged):
        machine.identities.opened(Path("/dev/null"), own, DeviceNumber(1, 5))
    assert not asked
    found = machine.identities.opened(Path("/dev/null"), own, DeviceNumber(1, 3))
    assert (found.size_bytes, found.found.part_uuid, found.sequence, found.loop) == (4096, "read", 0, None)
    monkeypatch.setattr(identities, "size_of", lambda fd: 0)
    assert machine.identities.opened(Path("/dev/null"), own, DeviceNumber(1, 3)) == Opened(size_bytes=0)
    assert len(asked) == 1, "there is nothing to read where there is no size"
    assert len(os.listdir("/proc/self/fd")) == open_before


# File systems and directories.


def mount_of(path: Path, number: DeviceNumber, fs_type: str = "xfs") -> Mount:
    return Mount(mount_id=1, device=number, root="/", mount_point=path, fs_type=fs_type)


def test_file_system_on_a_device_that_is_not_ours_to_open_has_the_names_of_the_device(
    machine: Machine, tmp_path: Path
) -> None:
    machine.add("sda", DISK, device__serial="S1")
    machine.add("sda1", PART, on="sda", partition=1)
    machine.udev(PART, f"E:ID_FS_UUID={FILE_SYSTEMS[0]}", "S:disk/by-id/scsi-S1-part1")
    found = machine.identities.of_file_system(mount_of(tmp_path, PART))
    assert (found.serial, found.by_id, found.size_bytes) == ("S1-part1", ("scsi-S1-part1",), SECTORS * 512)
    assert (found.filesystem_id, found.inode) == (FILE_SYSTEMS[0], os.stat(tmp_path).st_ino)


@pytest.mark.parametrize("number", [DeviceNumber(0, 44), DeviceNumber(9, 9)], ids=str)
def test_file_system_without_a_device_has_its_number_its_room_and_the_boot(
    machine: Machine, tmp_path: Path, number: DeviceNumber
) -> None:
    room = os.statvfs(tmp_path)
    found = machine.identities.of_file_system(mount_of(tmp_path, number))
    assert found == Identity(major_minor=str(number), size_bytes=room.f_blocks * room.f_frsize, boot_id="boot-1")


@pytest.mark.parametrize(("major", "name"), [(0, "boot-boot-1-0:44"), (9, "")])
def test_directory_of_which_nothing_lasts_is_another_one_after_a_restart(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, major: int, name: str
) -> None:
    monkeypatch.setattr(identities, "generation_of", lambda fd: 7)
    found = machine.identities.of_directory(tmp_path, mount_of(tmp_path, DeviceNumber(major, 44), "tmpfs"))
    assert found == Identity(filesystem_id=name, inode=os.stat(tmp_path).st_ino, inode_generation=7)


def test_directory_in_a_file_system_with_a_name_is_known_by_that(machine: Machine, tmp_path: Path) -> None:
    machine.udev(DISK, f"E:ID_FS_UUID={FILE_SYSTEMS[0]}")
    found = machine.identities.of_directory(tmp_path, mount_of(tmp_path, DISK))
    assert found.filesystem_id == FILE_SYSTEMS[0]


def test_block_devices_are_known_by_their_numbers(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    status = os.stat_result((stat.S_IFBLK, 0, 0, 0, 0, 0, 0, 0, 0, 0), {"st_rdev": os.makedev(8, 16)})
    monkeypatch.setattr(os, "stat", lambda path: status)
    assert machine.identities.number(Path("/dev/sdb")) == DeviceNumber(8, 16)
