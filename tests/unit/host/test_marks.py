"""Where a mark is put, and that it is on the disk before anybody goes on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import marks
from localpv.host.marks import ATTRIBUTES, DiskMarks, Mark
from localpv.host.workers import Workers

MARK = Mark(volume="pv", uid="uid")


class Attributes:
    """Extended attributes of one directory, some of which cannot be set."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.refused: dict[str, int] = {}
        self.done: list[str] = []

    def set(self, path: Path, name: str, value: bytes) -> None:
        if code := self.refused.get(name):
            raise OSError(code, os.strerror(code))
        self.values[name] = value
        self.done.append(name)

    def get(self, path: Path, name: str) -> bytes:
        if name not in self.values:
            raise OSError(errno.ENODATA, "no")
        return self.values[name]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attributes:
    made = Attributes()
    inode = tmp_path.stat().st_ino
    monkeypatch.setattr(os, "setxattr", made.set)
    monkeypatch.setattr(os, "getxattr", made.get)
    monkeypatch.setattr(os, "fsync", lambda fd: made.done.append("synced" if os.fstat(fd).st_ino == inode else "?"))
    return made


async def test_mark_of_a_directory_is_on_the_disk_when_it_is_said_to_be(kept: Attributes, tmp_path: Path) -> None:
    real = DiskMarks(workers=Workers())
    assert await real.of_directory(tmp_path) is None
    assert await real.mark_directory(tmp_path, MARK)
    assert kept.done == [ATTRIBUTES[0], "synced"]
    assert await real.of_directory(tmp_path) == MARK
    assert await real.mark_directory(tmp_path, MARK)
    assert kept.done == [ATTRIBUTES[0], "synced"], "it is there already"
    assert str(tmp_path) not in map(os.path.realpath, Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.EPERM, errno.ENOSPC])
async def test_mark_has_a_second_place_and_its_lack_is_told(kept: Attributes, tmp_path: Path, code: int) -> None:
    real = DiskMarks(workers=Workers())
    kept.refused[ATTRIBUTES[0]] = code
    assert await real.mark_directory(tmp_path, MARK)
    assert kept.done == [ATTRIBUTES[1], "synced"]
    assert await real.of_directory(tmp_path) == MARK
    kept.values.clear()
    kept.refused[ATTRIBUTES[1]] = code
    assert not await real.mark_directory(tmp_path, MARK)
    assert await real.of_directory(tmp_path) is None


async def test_directory_that_nobody_can_write_needs_no_mark_and_one_that_fails_is_told(
    kept: Attributes, tmp_path: Path
) -> None:
    real = DiskMarks(workers=Workers())
    kept.refused[ATTRIBUTES[0]] = errno.EROFS
    assert await real.mark_directory(tmp_path, MARK) and not kept.done
    kept.refused[ATTRIBUTES[0]] = errno.EIO
    with pytest.raises(errors.HostError, match="cannot be marked"):
        await real.mark_directory(tmp_path, MARK)


async def test_mark_that_cannot_be_read_is_a_mark(kept: Attributes, tmp_path: Path) -> None:
    kept.values[ATTRIBUTES[1]] = b"{"
    assert await DiskMarks(workers=Workers()).of_directory(tmp_path) is marks._UNREADABLE


async def test_mark_of_a_device_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = DiskMarks(workers=Workers())
    await real.mark_device(tmp_path / "sdb", MARK)

    def refused(path: Path, text: str) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(real._files, "write", refused)
    await real.mark_device(tmp_path / "sdb", MARK)
    with pytest.raises(errors.HostError, match="cannot be marked"):
        await real.mark_device(tmp_path / "sdb", Mark(volume="pv", uid="another"))


async def test_other_files_beside_a_device_are_no_marks(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("{")
    real = DiskMarks(workers=Workers())
    await real.mark_device(tmp_path / "sdb", Mark(volume="pv", uid="uid", entry="sdb"))
    found = marks._marks(tmp_path / "sdb", MARK.identity)
    assert [path.name for path in found] == [f"{marks.FILE}uid"]
