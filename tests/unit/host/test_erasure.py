"""Every byte is overwritten, as often as was asked for, and how far it is adds up: on a file, with small chunks."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import erasure
from localpv.host.workers import Cancelled, Control

PAGE = 4096
SIZE = 5 * PAGE + 512
"""No multiple of a chunk."""


class Told(Control):
    """A caller that remembers what it was told, and may go away after so many times."""

    def __init__(self, gives_up_after: int = 1000) -> None:
        super().__init__()
        self.reports: list[tuple[int, int, str]] = []
        self._left = gives_up_after

    def report(self, done: int, total: int = 0, step: str = "", *, last: bool = False) -> None:
        if not self._left:
            raise Cancelled
        self._left -= 1
        self.reports.append((done, total, step))


class Kernel:
    """Calls that a file cannot do, as a device does them, or fails to."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int, int]] = []
        self.error = 0

    def ioctl(self, fd: int, request: int, argument: bytes) -> int:
        start, length = (int.from_bytes(argument[at : at + 8], "little") for at in (0, 8))
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        self.ranges.append((request, start, length))
        os.pwrite(fd, bytes(length), start)
        return 0


@pytest.fixture
def fd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    for name in ("CHUNK", "OFFLOAD_CHUNK", "DISCARD_CHUNK"):
        monkeypatch.setattr(erasure, name, 2 * PAGE)
    (tmp_path / "disk").write_bytes(b"x" * SIZE)
    opened = os.open(tmp_path / "disk", os.O_RDWR)
    yield opened
    os.close(opened)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr("fcntl.ioctl", made.ioctl)
    return made


def content(fd: int) -> bytes:
    return os.pread(fd, SIZE + 1, 0)


def test_every_pass_zeroes_everything_and_says_how_far_all_of_them_are(fd: int) -> None:
    told = Told()
    erasure.zero(fd, SIZE, told, passes=2, offload=False)
    assert content(fd) == bytes(SIZE)
    starts = [0, 2 * PAGE, 4 * PAGE]
    assert told.reports == [
        *((start, 2 * SIZE, "zeroing 1/2") for start in starts),
        *((SIZE + start, 2 * SIZE, "zeroing 2/2") for start in starts),
    ]


def test_device_that_zeroes_itself_is_told_all_ranges_and_nothing_is_written(fd: int, kernel: Kernel) -> None:
    told = Told()
    erasure.zero(fd, SIZE, told, passes=1, offload=True)
    assert content(fd) == bytes(SIZE)
    assert kernel.ranges == [(0x127F, 0, 2 * PAGE), (0x127F, 2 * PAGE, 2 * PAGE), (0x127F, 4 * PAGE, PAGE + 512)]
    assert [done for done, _, _ in told.reports] == [0, 2 * PAGE, 4 * PAGE]


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS])
def test_device_that_promised_more_than_it_can_is_written_over(fd: int, kernel: Kernel, number: int) -> None:
    kernel.error = number
    erasure.zero(fd, SIZE, Told(), passes=1, offload=True)
    assert (content(fd), kernel.ranges) == (bytes(SIZE), [])


def test_device_that_fails_is_not_taken_for_one_that_cannot(fd: int, kernel: Kernel) -> None:
    kernel.error = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        erasure.zero(fd, SIZE, Told(), passes=1, offload=True)
    with pytest.raises(OSError, match="Input/output error"):
        erasure.discard(fd, SIZE, Told())


def test_random_passes_come_before_the_zeroes(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told, seen = Told(), []
    real = os.fsync

    def fsync(opened: int) -> None:
        seen.append(content(fd))
        real(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    erasure.shred(fd, SIZE, told, passes=2, offload=False)
    first, second, last = seen
    assert len({first, second, last, b"x" * SIZE}) == 4 and last == content(fd) == bytes(SIZE)
    for written in (first, second):
        assert len(written) == SIZE
        assert all(len(set(written[at : at + 512])) > 100 for at in range(0, SIZE, 512)), "random everywhere"
    steps = ["random pass 1/2", "random pass 2/2", "zeroing"]
    wanted = [(number * SIZE + at, 3 * SIZE, steps[number]) for number in range(3) for at in (0, 2 * PAGE, 4 * PAGE)]
    assert told.reports == wanted


def test_caller_that_goes_away_ends_it_before_the_next_chunk(fd: int) -> None:
    with pytest.raises(Cancelled):
        erasure.zero(fd, SIZE, Told(gives_up_after=1), passes=1, offload=False)
    assert content(fd) == bytes(2 * PAGE) + b"x" * (SIZE - 2 * PAGE)


@pytest.mark.parametrize(("ends", "left"), [(PAGE, SIZE - 2 * PAGE), (SIZE // 2, 0), (SIZE, 0), (2 * SIZE, 0)])
def test_labels_at_both_ends_are_zeroed_and_nothing_between(
    fd: int, monkeypatch: pytest.MonkeyPatch, ends: int, left: int
) -> None:
    monkeypatch.setattr(erasure, "ENDS", ends)
    erasure.zero_ends(fd, SIZE)
    zeroes = bytes((SIZE - left) // 2)
    assert content(fd) == zeroes + b"x" * left + zeroes + bytes((SIZE - left) % 2)


def test_short_writes_are_gone_on_with_and_a_device_that_takes_nothing_is_an_error(
    fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_one, real_many = os.pwrite, os.pwritev

    def one(opened: int, data: bytes, at: int) -> int:
        return real_one(opened, data[: 1000 if at else 1], at)

    def many(opened: int, parts: list[memoryview], at: int) -> int:
        return real_many(opened, [part[: 1000 if at else 1] for part in parts], at)

    monkeypatch.setattr(os, "pwrite", one)
    monkeypatch.setattr(os, "pwritev", many)
    monkeypatch.setattr(erasure, "ENDS", SIZE)
    erasure.zero_ends(fd, SIZE)
    assert content(fd) == bytes(SIZE)
    real_one(fd, b"x" * SIZE, 0)
    erasure.zero(fd, SIZE, Told(), passes=1, offload=False)
    assert content(fd) == bytes(SIZE)
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    with pytest.raises(errors.HostError, match="took nothing at byte 0"):
        erasure.zero_ends(fd, SIZE)
    with pytest.raises(errors.HostError, match="took nothing at byte 0"):
        erasure.zero(fd, SIZE, Told(), passes=1, offload=False)


def test_all_of_a_device_is_discarded(fd: int, kernel: Kernel) -> None:
    told = Told()
    erasure.discard(fd, SIZE, told)
    assert kernel.ranges == [(0x1277, 0, 2 * PAGE), (0x1277, 2 * PAGE, 2 * PAGE), (0x1277, 4 * PAGE, PAGE + 512)]
    assert told.reports == [(start, SIZE, "discarding") for start in (0, 2 * PAGE, 4 * PAGE)]


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOTTY])
def test_device_that_cannot_discard_says_what_can_be_done(fd: int, kernel: Kernel, number: int) -> None:
    kernel.error = number
    with pytest.raises(errors.NotSupported, match="cannot discard") as refused:
        erasure.discard(fd, SIZE, Told())
    assert refused.value.hint == "wipe it with zero"


def test_holes_are_punched_everywhere_or_nowhere(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    assert erasure.punch(fd, SIZE, told)
    assert content(fd) == bytes(SIZE)
    assert told.reports == [(start, SIZE, "zeroing by the device") for start in (0, 2 * PAGE, 4 * PAGE)]
    monkeypatch.setattr(erasure, "_fallocate", lambda *_: -1)
    for number in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS):
        monkeypatch.setattr("ctypes.get_errno", lambda number=number: number)
        assert not erasure.punch(fd, SIZE, Told())
    monkeypatch.setattr("ctypes.get_errno", lambda: errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        erasure.punch(fd, SIZE, Told())


@pytest.mark.parametrize("act", ["zero", "zero_ends", "discard", "punch", "offloaded"])
def test_what_was_written_has_reached_the_device(
    fd: int, kernel: Kernel, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    match act:
        case "zero" | "offloaded":
            erasure.zero(fd, SIZE, Told(), passes=1, offload=act == "offloaded")
        case "zero_ends":
            erasure.zero_ends(fd, SIZE)
        case "discard":
            erasure.discard(fd, SIZE, Told())
        case "punch":
            erasure.punch(fd, SIZE, Told())
    assert synced == [fd]
