"""Files that change together."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from localpv.host import volume_files
from localpv.host.volume_files import DiskFileSets, File
from localpv.host.workers import Workers


@pytest.fixture
async def sets(workers: Workers) -> DiskFileSets:
    return DiskFileSets(workers=workers)


def visible(folder: Path) -> set[str]:
    return {name for name in os.listdir(folder) if not name.startswith("..")}


async def test_names_are_links_through_the_one_that_is_switched(sets: DiskFileSets, tmp_path: Path) -> None:
    await sets.replace(tmp_path, {"one": File(data=b"1"), "sub/two": File(data=b"2", mode=0o400)})
    assert visible(tmp_path) == {"one", "sub"}
    assert os.readlink(tmp_path / "one") == "..data/one" and os.readlink(tmp_path / "sub") == "..data/sub"
    assert (tmp_path / "one").read_bytes() == b"1" and (tmp_path / "sub" / "two").read_bytes() == b"2"
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "sub" / "two").stat().st_mode) == 0o400


async def test_an_open_set_stays_whole_while_another_takes_its_place(sets: DiskFileSets, tmp_path: Path) -> None:
    await sets.replace(tmp_path, {"a": File(data=b"old"), "b": File(data=b"old"), "gone": File(data=b"old")})
    before = os.readlink(tmp_path / "..data")
    reader = os.open(tmp_path / "a", os.O_RDONLY)
    await sets.replace(tmp_path, {"a": File(data=b"new"), "b": File(data=b"new")})
    assert os.read(reader, 100) == b"old"
    os.close(reader)
    assert (tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes() == b"newnew"
    assert visible(tmp_path) == {"a", "b"}
    assert not (tmp_path / before).exists() and os.readlink(tmp_path / "..data") != before


async def test_the_group_can_read_and_the_user_owns_his_file(sets: DiskFileSets, tmp_path: Path) -> None:
    files = {"token": File(data=b"t", mode=0o600, user=1234), "plain": File(data=b"p")}
    await sets.replace(tmp_path, files, group=5678)
    token = (tmp_path / "token").stat()
    assert (token.st_uid, token.st_gid, stat.S_IMODE(token.st_mode)) == (1234, 5678, 0o640)
    assert (tmp_path / "plain").stat().st_gid == 5678


async def test_dying_before_or_after_the_switch_is_made_good(
    sets: DiskFileSets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sets.replace(tmp_path, {"a": File(data=b"old")})
    monkeypatch.setattr(volume_files.os, "replace", lambda *paths: (_ for _ in ()).throw(OSError(5, "died")))
    with pytest.raises(OSError, match="died"):
        await sets.replace(tmp_path, {"a": File(data=b"new"), "b": File(data=b"new")})
    monkeypatch.undo()
    assert (tmp_path / "a").read_bytes() == b"old" and visible(tmp_path) == {"a"}
    monkeypatch.setattr(volume_files, "_tidy", lambda *rest: (_ for _ in ()).throw(OSError(5, "died")))
    with pytest.raises(OSError, match="died"):
        await sets.replace(tmp_path, {"a": File(data=b"new"), "b": File(data=b"new")})
    monkeypatch.undo()
    assert await sets.replace(tmp_path, {"a": File(data=b"new"), "b": File(data=b"new")})
    assert visible(tmp_path) == {"a", "b"} and (tmp_path / "b").read_bytes() == b"new"
    assert len([name for name in os.listdir(tmp_path) if name.startswith("..")]) == 2
