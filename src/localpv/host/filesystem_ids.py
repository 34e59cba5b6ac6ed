"""Names that last for file systems and for the files in them: numbers of devices are given out anew at every start.

A file is its file system, its inode and, where that can be read, the generation of the inode: the number of what was
deleted goes to the next file.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
import uuid
from pathlib import Path

from localpv.host import blkid, sysfs
from localpv.host.model.devices import DeviceNumber
from localpv.host.mounts import KernelMounts, Mount

REMEMBER_SECONDS = 1.0
"""For how long the UUID of a file system is taken as it is: two hundred loop devices often share one."""

_FS_IOC_GETVERSION = 0x80087601
_MADE_OF_UUID = frozenset({"ext2", "ext3", "ext4"})
_LASTING_FSID = _MADE_OF_UUID | {"btrfs", "zfs", "overlay"}
"""File systems whose own identifier (f_fsid) is the same after a restart. Others (xfs) take the number of their device
for it, or make one up at every mount (tmpfs)."""


class FilesystemIDs:
    """Looks up what lasts about the file systems of this machine."""

    def __init__(self, *, dev: Path, sys: Path, run: Path, mounts: KernelMounts) -> None:
        self._dev, self._sys, self._run, self._mounts = dev, sys, run, mounts
        self._known: dict[DeviceNumber, tuple[float, str]] = {}
        self._last: dict[DeviceNumber, str] = {}

    def of(self, number: DeviceNumber, *, inode: int, path: str) -> str:
        """A name of a file system that lasts, by its number and one file in it; empty when it has none."""
        self._last[number] = found = self._look(number, inode, path)
        return found

    def known(self, number: DeviceNumber) -> str:
        """What was found at the last look; nothing is touched for it."""
        return self._last.get(number, "")

    def _look(self, number: DeviceNumber, inode: int, path: str) -> str:
        kinds = {mount.fs_type for mount in self._mounts.everywhere_now(number)}
        if kinds and kinds <= _LASTING_FSID:
            fsid = self._fsid(number, inode, path)
            if not fsid and kinds <= _MADE_OF_UUID and (known := self._uuid(number)):
                fsid = _folded(known)
            return f"fsid-{fsid:016x}" if fsid else ""
        return self._uuid(number) if number.major else ""

    def of_directory(self, fd: int, mount: Mount) -> str:
        """The same for the file system of an open directory, whose mount is known."""
        if mount.fs_type in _LASTING_FSID and (fsid := os.fstatvfs(fd).f_fsid):
            return f"fsid-{fsid:016x}"
        return self._uuid(mount.device) if mount.device.major else ""

    def _fsid(self, number: DeviceNumber, inode: int, path: str) -> int:
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) != (os.makedev(*number), inode):
                return 0  # a path of another mount namespace, or a file that was deleted
            return os.statvfs(path).f_fsid
        except OSError:
            return 0

    def _uuid(self, number: DeviceNumber) -> str:
        now = time.monotonic()
        read_at, known = self._known.get(number, (float("-inf"), ""))
        if now - read_at > REMEMBER_SECONDS:
            known = self._read_uuid(number)
            self._known[number] = now, known
        return known

    def _read_uuid(self, number: DeviceNumber) -> str:
        properties, _ = sysfs.udev_record(number, run=self._run)
        if known := properties.get("ID_FS_UUID", ""):
            return known
        name = os.path.basename(os.path.realpath(self._sys / "dev" / "block" / str(number)))
        try:
            fd = os.open(self._dev / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return ""
        try:
            if os.fstat(fd).st_rdev != os.makedev(*number):
                return ""
            signatures = blkid.probe(fd).signatures
        finally:
            os.close(fd)
        return next((found.uuid for found in signatures if found.usage == "filesystem"), "")


def inode_generation(path: str, number: DeviceNumber, inode: int) -> int:
    """How often an inode has been given out, if the path leads to it; 0 when that cannot be told."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        found = os.fstat(fd)
        if (found.st_dev, found.st_ino) != (os.makedev(*number), inode):
            return 0
        return generation_of(fd)
    except OSError:
        return 0
    finally:
        os.close(fd)


def generation_of(fd: int) -> int:
    """The same of an open file."""
    try:
        return int(struct.unpack("I", fcntl.ioctl(fd, _FS_IOC_GETVERSION, bytes(8))[:4])[0])
    except OSError:
        return 0


def _folded(text: str) -> int:
    """As ext4 makes its identifier of its UUID."""
    try:
        whole = uuid.UUID(text).bytes
    except ValueError:
        return 0
    return int.from_bytes(whole[:8], "little") ^ int.from_bytes(whole[8:], "little")
