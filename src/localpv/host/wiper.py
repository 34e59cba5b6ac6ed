"""Block devices wiped: the right one, used by nobody, all of it, and read back at the end.

What if we die on the way? Nothing is remembered here. Every method can be run again from its start on whatever is left,
and a device counts as clean only by the word of a `wipe` that came to its end."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import blkid, commands, devices, erasure, readback
from localpv.host.model import methods
from localpv.host.model.devices import BlockDevice
from localpv.host.model.identity import Identity, way_out
from localpv.host.model.methods import Method, Readback
from localpv.host.workers import Control, Report, Workers

TOOL_SECONDS = 3600.0
"""mkfs discards the whole device first, which takes minutes on some."""

COMMAND_SECONDS = 7 * 24 * 3600.0
"""An administrator's own command may overwrite a large disk several times."""

log = logging.getLogger(__name__)

_XFS_FROM = 16 * 1024**4
_BLKRRPART = 0x125F


class Wiper(Protocol):
    """Wiping of block devices."""

    async def wipe(
        self,
        path: Path,
        method: Method,
        *,
        expected: Identity,
        verify: Readback = Readback.FULL,
        on_progress: Report | None = None,
    ) -> None:
        """Wipe the device at a path and verify it; returning means that it is clean.

        DeviceChanged unless it is the expected one, DeviceBusy when somebody uses it, NotSupported when it cannot do
        what the method needs, all three before anything is written; NotClean when something is left at the end.
        """

    async def check(self, path: Path, *, expected: Identity) -> BlockDevice:
        """The checks of `wipe` alone."""


class KernelWiper:
    """Real devices."""

    def __init__(self, *, workers: Workers, devices: devices.KernelDevices) -> None:
        self._workers, self._devices = workers, devices

    async def check(self, path: Path, *, expected: Identity) -> BlockDevice:
        device = await self._devices.describe(path)
        refuse(device, expected)
        return device

    async def wipe(
        self,
        path: Path,
        method: Method,
        *,
        expected: Identity,
        verify: Readback = Readback.FULL,
        on_progress: Report | None = None,
    ) -> None:
        device = await self.check(path, expected=expected)
        match method:
            case methods.Discard() if not device.discard_max_bytes:
                raise errors.NotSupported(f"{device.path} cannot discard", hint="wipe it with zero")
            case methods.AtaErase():
                await erasure.check_ata(device)
            case methods.NvmeFormat():
                await erasure.check_nvme(device)
        work = _work(method, device, verify)
        await self._workers.long(work, key=str(device.path), on_progress=on_progress)


def refuse(device: BlockDevice, expected: Identity) -> None:
    """Raise unless this is the expected device and nobody uses it."""
    # What is written on a device says nothing about which one it is here: a wiping that was cut short changed it.
    if not expected.same_device(device.identity, contents=False):
        found = expected.mismatches(device.identity, contents=False)
        raise errors.DeviceChanged(
            f"{device.path} is not the disk that was recorded: {'; '.join(map(str, found)) or 'nothing tells it is'}",
            hint=way_out(found),
        )
    if device.read_only:
        raise errors.NotSupported(f"{device.path} is read-only")
    if not device.size_bytes:
        raise errors.NotSupported(f"{device.path} has no medium")
    if reason := device.in_use_by:
        raise errors.DeviceBusy(f"{device.path} cannot be wiped: {reason}", hint="it is tried again by itself")


def _work(method: Method, device: BlockDevice, verify: Readback) -> Callable[[Control], None]:
    size, offload = device.size_bytes, device.write_zeroes_max_bytes > 0

    def overwrite(control: Control) -> None:
        with _held(device) as fd:
            match method:
                case methods.Zero(passes):
                    erasure.zero(fd, size, control, passes=passes, offload=offload)
                case methods.Shred(passes):
                    erasure.shred(fd, size, control, passes=passes, offload=offload)
                case methods.Discard():
                    canaries = readback.Canaries(fd, size, device.logical_block_size)
                    canaries.write()
                    erasure.discard(fd, size, control)
                    canaries.verify_gone()
                case methods.ZeroOut():
                    _zero_out(fd, device, control)
            if not isinstance(method, methods.ZeroOut):  # which has read all of it already
                readback.verify_zero(fd, size, verify, control)
            readback.verify_no_signatures(fd)
            _forget_partitions(fd)

    def erase(control: Control) -> None:
        with _watched(device) as fd:
            canaries = readback.Canaries(fd, size, device.logical_block_size)
            canaries.write()
            erasing = erasure.erase_ata if isinstance(method, methods.AtaErase) else erasure.format_nvme
            control.report(0, size, "erasing")
            control.run(erasing(device.path))
            canaries.verify_gone()
            readback.verify_zero(fd, size, verify, control)
            _forget_partitions(fd)

    def reset(control: Control) -> None:
        with _watched(device) as fd:
            control.report(0, size, "making a file system")
            control.run(commands.run(_mkfs(device), timeout=TOOL_SECONDS))
            control.report(size // 2, size, "removing signatures")
            control.run(commands.run(["wipefs", "-a", "-q", str(device.path)], timeout=TOOL_SECONDS))
            # Whoever makes a file system later takes a device for blank only when nothing is at either end.
            erasure.zero_ends(fd, size)
            readback.verify_no_signatures(fd)
            _forget_partitions(fd)

    def run_command(control: Control) -> None:
        assert isinstance(method, methods.Command)
        with _watched(device) as fd:
            before = set(blkid.probe(fd).signatures)
            if not before:
                readback.mark(fd)
                before = set(blkid.probe(fd).signatures)
            control.report(0, size, "running a command")
            control.run(_command(method.argv, {"LOCAL_PV_BLKDEVICE": str(device.path)}))
            readback.forget_cached(fd)
            if left := before & set(blkid.probe(fd).signatures):
                raise errors.NotClean(
                    f"{method.argv[0]} ended well, but the {next(iter(left)).type} signature that was on the device"
                    " before is still there",
                    hint="mend the command, or use a built-in method",
                )
            _forget_partitions(fd)

    match method:
        case methods.FsReset():
            return reset
        case methods.AtaErase() | methods.NvmeFormat():
            return erase
        case methods.Command():
            return run_command
        case _:
            return overwrite


def _zero_out(fd: int, device: BlockDevice, control: Control) -> None:
    """The fastest way after which every byte reads as zero. Each is read back in full; one that left anything, or that
    the device does not know, is followed by the next. The last one writes, so it works everywhere."""
    size = device.size_bytes

    def punch() -> bool:
        return erasure.punch(fd, size, control)

    def discard() -> bool:
        # Reads of what an ATA drive has trimmed may be different each time, so zeroes seen once prove nothing. The
        # drives that are better than that are known to the kernel, and were asked the first way.
        if not device.discard_max_bytes or device.vendor == "ATA":
            return False
        try:
            erasure.discard(fd, size, control)
        except errors.NotSupported:
            return False
        return True

    for way in (punch, discard):
        if not way():
            continue
        try:
            readback.verify_zero(fd, size, Readback.FULL, control)
        except errors.NotClean as error:
            log.warning(
                "the device did not zero all of itself, another way follows device=%s left=%s", device.path, error
            )
        else:
            return
    erasure.zero(fd, size, control, passes=1, offload=device.write_zeroes_max_bytes > 0)
    readback.verify_zero(fd, size, Readback.FULL, control)


async def _command(argv: tuple[str, ...], env: Mapping[str, str]) -> None:
    await commands.run(argv, timeout=COMMAND_SECONDS, env=env)


def _mkfs(device: BlockDevice) -> list[str]:
    if device.size_bytes >= _XFS_FROM:
        return ["mkfs.xfs", "-f", "-q", str(device.path)]
    return ["mkfs.ext4", "-F", "-q", str(device.path)]


@contextlib.contextmanager
def _held(device: BlockDevice) -> Iterator[int]:
    """The device, open and claimed: until it is closed nobody can mount it or claim it too."""
    flags = os.O_RDWR | os.O_EXCL | os.O_CLOEXEC
    try:
        try:
            # Past the cache: what is verified must come from the device, and our memory must not fill with zeroes.
            fd = os.open(device.path, flags | os.O_DIRECT)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            fd = os.open(device.path, flags)
    except OSError as error:
        raise _not_opened(device, error) from error
    try:
        devices.refuse_another(fd, device, "just before it was to be wiped")
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _watched(device: BlockDevice) -> Iterator[int]:
    """The device, open and locked, for tools that claim it themselves.

    While it is open its number cannot go to another disk, and the lock tells udev and its like to keep off. Whether
    somebody else claims it is tried before and after: between the two the tools claim it.
    """
    try:
        os.close(os.open(device.path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC))
        fd = os.open(device.path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise _not_opened(device, error) from error
    try:
        devices.refuse_another(fd, device, "just before it was to be wiped")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise errors.DeviceBusy(f"{device.path} is locked by another program") from error
        yield fd
        if not devices.opens_exclusively(device.path):
            raise errors.DeviceBusy(f"somebody claimed {device.path} while it was being wiped")
    finally:
        os.close(fd)


def _not_opened(device: BlockDevice, error: OSError) -> errors.HostError:
    if error.errno == errno.EBUSY:
        return errors.DeviceBusy(f"{device.path} is in use", hint="it is tried again by itself")
    return errors.HostError(f"{device.path} does not open for writing: {error.strerror}")


def _forget_partitions(fd: int) -> None:
    """The kernel still knows partitions whose table is gone."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, _BLKRRPART)
