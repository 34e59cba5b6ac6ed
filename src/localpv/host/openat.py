"""Paths opened step by step: directories inside one mount, and what must not lie outside the folder that we may touch.

Every step opens the next component relative to the one before, so nothing can be swapped in between. The kernel itself
refuses to leave the mount or to follow a link (openat2, from 5.6 on). Where that call is missing or forbidden, the
number of the mount is compared after opening. Of the path of a volume only the last component may be a link, and only
to a block device below /dev.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from localpv import errors
from localpv.host.model.devices import DeviceNumber

_OPENAT2 = 437
_NO_XDEV, _NO_MAGIC_LINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Reading names must not count as use of the directory; allowed to root only, who we are.
_HOW = struct.pack("QQQ", _READ_DIRECTORY | os.O_NOATIME, 0, _NO_XDEV | _NO_SYMLINKS)
_HOW_BENEATH = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGIC_LINKS)
_TRIES = 100

_AT_FDCWD, _DONT_SYNC, _TYPE = -100, 0x4000, 0x1
_MODE, _RDEV = 28, 128
_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_usable = True

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Numbers(NamedTuple):
    """What tells an open directory from others at this moment: another one put or mounted in its place differs."""

    device: int
    inode: int
    mount_id: int

    @classmethod
    def of(cls, fd: int) -> Numbers:
        status = os.fstat(fd)
        return cls(status.st_dev, status.st_ino, mount_id(fd))


def directory(name: str | bytes, *, parent: int) -> int:
    """Open a directory below an open one. EXDEV when something is mounted there, ELOOP or ENOTDIR for a link."""
    global _usable
    if _usable:
        fd = int(_syscall(_OPENAT2, parent, os.fsencode(name), _HOW, len(_HOW)))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code not in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):
            raise OSError(code, os.strerror(code), os.fsdecode(name))
        if code == errno.ENOSYS:
            _usable = False
    fd = os.open(name, _READ_DIRECTORY, dir_fd=parent)
    if mount_id(fd) != mount_id(parent):
        os.close(fd)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), os.fsdecode(name))
    return fd


def beneath(path: str, *, root: int) -> int:
    """A descriptor of what lies at a relative path below an open directory; links are followed while they stay there.

    EXDEV when the path leads out. Without the kernel's help no link is followed at all: ELOOP.
    """
    for _ in range(_TRIES if _usable else 0):
        fd = int(_syscall(_OPENAT2, root, os.fsencode(path), _HOW_BENEATH, len(_HOW_BENEATH)))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code in (errno.ENOSYS, errno.EPERM):
            break
        if code != errno.EAGAIN:  # something was moved on the way: look again
            raise OSError(code, os.strerror(code), path)
    return _step_by_step(path, root=root)


def _step_by_step(path: str, *, root: int) -> int:
    current = os.dup(root)
    try:
        for name in path.split("/"):
            after = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = after
            if stat.S_ISLNK(os.fstat(current).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    except OSError:
        os.close(current)
        raise
    return current


def mount_id(fd: int) -> int:
    """Number of the mount that an open file lies in."""
    with open(f"/proc/self/fdinfo/{fd}") as info:
        for line in info:
            if line.startswith("mnt_id:"):
                return int(line[7:])
    raise OSError(errno.ENOTSUP, "the kernel does not tell the mount of an open file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A device inside a managed folder."""

    path: Path
    device_path: Path
    device: DeviceNumber


def names_below(folder: Path, path: Path) -> tuple[str, ...]:
    """The components of a path below a folder; OutsideFolder unless there is at least one and none is special."""
    own, theirs = PurePosixPath(folder), PurePosixPath(path)
    parts = os.fspath(path).split("/")
    if not own.is_absolute() or own == PurePosixPath("/") or ".." in own.parts:
        raise errors.OutsideFolder(f"{folder} cannot be managed", hint="name a folder of its own, such as /mnt/disks")
    if ".." in parts or "." in parts or "\0" in os.fspath(path) or theirs == own or not theirs.is_relative_to(own):
        raise errors.OutsideFolder(f"{path} does not lie inside {folder}")
    return theirs.relative_to(own).parts


def open_directory(folder: Path, path: Path) -> int:
    """A descriptor of a directory volume inside the folder; the caller closes it."""
    names = names_below(folder, path)
    parent = _open_parent(folder, path, names)
    try:
        return _step(parent, names[-1], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, path)
    finally:
        os.close(parent)


def locate_device(folder: Path, path: Path) -> Located:
    """The block device at a path inside the folder: its node, or a link to one below /dev."""
    names = names_below(folder, path)
    parent = _open_parent(folder, path, names)
    try:
        found = _step(parent, names[-1], _STEP, path)
        try:
            status = os.fstat(found)
        finally:
            os.close(found)
        device_path = path
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(names[-1], dir_fd=parent)
            device_path = Path(os.path.realpath(os.path.join(os.path.realpath(folder), *names[:-1], target)))
            if not device_path.is_relative_to("/dev"):
                raise errors.OutsideFolder(f"{path} is a link to {device_path}, which is not below /dev")
            status = os.stat(device_path, follow_symlinks=False)
    except OSError as error:
        raise errors.OutsideFolder(f"{path} leads nowhere: {error.strerror}") from error
    finally:
        os.close(parent)
    if not stat.S_ISBLK(status.st_mode):
        raise errors.OutsideFolder(f"{path} is no block device")
    number = DeviceNumber(os.major(status.st_rdev), os.minor(status.st_rdev))
    return Located(path=path, device_path=device_path, device=number)


def _open_parent(folder: Path, path: Path, names: tuple[str, ...]) -> int:
    try:
        # The folder is the administrator's own word: links on the way to it are meant.
        current = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise errors.OutsideFolder(f"{folder} cannot be opened: {error.strerror}") from error
    for name in names[:-1]:
        try:
            after = _step(current, name, _STEP | os.O_DIRECTORY, path)
        finally:
            os.close(current)
        current = after
    return current


def _step(parent: int, name: str, flags: int, path: Path) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise errors.OutsideFolder(
                f"{path} leads through {name}, which is a link or no directory", hint="use the directory itself"
            ) from error
        if error.errno in (errno.ENOENT, errno.EACCES, errno.ENAMETOOLONG):
            raise errors.OutsideFolder(f"{path} cannot be opened at {name}: {error.strerror}") from error
        raise


def stat_without_sync(path: str) -> tuple[int, DeviceNumber] | None:
    """Mode of what is at a path, and the numbers of a device; never asks a server, for a dead one would never answer.

    None when nothing is there.
    """
    answer = ctypes.create_string_buffer(256)
    if _libc.statx(_AT_FDCWD, os.fsencode(path), _DONT_SYNC, _TYPE, answer) != 0:
        return None
    return struct.unpack_from("H", answer, _MODE)[0], DeviceNumber(*struct.unpack_from("II", answer, _RDEV))
