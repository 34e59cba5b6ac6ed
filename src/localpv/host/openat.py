"""Opening directories step by step inside one mount.

The kernel itself refuses to leave the mount or to follow a link (openat2, from 5.6 on). Where that call is missing or
forbidden, the number of the mount is compared after opening.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

_OPENAT2 = 437
_NO_XDEV, _NO_SYMLINKS = 0x01, 0x04
_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Reading names must not count as use of the directory; allowed to root only, who we are.
_HOW = struct.pack("QQQ", _READ_DIRECTORY | os.O_NOATIME, 0, _NO_XDEV | _NO_SYMLINKS)

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


def mount_id(fd: int) -> int:
    """Number of the mount that an open file lies in."""
    with open(f"/proc/self/fdinfo/{fd}") as info:
        for line in info:
            if line.startswith("mnt_id:"):
                return int(line[7:])
    raise OSError(errno.ENOTSUP, "the kernel does not tell the mount of an open file")
