"""What a directory is besides its files: owner, mode, access control lists, extended attributes, flags, project.

Whoever has a volume can change all of it, and the next one must not find any of it: after cleaning, a plain directory
is what a new one of the same parent would be, and a mount point what the top of a new file system is.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from dataclasses import dataclass
from typing import NamedTuple

from localpv import errors
from localpv.host import openat

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"

_ACLS = (ACCESS, DEFAULT, "trusted.SGI_ACL_FILE", "trusted.SGI_ACL_DEFAULT")
"""The lists under their names; xfs shows them under two names each."""

_LABELS = ("security.selinux", "security.SMACK64", "security.ima", "security.evm")
"""Attributes that the machine's own security modules keep on everything; users have no hand in them, or a kubelet sets
them anew for each pod."""

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
_GET_XFLAGS, _SET_XFLAGS = 0x801C581F, 0x401C5820
_XFLAGS = struct.Struct("=IIIII8x")

_IMMUTABLE, _APPEND_ONLY = 0x10, 0x20
_INHERITED = (
    0x1
    | 0x2
    | 0x4
    | 0x8
    | 0x40
    | 0x80
    | 0x400
    | 0x4000
    | 0x8000
    | 0x10000
    | 0x800000
    | 0x2000000
    | 0x20000000
    | 0x40000000
)
"""What chattr sets (s u c S d A m j t D C x P F) and a new directory takes over from the one it is made in."""

_SETTABLE = _INHERITED | _IMMUTABLE | _APPEND_ONLY | 0x20000  # T, which is not taken over

_XFLAGS_INHERITED = 0x20 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x1000 | 0x2000 | 0x4000 | 0x8000 | 0x10000
"""The same, as the kernel's newer call has them: also hints about extents and no links (xfs)."""

_PINNED = 0x8 | 0x10  # immutable, append-only
_PROJECT_INHERITED, _EXTENT_SIZE, _COW_EXTENT_SIZE = 0x200, 0x1000, 0x10000
_NOT_SUPPORTED = (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Extended(NamedTuple):
    """Extended flags, hints about the size of extents, and the project that the room of a directory counts for."""

    xflags: int = 0
    extent_size: int = 0
    project: int = 0
    cow_extent_size: int = 0


NOT_EXTENDED = Extended()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What a directory should be."""

    mode: int
    group: int = 0
    acl: bytes = b""
    """Access control list, both for the directory and as the default for what is made in it."""

    flags: int = 0
    extended: Extended = NOT_EXTENDED


FILE_SYSTEM_TOP = Attributes(mode=0o755)
"""As mkfs makes it."""

LOST_AND_FOUND = Attributes(mode=0o700)


def fresh(root: int) -> Attributes:
    """What an open directory would be, were it made anew: by root, without a umask of one's own."""
    parent = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)
    try:
        if openat.mount_id(parent) != openat.mount_id(root):
            return FILE_SYSTEM_TOP
        status = os.fstat(parent)
        set_group = bool(status.st_mode & stat.S_ISGID)
        return Attributes(
            mode=0o755 | (stat.S_ISGID if set_group else 0),
            group=status.st_gid if set_group else 0,
            acl=_get(parent, DEFAULT),
            flags=(get_flags(parent) or 0) & _INHERITED,
            extended=_handed_on(_get_extended(parent) or NOT_EXTENDED),
        )
    finally:
        os.close(parent)


def restore(fd: int, wanted: Attributes) -> None:
    """Make an open directory what it should be; NotClean when something of the last user stays."""
    try:
        clear_flags(fd)
        os.fchown(fd, 0, wanted.group)
        for name in os.listxattr(fd):
            if not name.startswith(_LABELS):
                _remove(fd, name)
        os.fchmod(fd, wanted.mode)
        if wanted.acl:
            # Replaces the mode of group and others by what the list says; a new directory gets the same.
            os.setxattr(fd, ACCESS, wanted.acl)
            os.setxattr(fd, DEFAULT, wanted.acl)
        _set_extended(fd, wanted.extended)
        _set_flags(fd, wanted.flags)
    except OSError as error:
        raise errors.NotClean(f"the directory itself cannot be restored: {error.strerror}") from error
    verify(fd, wanted)


def verify(fd: int, wanted: Attributes) -> None:
    """NotClean unless an open directory is what it should be."""
    status, found = os.fstat(fd), []
    mode, is_now = wanted.mode, stat.S_IMODE(status.st_mode)
    if wanted.acl:
        mode, is_now = mode & ~0o777, is_now & ~0o777  # the list has the rest
    if is_now != mode:
        found.append(f"mode {is_now:04o}")
    if (status.st_uid, status.st_gid) != (0, wanted.group):
        found.append(f"owner {status.st_uid}:{status.st_gid}")
    found += [name for name in os.listxattr(fd) if not name.startswith((*_LABELS, *_ACLS))]
    if _get(fd, DEFAULT) != wanted.acl or (not wanted.acl and _get(fd, ACCESS)):
        found.append("an access control list")
    flags, extended = get_flags(fd), _get_extended(fd)
    if flags is not None and flags & _SETTABLE & ~wanted.flags:
        found.append(f"flags {flags & _SETTABLE:#x}")
    if extended is not None and _told(extended) != wanted.extended:
        found.append(f"project {extended.project} and extended flags {extended.xflags:#x}")
    if found:
        raise errors.NotClean(
            f"the directory still has what its last user gave it: {', '.join(found)}",
            hint="something still changes it, or its file system does not let go of it",
        )


def get_flags(fd: int) -> int | None:
    """The flags of chattr; None where there are none."""
    try:
        return int(struct.unpack("i", fcntl.ioctl(fd, _GET_FLAGS, bytes(4)))[0]) & 0xFFFFFFFF
    except OSError:
        return None


def clear_flags(fd: int) -> bool:
    """Take the flags away that forbid to change or remove something; whether there were any."""
    flags = get_flags(fd)
    if flags is None or not flags & (_IMMUTABLE | _APPEND_ONLY):
        return False
    try:
        _write_flags(fd, flags & ~(_IMMUTABLE | _APPEND_ONLY))
    except OSError:
        return False
    return True


def _set_flags(fd: int, wanted: int) -> None:
    flags = get_flags(fd)
    if flags is None or flags & _SETTABLE == wanted:
        return
    try:
        _write_flags(fd, flags & ~_SETTABLE | wanted)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
        # The parent may have flags that this file system hands on but does not let anybody set.
        _write_flags(fd, flags & ~_SETTABLE)


def _write_flags(fd: int, flags: int) -> None:
    fcntl.ioctl(fd, _SET_FLAGS, struct.pack("I", flags))


def _get_extended(fd: int) -> Extended | None:
    """None where the file system has none."""
    try:
        xflags, extent_size, _, project, cow_extent_size = _XFLAGS.unpack(
            fcntl.ioctl(fd, _GET_XFLAGS, bytes(_XFLAGS.size))
        )
    except OSError:
        return None
    return Extended(xflags, extent_size, project, cow_extent_size)


def _told(found: Extended) -> Extended:
    """Without what the kernel keeps for itself."""
    return found._replace(xflags=found.xflags & (_XFLAGS_INHERITED | _PINNED))


def _handed_on(parent: Extended) -> Extended:
    xflags = parent.xflags & _XFLAGS_INHERITED
    return Extended(
        xflags,
        parent.extent_size if xflags & _EXTENT_SIZE else 0,
        parent.project if xflags & _PROJECT_INHERITED else 0,
        parent.cow_extent_size if xflags & _COW_EXTENT_SIZE else 0,
    )


def _set_extended(fd: int, wanted: Extended) -> None:
    known = _get_extended(fd)
    if known is None or _told(known) == wanted:
        return
    packed = _XFLAGS.pack(wanted.xflags, wanted.extent_size, 0, wanted.project, wanted.cow_extent_size)
    fcntl.ioctl(fd, _SET_XFLAGS, packed)


def _get(fd: int, name: str) -> bytes:
    try:
        return os.getxattr(fd, name)
    except OSError:
        return b""


def _remove(fd: int, name: str) -> None:
    try:
        os.removexattr(fd, name)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
