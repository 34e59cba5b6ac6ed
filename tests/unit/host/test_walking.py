"""A tree is emptied whatever is in it and whatever happens meanwhile, and nothing outside of it is touched."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from localpv import errors
from localpv.host import attributes, commands, openat, trees
from localpv.host.mounts import KernelMounts
from localpv.host.workers import Cancelled, Control, Workers


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
    numbers = openat.Numbers.of(fd)
    trees._refuse_another(fd, numbers, top)
    trees._refuse_another(fd, None, top)
    for changed in (
        numbers._replace(inode=numbers.inode + 1),
        numbers._replace(device=numbers.device + 1),
        numbers._replace(mount_id=numbers.mount_id + 1),
    ):
        with pytest.raises(errors.DeviceChanged, match="became another directory"):
            trees._refuse_another(fd, changed, top)


# A volume as a whole.


class Restored:
    """Takes the place of what makes the directory itself as new; the mark is among that."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[int, object]] = []
        self.acts: Callable[[], object] = lambda: None
        monkeypatch.setattr(attributes, "fresh", lambda fd: attributes.FILE_SYSTEM_TOP)
        monkeypatch.setattr(attributes, "restore", self.restore)

    def restore(self, fd: int, wanted: object) -> None:
        self.acts()
        self.done.append((os.fstat(fd).st_ino, wanted))


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> Restored:
    return Restored(monkeypatch)


@pytest.mark.parametrize("whole", [True, False])
def test_volume_is_emptied_and_made_as_new(
    top: Path, fd: int, restored: Restored, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    monkeypatch.setattr(trees, "_is_whole_file_system", lambda root: whole)
    count = fill(top, depth=1)
    found = top / "lost+found"
    found.mkdir()
    (found / "#12").touch()
    found_inode, opened = found.stat().st_ino, len(os.listdir("/proc/self/fd"))
    control = Told()
    assert trees.empty_directory(fd, control) == count + (1 if whole else 2)
    assert control.reports[-1] == (count + (1 if whole else 2), "")
    assert list(top.rglob("*")) == ([found] if whole else [])
    kept = [(found_inode, attributes.LOST_AND_FOUND)] if whole else []
    assert restored.done == [(top.stat().st_ino, attributes.FILE_SYSTEM_TOP), *kept]
    assert len(os.listdir("/proc/self/fd")) == opened


def test_lost_and_found_that_is_not_there_is_not_missed(
    top: Path, fd: int, restored: Restored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "_is_whole_file_system", lambda root: True)
    assert trees.empty_directory(fd, Told()) == 0
    assert len(restored.done) == 1


def test_directory_keeps_its_mark_while_anything_is_left_in_it(
    top: Path, fd: int, restored: Restored, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "file").touch()
    with monkeypatch.context() as broken:
        broken.setattr(trees._Walk, "empty", lambda self, keep: None)
        with pytest.raises(errors.NotClean, match="still holds file"):
            trees.empty_directory(fd, Told())
    assert restored.done == []


def test_file_that_comes_while_the_directory_is_made_as_new_is_found(top: Path, fd: int, restored: Restored) -> None:
    restored.acts = (top / "late").touch
    with pytest.raises(errors.NotClean, match="still holds late"):
        trees.empty_directory(fd, Told())


@pytest.mark.parametrize(
    ("code", "refused", "said"),
    [(errno.EXDEV, errors.DeviceBusy, "at sub"), (errno.EIO, errors.NotClean, "sub cannot")],
)
def test_what_cannot_be_removed_is_told(
    fd: int,
    restored: Restored,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    refused: type[Exception],
    said: str,
) -> None:
    def fails(self: object, keep: str) -> None:
        raise OSError(code, os.strerror(code), "sub")

    monkeypatch.setattr(trees._Walk, "empty", fails)
    with pytest.raises(refused, match=said):
        trees.empty_directory(fd, Told())
    assert restored.done == []


def test_only_the_top_of_a_file_system_has_a_lost_and_found_of_its_own(
    fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not trees._is_whole_file_system(fd)
    with monkeypatch.context() as made_up:
        made_up.setattr(os, "fstat", lambda fd: SimpleNamespace(st_ino=2))
        whole = trees._is_whole_file_system(fd)
    assert whole


async def test_command_is_believed_when_nothing_is_left_in_the_directory_it_was_given(
    top: Path, tmp_path: Path, restored: Restored, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied: list[dict[str, str]] = []
    acts: list[Callable[[], object]] = []

    async def run(argv: object, *, env: dict[str, str], **how: object) -> None:
        emptied.append(env)
        acts.pop()()

    monkeypatch.setattr(commands, "run", run)
    tree = trees.KernelTrees(workers=Workers(), mounts=KernelMounts())
    fd = os.open(top, os.O_RDONLY)
    numbers = openat.Numbers.of(fd)
    os.close(fd)
    file, other = top / "file", tmp_path / "other"
    file.touch()

    acts.append(lambda: None)
    with pytest.raises(errors.NotClean, match="still holds file"):
        await tree.empty_with(["clean"], top, inside=tmp_path, expected=numbers)
    assert restored.done == []

    acts.append(file.unlink)
    await tree.empty_with(["clean"], top, inside=tmp_path, expected=numbers)
    assert emptied == [{"LOCAL_PV_FILESYSTEM": str(top)}] * 2 and len(restored.done) == 1

    def swapped() -> None:
        top.rename(other)
        top.mkdir()

    acts.append(swapped)
    with pytest.raises(errors.DeviceChanged):
        await tree.empty_with(["clean"], top, inside=tmp_path, expected=numbers)
    with pytest.raises(errors.DeviceChanged):
        await tree.empty_with(["clean"], top, inside=tmp_path, expected=numbers)
    assert len(emptied) == 3 and len(restored.done) == 1, "it was another one before the command began"
    with pytest.raises(errors.DeviceChanged):
        await tree.empty(top, inside=tmp_path, expected=numbers)
    (top / "file").touch()
    assert await tree.empty(top, inside=tmp_path) == 1
    opened = [*map(os.path.realpath, Path("/proc/self/fd").iterdir())]
    assert str(top) not in opened and str(other) not in opened


@pytest.mark.parametrize("command", [True, False])
async def test_nothing_is_begun_while_something_is_mounted_below(
    top: Path, tmp_path: Path, restored: Restored, command: bool
) -> None:
    (top / "file").touch()
    (tmp_path / "link").symlink_to(top.parent)
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/mountinfo").write_text(f"20 1 8:0 / {top}/deep/er rw - xfs /dev/sda rw\n")
    tree = trees.KernelTrees(workers=Workers(), mounts=KernelMounts(proc=proc))
    with pytest.raises(errors.DeviceBusy, match="deep/er is mounted"):
        if command:
            await tree.empty_with(["true"], tmp_path / "link/volume", inside=tmp_path / "link")
        else:
            await tree.empty(tmp_path / "link/volume", inside=tmp_path / "link")
    assert (top / "file").exists()


# Flags that forbid to remove something.


@pytest.mark.parametrize(("parent_had", "entry_had"), [(True, False), (False, True), (True, True), (False, False)])
@pytest.mark.parametrize("kind", ["file", "directory", "fifo", "link"])
def test_flags_are_taken_from_an_entry_and_from_its_directory(
    top: Path, fd: int, monkeypatch: pytest.MonkeyPatch, parent_had: bool, entry_had: bool, kind: str
) -> None:
    entry = top / "entry"
    match kind:
        case "file":
            entry.touch()
        case "directory":
            entry.mkdir()
        case "fifo":
            os.mkfifo(entry)
        case "link":
            entry.symlink_to(top)
    asked: list[int] = []

    def clear(fd: int) -> bool:
        asked.append(os.fstat(fd).st_ino)
        return parent_had if len(asked) == 1 else entry_had

    monkeypatch.setattr(attributes, "clear_flags", clear)
    opened = len(os.listdir("/proc/self/fd"))
    has_flags = kind in ("file", "directory")
    assert trees._loosen(fd, "entry") is (parent_had or (entry_had and has_flags))
    assert asked == [top.stat().st_ino, *([entry.stat().st_ino] if has_flags else [])]
    assert len(os.listdir("/proc/self/fd")) == opened


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_entry_that_is_pinned_is_removed_once_it_was_loosened_and_not_otherwise(
    top: Path, fd: int, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    pinned, loosens, tried = [True], [True], [0]

    def removing(real: Callable[..., None]) -> Callable[..., None]:
        def remove(name: str, *, dir_fd: int) -> None:
            tried[0] += 1
            if pinned[0]:
                raise PermissionError(errno.EPERM, "no", name)
            real(name, dir_fd=dir_fd)

        return remove

    def loosen(parent: int, name: str) -> bool:
        pinned[0] = not loosens[0]
        return loosens[0]

    entry = top / "entry"
    if kind == "file":
        entry.touch()
    else:
        entry.mkdir()
    for name in ("unlink", "rmdir"):
        monkeypatch.setattr(os, name, removing(getattr(os, name)))
    monkeypatch.setattr(trees, "_loosen", loosen)
    assert empty(fd) == 1 and not entry.exists() and tried == [2]
    if kind == "file":
        entry.touch()
    else:
        entry.mkdir()
    pinned[0], loosens[0], tried[0] = True, False, 0
    with pytest.raises(PermissionError):
        empty(fd)
    assert tried == [1]
