"""No step of a walk leaves the mount that it began in, whether the kernel helps or not."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localpv.host import openat


@pytest.fixture(params=[True, False], ids=["with openat2", "without"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(openat, "_usable", request.param)
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def refused(name: str, root: int) -> int | None:
    with pytest.raises(OSError) as caught:
        openat.directory(name, parent=root)
    return caught.value.errno


def test_directory_of_the_same_mount_is_opened(root: int, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    fd = openat.directory("sub", parent=root)
    assert os.path.samestat(os.fstat(fd), os.stat(tmp_path / "sub"))
    os.close(fd)


def test_directory_that_something_is_mounted_on_is_not_entered(
    root: int, tmp_path: Path, mount: Callable[..., None]
) -> None:
    for name in ("outside", "sub"):
        (tmp_path / name).mkdir()
    # A bind mount of the same file system: the number of the device alone would not tell.
    mount("--bind", tmp_path / "outside", tmp_path / "sub")
    assert refused("sub", root) == errno.EXDEV


def test_links_and_files_are_not_entered(root: int, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("sub")
    (tmp_path / "file").touch()
    assert refused("link", root) in (errno.ELOOP, errno.ENOTDIR)
    assert refused("file", root) == errno.ENOTDIR
    assert refused("none", root) == errno.ENOENT


def test_path_that_leads_out_is_refused(root: int, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "out").symlink_to("/")
    fd = openat.beneath("a/b", root=root)
    assert os.path.samestat(os.fstat(fd), os.stat(tmp_path / "a" / "b"))
    os.close(fd)
    with pytest.raises(OSError) as caught:
        openat.beneath("out/etc", root=root)
    assert caught.value.errno in (errno.EXDEV, errno.ELOOP)
    with pytest.raises(FileNotFoundError):
        openat.beneath("a/none", root=root)
