"""A tree is emptied whatever is in it and whatever happens meanwhile, and nothing outside of it is touched."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import openat, trees
from localpv.host.workers import Cancelled, Control


class Told(Control):
    def __init__(self) -> None:
        super().__init__()
        self.reports: list[tuple[int, str]] = []

    def report(self, done: int, total: int = 0, step: str = "", *, last: bool = False) -> None:
        self.check()
        self.reports.append((done, step))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "volume"
    made.mkdir()
    return made


@pytest.fixture
def fd(top: Path) -> Iterator[int]:
    opened = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    yield opened
    os.close(opened)


def fill(folder: Path, *, depth: int, width: int = 2) -> int:
    """Files, links and directories; how many."""
    (folder / "file").write_text("data")
    (folder / "link").symlink_to("/")
    count = 2
    if depth:
        for number in range(width):
            (folder / f"dir-{number}").mkdir()
            count += 1 + fill(folder / f"dir-{number}", depth=depth - 1, width=width)
    return count


def empty(fd: int, *, keep: str = "", control: Told | None = None) -> int:
    counter = trees._Counter(control or Told())
    trees._Walk(fd, counter).empty(keep=keep)
    return counter.removed


@pytest.mark.parametrize(("depth", "width"), [(0, 0), (1, 1), (3, 2), (2, 5), (60, 1)])
def test_everything_is_removed_and_counted(top: Path, fd: int, depth: int, width: int) -> None:
    count = fill(top, depth=depth, width=width)
    before = len(os.listdir("/proc/self/fd"))
    assert empty(fd) == count
    assert list(top.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_links_lead_to_stays(top: Path, fd: int, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    fill(outside_made(outside), depth=1)
    (top / "to-directory").symlink_to(outside)
    (top / "hard").hardlink_to(outside / "file")
    (top / "sub").mkdir()
    (top / "sub" / "up").symlink_to("../../outside")
    empty(fd)
    assert list(top.iterdir()) == []
    assert (outside / "file").read_text() == "data" and (outside / "dir-0" / "file").exists()


def outside_made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_what_is_to_be_kept_is_kept_at_the_top_alone(top: Path, fd: int) -> None:
    for folder in (top / "lost+found", top / "sub" / "lost+found"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("data")
    empty(fd, keep="lost+found")
    assert [path.name for path in top.iterdir()] == ["lost+found"]
    assert (top / "lost+found" / "file").exists()


@pytest.mark.parametrize("count", [3, 4, 5, 8, 9])
def test_more_files_than_one_batch_are_removed(top: Path, fd: int, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(trees, "BATCH", 4)
    for number in range(count):
        (top / f"file-{number}").write_text("")
        (top / f"dir-{number}").mkdir()
    assert empty(fd) == 2 * count
    assert list(top.iterdir()) == []


def test_progress_is_told_every_256_files(top: Path, fd: int) -> None:
    for number in range(600):
        (top / f"file-{number}").touch()
    told = Told()
    empty(fd, control=told)
    assert told.reports == [(256, "removing"), (512, "removing"), (600, "removing")]


def test_caller_that_goes_away_ends_it(top: Path, fd: int) -> None:
    fill(top, depth=3, width=1)
    told = Told()
    told.cancel()
    with pytest.raises(Cancelled):
        empty(fd, control=told)


def test_caller_that_goes_away_ends_it_before_the_next_directory(top: Path, fd: int) -> None:
    (top / "a").mkdir()
    (top / "a" / "file").touch()
    told = Told()
    told.cancel()
    walk = trees._Walk(fd, trees._Counter(told))
    with pytest.raises(Cancelled):
        walk._enter(fd, "a")
    assert (top / "a" / "file").exists()


def test_directory_in_which_files_keep_appearing_is_given_up(
    top: Path, fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "ROUNDS", 3)
    sub = top / "sub"
    sub.mkdir()
    (sub / "first").touch()
    real, rounds = trees._remove_directory, list[int]()

    def remove(parent: int, name: str) -> bool:
        rounds.append(1)
        (sub / f"new-{len(rounds)}").touch()
        return real(parent, name)

    monkeypatch.setattr(trees, "_remove_directory", remove)
    with pytest.raises(OSError, match="not empty"):
        empty(fd)
    assert len(rounds) == 1 + 1 + 3, "before it is entered, after it was emptied, and once for each round"


def test_directory_in_which_a_file_appears_once_is_emptied(top: Path, fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sub = top / "sub"
    sub.mkdir()
    (sub / "first").touch()
    real, left = trees._remove_directory, [sub / "late", sub / "later"]

    def remove(parent: int, name: str) -> bool:
        if left:
            left.pop().touch()
        return real(parent, name)

    monkeypatch.setattr(trees, "_remove_directory", remove)
    empty(fd)
    assert list(top.iterdir()) == []


def test_directory_that_is_moved_away_while_it_is_emptied_takes_nothing_else_along(
    top: Path, fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further up than directories are kept open, what is above is found by .., which may be anything by now."""
    monkeypatch.setattr(trees, "KEPT_OPEN", 1)
    deep = top / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    other = tmp_path / "other"
    (other / "b").mkdir(parents=True)
    real = openat.directory

    def directory(name: str, *, parent: int) -> int:
        if name == ".." and (top / "a" / "b").exists():
            os.rename(top / "a" / "b", other / "moved")
        return real(name, parent=parent)

    monkeypatch.setattr(openat, "directory", directory)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="moved while it was being emptied"):
        empty(fd)
    assert (other / "b").is_dir(), "it has the name, and is somebody else's"
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("becomes", ["gone", "file", "link", "full"])
def test_directory_that_becomes_something_else_meanwhile(top: Path, fd: int, becomes: str) -> None:
    match becomes:
        case "file":
            (top / "x").touch()
        case "link":
            (top / "x").symlink_to("/")
        case "full":
            (top / "x").mkdir()
            (top / "x" / "file").touch()
    assert trees._remove_directory(fd, "x") is (becomes != "full")
    assert (top / "x").exists() is (becomes == "full")


def test_file_that_becomes_a_directory_or_goes_meanwhile(top: Path, fd: int) -> None:
    (top / "became").mkdir()
    (top / "file").touch()
    counter = trees._Counter(Told())
    assert trees._Walk(fd, counter)._unlink(fd, ["gone", "became", "file"]) == ["became"]
    assert counter.removed == 1
    assert [path.name for path in top.iterdir()] == ["became"]


def test_directory_that_goes_before_it_is_entered_is_gone(fd: int) -> None:
    walk = trees._Walk(fd, trees._Counter(Told()))
    walk._enter(fd, "gone")
    assert walk._levels == []


@pytest.mark.parametrize(("raised", "seen"), [(errno.EBUSY, errno.EXDEV), (errno.EIO, errno.EIO), (errno.EEXIST, None)])
def test_directory_that_something_is_mounted_on_is_told_from_one_that_cannot_be_removed(
    fd: int, monkeypatch: pytest.MonkeyPatch, raised: int, seen: int | None
) -> None:
    def rmdir(name: str, *, dir_fd: int) -> None:
        raise OSError(raised, os.strerror(raised))

    monkeypatch.setattr(os, "rmdir", rmdir)
    if seen is None:
        assert not trees._remove_directory(fd, "x")
        return
    with pytest.raises(OSError) as refused:
        trees._remove_directory(fd, "x")
    assert refused.value.errno == seen


def test_empty_is_empty_but_for_what_is_kept(top: Path, fd: int) -> None:
    trees._verify_empty(fd, "")
    (top / "lost+found").mkdir()
    trees._verify_empty(fd, "lost+found")
    with pytest.raises(errors.NotClean, match=r"still holds lost\+found") as refused:
        trees._verify_empty(fd, "")
    assert "still writes" in refused.value.hint
    for name in ("a", "b", "c"):
        (top / name).touch()
    with pytest.raises(errors.NotClean, match="still holds"):
        trees._verify_empty(fd, "lost+found")


@pytest.mark.parametrize("kind", ["directory", "file", "link", "none"])
def test_lost_and_found_is_emptied_and_stays_unless_it_is_none(top: Path, fd: int, kind: str) -> None:
    place = top / "lost+found"
    match kind:
        case "directory":
            (place / "sub").mkdir(parents=True)
            (place / "#12").write_text("found")
        case "file":
            place.touch()
        case "link":
            place.symlink_to("/")
    before = len(os.listdir("/proc/self/fd"))
    trees._empty_lost_and_found(fd, "lost+found", trees._Counter(Told()))
    assert place.is_dir() is (kind == "directory") and not place.is_symlink() and not place.is_file()
    assert kind != "directory" or list(place.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_another_directory_than_was_looked_at_is_refused(top: Path, fd: int) -> None:
    numbers = trees.Numbers.of(fd)
    trees._refuse_another(fd, numbers, top)
    trees._refuse_another(fd, None, top)
    for changed in (
        numbers._replace(inode=numbers.inode + 1),
        numbers._replace(device=numbers.device + 1),
        numbers._replace(mount_id=numbers.mount_id + 1),
    ):
        with pytest.raises(errors.DeviceChanged, match="became another directory"):
            trees._refuse_another(fd, changed, top)
