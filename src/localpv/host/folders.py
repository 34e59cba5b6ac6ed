"""Discovery directories: what lies in them, how much room there is, and when something changes."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import contents
from localpv.host.contents import Contents
from localpv.host.feeds import Feed
from localpv.host.model.devices import DeviceNumber
from localpv.host.workers import Workers

LOOK_SECONDS = 10.0

_CREATE, _DELETE, _MOVED, _ATTRIB = 0x100, 0x200, 0xC0, 0x4
_DELETE_SELF, _MOVE_SELF, _ONLYDIR = 0x400, 0x800, 0x01000000
_IGNORED, _OVERFLOW = 0x8000, 0x4000
_MASK = _CREATE | _DELETE | _MOVED | _ATTRIB | _DELETE_SELF | _MOVE_SELF | _ONLYDIR
_TRIES = 8
_HEAD = struct.Struct("iIII")


class FileKind(StrEnum):
    """What an entry is once links are followed."""

    DIRECTORY = "Directory"
    BLOCK_DEVICE = "BlockDevice"
    DANGLING_LINK = "DanglingLink"
    OTHER = "Other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One first-level entry of a directory."""

    name: str
    kind: FileKind
    is_link: bool = False
    target: Path | None = None
    """Where a link leads in the end, or would lead if that were there."""

    device: DeviceNumber | None = None
    """Numbers of a block device."""

    inode: int = 0
    """Of a directory: another one in its place has another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Room of a file system."""

    total_bytes: int


class Folders(Protocol):
    """Directories of this machine."""

    async def entries(self, folder: Path) -> tuple[Entry, ...]:
        """First-level entries, sorted by name; FileNotFoundError or NotADirectoryError when there is no folder."""

    async def capacity(self, path: Path) -> Capacity:
        """Room of the file system at a path."""

    async def contents(self, path: Path, *, top: bool) -> Contents:
        """What lies in a directory; at the `top` of a file system an empty lost+found is a part of that."""

    def changes(self, folders: Iterable[Path]) -> Feed[Path]:
        """Tells a folder when something was added to, removed from or changed in it; it need not exist yet."""


class KernelFolders:
    """Directories, looked at in worker threads."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers

    async def entries(self, folder: Path) -> tuple[Entry, ...]:
        names = await self._workers.call(lambda: sorted(os.listdir(folder)), key=str(folder), timeout=LOOK_SECONDS)
        return await self._look(folder, names)

    async def _look(self, folder: Path, names: list[str]) -> tuple[Entry, ...]:
        def look() -> tuple[Entry, ...]:
            return tuple(entry for name in names if (entry := look_at(folder, name)))

        try:
            return await self._workers.call(look, key=f"{folder}/*", timeout=LOOK_SECONDS)
        except errors.HostTimeout:
            # One of them hangs. Each by itself, then, so that only that one is left out.
            found = await asyncio.gather(
                *(
                    self._workers.call(lambda name=name: look_at(folder, name), key=str(folder / name), timeout=1.0)  # type: ignore[misc]
                    for name in names
                ),
                return_exceptions=True,
            )
            return tuple(entry for entry in found if isinstance(entry, Entry))

    async def capacity(self, path: Path) -> Capacity:
        room = await self._workers.call(lambda: os.statvfs(path), key=str(path), timeout=LOOK_SECONDS)
        return Capacity(
            total_bytes=room.f_blocks * room.f_frsize,
        )

    async def contents(self, path: Path, *, top: bool) -> Contents:
        look = functools.partial(contents.of_directory, path, top=top)
        return await self._workers.call(look, key=str(path), timeout=LOOK_SECONDS)

    def changes(self, folders: Iterable[Path]) -> Feed[Path]:
        return _Watch(folders).feed


def look_at(folder: Path, name: str) -> Entry | None:
    """One entry, links followed; None when it went away meanwhile."""
    path = folder / name
    try:
        own = os.lstat(path)
    except FileNotFoundError:
        return None
    is_link = stat.S_ISLNK(own.st_mode)
    target = Path(os.path.realpath(path)) if is_link else None
    try:
        found = os.stat(path) if is_link else own
    except OSError:  # nothing there, or a circle of links
        return Entry(name=name, kind=FileKind.DANGLING_LINK, is_link=True, target=target)
    kind, device, inode = FileKind.OTHER, None, 0
    if stat.S_ISDIR(found.st_mode):
        kind, inode = FileKind.DIRECTORY, found.st_ino
    elif stat.S_ISBLK(found.st_mode):
        kind, device = FileKind.BLOCK_DEVICE, DeviceNumber(os.major(found.st_rdev), os.minor(found.st_rdev))
    return Entry(name=name, kind=kind, is_link=is_link, target=target, device=device, inode=inode)


class _Watch:
    """inotify for a set of folders. Where one is missing, its nearest parent is watched until it appears."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise errors.NotSupported(
                f"folders cannot be watched: {os.strerror(ctypes.get_errno())}",
                hint="raise fs.inotify.max_user_instances; changes are still found by looking",
            )
        self._folders = tuple(dict.fromkeys(folders))
        self._watched: dict[int, set[Path]] = {}
        self._loop = asyncio.get_running_loop()
        self.feed = Feed(overflow=Path("/"), on_close=self._close)
        for folder in self._folders:
            self._add(folder)
        self._loop.add_reader(self._fd, self._read)

    def _close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _add(self, folder: Path) -> None:
        for _ in range(_TRIES):
            below = folder
            for place in (folder, *folder.parents):
                watch = self._libc.inotify_add_watch(self._fd, os.fsencode(place), _MASK)
                if watch >= 0:
                    break
                below = place
            else:
                return
            self._move_to(watch, folder)
            # What appeared between the look at it and the watch above it was told to nobody: look once more.
            if place == folder or not below.is_dir():
                return

    def _move_to(self, watch: int, folder: Path) -> None:
        """A folder is watched at one place only, so that changes beside its parents are not taken for its own."""
        for other, folders in list(self._watched.items()):
            if other != watch and folder in folders:
                folders.discard(folder)
                if not folders:
                    del self._watched[other]
                    self._libc.inotify_rm_watch(self._fd, other)
        self._watched.setdefault(watch, set()).add(folder)

    def _read(self) -> None:
        try:
            buffer = os.read(self._fd, 64 * 1024)
        except BlockingIOError:
            return
        changed: set[Path] = set()
        again: set[Path] = set()
        offset = 0
        while offset < len(buffer):
            watch, mask, _cookie, length = _HEAD.unpack_from(buffer, offset)
            offset += _HEAD.size + length
            if mask & _OVERFLOW:
                changed.update(self._folders)
                again.update(self._folders)
                continue
            folders = self._watched.get(watch, set())
            changed |= folders
            if mask & (_IGNORED | _DELETE_SELF | _MOVE_SELF):
                if mask & _MOVE_SELF:
                    self._libc.inotify_rm_watch(self._fd, watch)  # it watches the old folder under its new name
                self._watched.pop(watch, None)
                again |= folders
            elif mask & (_CREATE | _MOVED):
                again |= folders  # one of them may be what appeared; a watch that is there already is only found again
        for folder in again:
            self._add(folder)
        for folder in self._folders:
            if folder in changed:
                self.feed.put(folder)
