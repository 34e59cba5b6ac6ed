"""Signatures are read by libblkid, or by its tool where that is all there is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import probing, readback


@pytest.fixture
def image(tmp_path: Path) -> Iterator[int]:
    """A file with the signature of a swap area."""
    fd = os.open(tmp_path / "image", os.O_RDWR | os.O_CREAT)
    os.truncate(fd, 1 << 20)
    readback.mark(fd)
    yield fd
    os.close(fd)


@pytest.mark.skipif(shutil.which("blkid", path="/usr/sbin:/sbin:/usr/bin:/bin") is None, reason="needs blkid")
def test_library_and_tool_find_the_same(image: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = probing.probe(image)
    assert [one.type for one in found.signatures] == ["swap"]
    monkeypatch.setattr(probing, "_library", lambda: None)
    assert probing.probe(image) == found


@pytest.mark.skipif(shutil.which("blkid", path="/usr/sbin:/sbin:/usr/bin:/bin") is None, reason="needs blkid")
def test_library_and_tool_find_nothing_where_nothing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blank").write_bytes(bytes(1 << 20))
    with open(tmp_path / "blank", "rb") as blank:
        assert probing.probe(blank.fileno()) == probing.Found()
        monkeypatch.setattr(probing, "_library", lambda: None)
        assert probing.probe(blank.fileno()) == probing.Found()


def test_without_both_nothing_is_called_blank(image: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_library", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(errors.NotSupported, match="neither libblkid nor blkid"):
        probing.probe(image)


class Library:
    """libblkid as far as it is called: what it answers, and whether all that was made is freed."""

    def __init__(self, *answers: int, opens: int = 0, handle: int = 7) -> None:
        self.answers, self.opens, self.handle = list(answers), opens, handle
        self.freed = 0

    def blkid_new_probe(self) -> int:
        return self.handle

    def blkid_probe_set_device(self, *_: object) -> int:
        return self.opens

    def blkid_do_probe(self, _: object) -> int:
        return self.answers.pop(0)

    def blkid_probe_lookup_value(self, *_: object) -> int:
        return -1

    def blkid_free_probe(self, _: object) -> None:
        self.freed += 1

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: 0


@pytest.mark.parametrize(
    ("library", "fails"),
    [
        (Library(1), ""),
        (Library(0, 1), ""),
        (Library(-1), "cannot be read"),
        (Library(0, -2), "cannot be read"),
        (Library(opens=-1), "cannot be looked at"),
    ],
    ids=["nothing", "something", "unreadable", "ambivalent", "not opened"],
)
def test_what_cannot_be_read_is_never_called_blank_and_nothing_is_left_behind(library: Library, fails: str) -> None:
    if fails:
        with pytest.raises(errors.HostError, match=fails):
            probing._with_library(library, 3)
    else:
        assert probing._with_library(library, 3).signatures == ()
    assert library.freed == 1


def test_library_without_memory_is_an_error() -> None:
    with pytest.raises(errors.HostError, match="no memory"):
        probing._with_library(Library(handle=0), 3)
