"""Files given to a group: all of them, nothing outside, and the top last."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from localpv import errors
from localpv.host.trees import KernelTrees
from localpv.host.volume_files import KernelOwnership
from localpv.host.workers import Workers

GROUP = 54321


@pytest.fixture
async def ownership(workers: Workers) -> KernelOwnership:
    return KernelOwnership(workers=workers)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.seed("PLG-11")
async def test_the_group_can_read_and_write_everything_and_new_files_are_its_own(
    ownership: KernelOwnership, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    (volume / "a" / "b").mkdir(parents=True)
    for path in (volume / "one", volume / "a" / "two", volume / "a" / "b" / "three"):
        path.write_text("x")
        path.chmod(0o600)
    (volume / "a").chmod(0o700)
    await ownership.give(volume, group=GROUP)
    for path in volume.rglob("*"):
        assert path.lstat().st_gid == GROUP
        assert mode(path) & (0o2770 if path.is_dir() else 0o660) == (0o2770 if path.is_dir() else 0o660)
    assert volume.stat().st_gid == GROUP and mode(volume) & 0o2770 == 0o2770
    (volume / "a" / "new").write_text("x")
    assert (volume / "a" / "new").stat().st_gid == GROUP


async def test_bits_that_were_there_stay(ownership: KernelOwnership, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "tool").write_text("x")
    (volume / "tool").chmod(0o4755)
    await ownership.give(volume, group=GROUP)
    assert mode(volume / "tool") == 0o4775


async def test_links_are_not_followed_and_other_mounts_not_entered(
    ownership: KernelOwnership, tmp_path: Path, mount: Callable[..., None]
) -> None:
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    (volume / "mounted").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_text("x")
    (volume / "link").symlink_to(outside / "file")
    (volume / "folder").symlink_to(outside)
    mount("--bind", outside, volume / "mounted")
    before = (outside.stat().st_gid, mode(outside), (outside / "file").stat().st_gid, mode(outside / "file"))
    await ownership.give(volume, group=GROUP)
    assert (outside.stat().st_gid, mode(outside), (outside / "file").stat().st_gid, mode(outside / "file")) == before
    assert (volume / "link").lstat().st_gid == GROUP


async def test_read_only_files_can_be_read_by_the_group(ownership: KernelOwnership, tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "file").touch(mode=0o600)
    await ownership.give(tmp_path / "volume", group=GROUP, read_only=True)
    assert mode(tmp_path / "volume" / "file") == 0o640


async def test_a_tree_of_any_depth_is_walked(ownership: KernelOwnership, trees: KernelTrees, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    deep = os.open(volume, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=deep)
        below = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    await ownership.give(volume, group=GROUP)
    assert os.fstat(deep).st_gid == GROUP
    os.close(deep)
    # What pytest uses to remove the folder later knows no such depth.
    await trees.empty(volume, inside=tmp_path)


async def test_a_walk_that_was_cut_short_is_done_again(
    ownership: KernelOwnership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = tmp_path / "volume"
    (volume / "a").mkdir(parents=True)
    (volume / "a" / "file").touch(mode=0o600)
    real = os.chown

    def fails_at_the_top(path: str, uid: int, gid: int, **rest: bool) -> None:
        if os.path.samefile(path, volume):
            raise OSError(5, "Input/output error")
        real(path, uid, gid, **rest)

    monkeypatch.setattr(os, "chown", fails_at_the_top)
    with pytest.raises(errors.HostError, match="Input/output"):
        await ownership.give(volume, group=GROUP, unless_root_has_it=True)
    monkeypatch.undo()
    assert (volume / "a" / "file").stat().st_gid == GROUP
    assert await ownership.give(volume, group=GROUP, unless_root_has_it=True)
    assert not await ownership.give(volume, group=GROUP, unless_root_has_it=True)
