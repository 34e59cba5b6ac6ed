"""The bare system calls that mount, unmount and move a thread into namespaces of its own."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from pathlib import Path

BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 1 << 18
NO_SUID, NO_DEVICES, NO_EXEC = 2, 4, 8
LAZY = 2
"""For `unmount`: away from the tree at once, gone when the last user has."""

NAMESPACES = {"net": 0x40000000, "ipc": 0x08000000, "uts": 0x04000000}

_thread = threading.local()
_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str | Path, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2); OSError when the kernel refuses."""
    words = [os.fsencode(word) if word else None for word in (source, target, kind)]
    if _libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None) != 0:
        raise _error(target)


def unmount(target: Path, flags: int = 0) -> bool:
    """umount2(2), never through a link; False when nothing is mounted there."""
    if _libc.umount2(os.fsencode(target), flags | 8) == 0:
        return True
    if ctypes.get_errno() in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
        return False
    raise _error(target)


def leave_namespaces(flags: int) -> None:
    """unshare(2) for the calling thread, which is of no use to others from now on."""
    _thread.own_namespaces = True
    if _libc.unshare(flags) != 0:
        raise _error("namespace")


def enter_namespace(file: Path, flags: int) -> None:
    """setns(2) for the calling thread, which is of no use to others from now on."""
    _thread.own_namespaces = True
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(fd, flags) != 0:
            raise _error(file)
    finally:
        os.close(fd)


def has_own_namespaces() -> bool:
    """Whether the calling thread has left namespaces of the process."""
    return getattr(_thread, "own_namespaces", False)


def set_host_name(name: str) -> None:
    """Of the UTS namespace that the calling thread is in."""
    encoded = name.encode()
    if _libc.sethostname(encoded, len(encoded)) != 0:
        raise _error(name)


def _error(what: object) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), str(what))
