"""Signatures are read by libblkid, or by its tool where that is all there is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
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
