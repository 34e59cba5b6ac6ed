"""Block devices: everything that can be read about one without writing to it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import probing, sysfs
from localpv.host.mounts import KernelMounts
from localpv.host.sysfs import Attributes
from localpv.host.workers import Workers
from localpv.model.devices import BlockDevice, DeviceKind, DeviceNumber
from localpv.model.identity import Identity
from localpv.model.mounts import Mount

LOOK_SECONDS = 10.0
LOOPS_SECONDS = 0.2
"""For how long the list of loop devices is taken as it is: a scan of 200 disks reads it a few times, not 200 times."""

_BLKGETSIZE64 = 0x80081272
_BLKGETDISKSEQ = 0x80081280
_LOOP_GET_STATUS64 = 0x4C05

_ABOUT_CONTENTS = ("lvm-pv-uuid-",)
"""Links below by-id that udev makes from what is written on the device: whoever has the volume can make them."""


class Devices(Protocol):
    """Block devices of this machine."""

    async def describe(self, path: Path, *, exclusive: bool = True) -> BlockDevice:
        """Read everything about the device at a path, links followed.

        `exclusive` also tries whether it opens exclusively. For that moment nobody else can mount it, so leave it out
        for a device that may be in use. FileNotFoundError when nothing is there, HostError when it is no device.
        """

    async def behind(self, mount: Mount) -> Identity:
        """Identity of the disk and the file system that are mounted."""


class KernelDevices:
    """Devices below /dev and /sys."""

    def __init__(
        self,
        *,
        workers: Workers,
        dev: Path = Path("/dev"),
        sys: Path = Path("/sys"),
        proc: Path = Path("/proc"),
        run: Path = Path("/run"),
        loops_seconds: float = LOOPS_SECONDS,
    ) -> None:
        self._workers = workers
        self._loops_seconds = loops_seconds
        self._dev, self._sys, self._proc, self._run = dev, sys, proc, run
        self._mounts = KernelMounts(proc=proc)
        self._known_loops: dict[int, list[str]] = {}
        self._loops_read = float("-inf")

    async def describe(self, path: Path, *, exclusive: bool = True) -> BlockDevice:
        return await self._workers.call(
            lambda: self.describe_now(path, exclusive=exclusive), key=str(path), timeout=LOOK_SECONDS
        )

    async def behind(self, mount: Mount) -> Identity:
        def look() -> Identity:
            room = os.statvfs(mount.mount_point)
            plain = Identity(
                major_minor=str(mount.device), size_bytes=room.f_blocks * room.f_frsize, mount_id=mount.mount_id
            )
            # Some file systems (btrfs) are not known by the number of their device but name it as their source.
            name = self._kernel_name(mount.device)
            path = self._dev / name if name else Path(mount.source)
            try:
                found = self.describe_now(path, exclusive=False).identity
            except (errors.HostError, OSError):
                return plain
            return replace(found, mount_id=mount.mount_id)

        return await self._workers.call(look, key=str(mount.mount_point), timeout=LOOK_SECONDS)

    def describe_now(self, path: Path, *, exclusive: bool) -> BlockDevice:
        """As `describe`, for callers that run in a worker thread."""
        real = Path(os.path.realpath(path))
        status = os.stat(real)
        if not stat.S_ISBLK(status.st_mode):
            raise errors.HostError(f"{path} is no block device")
        number = DeviceNumber(os.major(status.st_rdev), os.minor(status.st_rdev))
        own = Attributes(Path(os.path.realpath(self._sys / "dev" / "block" / str(number))))
        if not own.folder.is_dir():
            raise errors.HostError(f"the kernel has no device {number}, which {path} stands for")
        name = own.folder.name
        kind = sysfs.kind(name, own)
        disk = Attributes(own.folder.parent) if kind is DeviceKind.PARTITION else own
        properties, links = sysfs.udev_record(number, run=self._run)
        part = f"-part{own.number('partition')}" if kind is DeviceKind.PARTITION else ""
        serial, wwn = sysfs.serial(disk, properties), sysfs.wwn(disk, properties)
        size, found, sequence, loop_name = self._opened(real, own, number)
        return BlockDevice(
            path=real,
            kernel_name=name,
            number=number,
            size_bytes=size,
            kind=kind,
            logical_block_size=disk.number("queue/logical_block_size") or 512,
            rotational=disk.flag("queue/rotational"),
            read_only=own.flag("ro"),
            removable=disk.flag("removable"),
            model=disk.text("device/model"),
            vendor=disk.text("device/vendor"),
            serial=serial and serial + part,
            wwn=wwn and wwn + part,
            by_id=self._by_id(name, links, own, loop_name),
            part_uuid=found.part_uuid or properties.get("ID_PART_ENTRY_UUID", "") if part else "",
            part_label=found.part_label if part else "",
            partition_number=own.number("partition"),
            parent=disk.folder.name if part else "",
            signatures=found.signatures,
            partitions=self._partitions(own),
            holders=(*own.names("holders"), *self._loops().get(os.makedev(*number), ())),
            slaves=own.names("slaves"),
            mounted_at=tuple(str(mount.mount_point) for mount in self._mounts.everywhere_now(number)),
            swap=self._is_swap(number),
            mapper=own.text("dm/uuid").partition("-")[0] or own.text("md/level"),
            opens_exclusively=opens_exclusively(real) if exclusive else None,
            discard_max_bytes=disk.number("queue/discard_max_bytes"),
            write_zeroes_max_bytes=disk.number("queue/write_zeroes_max_bytes"),
            backing_file=own.text("loop/backing_file"),
            sequence=sequence or disk.number("diskseq"),
        )

    def _opened(self, path: Path, own: Attributes, number: DeviceNumber) -> tuple[int, probing.Found, int, str]:
        try:
            # Non-blocking: an empty drive answers at once instead of waiting for a medium.
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.ENXIO, errno.ENOMEDIUM):
                raise errors.HostError(f"{path} does not open: {error.strerror}") from error
            return own.number("size") * 512, probing.Found(), 0, ""
        try:
            if os.fstat(fd).st_rdev != os.makedev(*number):
                raise errors.DeviceChanged(f"{path} became another device while it was looked at")
            size = size_of(fd)
            return size, probing.probe(fd) if size else probing.Found(), sequence_of(fd), _loop_name(fd, own)
        finally:
            os.close(fd)

    def _by_id(self, name: str, links: tuple[str, ...], own: Attributes, loop_name: str) -> tuple[str, ...]:
        found = {link.removeprefix("disk/by-id/") for link in links if link.startswith("disk/by-id/")}
        with contextlib.suppress(OSError), os.scandir(self._dev / "disk" / "by-id") as entries:
            found |= {entry.name for entry in entries if os.path.basename(os.path.realpath(entry.path)) == name}
        if uuid := own.text("dm/uuid"):
            found.add(f"dm-uuid-{uuid}")
        if loop_name:
            found.add(loop_name)
        return tuple(sorted(found - {link for link in found if link.startswith(_ABOUT_CONTENTS)}))

    def _partitions(self, own: Attributes) -> tuple[str, ...]:
        return tuple(name for name in own.names(".") if (own.folder / name / "partition").exists())

    def _is_swap(self, number: DeviceNumber) -> bool:
        with contextlib.suppress(OSError):
            for path in sysfs.swaps((self._proc / "swaps").read_text()):
                with contextlib.suppress(OSError):
                    status = os.stat(path)
                    if stat.S_ISBLK(status.st_mode) and status.st_rdev == os.makedev(*number):
                        return True
        return False

    def _loops(self) -> dict[int, list[str]]:
        """Loop devices on top of each device. kubelet makes them for raw volumes, and they claim nothing."""
        now = time.monotonic()
        if now - self._loops_read > self._loops_seconds:
            found: dict[int, list[str]] = {}
            for folder in (self._sys / "block").glob("loop*/loop"):
                name = folder.parent.name
                if below := _below_loop(self._dev / name):
                    found.setdefault(below, []).append(name)
            self._known_loops, self._loops_read = found, now
        return self._known_loops

    def _kernel_name(self, number: DeviceNumber) -> str:
        folder = self._sys / "dev" / "block" / str(number)
        return os.path.basename(os.path.realpath(folder)) if number.major and folder.exists() else ""


def opens_exclusively(path: Path) -> bool:
    """Whether nobody claims the device: no mount, no swap, no array, no other exclusive opener."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise errors.HostError(f"{path} does not open: {error.strerror}") from error
    return True


def refuse_another(fd: int, device: BlockDevice, when: str) -> None:
    """DeviceChanged unless an open device is the described one: between a look and an opening it may have been pulled,
    and another one put in its place."""
    if (
        os.fstat(fd).st_rdev != os.makedev(*device.number)
        or size_of(fd) != device.size_bytes
        or (device.sequence and sequence_of(fd) != device.sequence)
    ):
        raise errors.DeviceChanged(f"{device.path} became another disk {when}")


def size_of(fd: int) -> int:
    """Size in bytes of an open device."""
    return int(struct.unpack("Q", fcntl.ioctl(fd, _BLKGETSIZE64, bytes(8)))[0])


def sequence_of(fd: int) -> int:
    """The kernel's count of disks for an open device; 0 where the kernel (before 5.15) keeps none."""
    try:
        return int(struct.unpack("Q", fcntl.ioctl(fd, _BLKGETDISKSEQ, bytes(8)))[0])
    except OSError:
        return 0


def _below_loop(path: Path) -> int:
    """The number of the block device that a loop device lies on; 0 for a plain file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return int(struct.unpack_from("Q", fcntl.ioctl(fd, _LOOP_GET_STATUS64, bytes(232)), 16)[0])
    except OSError:
        return 0
    finally:
        os.close(fd)


def _loop_name(fd: int, own: Attributes) -> str:
    """A name that lasts for a loop device: that of the file behind it, for its own number is given out anew."""
    if not (own.folder / "loop").is_dir():
        return ""
    try:
        status = fcntl.ioctl(fd, _LOOP_GET_STATUS64, bytes(232))
    except OSError:
        return ""
    device, inode, below = struct.unpack_from("QQQ", status)
    if below:  # a device node: its inode is made anew at every start
        return f"loop-device-{os.major(below)}:{os.minor(below)}"
    return f"loop-inode-{os.major(device)}:{os.minor(device)}-{inode}"
