"""Marks on disks that were given to tenants, kept where a lost data folder does not take them along.

A mark is there before the tenant can write, and goes with his data. A directory, or the top of a file system, carries
its mark itself, as an extended attribute that containers neither see nor change. Every byte of a raw device is the
tenant's; its mark is a small file in the discovery directory.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import msgspec

from localpv import errors
from localpv.host import own_folders
from localpv.host.model.identity import Identity
from localpv.host.workers import Workers

_OF_THIS_BOOT = {"boot_id", "disk_sequence", "major_minor"}
"""Mismatches that say only that nothing lasting tells a disk from others."""

_SHARED = {"twins"}
"""Those that say that several disks go by the marked one's names."""

_RESIZED = {"size_bytes"}
"""A disk that grew or shrank still has the data."""

ATTRIBUTES = ("trusted.localpv.volume", "user.localpv.volume")
"""The first can be seen and changed by the machine's administrator only; the second is for file systems without it."""

FILE = ".localpv-used-"
"""How files begin that mark devices; the UID of the volume follows."""

CALL_SECONDS = 10.0
_NONE = (errno.ENOTSUP, errno.EPERM, errno.ENOSPC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Which volume a disk was given to a pod as."""

    volume: str
    uid: str
    entry: str = ""
    """Of a device: its name in the discovery directory."""

    identity: Identity = field(default_factory=Identity)
    """Of a device: which one it was."""

    def is_of(self, entry: str, now: Identity) -> bool:
        """Whether it is about the device that is at an entry now.

        The device itself, wherever it is by now, or any that may be it by its names; and whatever is at its entry,
        unless that is provably another disk: a doubt must not offer old data.
        """
        found = self._doubts(now)
        if entry != self.entry:
            return found <= _SHARED
        if self.identity.names(contents=False) & now.names(contents=False):
            found -= _RESIZED
        return found <= _SHARED | _OF_THIS_BOOT

    def ends_with(self, entry: str, now: Identity) -> bool:
        """Whether it goes when the device at an entry is clean: not while another device may be the marked one."""
        return self.is_of(entry, now) if entry == self.entry else not self._doubts(now)

    def _doubts(self, now: Identity) -> set[str]:
        return {one.field for one in self.identity.mismatches(now, contents=False)}


_UNREADABLE = Mark(volume="(unreadable mark)", uid="")
"""Of devices its entry is the name of the file: only a person can say which device it was of."""


class Marks(Protocol):
    """Marks of this machine's disks."""

    async def mark_directory(self, path: Path, mark: Mark) -> bool:
        """Mark a directory; once more is no error. False where its file system has no room for marks."""

    async def mark_device(self, path: Path, mark: Mark) -> None:
        """Mark the device at an entry of a discovery directory; it is on the disk when this returns."""

    async def of_directory(self, path: Path) -> Mark | None:
        """The mark that a directory carries."""

    async def of_device(self, path: Path, identity: Identity) -> Mark | None:
        """The mark of the device at an entry of a discovery directory; one that cannot be read is of all."""

    async def forget_device(self, path: Path, identity: Identity) -> None:
        """Take off all marks of the device at an entry: nothing of its tenants is left on it."""


class DiskMarks:
    """On the disks of this machine."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers
        self._files = own_folders.DiskFolders()

    async def mark_directory(self, path: Path, mark: Mark) -> bool:
        return await self._workers.call(lambda: _put(path, mark), key=str(path), timeout=CALL_SECONDS)

    async def mark_device(self, path: Path, mark: Mark) -> None:
        file, text = path.parent / f"{FILE}{mark.uid}", msgspec.json.encode(mark).decode()

        def write() -> None:
            if self._files.read(file) != text:
                self._files.write(file, text)

        try:
            await self._workers.call(write, key=str(path.parent), timeout=CALL_SECONDS)
        except OSError as error:
            raise errors.HostError(
                f"{path} cannot be marked as used in {path.parent}: {error.strerror}",
                hint="let that directory be written: after a loss of the data folder the mark alone tells of the data",
            ) from error

    async def of_directory(self, path: Path) -> Mark | None:
        return await self._workers.call(lambda: read(path), key=str(path), timeout=CALL_SECONDS)

    async def of_device(self, path: Path, identity: Identity) -> Mark | None:
        found = await self._workers.call(lambda: _marks(path, identity), key=str(path), timeout=CALL_SECONDS)
        return next(iter(found.values()), None)

    async def forget_device(self, path: Path, identity: Identity) -> None:
        def forget() -> None:
            for file, mark in _marks(path, identity).items():
                if mark.uid and mark.ends_with(path.name, identity):
                    self._files.unlink(file, lasting=True)

        await self._workers.call(forget, key=str(path), timeout=CALL_SECONDS)


def read(path: Path | int) -> Mark | None:
    """The mark that a directory carries, by path or descriptor; for callers that run in a worker thread."""
    for name in ATTRIBUTES:
        with contextlib.suppress(OSError):  # no such attribute, or no such kind of attribute
            return _decoded(os.getxattr(path, name))
    return None


def _put(path: Path, mark: Mark) -> bool:
    if read(path) == mark:
        return True
    for name in ATTRIBUTES:
        try:
            os.setxattr(path, name, msgspec.json.encode(mark))
            _sync(path)
            return True
        except OSError as error:
            if error.errno == errno.EROFS:
                return True  # nobody writes there
            if error.errno not in _NONE:
                raise errors.HostError(f"{path} cannot be marked as used: {error.strerror}") from error
    return False


def _sync(path: Path) -> None:
    """After a power failure the mark must be there if anything of the tenant is."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _marks(path: Path, identity: Identity) -> dict[Path, Mark]:
    found = {}
    for name in sorted(os.listdir(path.parent)):
        if name.startswith(FILE):
            try:
                mark = _decoded((path.parent / name).read_bytes())
            except FileNotFoundError:
                continue
            except OSError:
                mark = _UNREADABLE
            if mark is _UNREADABLE:
                found[path.parent / name] = replace(mark, entry=name)
            elif mark.is_of(path.name, identity):
                found[path.parent / name] = mark
    return found


def _decoded(text: bytes) -> Mark:
    try:
        return msgspec.json.decode(text, type=Mark)
    except msgspec.DecodeError:
        return _UNREADABLE
