"""Is it empty? Devices, file systems and directories, looked at without changing a byte.

Only what is blank is offered at first sight, so a doubt counts against it. A file system on a device is looked at
through a mount of our own that nobody else sees: read-only, without its journal, and gone when it is closed. What a
journal still holds is not seen there, so only a file system that was unmounted cleanly can be called empty.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from localpv.host import commands, marks
from localpv.host.marks import Mark
from localpv.host.model.devices import BlockDevice

SHOWN = 3
"""Names that are told; they go into a record that everybody reads."""

COUNTED = 1000
"""Beyond so many nobody counts on."""

LOST_AND_FOUND = "lost+found"

ENDS = 1024 * 1024
"""Bytes at both ends of a device that are zero on a blank one: file systems and partition tables begin there."""

SAMPLES = 64
"""Places between the ends that are read too. A drive with a head needs about half a second for them, and data that
fills a tenth of the device at random is missed once in a thousand."""

SAMPLE = 4096
_BACKUPS = tuple(place * 1024**2 for place in (64, 128, 384, 256 * 1024))
"""Where btrfs and ext4 keep copies of what they have at the start, on devices that are long enough."""

EXT = ("ext2", "ext3", "ext4")
TOOL_SECONDS = 10.0
_ZEROES = bytes(ENDS)

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_CLOEXEC, _SET_FLAG, _SET_STRING, _CREATE = 1, 0, 1, 6
_RDONLY_NOSUID_NODEV_NOEXEC = 0x1 | 0x2 | 0x4 | 0x8
_OPTIONS = {
    "ext4": (("noload", ""),),
    "xfs": (("norecovery", ""), ("nouuid", "")),
    "btrfs": (("rescue", "nologreplay"),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Nothing, files, data without a name, or nobody can tell."""

    names: tuple[str, ...] = ()
    """The first few names in a directory or file system."""

    count: int = 0
    data: str = ""
    """What else is on a device, as the end of a sentence that begins with `it holds`."""

    unknown: str = ""
    """Why it cannot be told."""

    mark: Mark | None = None
    """What the file system of a tenant says of him at its top."""

    @property
    def blank(self) -> bool:
        return not (self.names or self.data or self.unknown)

    def __str__(self) -> str:
        if self.unknown:
            return f"whether it is empty cannot be told: {self.unknown}"
        if self.data:
            return f"it holds {self.data}"
        if not self.names:
            return "it is empty"
        # Names are whatever somebody called their files: nothing in them may look like more than a name.
        shown = ", ".join(name.encode("utf-8", "replace").decode().__repr__()[:60] for name in self.names)
        more = self.count - len(self.names)
        rest = f" and {'at least ' if self.count >= COUNTED else ''}{more} more" if more > 0 else ""
        return f"it holds {shown}{rest}"


BLANK = Contents()


def of_names(names: Iterable[str]) -> Contents:
    """Contents of a directory; the names are read as far as they are counted."""
    read = list(islice(names, COUNTED))
    return Contents(names=tuple(sorted(read)[:SHOWN]), count=len(read))


def not_looked_into(device: BlockDevice) -> Contents | None:
    """What is known of a device without reading it: what must be left alone, or has something else on it."""
    if device.in_use_by:
        return Contents(unknown=device.in_use_by)
    if device.partitions:
        return Contents(data=f"partitions ({', '.join(device.partitions)})")
    if len(device.signatures) > 1 or (device.signatures and device.file_system is None):
        return Contents(data=" and ".join(f"{one.type} ({one.usage})" for one in device.signatures))
    return None


def of_directory(path: Path, *, top: bool) -> Contents:
    """What lies in a directory. At the top of a file system an empty lost+found is a part of that."""
    root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return of_names(_names(root, top=top))
    finally:
        os.close(root)


def of_blocks(fd: int, size: int) -> Contents:
    """Whether an open device without a signature reads as zeroes, as far as it is looked at."""
    for place, length in _places(size):
        if has_data(fd, place, length):
            return Contents(data=f"data of an unknown kind near byte {place}")
    return BLANK


def has_data(fd: int, start: int, length: int) -> bool:
    """Whether anything but zeroes is there."""
    got = os.pread(fd, length, start)
    # A device that gives less than it has is no device on which to call anything empty.
    return len(got) != length or got != _ZEROES[:length]


def _places(size: int) -> Iterator[tuple[int, int]]:
    ends = min(ENDS, size)
    yield 0, ends
    yield size - ends, ends
    between = {size * number // SAMPLES // SAMPLE * SAMPLE for number in range(1, SAMPLES)} | set(_BACKUPS)
    yield from ((place, SAMPLE) for place in sorted(between) if place + SAMPLE <= size)


def _names(root: int, *, top: bool) -> Iterator[str]:
    with os.scandir(root) as entries:
        for entry in entries:
            if top and entry.name == LOST_AND_FOUND and entry.is_dir(follow_symlinks=False):
                yield from (f"{LOST_AND_FOUND}/{name}" for name in _inside_lost_and_found(root))
            else:
                yield entry.name


def _inside_lost_and_found(root: int) -> list[str]:
    try:
        fd = os.open(LOST_AND_FOUND, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    except OSError:
        return ["?"]
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


async def xfs_log_is_clean(device: Path) -> bool:
    """Whether an xfs was unmounted cleanly; NotSupported where the tool that knows is missing."""
    output = await commands.run(["xfs_logprint", "-t", str(device)], timeout=TOOL_SECONDS, ok=(0, 1))
    return "state: <CLEAN>" in output.stdout


def of_file_system(fd: int, device: BlockDevice, *, log_is_clean: bool | None = None) -> Contents:
    """What is in the file system on an open device; of xfs the caller knows whether its log is clean."""
    kind = device.fs_type
    if kind in EXT:
        kind, unclean = "ext4", _ext_unclean(fd)
    elif kind == "btrfs":
        unclean = struct.unpack("<Q", os.pread(fd, 8, 0x10000 + 0x60))[0] != 0  # the tree of its log
    elif kind == "xfs":
        unclean = not log_is_clean
    else:
        return Contents(unknown=f"file systems of type {kind} are not looked into")
    if unclean:
        return Contents(unknown=f"the {device.fs_type} on it was not unmounted cleanly; mount and unmount it once")
    try:
        mounted = _mount(device.path, kind)
    except OSError as error:
        return Contents(unknown=f"the {device.fs_type} on it cannot be mounted to look into it: {error.strerror}")
    try:
        root = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=mounted)
        try:
            return replace(of_names(_names(root, top=True)), mark=marks.read(root))
        finally:
            os.close(root)
    finally:
        os.close(mounted)


def _ext_unclean(fd: int) -> bool:
    """Whether mounting it would have something to mend: a journal to replay, files to remove, errors."""
    superblock = os.pread(fd, 1024, 1024)
    (state,) = struct.unpack_from("<H", superblock, 0x3A)
    incompatible, read_only = struct.unpack_from("<II", superblock, 0x60)
    (orphans,) = struct.unpack_from("<I", superblock, 0xE8)
    return state != 1 or bool(incompatible & 0x4) or bool(read_only & 0x10000) or orphans != 0


def _mount(device: Path, kind: str) -> int:
    """A mount that is in no namespace: it has no path, nobody else sees it, and it ends when it is closed."""
    context = _checked(_syscall(_FSOPEN, kind.encode(), _CLOEXEC))
    try:
        for key, value in (("source", str(device)), ("ro", ""), *_OPTIONS[kind]):
            text = os.fsencode(value) if value else None
            _checked(_syscall(_FSCONFIG, context, _SET_STRING if value else _SET_FLAG, key.encode(), text, 0))
        _checked(_syscall(_FSCONFIG, context, _CREATE, None, None, 0))
        return _checked(_syscall(_FSMOUNT, context, _CLOEXEC, _RDONLY_NOSUID_NODEV_NOEXEC))
    finally:
        os.close(context)


def _checked(answer: int) -> int:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(answer)
