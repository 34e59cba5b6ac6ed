"""The place that a part of a volume is mounted at is made of the right kind, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpv.host import subpaths


@pytest.mark.parametrize("directory", [True, False])
def test_place_that_is_right_stays_as_it_is(tmp_path: Path, directory: bool) -> None:
    at = tmp_path / "pods" / "sub"
    subpaths._make_place(at, directory=directory)
    inode = at.stat().st_ino
    (tmp_path / "pods" / "another").touch()  # would be given the number, had it been free for a moment
    subpaths._make_place(at, directory=directory)
    assert at.is_dir() is directory
    assert at.stat().st_ino == inode
    assert at.parent.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("directory", [True, False])
def test_place_of_the_other_kind_is_made_anew(tmp_path: Path, directory: bool) -> None:
    at = tmp_path / "sub"
    subpaths._make_place(at, directory=not directory)
    subpaths._make_place(at, directory=directory)
    assert at.is_dir() is directory


def test_folder_with_something_in_it_is_not_given_up(tmp_path: Path) -> None:
    at = tmp_path / "sub"
    at.mkdir()
    (at / "file").touch()
    subpaths._make_place(at, directory=True)
    assert (at / "file").exists()
