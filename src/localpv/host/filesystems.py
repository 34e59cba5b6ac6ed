"""File systems on block devices: what is on one, making one where nothing is, and mending one before it is mounted.

Making a file system destroys what was there, so it happens only on a device that reads as blank: no known signature, no
partitions, nothing but zeroes at both ends, nobody else using it. All of that is looked at again, with the device
locked, in the same breath as the making.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import blkid, commands, contents, devices, erasure
from localpv.host.model.devices import BlockDevice
from localpv.host.workers import Control, Workers

DEFAULT = "ext4"

EXT = ("ext2", "ext3", "ext4")
KNOWN = (*EXT, "xfs", "btrfs")
"""File systems that are made and mounted for pods."""

LOOK_SECONDS = 30.0
TOOL_SECONDS = 3600.0
"""mkfs may discard the whole device first, and a check reads all of its tables."""

END = erasure.ENDS
"""Bytes at both ends of a device that must be zero."""

UNKNOWN = "data of an unknown kind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is on a device: nothing, a file system, or something else that must not be touched."""

    fs_type: str = ""
    uuid: str = ""
    other: str = ""
    """What else is there, as the end of a sentence that begins with `it holds`."""

    @property
    def blank(self) -> bool:
        return not self.fs_type and not self.other


class FileSystems(Protocol):
    """File systems on the devices of this machine."""

    async def content(self, device: BlockDevice) -> Content:
        """What is on a device. DeviceChanged when another one is in its place, HostError when it cannot be read."""

    async def make(
        self, device: BlockDevice, fs_type: str, *, uuid: str, unfinished: bool = False, options: Sequence[str] = ()
    ) -> None:
        """Make a file system on a blank device; NotClean for one that is not blank, DeviceBusy for one in use.

        `unfinished` is said of a device that was blank when making this very file system began and that nobody has
        used since: then what an interrupted making left is written over, and nothing else is.
        """

    async def check(self, device: BlockDevice, fs_type: str) -> None:
        """Mend what can be mended without loss; HostError when a person has to decide."""


class KernelFileSystems:
    """The mkfs and fsck tools of this machine."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers

    async def content(self, device: BlockDevice) -> Content:
        def look() -> Content:
            fd = os.open(device.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                devices.refuse_another(fd, device, "while it was looked at")
                return content_of(fd, device)
            finally:
                os.close(fd)

        try:
            return await self._workers.call(look, key=str(device.path), timeout=LOOK_SECONDS)
        except OSError as error:
            raise errors.HostError(f"{device.path} cannot be read: {error.strerror}") from error

    async def make(
        self, device: BlockDevice, fs_type: str, *, uuid: str, unfinished: bool = False, options: Sequence[str] = ()
    ) -> None:
        argv = making(device.path, fs_type, uuid=uuid, force=unfinished, options=options)

        def act(control: Control) -> None:
            with _locked(device) as fd:
                refuse_unless_blank(content_of(fd, device), device, uuid=uuid, unfinished=unfinished)
                control.run(commands.run(argv, timeout=TOOL_SECONDS))
                os.fsync(fd)
                made = content_of(fd, device)
                if (made.fs_type, made.uuid) != (fs_type, uuid):
                    raise errors.HostError(f"{argv[0]} ended well, but {device.path} does not hold what it was to make")

        try:
            await self._workers.long(act, key=str(device.path))
        except OSError as error:
            raise errors.HostError(f"{device.path} cannot be written: {error.strerror}") from error

    async def check(self, device: BlockDevice, fs_type: str) -> None:
        if fs_type not in EXT or device.read_only:
            return  # the others replay their journal when they are mounted, and a read-only one cannot be mended
        try:
            await commands.run(["e2fsck", "-p", str(device.path)], timeout=TOOL_SECONDS, ok=(0, 1))
        except errors.CommandFailed as error:
            raise errors.HostError(
                f"the {fs_type} on {device.path} is damaged: {error.message}",
                hint=f"look at it with: e2fsck -n {device.path}",
            ) from error

    async def grow(self, device: BlockDevice, fs_type: str, *, at: Path | None) -> None:
        """Let a file system become as large as its device: where it is mounted, or one that is not (ext only)."""
        if fs_type in EXT:
            if at is None:
                # The tool grows only what was looked at since it was mounted last.
                await commands.run(["e2fsck", "-f", "-p", str(device.path)], timeout=TOOL_SECONDS, ok=(0, 1))
            await commands.run(["resize2fs", str(device.path)], timeout=TOOL_SECONDS)
        elif fs_type == "xfs" and at is not None:
            await commands.run(["xfs_growfs", str(at)], timeout=TOOL_SECONDS)
        elif fs_type == "btrfs" and at is not None:
            await commands.run(["btrfs", "filesystem", "resize", "max", str(at)], timeout=TOOL_SECONDS)
        elif at is not None:
            raise errors.NotSupported(f"file systems of type {fs_type} are not made larger here")


def making(path: Path, fs_type: str, *, uuid: str, force: bool, options: Sequence[str] = ()) -> list[str]:
    """The command that makes a file system. Not forced, the tools refuse a device on which they see anything."""
    if fs_type in EXT:
        return [f"mkfs.{fs_type}", "-q", *(["-F"] if force else []), "-m", "0", *options, "-U", uuid, str(path)]
    if fs_type == "xfs":
        return ["mkfs.xfs", "-q", *(["-f"] if force else []), *options, "-m", f"uuid={uuid}", str(path)]
    if fs_type == "btrfs":
        return ["mkfs.btrfs", "-q", *(["-f"] if force else []), *options, "-U", uuid, str(path)]
    raise errors.NotSupported(f"file systems of type {fs_type} are not made here", hint=f"use {', '.join(KNOWN)}")


def refuse_unless_blank(content: Content, device: BlockDevice, *, uuid: str, unfinished: bool) -> None:
    """Raise when making a file system would destroy something."""
    if content.blank:
        return
    # Bytes without a name are what an interrupted making leaves before it comes to the signature; any signature that
    # is not ours says that somebody else was here.
    if unfinished and (content.uuid == uuid if content.fs_type else content.other == UNKNOWN):
        return
    holds = f"a file system of type {content.fs_type}" if content.fs_type else content.other
    raise errors.NotClean(f"no file system is made on {device.path}: it holds {holds}")


def content_of(fd: int, device: BlockDevice) -> Content:
    """What is on an open device; for callers that run in a worker thread."""
    if device.partitions:
        return Content(other=f"partitions ({', '.join(device.partitions)})")
    found = blkid.probe(fd).signatures
    if len(found) == 1 and found[0].usage == "filesystem":
        return Content(fs_type=found[0].type, uuid=found[0].uuid)
    if found:
        return Content(other=" and ".join(f"{one.type} ({one.usage})" for one in found))
    if device.size_bytes < END or contents.has_data(fd, 0, END) or contents.has_data(fd, device.size_bytes - END, END):
        return Content(other=UNKNOWN)
    return Content()


@contextlib.contextmanager
def _locked(device: BlockDevice) -> Iterator[int]:
    """The device, open and locked, for a tool that claims it itself. Nobody else may have claimed it before."""
    try:
        os.close(os.open(device.path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC))
        fd = os.open(device.path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise errors.DeviceBusy(f"{device.path} is in use", hint="it is tried again by itself") from error
        raise
    try:
        devices.refuse_another(fd, device, "while it was looked at")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise errors.DeviceBusy(f"{device.path} is locked by another program") from error
        yield fd
    finally:
        os.close(fd)
