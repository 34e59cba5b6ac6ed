"""LVM: one report that tells all of a volume group, and one call for each change.

Tools are run as lists of arguments with a time limit, see no devices but those of the group where these are known, and
do not wait for udev: inside a container nobody answers for it, and they would wait for ever. A group that hangs holds
only calls for that group.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from localpv import errors
from localpv.host import commands
from localpv.host.devices import Devices
from localpv.host.model.devices import BlockDevice
from localpv.host.model.methods import Method
from localpv.host.wiper import Wiper
from localpv.host.workers import Control, Report, Workers

REPORT_SECONDS = 60.0
CHANGE_SECONDS = 120.0
"""A change of a group takes a second; longer than this, and a disk below it hangs."""

LARGEST_REPORT = 32 * 1024 * 1024
"""Bytes of a report that are read: some ten thousand logical volumes."""

COPY_BYTES_PER_SECOND = 256 * 1024 * 1024
"""How fast a volume is copied, at most: pods use the same disks."""

CONFIG = (
    'devices{obtain_device_list_from_udev=0 external_device_info_source="none" hints="none" scan_lvs=0}'
    ' activation{udev_sync=0 udev_rules=0 verify_udev_operations=0 error_when_full=1} log{prefix="" syslog=0}'
)
_CHUNK = 4 * 1024 * 1024
_BLKZEROOUT = 0x127F
_NO_SPACE = ("insufficient free space", "insufficient suitable allocatable extents", "not enough free space")
_IN_USE = ("in use", "is used by another device", "contains a filesystem in use", "logical volume is used")

_VG = "vg_name,vg_uuid,vg_size,vg_free,vg_extent_size,vg_missing_pv_count,vg_tags"
_LV = "lv_name,lv_uuid,lv_attr,lv_size,lv_tags,origin,origin_size,pool_lv,data_percent,metadata_percent,lv_dm_path"
_REPORTS = (("vg", _VG), ("lv", _LV), ("pv", "pv_name"), ("seg", "lv_uuid,zero"), ("pvseg", "lv_uuid"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalVolume:
    """One logical volume, as LVM reports it."""

    group: str
    name: str
    uuid: str = ""
    """As the kernel has it: that of the group and its own, without dashes."""

    size_bytes: int
    """Of a snapshot that copies on write: what it has room for, not what it shows."""

    path: Path
    tags: frozenset[str] = frozenset()
    origin: str = ""
    origin_bytes: int = 0
    """Of a snapshot: how large it shows itself."""

    thin_pool: str = ""
    """The thin pool that it is in."""

    is_thin_pool: bool = False
    zeroes: bool = False
    """Of a thin pool: whether blocks are zeroed before a volume gets them."""

    data_percent: float | None = None
    metadata_percent: float | None = None
    read_only: bool = False
    active: bool = True
    open: bool = False
    abnormal: str = ""
    """What LVM says is wrong with it, as a sentence; empty for nothing."""

    @property
    def is_cow(self) -> bool:
        """Whether it is a snapshot that copies on write."""
        return bool(self.origin) and not self.thin_pool


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeGroup:
    """One volume group and all that is in it."""

    name: str
    size_bytes: int
    free_bytes: int
    extent_bytes: int
    missing: int = 0
    """Physical volumes that are not there."""

    tags: frozenset[str] = frozenset()
    volumes: Mapping[str, LogicalVolume] = field(default_factory=dict)


class Lvm(Protocol):
    """Volume groups of this machine. What LVM refuses is CommandFailed, NoRoom or DeviceBusy."""

    async def group(self, name: str) -> VolumeGroup | None:
        """A group and its volumes, by one report; None when there is none."""

    async def create_group(self, name: str, devices: Sequence[Path], *, tags: Iterable[str]) -> None:
        """Make a group of devices. Each must be blank and used by nobody, or nothing is done."""

    async def create(self, group: str, name: str, *, extents: int, tags: Iterable[str], stripes: int = 1) -> None:
        """Make a volume; its beginning is zeroed, so that no signature shows through."""

    async def create_thin_pool(
        self, group: str, name: str, *, extents: int, metadata_bytes: int, tags: Iterable[str]
    ) -> None:
        """Make a thin pool that zeroes blocks before it gives them to a volume, and fails writes when it is full."""

    async def create_thin(self, group: str, name: str, *, pool: str, size_bytes: int, tags: Iterable[str]) -> None: ...

    async def snapshot(
        self, group: str, name: str, *, origin: str, tags: Iterable[str], thin: bool, read_only: bool
    ) -> None:
        """Keep a volume as it is now: in its thin pool, or by copying on write, with room for all of it."""

    async def extend(self, group: str, name: str, *, size_bytes: int) -> None:
        """Let a volume grow; one that is as large already stays."""

    async def retag(self, group: str, name: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None: ...

    async def split(self, group: str, name: str) -> None:
        """Make a snapshot that copies on write a volume of its own, which holds the copies: so they can be wiped."""

    async def remove(self, group: str, name: str) -> None:
        """Remove a volume; DeviceBusy when it is open."""

    async def activate(self, group: str, name: str) -> None: ...

    async def wipe(self, volume: LogicalVolume, method: Method, *, on_progress: Report | None = None) -> None:
        """Wipe an active volume, one that is read-only too, and read it back; refusals as of `Wiper.wipe`."""

    async def copy(
        self, source: LogicalVolume, target: LogicalVolume, *, size_bytes: int, on_progress: Report | None = None
    ) -> None:
        """Copy the first bytes of a volume to another, and zero what is behind them there. Both are active."""


class KernelLvm:
    """The tools of lvm2."""

    def __init__(
        self, *, workers: Workers, devices: Devices, wiper: Wiper, only: Sequence[Path] = (), sys: Path = Path("/sys")
    ) -> None:
        """`only`: devices that LVM is to look at; empty for all."""
        self._workers, self._devices, self._wiper = workers, devices, wiper
        self._only, self._sys = tuple(only), sys

    async def group(self, name: str) -> VolumeGroup | None:
        argv = ["--reportformat", "json", "--units", "b", "--nosuffix"]
        for kind, fields in _REPORTS:
            argv += ["--configreport", kind, "-o", fields]
        try:
            output = await self._run("fullreport", *argv, name, seconds=REPORT_SECONDS, keep_bytes=LARGEST_REPORT)
        except errors.CommandFailed as error:
            if f'"{name}" not found' in error.stderr:
                return None
            raise
        return read_report(output)

    async def create_group(self, name: str, devices: Sequence[Path], *, tags: Iterable[str]) -> None:
        for path in devices:
            refuse_not_blank(await self._devices.describe(path))
            contents = await self._devices.contents(await self._devices.describe(path))
            if not contents.blank:
                raise errors.NotClean(f"{path} is not blank: {contents}", hint="wipe it, or take it out of the list")
        # Without --yes: should there be a signature after all, the answer is no.
        await self._run("vgcreate", *_tags(tags), name, *map(str, devices))

    async def create(self, group: str, name: str, *, extents: int, tags: Iterable[str], stripes: int = 1) -> None:
        kind = ["--type", "striped", "--stripes", str(stripes)] if stripes > 1 else ["--type", "linear"]
        await self._run(
            "lvcreate", "-y", "-W", "y", "-Z", "y", *kind, "-l", str(extents), *_tags(tags), "-n", name, group
        )

    async def create_thin_pool(
        self, group: str, name: str, *, extents: int, metadata_bytes: int, tags: Iterable[str]
    ) -> None:
        size = ["-l", str(extents), "--poolmetadatasize", f"{metadata_bytes}b"]
        await self._run("lvcreate", "-y", "--type", "thin-pool", "-Z", "y", *size, *_tags(tags), "-n", name, group)

    async def create_thin(self, group: str, name: str, *, pool: str, size_bytes: int, tags: Iterable[str]) -> None:
        size = ["-V", f"{size_bytes}b", "--thinpool", pool]
        await self._run("lvcreate", "-y", "--type", "thin", *size, *_tags(tags), "-n", name, group)

    async def snapshot(
        self, group: str, name: str, *, origin: str, tags: Iterable[str], thin: bool, read_only: bool
    ) -> None:
        # What copies on write with room for all of its origin can never overflow, and so is never lost.
        how = ["-k", "n"] if thin else ["-l", "100%ORIGIN"]
        permission = ["--permission", "r"] if read_only else []
        await self._run("lvcreate", "-y", "-s", *how, *permission, *_tags(tags), "-n", name, f"{group}/{origin}")

    async def extend(self, group: str, name: str, *, size_bytes: int) -> None:
        try:
            await self._run("lvextend", "-L", f"{size_bytes}b", f"{group}/{name}")
        except errors.CommandFailed as error:
            if "matches existing size" not in error.stderr:
                raise

    async def retag(self, group: str, name: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        await self._run("lvchange", *_tags(add), *_tags(remove, "--deltag"), f"{group}/{name}")

    async def split(self, group: str, name: str) -> None:
        await self._run("lvconvert", "-y", "--splitsnapshot", f"{group}/{name}")

    async def remove(self, group: str, name: str) -> None:
        await self._run("lvremove", "-y", "-f", f"{group}/{name}")

    async def activate(self, group: str, name: str) -> None:
        await self._run("lvchange", "-a", "y", "-K", f"{group}/{name}")

    async def wipe(self, volume: LogicalVolume, method: Method, *, on_progress: Report | None = None) -> None:
        if volume.read_only:
            await self._run("lvchange", "--permission", "rw", f"{volume.group}/{volume.name}")
        device = await self._identified(volume)
        await self._wiper.wipe(volume.path, method, expected=device.identity, on_progress=on_progress)

    async def copy(
        self, source: LogicalVolume, target: LogicalVolume, *, size_bytes: int, on_progress: Report | None = None
    ) -> None:
        for volume in (source, target):
            await self._identified(volume, exclusive=volume is target)

        def act(control: Control) -> None:
            copy_now(source.path, target.path, size_bytes, target.size_bytes, control)

        await self._workers.long(act, key=f"copy to {target.path}", on_progress=on_progress)

    async def _identified(self, volume: LogicalVolume, *, exclusive: bool = True) -> BlockDevice:
        """The device of a volume, if the kernel says that it is this one: never by its path alone."""
        device = await self._devices.describe(volume.path, exclusive=exclusive)
        try:
            found = (self._sys / "dev" / "block" / str(device.number) / "dm" / "uuid").read_text().strip()
        except OSError:
            found = ""  # no device of the device mapper
        if found.removeprefix("LVM-").split("-")[0] != volume.uuid:
            raise errors.DeviceChanged(f"{volume.path} is not logical volume {volume.name} of {volume.group}")
        return device

    async def _run(
        self, command: str, *arguments: str, seconds: float = CHANGE_SECONDS, keep_bytes: int = commands.KEPT_BYTES
    ) -> str:
        seen = [str(path) for path in self._only if path.exists()]
        devices = ["--devices", ",".join(seen)] if seen else []
        argv = ["lvm", command, "--config", CONFIG, *devices, *arguments]
        try:
            return (await commands.run(argv, timeout=seconds, keep_bytes=keep_bytes)).stdout
        except errors.CommandFailed as error:
            said = error.stderr.lower()
            if any(words in said for words in _NO_SPACE):
                raise errors.NoRoom(f"the volume group has not enough room: {error.stderr.strip()[-300:]}") from error
            if any(words in said for words in _IN_USE):
                raise errors.DeviceBusy(error.stderr.strip()[-300:], hint="it is tried again by itself") from error
            raise


def refuse_not_blank(device: BlockDevice) -> None:
    """Raise unless a device may be made a part of a group: nobody uses it and nothing says that it is something."""
    if reason := device.in_use_by:
        raise errors.DeviceBusy(f"{device.path} cannot be given to a volume group: {reason}")
    if device.read_only or not device.size_bytes:
        raise errors.NotSupported(f"{device.path} is read-only or has no medium")
    if device.signatures or device.partitions:
        kind = device.signatures[0].type if device.signatures else "partitions"
        raise errors.NotClean(
            f"{device.path} is not blank: it has {kind}", hint="wipe it, or take it out of the list of the pool"
        )


class _Row(msgspec.Struct):
    lv_name: str = ""
    lv_uuid: str = ""
    lv_attr: str = ""
    lv_size: str = ""
    lv_tags: str = ""
    origin: str = ""
    origin_size: str = ""
    pool_lv: str = ""
    data_percent: str = ""
    metadata_percent: str = ""
    lv_dm_path: str = ""


class _GroupRow(msgspec.Struct):
    vg_name: str = ""
    vg_uuid: str = ""
    vg_size: str = ""
    vg_free: str = ""
    vg_extent_size: str = ""
    vg_missing_pv_count: str = ""
    vg_tags: str = ""


class _SegmentRow(msgspec.Struct):
    lv_uuid: str = ""
    zero: str = ""


class _Section(msgspec.Struct):
    vg: list[_GroupRow] = []
    lv: list[_Row] = []
    seg: list[_SegmentRow] = []


class _Report(msgspec.Struct):
    report: list[_Section]


def read_report(text: str) -> VolumeGroup:
    """The group that a full report is about."""
    try:
        section = msgspec.json.decode(text, type=_Report).report[0]
        group = section.vg[0]
        zeroing = {row.lv_uuid for row in section.seg if row.zero.strip() in ("zero", "1")}
        volumes = [_volume(row, group, zeroing) for row in section.lv]
        return VolumeGroup(
            name=group.vg_name,
            size_bytes=_number(group.vg_size),
            free_bytes=_number(group.vg_free),
            extent_bytes=_number(group.vg_extent_size),
            missing=_number(group.vg_missing_pv_count),
            tags=_split(group.vg_tags),
            volumes={volume.name: volume for volume in volumes},
        )
    except (msgspec.DecodeError, IndexError, ValueError) as error:
        raise errors.HostError(f"a report of LVM cannot be read: {error}") from error


def _volume(row: _Row, group: _GroupRow, zeroing: set[str]) -> LogicalVolume:
    attributes = row.lv_attr.ljust(10, "-")
    return LogicalVolume(
        group=group.vg_name,
        name=row.lv_name,
        uuid=(group.vg_uuid + row.lv_uuid).replace("-", ""),
        size_bytes=_number(row.lv_size),
        path=Path(row.lv_dm_path),
        tags=_split(row.lv_tags),
        origin=row.origin,
        origin_bytes=_number(row.origin_size),
        thin_pool=row.pool_lv,
        is_thin_pool=attributes[0] == "t",
        zeroes=row.lv_uuid in zeroing,
        data_percent=float(row.data_percent) if row.data_percent else None,
        metadata_percent=float(row.metadata_percent) if row.metadata_percent else None,
        read_only=attributes[1] in "rR",
        active=attributes[4] not in "-X",
        open=attributes[5] == "o",
        abnormal=_abnormal(attributes),
    )


def _abnormal(attributes: str) -> str:
    states = {
        "s": "the volume is suspended",
        "S": "the snapshot is invalid: it had no room left",
        "I": "the snapshot is invalid: it had no room left",
        "m": "merging of the snapshot failed",
        "M": "merging of the snapshot failed",
        "c": "the thin pool needs a check",
        "C": "the thin pool needs a check",
    }
    health = {
        "p": "a disk that it lies on is missing",
        "r": "a mirror of it must be refreshed",
        "m": "its mirrors differ",
        "F": "the thin pool has failed",
        "D": "the thin pool has no room left for data",
        "M": "the thin pool has no room left for metadata and is read-only",
        "X": "LVM does not know its state",
    }
    return health.get(attributes[8], "") or states.get(attributes[4], "")


def _number(text: str) -> int:
    return int(text) if text else 0


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split(",")) if text else frozenset()


def _tags(tags: Iterable[str], option: str = "--addtag") -> list[str]:
    return [word for tag in tags for word in (option, tag)]


def copy_now(source: Path, target: Path, size: int, whole: int, control: Control) -> None:
    """Copy the first `size` bytes of a device, past the page cache, and zero the target from there to its end."""
    read = os.open(source, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        write = os.open(target, os.O_RDWR | os.O_EXCL | os.O_DIRECT | os.O_CLOEXEC)
        try:
            with mmap.mmap(-1, _CHUNK) as buffer:
                began, at = time.monotonic(), 0
                while at < size:
                    length = min(_CHUNK, size - at)
                    piece = memoryview(buffer)[:length]
                    try:
                        if os.preadv(read, [piece], at) != length or os.pwritev(write, [piece], at) != length:
                            raise errors.HostError(f"{source} or {target} became shorter while it was copied")
                    finally:
                        piece.release()
                    at += length
                    control.report(at, size, "copying")
                    time.sleep(max(0.0, at / COPY_BYTES_PER_SECOND - (time.monotonic() - began)))
            if whole > size:
                fcntl.ioctl(write, _BLKZEROOUT, struct.pack("QQ", size, whole - size))
            os.fsync(write)
            control.report(size, size, "copying", last=True)
        finally:
            os.close(write)
    finally:
        os.close(read)
