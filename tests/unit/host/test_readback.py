"""How much of a device is read again: all of it, or both ends and some places between."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import readback
from localpv.host.model.methods import Readback
from localpv.host.workers import Control

CHUNK, CHUNKS = readback.CHUNK, 12
SIZE = CHUNKS * CHUNK + 512


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A file of thirteen chunks, the last one of 512 bytes; samples take both ends and the fourth chunk."""
    monkeypatch.setattr(readback, "ENDS", CHUNK)
    monkeypatch.setattr(readback, "SAMPLES", 1)

    class Chosen:
        def sample(self, places: range, count: int) -> list[int]:
            assert (list(places), count) == (list(range(0, SIZE, CHUNK)), 1)
            return [places[3]]

    monkeypatch.setattr(random, "SystemRandom", Chosen)
    fd = os.open(tmp_path / "disk", os.O_RDWR | os.O_CREAT)
    os.truncate(fd, SIZE)
    yield fd
    os.close(fd)


def finds(fd: int, how: Readback) -> bool:
    try:
        readback.verify_zero(fd, SIZE, how, Control())
    except errors.NotClean:
        return True
    return False


@pytest.mark.parametrize(
    ("place", "sampled"),
    [
        (0, True),
        (CHUNK - 1, True),
        (CHUNK, False),
        (3 * CHUNK + 7, True),
        (4 * CHUNK, False),
        (10 * CHUNK, False),
        (11 * CHUNK + 5, True),
        (SIZE - 1, True),
    ],
)
def test_full_reads_every_byte_and_a_sample_the_ends_and_some(disk: int, place: int, sampled: bool) -> None:
    assert not finds(disk, Readback.FULL) and not finds(disk, Readback.SAMPLE)
    os.pwrite(disk, b"\1", place)
    assert finds(disk, Readback.FULL)
    assert finds(disk, Readback.SAMPLE) is sampled


@pytest.mark.parametrize("how", [*Readback])
def test_device_that_gives_less_than_it_has_is_not_clean(disk: int, how: Readback) -> None:
    os.truncate(disk, SIZE - 1)
    with pytest.raises(errors.NotClean, match="could be read"):
        readback.verify_zero(disk, SIZE, how, Control())


def test_same_byte_everywhere_is_not_zero(disk: int) -> None:
    os.pwrite(disk, b"\1" * SIZE, 0)
    assert finds(disk, Readback.FULL)


def test_what_is_no_device_is_forgotten_from_its_start_to_its_end(disk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: forgotten.append(arguments))
    readback.forget_cached(disk)
    assert forgotten == [(disk, 0, 0, os.POSIX_FADV_DONTNEED)]
