"""Marks on disks that tenants had, the fake and the real ones alike: one suite for both."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from localpv import errors
from localpv.host.marks import ATTRIBUTES, DiskMarks, Mark, Marks
from localpv.host.model.identity import Identity, Twin
from localpv.host.workers import Workers
from localpv.testing.fake_volume_host import FakeMarks

NAMED = Identity(serial="A", size_bytes=1)
OTHER = Identity(serial="B", size_bytes=1)
NAMELESS = Identity(major_minor="8:16", size_bytes=1, boot_id="one", disk_sequence=4)
AFTER_A_RESTART = Identity(major_minor="8:16", size_bytes=1, boot_id="two", disk_sequence=4)


@pytest.fixture(params=["fake", "real"])
async def marks(request: pytest.FixtureRequest) -> Marks:
    return FakeMarks() if request.param == "fake" else DiskMarks(workers=Workers())


def mark(entry: str = "", identity: Identity | None = None, volume: str = "pv") -> Mark:
    return Mark(volume=volume, uid=f"uid-of-{volume}", entry=entry, identity=identity or Identity())


async def test_directory_carries_its_mark(marks: Marks, tmp_path: Path) -> None:
    assert await marks.of_directory(tmp_path) is None
    assert await marks.mark_directory(tmp_path, mark())
    assert await marks.mark_directory(tmp_path, mark()), "once more is no error"
    assert await marks.of_directory(tmp_path) == mark()


async def test_directory_that_carries_its_mark_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    marks = DiskMarks(workers=Workers())
    assert await marks.mark_directory(tmp_path, mark())
    monkeypatch.setattr(os, "setxattr", broken)
    assert await marks.mark_directory(tmp_path, mark())
    with pytest.raises(errors.HostError, match="Input/output error"):
        await marks.mark_directory(tmp_path, mark(volume="next"))


async def test_device_is_known_wherever_it_is(marks: Marks, tmp_path: Path) -> None:
    await marks.mark_device(tmp_path / "disk", mark("disk", NAMED))
    await marks.mark_device(tmp_path / "disk", mark("disk", NAMED))
    assert await marks.of_device(tmp_path / "disk", NAMED) == mark("disk", NAMED)
    assert await marks.of_device(tmp_path / "renamed", NAMED) == mark("disk", NAMED)
    assert await marks.of_device(tmp_path / "disk", OTHER) is None, "another disk has come in its place"


async def test_device_without_a_lasting_name_is_known_by_its_entry(marks: Marks, tmp_path: Path) -> None:
    await marks.mark_device(tmp_path / "disk", mark("disk", NAMELESS))
    assert await marks.of_device(tmp_path / "disk", AFTER_A_RESTART) is not None
    assert await marks.of_device(tmp_path / "other", AFTER_A_RESTART) is None


async def test_only_the_marks_of_the_device_itself_are_taken_off(marks: Marks, tmp_path: Path) -> None:
    await marks.mark_device(tmp_path / "disk", mark("disk", NAMED))
    await marks.mark_device(tmp_path / "disk", mark("disk", NAMED, volume="next"))
    await marks.mark_device(tmp_path / "other", mark("other", OTHER, volume="pv-2"))
    await marks.forget_device(tmp_path / "disk", NAMED)
    await marks.forget_device(tmp_path / "disk", NAMED)
    assert await marks.of_device(tmp_path / "disk", NAMED) is None
    assert await marks.of_device(tmp_path / "other", OTHER) is not None


async def test_marked_device_that_grew_or_shrank_is_known_and_loses_its_mark_when_it_is_clean(
    marks: Marks, tmp_path: Path
) -> None:
    await marks.mark_device(tmp_path / "disk", mark("disk", replace(NAMED, size_bytes=2)))
    for size in (1, 3):
        now = replace(NAMED, size_bytes=size)
        assert await marks.of_device(tmp_path / "disk", now) is not None, "the data is there"
        assert await marks.of_device(tmp_path / "other", now) is None, "a serial number that others have too"
    await marks.forget_device(tmp_path / "disk", replace(NAMED, size_bytes=3))
    assert await marks.of_device(tmp_path / "disk", replace(NAMED, size_bytes=3)) is None


async def test_mark_of_a_disk_stays_when_a_copy_of_it_was_cleaned(marks: Marks, tmp_path: Path) -> None:
    await marks.mark_device(tmp_path / "disk", mark("disk", NAMED))
    copy = replace(NAMED, twins=(Twin("serial A", "sdb"),))
    assert await marks.of_device(tmp_path / "copy", copy) is not None, "nobody can tell which of them it is"
    await marks.forget_device(tmp_path / "copy", copy)
    assert await marks.of_device(tmp_path / "disk", NAMED) is not None
    await marks.forget_device(tmp_path / "copy", NAMED)
    assert await marks.of_device(tmp_path / "disk", NAMED) is None, "the other one is gone: this is it"


@pytest.mark.parametrize("folder", [False, True])
async def test_mark_that_cannot_be_read_is_of_all_devices_and_names_its_file(tmp_path: Path, folder: bool) -> None:
    file = tmp_path / ".localpv-used-x"
    if folder:
        file.mkdir()
    else:
        file.write_text("{")
    marks = DiskMarks(workers=Workers())
    await marks.forget_device(tmp_path / "disk", NAMED)
    found = await marks.of_device(tmp_path / "disk", NAMED)
    assert found is not None and (found.uid, found.entry) == ("", file.name)


async def test_file_system_without_attributes_says_so(tmp_path: Path, mount: Callable[..., None]) -> None:
    mount("-t", "ramfs", "none", tmp_path)
    assert not await DiskMarks(workers=Workers()).mark_directory(tmp_path, mark())


async def test_what_cannot_be_written_needs_no_mark_and_a_directory_of_devices_does(
    tmp_path: Path, mount: Callable[..., None]
) -> None:
    mount("-t", "tmpfs", "-o", "ro", "none", tmp_path)
    marks = DiskMarks(workers=Workers())
    assert await marks.mark_directory(tmp_path, mark())
    with pytest.raises(errors.HostError, match="cannot be marked as used") as caught:
        await marks.mark_device(tmp_path / "disk", mark("disk", NAMED))
    assert caught.value.hint


def test_mark_is_neither_seen_nor_changed_in_a_container(tmp_path: Path) -> None:
    asyncio.run(DiskMarks(workers=Workers()).mark_directory(tmp_path, mark()))
    # Root, without rights over the machine.
    script = f"import os; print(os.listxattr({str(tmp_path)!r})); os.removexattr({str(tmp_path)!r}, {ATTRIBUTES[0]!r})"
    argv = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.stdout == "[]\n" and "PermissionError" in done.stderr
