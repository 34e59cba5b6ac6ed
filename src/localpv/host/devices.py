"""Block devices: everything that can be read about one without writing to it, and who has it open.

An exclusive open does not see those who opened a device without claiming it: a pod's process that still writes, a loop
device, what a killed cleaning left running.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import contents, openat, sysfs
from localpv.host.contents import Contents
from localpv.host.identities import KernelIdentities, sequence_of, size_of
from localpv.host.model.devices import BlockDevice, DeviceKind, DeviceNumber
from localpv.host.model.identity import Identity
from localpv.host.mounts import KernelMounts, Mount
from localpv.host.sysfs import Attributes
from localpv.host.workers import Workers

LOOK_SECONDS = 10.0
LOOPS_SECONDS = 0.2
"""For how long the list of loop devices is taken as it is: a scan of 200 disks reads it a few times, not 200 times."""


class Devices(Protocol):
    """Block devices of this machine."""

    async def describe(self, path: Path, *, exclusive: bool = True) -> BlockDevice:
        """Read everything about the device at a path, links followed.

        `exclusive` also tries whether it opens exclusively. For that moment nobody else can mount it, so leave it out
        for a device that may be in use. FileNotFoundError when nothing is there, HostError when it is no device.
        """

    async def contents(self, device: BlockDevice) -> Contents:
        """What is on a described device, as far as that can be told without changing a byte.

        A file system is mounted for that moment, in a way that nobody else sees: for devices that nobody uses.
        """

    async def behind(self, mount: Mount) -> Identity:
        """Identity of the disk and the file system that are mounted."""

    async def directory(self, path: Path, mount: Mount) -> Identity:
        """File system and inode of a directory in a mount: what tells it from others of the same file system."""

    async def below(self, loop: str) -> DeviceNumber | None:
        """The device that a loop device, by its kernel name, lies on; None for a file, and when it is not in use."""


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
        identities: type[KernelIdentities] = KernelIdentities,
    ) -> None:
        self._workers = workers
        self._loops_seconds = loops_seconds
        self._dev, self._sys, self._proc, self._run = dev, sys, proc, run
        self._mounts = KernelMounts(proc=proc)
        self._identities = identities(dev=dev, sys=sys, proc=proc, run=run, mounts=self._mounts)
        self._known_loops: dict[DeviceNumber, list[str]] = {}
        self._loops_read = float("-inf")

    async def describe(self, path: Path, *, exclusive: bool = True) -> BlockDevice:
        return await self._workers.call(
            lambda: self.describe_now(path, exclusive=exclusive), key=str(path), timeout=LOOK_SECONDS
        )

    async def contents(self, device: BlockDevice) -> Contents:
        if (known := contents.not_looked_into(device)) is not None:
            return known
        log_is_clean = None
        if device.fs_type == "xfs":
            try:
                log_is_clean = await contents.xfs_log_is_clean(device.path)
            except errors.HostError as error:
                return Contents(unknown=str(error))

        def look() -> Contents:
            fd = os.open(device.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                refuse_another(fd, device, "while it was looked at")
                if device.file_system is not None:
                    return contents.of_file_system(fd, device, log_is_clean=log_is_clean)
                return contents.of_blocks(fd, device.size_bytes)
            finally:
                os.close(fd)

        return await self._workers.call(look, key=str(device.path), timeout=LOOK_SECONDS)

    async def behind(self, mount: Mount) -> Identity:
        def look() -> Identity:
            # Some file systems (btrfs) are not known by the number of their device but name it as their source.
            name = self._kernel_name(mount.device)
            try:
                found = self.describe_now(self._dev / name if name else Path(mount.source), exclusive=False).identity
            except (errors.HostError, OSError):
                found = self._identities.of_file_system(mount)
            return replace(found, mount_id=mount.mount_id)

        return await self._workers.call(look, key=str(mount.mount_point), timeout=LOOK_SECONDS)

    async def directory(self, path: Path, mount: Mount) -> Identity:
        return await self._workers.call(
            lambda: self._identities.of_directory(path, mount), key=str(path), timeout=LOOK_SECONDS
        )

    async def below(self, loop: str) -> DeviceNumber | None:
        status = await self._workers.call(
            lambda: self._identities.loop_status(self._dev / loop), key=f"/dev/{loop} below", timeout=LOOK_SECONDS
        )
        self._loops_read = float("-inf")  # who asks was told that it came or went
        return status.below if status is not None and status.below.major else None

    def describe_now(self, path: Path, *, exclusive: bool) -> BlockDevice:
        """As `describe`, for callers that run in a worker thread."""
        real = Path(os.path.realpath(path))
        number = self._identities.number(real)
        own = Attributes(Path(os.path.realpath(self._sys / "dev" / "block" / str(number))))
        if not own.folder.is_dir():
            raise errors.HostError(f"the kernel has no device {number}, which {path} stands for")
        name = own.folder.name
        kind = sysfs.kind(name, own)
        disk = Attributes(own.folder.parent) if kind is DeviceKind.PARTITION else own
        opened = self._identities.opened(real, own, number)
        return BlockDevice(
            path=real,
            kernel_name=name,
            number=number,
            size_bytes=opened.size_bytes,
            kind=kind,
            logical_block_size=disk.number("queue/logical_block_size") or 512,
            rotational=disk.flag("queue/rotational"),
            read_only=own.flag("ro"),
            removable=disk.flag("removable"),
            vendor=disk.text("device/vendor"),
            part_label=opened.found.part_label if disk is not own else "",
            parent=disk.folder.name if disk is not own else "",
            signatures=opened.found.signatures,
            partitions=self._partitions(own),
            holders=(*own.names("holders"), *self._loops().get(number, ())),
            slaves=own.names("slaves"),
            mounted_at=tuple(str(mount.mount_point) for mount in self._mounts.everywhere_now(number, node=name)),
            swap=self._is_swap(number),
            opens_exclusively=opens_exclusively(real) if exclusive else None,
            discard_max_bytes=disk.number("queue/discard_max_bytes"),
            write_zeroes_max_bytes=disk.number("queue/write_zeroes_max_bytes"),
            backing_file=own.text("loop/backing_file"),
            names=self._identities.of(number, own, disk, opened),
            matches=sysfs.rule_matches(sysfs.udev_record(number, run=self._run)[0]),
        )

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

    def _loops(self) -> dict[DeviceNumber, list[str]]:
        """Loop devices on top of each device. kubelet makes them for raw volumes, and they claim nothing."""
        now = time.monotonic()
        if now - self._loops_read > self._loops_seconds:
            found: dict[DeviceNumber, list[str]] = {}
            for folder in (self._sys / "block").glob("loop*/loop"):
                name = folder.parent.name
                status = self._identities.loop_status(self._dev / name)
                if status is not None and status.below.major:
                    found.setdefault(status.below, []).append(name)
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
        or (device.names.disk_sequence and sequence_of(fd) != device.names.disk_sequence)
    ):
        raise errors.DeviceChanged(f"{device.path} became another disk {when}")


class Openers(Protocol):
    """Processes and kernel devices that have a block device open."""

    async def of(self, device: DeviceNumber) -> tuple[str, ...]:
        """Each of them in a word or two, such as `dd (process 4711)`; this process itself does not count."""


class KernelOpeners:
    """Processes below /proc and loop devices below /sys. Inside a container that has processes of its own, only those
    are seen."""

    def __init__(self, *, workers: Workers, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._workers, self._proc, self._sys = workers, proc, sys

    async def of(self, device: DeviceNumber) -> tuple[str, ...]:
        return await self._workers.call(
            lambda: (*self._loops(device), *self._processes(device)), key=f"openers of {device}", timeout=LOOK_SECONDS
        )

    def _processes(self, device: DeviceNumber) -> list[str]:
        found = []
        for pid in os.listdir(self._proc):
            if pid.isdecimal() and int(pid) != os.getpid() and self._has_open(pid, device):
                try:
                    name = (self._proc / pid / "comm").read_text(errors="replace").strip()
                except OSError:
                    continue  # it has ended
                found.append(f"{name} (process {pid})")
        return found

    def _has_open(self, pid: str, device: DeviceNumber) -> bool:
        folder = f"{self._proc}/{pid}/fd"
        try:
            return any(_block_device(f"{folder}/{fd}") == device for fd in os.listdir(folder))
        except OSError:
            return False

    def _loops(self, device: DeviceNumber) -> list[str]:
        found = []
        for folder in (self._sys / "block").glob("loop*"):
            try:
                backing = (folder / "loop" / "backing_file").read_text().rstrip("\n")
            except OSError:
                continue
            if backing.startswith("/dev/") and _block_device(backing) == device:
                found.append(f"loop device {folder.name}")
        return found


def _block_device(path: str) -> DeviceNumber | None:
    found = openat.stat_without_sync(path)
    return found[1] if found is not None and stat.S_ISBLK(found[0]) else None
