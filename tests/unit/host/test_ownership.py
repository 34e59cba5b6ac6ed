"""Everything in a volume is given to its group, the top last, and a walk is not given up while files come along."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localpv import errors
from localpv.host import openat, volume_files
from localpv.host.volume_files import KernelOwnership
from localpv.host.workers import Control


class Limit:
    """A time limit that a test can see, and end."""

    def __init__(self) -> None:
        self.moved: list[float] = []
        self.over = False

    async def __aenter__(self) -> Limit:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if self.over:
            raise TimeoutError

    def reschedule(self, when: float) -> None:
        self.moved.append(when)


class Walk:
    """Workers whose job tells of its progress and ends."""

    def __init__(self, tells: int) -> None:
        self.tells = tells

    async def long(self, function: object, *, key: str, on_progress: Callable[[Any], None]) -> bool:
        for _ in range(self.tells):
            on_progress(None)
        return True


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    made = Limit()
    monkeypatch.setattr(volume_files.asyncio, "timeout", lambda _: made)
    return made


async def test_limit_moves_with_every_progress(limit: Limit) -> None:
    before = asyncio.get_running_loop().time()
    assert await KernelOwnership(workers=Walk(3)).give(Path("/v"), group=1)  # type: ignore[arg-type]
    assert len(limit.moved) == 3
    assert all(when >= before + volume_files.STALL_SECONDS for when in limit.moved)


async def test_walk_in_which_nothing_moves_is_given_up(limit: Limit) -> None:
    limit.over = True
    with pytest.raises(errors.HostTimeout, match="nothing moved in /v"):
        await KernelOwnership(workers=Walk(0)).give(Path("/v"), group=1)  # type: ignore[arg-type]


GROUP = 4711


class Given:
    """What is given to the group: chown(2) is for root alone, so it is only noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.order: list[str] = []
        monkeypatch.setattr(volume_files.os, "chown", self.chown)  # type: ignore[attr-defined]

    def chown(self, path: str, uid: int, gid: int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
        assert (uid, gid) == (-1, GROUP)
        if dir_fd is not None:
            assert not follow_symlinks
        self.order.append(os.path.basename(path if dir_fd is not None else os.readlink(path)))


class Told(Control):
    def __init__(self) -> None:
        super().__init__()
        self.reports: list[int] = []

    def report(self, done: int, total: int = 0, step: str = "", *, last: bool = False) -> None:
        self.check()
        assert step == "setting the group"
        self.reports.append(done)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    return Given(monkeypatch)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    made = tmp_path / "volume"
    (made / "a" / "b").mkdir(parents=True)
    for name, mode in (("one", 0o600), ("a/two", 0o604), ("a/b/three", 0o4700)):
        (made / name).touch()
        (made / name).chmod(mode)
    (made / "link").symlink_to("/")
    for name in (".", "a", "a/b"):
        (made / name).chmod(0o700)
    return made


def modes(volume: Path) -> dict[str, int]:
    paths = [volume, *volume.rglob("*")]
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in paths if not path.is_symlink()}


@pytest.mark.parametrize("read_only", [True, False])
def test_everything_is_given_once_and_the_top_last(given: Given, volume: Path, read_only: bool) -> None:
    control, opened = Told(), len(os.listdir("/proc/self/fd"))
    assert volume_files.give_now(volume, group=GROUP, control=control, read_only=read_only)
    assert sorted(given.order) == ["a", "b", "link", "one", "three", "two", "volume"]
    assert given.order[-1] == "volume" and given.order.index("b") < given.order.index("a")
    wanted = {"one": 0o600, "two": 0o604, "three": 0o4700}
    files = {name: mode | (0o440 if read_only else 0o660) for name, mode in wanted.items()}
    folder = 0o2700 | (0o550 if read_only else 0o770)
    assert modes(volume) == files | dict.fromkeys(("volume", "a", "b"), folder)
    assert control.reports == sorted(control.reports) and control.reports[-1] == 6
    assert len(os.listdir("/proc/self/fd")) == opened


def test_what_the_group_has_is_not_written(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = volume.stat().st_gid
    volume_files.give_now(volume, group=group, control=Told())
    before = modes(volume)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("it was written again")

    for name in ("chown", "chmod"):
        monkeypatch.setattr(volume_files.os, name, refused)  # type: ignore[attr-defined]
    assert volume_files.give_now(volume, group=group, control=Told())
    monkeypatch.undo()
    assert modes(volume) == before


def test_root_that_has_it_saves_the_walk_and_only_then(given: Given, volume: Path) -> None:
    group = volume.stat().st_gid
    for wanted, mode, walked in (
        (group, 0o2770, False),
        (group, 0o2760, True),
        (group, 0o770, True),
        (GROUP, 0o2770, True),
    ):
        volume.chmod(mode)
        opened = len(os.listdir("/proc/self/fd"))
        found = volume_files.give_now(volume, group=wanted, control=Told(), unless_root_has_it=True)
        assert found is walked
        assert len(os.listdir("/proc/self/fd")) == opened
    volume.chmod(0o2770)
    assert volume_files.give_now(volume, group=group, control=Told()), "unless that is not asked for"
    volume.chmod(0o2550)
    assert not volume_files.give_now(volume, group=group, control=Told(), read_only=True, unless_root_has_it=True)


@pytest.mark.parametrize("code", [errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.EIO])
def test_directory_that_is_gone_or_another_mount_is_passed_over(
    given: Given, volume: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    real = openat.directory

    def directory(name: str, *, parent: int) -> int:
        if name == "b":
            raise OSError(code, os.strerror(code), name)
        return real(name, parent=parent)

    monkeypatch.setattr(openat, "directory", directory)
    opened = len(os.listdir("/proc/self/fd"))
    if code == errno.EIO:
        with pytest.raises(OSError):
            volume_files.give_now(volume, group=GROUP, control=Told())
        assert "volume" not in given.order, "it is begun again"
    else:
        volume_files.give_now(volume, group=GROUP, control=Told())
        assert {"b", "three"}.isdisjoint(given.order) and given.order[-1] == "volume"
    assert len(os.listdir("/proc/self/fd")) == opened


def test_directory_that_is_moved_while_it_is_walked_through_takes_nothing_else_along(
    given: Given, volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    real = volume_files._Walk._files

    def files(self: volume_files._Walk, fd: int) -> list[str]:
        if os.path.basename(os.readlink(f"/proc/self/fd/{fd}")) == "b":
            (volume / "a" / "b").rename(tmp_path / "other" / "b")
        return real(self, fd)

    monkeypatch.setattr(volume_files._Walk, "_files", files)
    with pytest.raises(OSError, match="moved"):
        volume_files.give_now(volume, group=GROUP, control=Told())
    assert {"other", "a", "volume"}.isdisjoint(given.order)


def test_file_that_goes_meanwhile_is_passed_over(given: Given, volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = volume_files._Walk._give_file

    def give(self: volume_files._Walk, parent: int, name: str) -> None:
        if name == "one":
            (volume / "one").unlink()
        real(self, parent, name)

    monkeypatch.setattr(volume_files._Walk, "_give_file", give)
    volume_files.give_now(volume, group=GROUP, control=Told())
    assert "one" not in given.order and given.order[-1] == "volume"


def test_progress_is_told_every_256_files(given: Given, tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / str(number)).touch()
    control = Told()
    volume_files.give_now(tmp_path, group=GROUP, control=control)
    assert control.reports == [256, 512, 600]


def test_link_in_the_place_of_the_volume_is_not_entered(given: Given, volume: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(volume)
    with pytest.raises(OSError):
        volume_files.give_now(tmp_path / "link", group=GROUP, control=Told())
    assert given.order == []
