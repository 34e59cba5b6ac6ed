"""Zeroes, random bytes and discards over an open device, chunk by chunk: each chunk is told and can be the last."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import random

from localpv import errors
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
