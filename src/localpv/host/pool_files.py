"""Volumes as files: a folder for each volume of a pool, with its data and a record of what it is.

    /var/pool/pvc-1/localpv.json    the tag: a folder without it is not ours, and nothing in it is touched
    /var/pool/pvc-1/data            the bytes, as large as the volume

Why a removed volume needs no wiping here: a file is made new for each volume and never written again by another, and
what a file system gives to a new file (`fallocate`) reads as zeroes until it is written. Its old blocks are seen again
only by who can read the disk below the file system, who has all volumes anyhow.

What if we die on the way? The record says `making` before there is data and `going` before any goes, so what is half
made is made again from nothing, and what goes is never handed out again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import msgspec

from localpv import errors
from localpv.host.workers import Control

RECORD = "localpv.json"
DATA = "data"

LARGEST_RECORD = 16 * 1024
"""A record has some hundred bytes; more is no record of ours."""

COPY_BYTES_PER_SECOND = 256 * 1024 * 1024
"""How fast a volume is copied where the file system cannot clone, at most: pods use the same disk."""

_CHUNK = 4 * 1024 * 1024
_FRESH = ".new-"
_FICLONE = 0x40049409
_fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
_fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CANNOT_CLONE = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.EXDEV, errno.ENOSYS)


class State(StrEnum):
    """How far a volume is."""

    MAKING = "making"
    READY = "ready"
    GOING = "going"


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a volume is, as it stands beside its data."""

    name: str
    size_bytes: int
    state: State
    snapshot: bool = False
    source: str = ""
    """The volume or snapshot whose bytes it began with."""

    shared: bool = False
    """Whether its blocks were those of its source when it was made: nobody knows which are its own by now."""

    created: str = ""
    """When, as RFC 3339 has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A volume as it lies there."""

    record: Record
    data_bytes: int
    """Size of its data; -1 when there is none."""

    allocated_bytes: int = 0
    """What of the file system its data has, blocks that it shares with others counted too."""

    broken: str = ""
    """Why its record cannot be believed: nothing is done about such a volume, but its bytes are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    total_bytes: int
    free_bytes: int


class PoolFiles:
    """The volumes in one directory. Every call may wait for the disk."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def prepare(self) -> None:
        """Make the directory, closed to others. One that others may write in is refused: what lies in it is trusted."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.lstat(self.directory)
        if not stat.S_ISDIR(found.st_mode):
            raise errors.HostError(f"{self.directory} is no directory")
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise errors.HostError(
                f"others may write in {self.directory}, where volumes would lie",
                hint="chown root and chmod 700 it, or name another directory",
            )

    def room(self) -> Room:
        found = os.statvfs(self.directory)
        return Room(total_bytes=found.f_blocks * found.f_frsize, free_bytes=found.f_bavail * found.f_frsize)

    def scan(self) -> dict[str, Found]:
        """All that carries a record of ours, by name."""
        found: dict[str, Found] = {}
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
                    continue
                try:
                    one = self.find(entry.name)
                except errors.HostError as error:
                    one = self._broken(entry.name, str(error))
                if one is not None:
                    found[entry.name] = one
        return found

    def find(self, name: str) -> Found | None:
        """A volume by its name; None when there is none, HostError when its record cannot be believed."""
        record = self._read(name)
        return None if record is None else self._found(record)

    def _broken(self, name: str, why: str) -> Found:
        found = self._found(Record(name=name, size_bytes=0, state=State.READY))
        return replace(found, broken=why)

    def _found(self, record: Record) -> Found:
        try:
            data = os.lstat(self.data(record.name))
        except FileNotFoundError:
            return Found(record=record, data_bytes=-1)
        if not stat.S_ISREG(data.st_mode):
            return Found(record=record, data_bytes=-1)
        return Found(record=record, data_bytes=data.st_size, allocated_bytes=data.st_blocks * 512)

    def data(self, name: str) -> Path:
        return self.directory / name / DATA

    def begin(self, record: Record) -> None:
        """Say that a volume is being made; AlreadyThere when something else lies in its place."""
        folder = self.directory / record.name
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            if self._read(record.name) is None and not self._is_empty(folder):
                raise errors.AlreadyThere(
                    f"{folder} is there and carries no record of ours", hint="move it away; nothing in it was touched"
                ) from None
        self.write(record)
        # What a try before this one left has been seen by nobody: it was never ready.
        self.data(record.name).unlink(missing_ok=True)

    def write(self, record: Record) -> None:
        """Write the record in one step."""
        folder = self.directory / record.name
        fresh = folder / f"{_FRESH}{RECORD}"
        with open(fresh, "wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, folder / RECORD)
        _write_through(folder)

    def allocate(self, name: str, size: int) -> None:
        """Make the data, all of it allocated and zero."""
        with self._new_data(name) as fd:
            _allocate(fd, size)
            os.fsync(fd)

    def clone(self, name: str, source: str, size: int, *, read_only: bool) -> bool:
        """Make the data share the blocks of a source's, as they are at this moment; False where that cannot be done."""
        with self._new_data(name) as fd, self._data_of(source) as from_fd:
            try:
                fcntl.ioctl(fd, _FICLONE, from_fd)
            except OSError as error:
                if error.errno in _NO_ROOM:
                    raise errors.NoRoom(f"the file system of {self.directory} is full") from error
                if error.errno not in _CANNOT_CLONE:
                    raise errors.HostError(f"{source} cannot be cloned: {error.strerror}") from error
                return False
            if not read_only:
                # What the source never wrote is a hole in a clone. Beyond its end the clone is zero.
                _allocate(fd, size)
            os.fsync(fd)
        return True

    def copy(self, name: str, source: str, size: int, control: Control) -> None:
        """Make the data a copy of a source's that nobody writes to meanwhile."""
        with self._new_data(name) as fd, self._data_of(source) as from_fd:
            _allocate(fd, size)
            length = min(size, os.fstat(from_fd).st_size)
            began, copied = time.monotonic(), 0
            for start, end in _written(from_fd, length):
                at = start
                while at < end:
                    done = os.copy_file_range(from_fd, fd, min(_CHUNK, end - at), at, at)
                    if done <= 0:
                        raise errors.HostError(f"{source} became shorter while it was copied")
                    at, copied = at + done, copied + done
                    control.report(at, length, "copying")
                    time.sleep(max(0.0, copied / COPY_BYTES_PER_SECOND - (time.monotonic() - began)))
            os.fsync(fd)
            control.report(length, length, "copying", last=True)

    def grow(self, name: str, size: int) -> None:
        """Let the data grow; what is new of it is zero. NoRoom leaves it as it was."""
        with self._data_of(name, os.O_RDWR) as fd:
            before = os.fstat(fd).st_size
            try:
                _allocate(fd, size)
            except errors.NoRoom:
                os.ftruncate(fd, before)  # gives back what was allocated behind the end
                raise
            os.fsync(fd)

    def remove(self, name: str) -> None:
        """Remove a volume whose record says that it is going, the record last."""
        folder = self.directory / name
        self.data(name).unlink(missing_ok=True)
        (folder / f"{_FRESH}{RECORD}").unlink(missing_ok=True)
        _write_through(folder)
        (folder / RECORD).unlink(missing_ok=True)
        self.remove_empty(name)

    def remove_empty(self, name: str) -> None:
        """Remove a folder that holds nothing, as a death between two steps leaves it."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            try:
                (self.directory / name).rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        _write_through(self.directory)

    def _read(self, name: str) -> Record | None:
        try:
            with open(self.directory / name / RECORD, "rb", opener=_not_through_links) as file:
                text = file.read(LARGEST_RECORD)
            record = msgspec.json.decode(text, type=Record)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise errors.HostError(
                f"the record in {self.directory / name} cannot be read: {error}",
                hint="what it was is not known, so nothing is done about it: mend or move it by hand",
            ) from error
        if record.name != name or record.size_bytes < 0:
            raise errors.HostError(f"the record in {self.directory / name} is one of {record.name}")
        return record

    @staticmethod
    def _is_empty(folder: Path) -> bool:
        return folder.is_dir() and not folder.is_symlink() and set(os.listdir(folder)) <= {f"{_FRESH}{RECORD}"}

    @contextlib.contextmanager
    def _new_data(self, name: str) -> Iterator[int]:
        path = self.data(name)
        path.unlink(missing_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _data_of(self, name: str, mode: int = os.O_RDONLY) -> Iterator[int]:
        try:
            fd = os.open(self.data(name), mode | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise errors.NotThere(f"there is no data of {name} in {self.directory}") from error
        try:
            yield fd
        finally:
            os.close(fd)


def _allocate(fd: int, size: int) -> None:
    if size and _fallocate(fd, 0, 0, size):
        code = ctypes.get_errno()
        if code in _NO_ROOM:
            raise errors.NoRoom(f"the file system has no room for {size} bytes")
        if code == errno.EOPNOTSUPP:
            raise errors.NotSupported(
                "the file system cannot allocate files (fallocate)", hint="use xfs, btrfs or ext4 for a pool of files"
            )
        raise errors.HostError(f"{size} bytes cannot be allocated: {os.strerror(code)}")


def _written(fd: int, length: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that were ever written; all others read as zeroes."""
    at = 0
    while at < length:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but zeroes from here on
                return
            raise
        if start >= length:
            return
        at = min(os.lseek(fd, start, os.SEEK_HOLE), length)
        yield start, at


def _not_through_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _write_through(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
