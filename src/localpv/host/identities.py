"""What tells a block device from every other, read from the kernel and from udev's database.

Devices that go by the same lasting names are twins: copies of a disk, copied serial numbers, two paths to one disk. By
names alone nobody can tell them apart, so none of them may pass for a disk that was recorded by its names.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from localpv import errors
from localpv.host import blkid, loop, sysfs
from localpv.host.filesystem_ids import FilesystemIDs, generation_of, inode_generation
from localpv.host.model.devices import DeviceNumber
from localpv.host.model.identity import Identity, Twin
from localpv.host.mounts import KernelMounts, Mount
from localpv.host.sysfs import Attributes

TWINS_SECONDS = 1.0
"""For how long the list of devices is taken as it is: a scan of 200 disks reads it a few times, not 200 times."""

_BLKGETSIZE64 = 0x80081272
_BLKGETDISKSEQ = 0x80081280

_ABOUT_CONTENTS = ("lvm-pv-uuid-",)
"""Links below by-id that udev makes from what is written on the device: whoever has the volume can make them."""

_NOTHING = blkid.Found()


class Twins:
    """Looks through all devices that the kernel has, and reads none of them: one that hangs must not hold up others."""

    def __init__(
        self, *, sys: Path, names_of: Callable[[str], Identity | None], below_loop: Callable[[str], str]
    ) -> None:
        self._sys, self._names_of, self._below_loop = sys, names_of, below_loop
        self._by_name: dict[str, list[str]] = {}
        self._read_at = float("-inf")

    def of(self, own: str, identity: Identity) -> tuple[Twin, ...]:
        """The names of a device by which others go as well."""
        if time.monotonic() - self._read_at > TWINS_SECONDS:
            self._by_name = self._read()  # whole, or not at all: others ask at the same time
            self._read_at = time.monotonic()
        names = identity.names(contents=True)
        others = {other for name in names for other in self._by_name.get(name, ()) if other != own}
        found: set[Twin] = set()
        for other in others:
            # What is stacked on a disk goes by its names with good reason: multipath on its paths. Read once more: one
            # that has gone meanwhile must not make the names of this one worthless.
            theirs = None if self._stacked(own, other) else self._names_of(other)
            if theirs is not None and self._is_there(self._folder(other)):
                # Where nothing else tells them apart, no name does: links are made for one of them only.
                shared = names if identity.alike(theirs) else names & theirs.names(contents=True)
                found |= {Twin(name, other) for name in shared}
        return tuple(sorted(found))

    def _read(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for device in self._devices():
            identity = self._names_of(device)
            for name in identity.names(contents=True) if identity is not None else ():
                found.setdefault(name, []).append(device)
        return found

    def _devices(self) -> list[str]:
        try:
            names = sorted(os.listdir(self._sys / "class" / "block"))
        except OSError:
            return []
        return [name for name in names if self._is_there(self._folder(name))]

    def _is_there(self, folder: Attributes) -> bool:
        # Without numbers: a hidden path of an NVMe disk. Without a size: a loop device that has no file.
        return folder.text("size") not in ("", "0") and bool(folder.text("dev"))

    def _folder(self, name: str) -> Attributes:
        return Attributes(Path(os.path.realpath(self._sys / "class" / "block" / name)))

    def _stacked(self, one: str, other: str) -> bool:
        return not self._below(one).isdisjoint(self._itself(other)) or not self._below(other).isdisjoint(
            self._itself(one)
        )

    def _itself(self, name: str) -> set[str]:
        folder = self._folder(name)
        return {name, folder.folder.parent.name} if (folder.folder / "partition").exists() else {name}

    def _below(self, name: str) -> set[str]:
        """All devices that one is made of. The disk that a partition is on is none of them: its other partitions are
        not the same."""
        found: set[str] = set()
        waiting = list(self._itself(name))
        while waiting:
            now = waiting.pop()
            for lower in {*self._folder(now).names("slaves"), self._below_loop(now)} - {""}:
                new = self._itself(lower) - found
                found |= new
                waiting += new
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What a device tells only when it is opened."""

    size_bytes: int
    found: blkid.Found = _NOTHING
    sequence: int = 0
    loop: loop.Status | None = None


class KernelIdentities:
    """Reads identities below /dev, /sys and /run/udev."""

    def __init__(self, *, dev: Path, sys: Path, proc: Path, run: Path, mounts: KernelMounts) -> None:
        self._dev, self._sys, self._run = dev, sys, run
        self._boot_id = sysfs.boot_id(proc=proc)
        self._filesystems = FilesystemIDs(dev=dev, sys=sys, run=run, mounts=mounts)
        self._twins = Twins(sys=sys, names_of=self._names_of, below_loop=self._below_loop)

    def of(self, number: DeviceNumber, own: Attributes, disk: Attributes, opened: Opened) -> Identity:
        """The identity of an open device, with what else goes by its names; `disk` is what a partition is on."""
        found = self._read(number, own, disk, opened)
        found = replace(found, by_id=self._by_id(own.name, found.by_id, number))
        if opened.loop is None or opened.loop.below.major:
            return replace(found, twins=self._twins.of(own.name, found))
        # Of a file system that nobody has looked at yet, other loop devices are known by its number only.
        by_number = _with_file(found, opened.loop, str(opened.loop.file_system))
        name, generation = self._file_of(disk, opened.loop)
        if name:
            found = replace(_with_file(found, opened.loop, name), inode_generation=generation)
        file = next((name for name in found.names(contents=False) if name.startswith("inode ")), "")
        twins = {*self._twins.of(own.name, found), *self._twins.of(own.name, by_number)}
        called = {Twin(file if twin.name.startswith("inode ") else twin.name, twin.device) for twin in twins}
        return replace(found, twins=tuple(sorted(twin for twin in called if twin.name)))

    def of_file_system(self, mount: Mount) -> Identity:
        """What tells a mounted file system from others whose device, if it has one, is not ours to open."""
        room, inode = os.statvfs(mount.mount_point), os.stat(mount.mount_point).st_ino
        name = self._filesystems.of(mount.device, inode=inode, path=str(mount.mount_point))
        own = Attributes(Path(os.path.realpath(self._sys / "dev" / "block" / str(mount.device))))
        if mount.device.major and own.folder.is_dir():
            disk = self._disk(own)
            found = self._read(mount.device, own, disk, Opened(size_bytes=own.number("size") * 512))
            found = replace(found, by_id=self._by_id(own.name, found.by_id, mount.device))
        else:
            size = room.f_blocks * room.f_frsize
            found = Identity(major_minor=str(mount.device), size_bytes=size, boot_id=self._boot_id)
        return replace(found, filesystem_id=name, inode=inode) if name else found

    def of_directory(self, path: Path, mount: Mount) -> Identity:
        """What tells a directory from every other, as far as itself: the file system that it is in is not asked."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            inode, name = os.fstat(fd).st_ino, self._filesystems.of_directory(fd, mount)
            if not name and not mount.device.major:
                # Nothing lasts about it, and nothing in it does: after a restart it is another one.
                name = f"boot-{self._boot_id}-{mount.device}"
            return Identity(filesystem_id=name, inode=inode, inode_generation=generation_of(fd))
        finally:
            os.close(fd)

    def number(self, path: Path) -> DeviceNumber:
        status = os.stat(path)
        if not stat.S_ISBLK(status.st_mode):
            raise errors.HostError(f"{path} is no block device")
        return DeviceNumber(os.major(status.st_rdev), os.minor(status.st_rdev))

    def opened(self, path: Path, own: Attributes, number: DeviceNumber) -> Opened:
        try:
            # Non-blocking: an empty drive answers at once instead of waiting for a medium.
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.ENXIO, errno.ENOMEDIUM):
                raise errors.HostError(f"{path} does not open: {error.strerror}") from error
            return Opened(size_bytes=own.number("size") * 512)
        try:
            if os.fstat(fd).st_rdev != os.makedev(*number):
                raise errors.DeviceChanged(f"{path} became another device while it was looked at")
            size = size_of(fd)
            return Opened(
                size_bytes=size,
                found=blkid.probe(fd) if size else blkid.Found(),
                sequence=sequence_of(fd),
                loop=loop.status_of(fd),
            )
        finally:
            os.close(fd)

    def loop_status(self, path: Path) -> loop.Status | None:
        return loop.status(path)

    def _read(self, number: DeviceNumber, own: Attributes, disk: Attributes, opened: Opened) -> Identity:
        """What tells the device from others, as the kernel and udev have it."""
        properties, links = sysfs.udev_record(number, run=self._run)
        part = f"-part{own.number('partition')}" if disk is not own else ""
        serial, wwn = sysfs.serial(disk, properties), sysfs.wwn(disk, properties)
        by_id = {link.removeprefix("disk/by-id/") for link in links if link.startswith("disk/by-id/")}
        if uuid := own.text("dm/uuid"):
            by_id.add(f"dm-uuid-{uuid}")
        offset, size_limit = (opened.loop.offset_bytes, opened.loop.size_limit_bytes) if opened.loop else (0, 0)
        file_system = next((found for found in opened.found.signatures if found.usage == "filesystem"), None)
        return Identity(
            by_id=tuple(sorted(by_id)),
            wwn=wwn and wwn + part,
            serial=serial and serial + part,
            part_uuid=opened.found.part_uuid or properties.get("ID_PART_ENTRY_UUID", "") if part else "",
            fs_uuid=file_system.uuid if file_system else "",
            major_minor=str(number),
            size_bytes=opened.size_bytes,
            model=disk.text("device/model"),
            offset_bytes=offset + own.number("start") * 512,
            size_limit_bytes=size_limit if not part else 0,
            boot_id=self._boot_id,
            disk_sequence=opened.sequence or disk.number("diskseq"),
        )

    def _file_of(self, disk: Attributes, status: loop.Status) -> tuple[str, int]:
        """A name that lasts for the file system that the file of a loop device is in, and the file's generation."""
        path, number, inode = disk.text("loop/backing_file"), status.file_system, status.inode
        return self._filesystems.of(number, inode=inode, path=path), inode_generation(path, number, inode)

    def _disk(self, own: Attributes) -> Attributes:
        """What a partition is on; everything else is a disk of its own."""
        return Attributes(own.folder.parent) if (own.folder / "partition").exists() else own

    def _names_of(self, name: str) -> Identity | None:
        """By which names another device goes. What is written on it udev knows, or nobody: it may hang."""
        own = self._attributes(name)
        if (number := _number(own)) is None:
            return None
        disk = self._disk(own)
        status = self.loop_status(self._dev / name) if (disk.folder / "loop").is_dir() else None
        identity = self._read(number, own, disk, Opened(size_bytes=own.number("size") * 512, loop=status))
        if status is not None and not status.below.major:
            known = self._filesystems.known(status.file_system)
            identity = _with_file(identity, status, known or str(status.file_system))
        properties, _ = sysfs.udev_record(number, run=self._run)
        fs_uuid = properties.get("ID_FS_UUID", "")
        return replace(identity, by_id=self._lasting(identity.by_id, number), fs_uuid=fs_uuid)

    def _below_loop(self, name: str) -> str:
        """Kernel name of the device that a loop device lies on."""
        status = self.loop_status(self._dev / name) if (self._attributes(name).folder / "loop").is_dir() else None
        if status is None or not status.below.major:
            return ""
        return os.path.basename(os.path.realpath(self._sys / "dev" / "block" / str(status.below)))

    def _attributes(self, name: str) -> Attributes:
        return Attributes(Path(os.path.realpath(self._sys / "class" / "block" / name)))

    def _by_id(self, name: str, known: tuple[str, ...], number: DeviceNumber) -> tuple[str, ...]:
        found = set(known)
        with contextlib.suppress(OSError), os.scandir(self._dev / "disk" / "by-id") as entries:
            found |= {entry.name for entry in entries if os.path.basename(os.path.realpath(entry.path)) == name}
        return self._lasting(tuple(sorted(found)), number)

    def _lasting(self, names: tuple[str, ...], number: DeviceNumber) -> tuple[str, ...]:
        """Without names that udev makes from what is written on the device, or from its model alone."""
        properties, _ = sysfs.udev_record(number, run=self._run)
        unfit = (*_ABOUT_CONTENTS, *sysfs.names_of_a_model(properties))
        return tuple(name for name in names if not name.startswith(unfit))


def _with_file(identity: Identity, status: loop.Status, filesystem_id: str) -> Identity:
    """With the file of a loop device, which is none on a device node: its inode is made anew at every start."""
    return replace(identity, filesystem_id=filesystem_id, inode=status.inode)


def _number(own: Attributes) -> DeviceNumber | None:
    try:
        return DeviceNumber.parse(own.text("dev"))
    except ValueError:
        return None


def size_of(fd: int) -> int:
    """Size in bytes of an open device."""
    return int(struct.unpack("Q", fcntl.ioctl(fd, _BLKGETSIZE64, bytes(8)))[0])


def sequence_of(fd: int) -> int:
    """The kernel's count of disks for an open device; 0 where the kernel (before 5.15) keeps none."""
    try:
        return int(struct.unpack("Q", fcntl.ioctl(fd, _BLKGETDISKSEQ, bytes(8)))[0])
    except OSError:
        return 0
