"""Loop devices: a file as a disk, for tests, demo disks and images; and block devices held on to while pods use them.

A loop device on top keeps the kernel from giving the numbers of a device to another one: a disk that is pulled and put
back, or another one in its place, gets new numbers, and nobody writes to it by mistake. The loop device is read-only
and nobody reads it; it outlives this process, and is found again by its name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import openat
from localpv.host.model.devices import DeviceNumber
from localpv.host.workers import Workers

_LOOP_CTL_GET_FREE = 0x4C82
_LOOP_CONFIGURE = 0x4C0A
_LOOP_CLR_FD = 0x4C01
_READ_ONLY, _GOING, _PARTITIONS, _DIRECT_IO = 1, 4, 8, 16
_CONFIG = struct.Struct("II 232s 64x")
_STATUS_FLAGS = 52
_STATUS_NAME = 56
_LOOP_GET_STATUS64 = 0x4C05
_LOOP_SET_CAPACITY = 0x4C07
_BLKFLSBUF = 0x1261
_TRIES = 50

TURN_SECONDS = 1.0
"""Longest wait for others who attach at the same time."""

NAME_BYTES = 63
"""Longest name that the kernel keeps with a loop device."""

CALL_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the kernel says about a loop device in use."""

    file_system: DeviceNumber
    """Numbers of the file system that its file lies in."""

    inode: int
    below: DeviceNumber
    """The block device that it lies on; 0:0 for a file."""

    offset_bytes: int
    size_limit_bytes: int
    """0 when it ends with its file."""

    going: bool
    """Whether it goes when its last opener does."""

    name: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A loop device in use."""

    device: Path
    below: DeviceNumber
    """The block device that it lies on; 0:0 for a file."""


def attach(
    file: Path,
    *,
    read_only: bool = False,
    partitions: bool = False,
    direct_io: bool = False,
    block_size: int = 0,
    name: str = "",
) -> Path:
    """Make a file a block device; returns its path, such as /dev/loop3. It keeps the `name`, or the file's.

    With `direct_io` its file is read and written past the page cache, where the file system can.
    """
    flags = (_READ_ONLY if read_only else 0) | (_PARTITIONS if partitions else 0) | (_DIRECT_IO if direct_io else 0)
    status = bytearray(232)
    struct.pack_into("I", status, _STATUS_FLAGS, flags)
    called = (name.encode() or os.fsencode(file))[:NAME_BYTES]
    status[_STATUS_NAME : _STATUS_NAME + len(called)] = called
    mode = os.O_RDONLY if read_only else os.O_RDWR
    backing = os.open(file, mode | os.O_CLOEXEC)
    try:
        with _turn() as control:
            for attempt in range(_TRIES):
                device = Path(f"/dev/loop{fcntl.ioctl(control, _LOOP_CTL_GET_FREE)}")
                try:
                    fd = os.open(device, mode | os.O_CLOEXEC)
                except FileNotFoundError:
                    time.sleep(0.01)  # the node of a new number comes a moment later
                    continue
                try:
                    fcntl.ioctl(fd, _LOOP_CONFIGURE, _CONFIG.pack(backing, block_size, bytes(status)))
                    return device
                except OSError as error:
                    if error.errno != errno.EBUSY:
                        raise errors.HostError(f"{file} cannot be made a loop device: {error.strerror}") from error
                    time.sleep(0.001 * attempt)  # somebody else was given the same number and was faster
                finally:
                    os.close(fd)
    finally:
        os.close(backing)
    raise errors.HostError(f"no loop device is free for {file}")


@contextlib.contextmanager
def _turn() -> Iterator[int]:
    """The device that gives out numbers, to one after the other.

    Two who are given the same number both open its device, and by then it is the disk of one of them: who is about to
    wipe it would find it open elsewhere. The lock is waited for only so long: somebody may hang while they have it.
    """
    try:
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise errors.NotSupported(f"this machine has no loop devices: {error.strerror}") from error
    try:
        until = time.monotonic() + TURN_SECONDS
        while not _locked(control) and time.monotonic() < until:
            time.sleep(0.002)
        yield control
    finally:
        os.close(control)


def _locked(control: int) -> bool:
    try:
        fcntl.flock(control, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def status_of(fd: int) -> Status | None:
    """What an open loop device is made of; None when it has no file, or is no loop device."""
    try:
        status = fcntl.ioctl(fd, _LOOP_GET_STATUS64, bytes(232))
    except OSError:
        return None
    device, inode, below, offset, size_limit = struct.unpack_from("QQQQQ", status)
    return Status(
        file_system=_number(device),
        inode=inode,
        below=_number(below),
        offset_bytes=offset,
        size_limit_bytes=size_limit,
        going=bool(struct.unpack_from("I", status, _STATUS_FLAGS)[0] & _GOING),
        name=status[_STATUS_NAME:].split(b"\0", 1)[0],
    )


def status(device: Path) -> Status | None:
    """As `status_of`, by path; None also when it goes at this moment."""
    try:
        fd = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return status_of(fd)
    finally:
        os.close(fd)


def find(name: str, *, sys: Path = Path("/sys")) -> Attached | None:
    """The loop device of a block device with exactly this name; one that goes when its last opener does is none.

    Only an opened loop device tells its name. One that is made of a file is left alone: whoever is about to wipe or
    detach it would find it open.
    """
    for folder in sorted((sys / "block").glob("loop*/loop")):
        if _is_of_file(folder):
            continue
        device = Path("/dev") / folder.parent.name
        found = status(device)
        if found is not None and not found.going and found.name == name.encode():
            return Attached(device=device, below=found.below)
    return None


def of_file(file: Path, *, sys: Path = Path("/sys")) -> Path | None:
    """The loop device made of a file, if there is one; one that goes when its last opener does counts too.

    Told by the file itself. Its path tells only which devices are worth opening: it may have been another file's, and
    the kernel shows it as whoever attached it saw it. An agent in a container that was started anew sees only the end
    of the path of what the one before has attached; taken for another file, it would be attached twice.
    """
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return None
    end = f"/{file.parent.name}/{file.name}"
    for folder in sorted((sys / "block").glob("loop*/loop")):
        try:
            if not (folder / "backing_file").read_text().rstrip("\n").endswith(end):
                continue
        except OSError:
            continue
        device = Path("/dev") / folder.parent.name
        known = status(device)
        if known is not None and known.inode == found.st_ino and known.file_system == _number(found.st_dev):
            return device
    return None


def grow(device: Path) -> None:
    """Let a loop device become as large as its file now is."""
    fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _LOOP_SET_CAPACITY)
    except OSError as error:
        raise errors.HostError(f"{device} does not grow with its file: {error.strerror}") from error
    finally:
        os.close(fd)


def flush(device: Path) -> None:
    """Have everything written that was given to a file system on a device, wherever it is mounted, or to the device."""
    fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _BLKFLSBUF)
    except OSError as error:
        raise errors.HostError(f"{device} cannot be written through: {error.strerror}") from error
    finally:
        os.close(fd)


def _number(device: int) -> DeviceNumber:
    return DeviceNumber(os.major(device), os.minor(device))


def _is_of_file(folder: Path) -> bool:
    """Whether the kernel says of a loop device that it is made of a file, and that file is there."""
    try:
        backing = (folder / "backing_file").read_text().rstrip("\n")
    except OSError:
        return False
    # By its path a device that was pulled, or another one at its place, may pass for anything but a file outside /dev.
    found = openat.stat_without_sync(backing) if not backing.startswith("/dev/") else None
    return found is not None and stat.S_ISREG(found[0])


def detach(device: Path) -> None:
    """Give a loop device back. While somebody has it open, the kernel waits with that until they close it."""
    with contextlib.suppress(FileNotFoundError):
        fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(fd, _LOOP_CLR_FD)
        except OSError as error:
            if error.errno != errno.ENXIO:  # it has no file any more: that is what was asked for
                raise errors.HostError(f"{device} cannot be detached: {error.strerror}") from error
        finally:
            os.close(fd)


@contextlib.contextmanager
def attached(file: Path, *, read_only: bool = False, partitions: bool = False, block_size: int = 0) -> Iterator[Path]:
    """A file as a block device for as long as the block runs."""
    device = attach(file, read_only=read_only, partitions=partitions, block_size=block_size)
    try:
        yield device
    finally:
        detach(device)


class Holders(Protocol):
    """Devices that are held, each under a name of at most `loop.NAME_BYTES` bytes."""

    async def hold(self, device: Path, number: DeviceNumber, *, name: str) -> str:
        """Hold a device under a name; returns what holds it. Once more is no error, DeviceChanged for another one."""

    async def held(self, name: str) -> DeviceNumber | None:
        """Which device is held under a name."""

    async def release(self, name: str) -> None:
        """Let go; nothing held is no error."""


class LoopHolders:
    """Held by loop devices."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers

    async def hold(self, device: Path, number: DeviceNumber, *, name: str) -> str:
        def act() -> str:
            found = find(name)
            if found is not None and found.below != number:
                raise errors.DeviceChanged(
                    f"{device} is device {number} now, and pods still use {found.below}",
                    hint="put the disk back, or delete the pods that use it",
                )
            if found is None:
                attach(device, read_only=True, name=name)
                found = find(name)
            if found is None or found.below != number:
                if found is not None:
                    detach(found.device)
                raise errors.DeviceChanged(f"{device} became another device at this moment")
            return found.device.name

        return await self._workers.call(act, key=f"hold {device}", timeout=CALL_SECONDS)

    async def held(self, name: str) -> DeviceNumber | None:
        found = await self._workers.call(lambda: find(name), key=f"held {name}", timeout=CALL_SECONDS)
        return found.below if found else None

    async def release(self, name: str) -> None:
        def act() -> None:
            while found := find(name):
                detach(found.device)

        await self._workers.call(act, key=f"release {name}", timeout=CALL_SECONDS)
