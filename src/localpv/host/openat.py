"""Opening directories step by step inside one mount, and anything below a directory that must not be left.

The kernel itself refuses to leave the mount or to follow a link (openat2, from 5.6 on). Where that call is missing or
forbidden, the number of the mount is compared after opening.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

_OPENAT2 = 437
_NO_XDEV, _NO_MAGIC_LINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Reading names must not count as use of the directory; allowed to root only, who we are.
_HOW = struct.pack("QQQ", _READ_DIRECTORY | os.O_NOATIME, 0, _NO_XDEV | _NO_SYMLINKS)
_HOW_BENEATH = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGIC_LINKS)
_TRIES = 100

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_usable = True


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
