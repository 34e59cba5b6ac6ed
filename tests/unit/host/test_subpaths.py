"""A part of a volume is found inside of it, and the place that it is mounted at is made of the right kind, and once."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from localpv import errors
from localpv.host import mounter
from localpv.host.workers import Workers


@pytest.mark.parametrize("directory", [True, False])
def test_place_that_is_right_stays_as_it_is(tmp_path: Path, directory: bool) -> None:
    at = tmp_path / "pods" / "sub"
    mounter._make_place(at, directory=directory)
    inode = at.stat().st_ino
    (tmp_path / "pods" / "another").touch()  # would be given the number, had it been free for a moment
    mounter._make_place(at, directory=directory)
    assert at.is_dir() is directory
    assert at.stat().st_ino == inode
    assert at.parent.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("directory", [True, False])
def test_place_of_the_other_kind_is_made_anew(tmp_path: Path, directory: bool) -> None:
    at = tmp_path / "sub"
    mounter._make_place(at, directory=not directory)
    mounter._make_place(at, directory=directory)
    assert at.is_dir() is directory


def test_folder_with_something_in_it_is_not_given_up(tmp_path: Path) -> None:
    at = tmp_path / "sub"
    at.mkdir()
    (at / "file").touch()
    mounter._make_place(at, directory=True)
    assert (at / "file").exists()


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[int]:
    """A volume, open; whatever else is opened must be closed again."""
    made = tmp_path / "volume"
    (made / "a").mkdir(parents=True)
    (made / "a" / "file").touch()
    made.chmod(0o2751)
    fd = os.open(made, os.O_PATH)
    opened = len(os.listdir("/proc/self/fd"))
    yield fd
    assert len(os.listdir("/proc/self/fd")) == opened
    os.close(fd)


def leads_to(volume: int, *parts: str) -> str:
    fd = mounter._open(volume, parts)
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def test_part_of_a_volume_is_what_is_there(volume: int, tmp_path: Path) -> None:
    top = tmp_path / "volume"
    (top / "in").symlink_to("a/file")
    for parts, found in (((), top), (("a",), top / "a"), (("a", "file"), top / "a/file"), (("in",), top / "a/file")):
        assert leads_to(volume, *parts) == str(found)


def test_directories_that_are_missing_are_made_as_the_volumes_own_is(volume: int, tmp_path: Path) -> None:
    top = tmp_path / "volume"
    assert leads_to(volume, "a", "b", "c") == str(top / "a/b/c")
    for made in (top / "a/b", top / "a/b/c"):
        assert stat.S_IMODE(made.stat().st_mode) & 0o777 == 0o751
    before = stat.S_IMODE((top / "a").stat().st_mode)
    leads_to(volume, "a")
    assert stat.S_IMODE((top / "a").stat().st_mode) == before, "what was there is not changed"


@pytest.mark.parametrize("parts", [("out",), ("out", "deeper"), ("nowhere",), ("a", "loop")])
def test_part_that_leads_out_of_the_volume_is_refused(volume: int, tmp_path: Path, parts: tuple[str, ...]) -> None:
    top = tmp_path / "volume"
    (top / "out").symlink_to("..")
    (top / "nowhere").symlink_to("not-there")
    (top / "a/loop").symlink_to("loop")
    with pytest.raises(errors.OutsideFolder, match="leads out"):
        mounter._open(volume, parts)
    assert not (tmp_path / "deeper").exists()


def test_part_below_a_file_is_an_error(volume: int) -> None:
    with pytest.raises(NotADirectoryError):
        mounter._open(volume, ("a", "file", "below"))


def test_directory_that_another_one_makes_at_the_same_moment_is_taken(
    volume: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir

    def mkdir(name: str, *, dir_fd: int) -> None:
        real(name, 0o700, dir_fd=dir_fd)
        raise FileExistsError(name)

    with monkeypatch.context() as raced:
        raced.setattr(os, "mkdir", mkdir)
        assert leads_to(volume, "new") == str(tmp_path / "volume/new")
    assert stat.S_IMODE((tmp_path / "volume/new").stat().st_mode) & 0o777 == 0o700, "it is not ours to change"


class Binds:
    """What is mounted, by the number of its mount, without mounting anything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.mounted: set[Path] = set()
        self.read_only = False
        monkeypatch.setattr(mounter, "_mount_id", self.mount_id)
        monkeypatch.setattr(mounter, "bind_now", self.bind)
        monkeypatch.setattr(mounter, "unmount_now", lambda at: self.done.append("unmount"))
        monkeypatch.setattr(
            os, "statvfs", lambda at: SimpleNamespace(f_flag=os.ST_RDONLY if self.read_only else os.ST_NOSUID)
        )

    def mount_id(self, path: Path) -> int:
        path.lstat()
        return 2 if path in self.mounted else 1

    def bind(self, source: int, at: Path, *, read_only: bool) -> None:
        self.done.append(f"bind {os.path.basename(os.readlink(f'/proc/self/fd/{source}'))} {read_only}")


@pytest.mark.parametrize("read_only", [True, False])
def test_part_is_bound_once_and_anew_where_something_else_is_seen(
    volume: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    binds = Binds(monkeypatch)
    top, at = tmp_path / "volume", tmp_path / "pods" / "sub"
    mounter._bind(top, "a", at, read_only)
    assert binds.done == [f"bind a {read_only}"] and at.is_dir()
    binds.done.clear()
    mounter._bind(top, "a", at, read_only)
    assert binds.done == [f"bind a {read_only}"], "the place is there and nothing is mounted on it"
    binds.done.clear()
    binds.mounted.add(at)
    mounter._bind(top, "a", at, read_only)
    assert binds.done == ["unmount", f"bind a {read_only}"], "another directory is seen there"
    at.rmdir()
    at.symlink_to(top / "a")  # as what is mounted there looks
    for shown_read_only, done in ((True, []), (False, ["unmount", "bind a True"] if read_only else [])):
        binds.done.clear()
        binds.read_only = shown_read_only
        mounter._bind(top, "a", at, read_only)
        assert binds.done == done


async def test_part_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    real = mounter.KernelSubPaths(workers=Workers())
    with pytest.raises(errors.HostError, match="cannot be opened in the volume"):
        await real.bind(tmp_path / "none", "a", tmp_path / "at", read_only=False)
    for part in ("/a", "a/../..", "a\0b"):
        with pytest.raises(errors.OutsideFolder):
            await real.bind(tmp_path, part, tmp_path / "at", read_only=False)
