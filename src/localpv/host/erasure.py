"""What a wipe does to an open device: zeroes, random bytes and discards by us, or an erasure by the drive itself.

By us it goes chunk by chunk: each chunk is told and can be the last. For ATA security erase and NVMe format support is
checked first, for both can harm: a drive that is locked or frozen refuses later and half-way; an NVMe controller may
format all its namespaces when asked for one.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import random
from pathlib import Path

from localpv import errors
from localpv.host import commands
from localpv.host.model.devices import BlockDevice, DeviceKind
from localpv.host.readback import pack_range
from localpv.host.workers import Control

CHUNK = 4 * 1024 * 1024
OFFLOAD_CHUNK = 64 * 1024 * 1024
DISCARD_CHUNK = 1024 * 1024 * 1024
ENDS = 1024 * 1024
"""Bytes at both ends of a device that are zero on one that counts as blank."""

_BLKDISCARD = 0x1277
_BLKZEROOUT = 0x127F
_PUNCH_HOLE = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
_fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_CANNOT = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS)
"""What the kernel says of a device that cannot do something, in different releases."""

ASK_SECONDS = 30.0
ERASE_SECONDS = 24 * 3600.0
"""The largest drives name half a day themselves."""

_PASSWORD = "localpv"
"""ATA wants one for the time of the erasure; the erasure removes it."""

_HAS_PASSWORD = "somebody has set a password on it"


def zero(fd: int, size: int, control: Control, *, passes: int, offload: bool) -> None:
    """Zeroes over everything; by the device itself where it can (`offload`), which saves the bus and our processor."""
    for number in range(passes):
        one = _Pass(fd, size, control, f"zeroing {number + 1}/{passes}", before=number * size, total=passes * size)
        one.zero(offload=offload)


def shred(fd: int, size: int, control: Control, *, passes: int, offload: bool) -> None:
    """Random bytes over everything, `passes` times, then zeroes."""
    total = (passes + 1) * size
    with mmap.mmap(-1, 2 * CHUNK) as pool:
        for number in range(passes):
            pool[:] = os.urandom(len(pool))
            one = _Pass(fd, size, control, f"random pass {number + 1}/{passes}", before=number * size, total=total)
            one.write(pool)
    _Pass(fd, size, control, "zeroing", before=passes * size, total=total).zero(offload=offload)


def zero_ends(fd: int, size: int) -> None:
    """Zeroes where labels are: whoever then makes a file system must see a blank device, not remains of the last."""
    length = min(ENDS, size)
    for start in (0, size - length):
        done = 0
        while done < length:
            written = os.pwrite(fd, bytes(length - done), start + done)
            if written <= 0:
                raise errors.HostError(f"the device took nothing at byte {start + done}")
            done += written
    os.fsync(fd)


class _Pass:
    """One time over the whole device."""

    def __init__(self, fd: int, size: int, control: Control, step: str, *, before: int, total: int) -> None:
        self._fd, self._size, self._control = fd, size, control
        self._step, self._before, self._total = step, before, total

    def zero(self, *, offload: bool) -> None:
        if offload and self._offloaded():
            return
        with mmap.mmap(-1, CHUNK) as zeroes:
            self.write(zeroes)

    def _offloaded(self) -> bool:
        for start in range(0, self._size, OFFLOAD_CHUNK):
            self._control.report(self._before + start, self._total, self._step)
            try:
                fcntl.ioctl(self._fd, _BLKZEROOUT, pack_range(start, min(OFFLOAD_CHUNK, self._size - start)))
            except OSError as error:
                if error.errno in _CANNOT:
                    return False  # it promised more than it can; writing always works
                raise
        os.fsync(self._fd)
        return True

    def write(self, pool: mmap.mmap) -> None:
        """Bytes of the pool over everything: from another page of it for each chunk, where it is longer than one."""
        pages = (len(pool) - CHUNK) // mmap.PAGESIZE + 1
        done = 0
        while done < self._size:
            self._control.report(self._before + done, self._total, self._step)
            start = random.randrange(pages) * mmap.PAGESIZE
            with memoryview(pool) as whole, whole[start : start + min(CHUNK, self._size - done)] as part:
                written = os.pwritev(self._fd, [part], done)
            if written <= 0:
                raise errors.HostError(f"the device took nothing at byte {done}")
            done += written
        os.fsync(self._fd)


def discard(fd: int, size: int, control: Control) -> None:
    """Tell the device that nothing on it is needed. It need not read as zeroes afterwards: verify."""
    for start in range(0, size, DISCARD_CHUNK):
        control.report(start, size, "discarding")
        try:
            fcntl.ioctl(fd, _BLKDISCARD, pack_range(start, min(DISCARD_CHUNK, size - start)))
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.ENOTTY):
                raise errors.NotSupported("this device cannot discard", hint="wipe it with zero") from error
            raise
    os.fsync(fd)


def punch(fd: int, size: int, control: Control) -> bool:
    """Let the device zero itself, with a discard where it promises that a discard reads as zeroes; False if it cannot.

    The kernel passes this on as WRITE ZEROES that may unmap, and never writes the zeroes in the device's place. It
    takes a discard for zeroes only of devices that are known to keep that promise.
    """
    for start in range(0, size, OFFLOAD_CHUNK):
        control.report(start, size, "zeroing by the device")
        if _fallocate(fd, _PUNCH_HOLE, start, min(OFFLOAD_CHUNK, size - start)):
            number = ctypes.get_errno()
            if number in _CANNOT:
                return False
            raise OSError(number, os.strerror(number))
    os.fsync(fd)
    return True


async def check_ata(device: BlockDevice) -> None:
    """NotSupported, with what is lacking, unless the drive can erase itself now."""
    _whole(device, "ATA security erase")
    reason = await _ask_ata(device.path)
    if reason == _HAS_PASSWORD:
        # It may be ours, if we died in the middle of an erasure; nobody else's opens with it.
        await _take_password_off(device.path)
        reason = await _ask_ata(device.path)
    if reason:
        raise errors.NotSupported(f"{device.path} cannot erase itself: {reason}", hint="wipe it with zero or shred")


async def _ask_ata(device: Path) -> str:
    answer = await commands.run(["hdparm", "-I", str(device)], timeout=ASK_SECONDS, ok=range(256))
    return ata_refusal(answer.stdout)


def ata_refusal(text: str) -> str:
    """Why a drive with this `hdparm -I` cannot be erased; empty when it can."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith("Security:")), None)
    if start is None:
        return "it knows no security commands"
    flags = set()
    for line in lines[start + 1 :]:
        if line and not line[0].isspace():
            break
        flags.add(" ".join(line.split()))
    if "supported" not in flags:
        return "it does not support security commands"
    if "not frozen" not in flags:
        return "its security commands are frozen (a suspend and resume of the machine thaws them)"
    if "not locked" not in flags:
        return "it is locked by a password"
    if "not enabled" not in flags:
        return _HAS_PASSWORD
    return ""


async def erase_ata(device: Path) -> None:
    """Run the erasure. Whether anything was erased must be read back: some drives only say so."""
    await commands.run(
        ["hdparm", "--user-master", "u", "--security-set-pass", _PASSWORD, str(device)], timeout=ASK_SECONDS
    )
    try:
        await commands.run(
            ["hdparm", "--user-master", "u", "--security-erase", _PASSWORD, str(device)], timeout=ERASE_SECONDS
        )
    finally:
        # A drive that did not erase keeps the password and would be locked after the next power cycle.
        await _take_password_off(device)


async def _take_password_off(device: Path) -> None:
    await commands.run(
        ["hdparm", "--user-master", "u", "--security-disable", _PASSWORD, str(device)],
        timeout=ASK_SECONDS,
        ok=range(256),
    )


async def check_nvme(device: BlockDevice) -> None:
    """NotSupported unless the controller can format this namespace and no other with it."""
    _whole(device, "NVMe format")
    if not device.kernel_name.startswith("nvme"):
        raise errors.NotSupported(f"{device.path} is no NVMe drive", hint="wipe it with discard or zero")
    about = await commands.run(["nvme", "id-ctrl", "-o", "json", str(device.path)], timeout=ASK_SECONDS)
    # Both are asked of the namespace, which knows its controller: by their names, with several paths to one drive, the
    # numbers of the two need not be the same.
    spaces = await commands.run(["nvme", "list-ns", "-a", "-o", "json", str(device.path)], timeout=ASK_SECONDS)
    if reason := nvme_refusal(about.stdout, spaces.stdout):
        raise errors.NotSupported(f"{device.path} cannot be formatted: {reason}", hint="wipe it with discard or zero")


def nvme_refusal(controller: str, namespaces: str) -> str:
    """Why a namespace of this controller must not be formatted; empty when it may. Both texts are nvme-cli's JSON."""
    about = json.loads(controller)
    if not int(about.get("oacs", 0)) & 0x2:
        return "its controller does not support the format command"
    whole_controller = int(about.get("fna", 0)) & 0x3
    if whole_controller and len(json.loads(namespaces).get("nsid_list", ())) != 1:
        return "its controller would format all its namespaces, not this one alone"
    return ""


async def format_nvme(device: Path) -> None:
    await commands.run(["nvme", "format", str(device), "--ses=1", "--force"], timeout=ERASE_SECONDS)


def _whole(device: BlockDevice, what: str) -> None:
    if device.kind is not DeviceKind.DISK:
        raise errors.NotSupported(f"{what} is for whole drives; {device.path} is not one", hint="wipe it with zero")
