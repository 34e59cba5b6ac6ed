"""Reading a device again after it was wiped: no tool's exit status is believed."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import random
import struct
from collections.abc import Sequence

from localpv import errors
from localpv.host import blkid
from localpv.host.model.methods import Readback
from localpv.host.workers import Control

CHUNK = 1024 * 1024
SAMPLES = 512
"""Places that a sample reads, besides both ends."""

ENDS = 8 * CHUNK
_BLKFLSBUF = 0x1261
_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def verify_zero(fd: int, size: int, how: Readback, control: Control) -> None:
    """NotClean at the first byte that is not zero."""
    if how is Readback.FULL:
        places: Sequence[int] = range(0, size, CHUNK)
    else:
        ends = [*range(0, min(ENDS, size), CHUNK), *range(max(0, size - ENDS) // CHUNK * CHUNK, size, CHUNK)]
        some = random.SystemRandom().sample(range(0, size, CHUNK), min(SAMPLES, (size + CHUNK - 1) // CHUNK))
        places = sorted({*ends, *some})
    forget_cached(fd)
    with mmap.mmap(-1, CHUNK) as buffer:
        address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        for count, place in enumerate(places):
            control.report(count * CHUNK, len(places) * CHUNK, "verifying")
            length = min(CHUNK, size - place)
            with memoryview(buffer) as whole, whole[:length] as view:
                got = os.preadv(fd, [view], place)
                if got != length:
                    raise errors.NotClean(f"only {got} of {length} bytes could be read at {place}")
                first = view[0]
            # Zero at the start, and every byte equal to the one before.
            if first or _memcmp(address, address + 1, length - 1):
                raise errors.NotClean(
                    f"old data is left near byte {place}", hint="wipe it with another method, such as zero"
                )


def verify_no_signatures(fd: int) -> None:
    """NotClean when a file system, a partition table or the like can still be recognised."""
    forget_cached(fd)
    if found := blkid.probe(fd).signatures:
        raise errors.NotClean(
            f"a signature of {found[0].type} is left on the device", hint="wipe it with another method, such as zero"
        )


def mark(fd: int) -> None:
    """Put a signature on a device that has none, for a command that is then believed by its removal.

    On raw data alone a command that does nothing could not be told from one that cleans. It is that of a swap area,
    which every tool that removes signatures knows. What if we die here? The cleaning begins again, and until it has
    ended well the device is not offered.
    """
    page = bytearray(4096)
    struct.pack_into("<III16s", page, 1024, 1, 1, 0, os.urandom(16))  # version, last page, bad pages, UUID
    page[-10:] = b"SWAPSPACE2"
    os.pwrite(fd, page, 0)
    os.fsync(fd)


class Canaries:
    """Marks written before a drive is told to erase itself: a drive that only says so leaves them."""

    PLACES = 16

    def __init__(self, fd: int, size: int, block_size: int) -> None:
        self._fd, self._block = fd, max(block_size, 4096)
        blocks = size // self._block
        self._places = [
            place * self._block for place in random.SystemRandom().sample(range(blocks), min(self.PLACES, blocks))
        ]
        self._mark = os.urandom(self._block)

    def write(self) -> None:
        with mmap.mmap(-1, self._block) as buffer:
            buffer[:] = self._mark
            for place in self._places:
                os.pwritev(self._fd, [buffer], place)
        os.fsync(self._fd)
        forget_cached(self._fd)

    def verify_gone(self) -> None:
        forget_cached(self._fd)
        with mmap.mmap(-1, self._block) as buffer:
            for place in self._places:
                os.preadv(self._fd, [buffer], place)
                if buffer[:] == self._mark:
                    raise errors.NotClean(
                        "the drive said that it erased itself, but data written just before is still there",
                        hint="wipe it with another method, such as zero or shred",
                    )


def forget_cached(fd: int) -> None:
    """What the kernel keeps in memory is not what lies on the device."""
    try:
        fcntl.ioctl(fd, _BLKFLSBUF, 0)
    except OSError:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def pack_range(start: int, length: int) -> bytes:
    """The argument of the kernel's calls that take a range of bytes."""
    return struct.pack("QQ", start, length)
