"""Paths of devices inside a managed folder: what leads out of it, or nowhere, is refused with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import openat


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("/dev/there-is-no-such-device", "leads nowhere"),
        ("/dev/null", "is no block device"),
        ("/etc/hostname", "not below /dev"),
        ("../other", "not below /dev"),
    ],
)
def test_link_that_leads_to_no_device_is_refused_with_the_reason(tmp_path: Path, target: str, says: str) -> None:
    (tmp_path / "disk").symlink_to(target)
    with pytest.raises(errors.OutsideFolder, match=says):
        openat.locate_device(tmp_path, tmp_path / "disk")


def test_file_or_nothing_in_the_place_of_a_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(errors.OutsideFolder, match="is no block device"):
        openat.locate_device(tmp_path, tmp_path / "file")
    with pytest.raises(errors.OutsideFolder, match="cannot be opened at none"):
        openat.locate_device(tmp_path, tmp_path / "none")
    with pytest.raises(errors.OutsideFolder, match="leads through file"):
        openat.locate_device(tmp_path, tmp_path / "file" / "disk")
    with pytest.raises(errors.OutsideFolder, match="cannot be opened"):
        openat.locate_device(tmp_path / "missing", tmp_path / "missing" / "disk")


def test_nothing_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "disk").symlink_to("/dev/null")
    before = len(os.listdir("/proc/self/fd"))
    for path in (tmp_path / "a" / "disk", tmp_path / "a" / "none"):
        with pytest.raises(errors.OutsideFolder):
            openat.locate_device(tmp_path, path)
        with pytest.raises(errors.OutsideFolder):
            openat.open_directory(tmp_path, path)
    os.close(openat.open_directory(tmp_path, tmp_path / "a" / "b"))
    assert len(os.listdir("/proc/self/fd")) == before
