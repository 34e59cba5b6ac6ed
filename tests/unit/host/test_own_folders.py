"""Folders and links of our own."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from localpv.host.own_folders import DiskFolders


@pytest.fixture
def folders() -> DiskFolders:
    return DiskFolders()


def test_folders_and_those_above_are_closed_to_others(folders: DiskFolders, tmp_path: Path) -> None:
    folders.make(tmp_path / "a" / "b")
    folders.make(tmp_path / "a" / "b")
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) & 0o007 for name in ("a", "a/b")] == [0, 0]
    folders.open_to_all(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o777
    (tmp_path / "a" / "b").chmod(0o770)
    folders.open_to_all(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o770, "somebody else's choice was changed"


def test_only_an_empty_folder_is_removed(folders: DiskFolders, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / ".new-data").write_text("precious")
    with pytest.raises(OSError, match="not empty"):
        folders.remove(tmp_path / "full")
    assert (tmp_path / "full" / ".new-data").exists()
    folders.remove(tmp_path / "full", of_links=True)
    folders.remove(tmp_path / "full")
    assert not (tmp_path / "full").exists()


def test_places_of_mounts_go_only_when_nothing_is_in_them(folders: DiskFolders, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "full").write_text("data")
    for name in ("folder", "file", "missing"):
        folders.remove_place(tmp_path / name)
        assert not (tmp_path / name).exists()
    with pytest.raises(OSError, match="holds data"):
        folders.remove_place(tmp_path / "full")


def test_links_are_switched_in_one_step(folders: DiskFolders, tmp_path: Path) -> None:
    folders.link(tmp_path / "link", Path("/dev/one"))
    os.symlink("/dev/half", tmp_path / ".new-link")  # as a death in between leaves it
    assert folders.names(tmp_path) == ("link",)
    folders.link(tmp_path / "link", Path("/dev/two"))
    assert folders.target(tmp_path / "link") == Path("/dev/two") and os.listdir(tmp_path) == ["link"]
    assert folders.target(tmp_path / "none") is None and folders.target(tmp_path) is None
    folders.unlink(tmp_path / "link")
    folders.unlink(tmp_path / "link", lasting=True)
    assert folders.names(tmp_path) == () and folders.names(tmp_path / "none") == ()


def test_small_files_are_whole_or_not_there(folders: DiskFolders, tmp_path: Path) -> None:
    assert folders.read(tmp_path / "note") is None
    folders.write(tmp_path / "note", "one")
    folders.write(tmp_path / "note", "two")
    assert folders.read(tmp_path / "note") == "two" and os.listdir(tmp_path) == ["note"]
    folders.unlink(tmp_path / "note", lasting=True)
    assert folders.read(tmp_path / "note") is None
