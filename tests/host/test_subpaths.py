"""Parts of volumes: made when missing, and never anything outside of the volume."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import mounter
from localpv.host.mounter import KernelSubPaths
from localpv.host.workers import Workers


@pytest.fixture
async def sub_paths(workers: Workers) -> KernelSubPaths:
    return KernelSubPaths(workers=workers)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    path.chmod(0o2775)
    os.chown(path, -1, 4321)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("not yours")
    return path


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "parts" / "0"
    yield place
    while place.exists() and str(place) in Path("/proc/self/mountinfo").read_text():
        subprocess.run(["umount", place], check=True)


async def test_a_missing_part_is_made_as_the_volume_is(sub_paths: KernelSubPaths, volume: Path, at: Path) -> None:
    await sub_paths.bind(volume, "a/b", at, read_only=False)
    (at / "file").write_text("x")
    assert (volume / "a" / "b" / "file").read_text() == "x"
    for path in (volume / "a", volume / "a" / "b"):
        assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_gid) == (0o2775, 4321)


async def test_a_file_is_bound_as_a_file_and_read_only_when_asked(
    sub_paths: KernelSubPaths, volume: Path, at: Path
) -> None:
    (volume / "settings").write_text("1")
    await sub_paths.bind(volume, "settings", at, read_only=True)
    assert at.is_file() and at.read_text() == "1"
    with pytest.raises(OSError, match="Read-only"):
        at.write_text("2")


async def test_once_more_shows_what_the_part_is_now(sub_paths: KernelSubPaths, volume: Path, at: Path) -> None:
    (volume / "part").mkdir()
    await sub_paths.bind(volume, "part", at, read_only=False)
    await sub_paths.bind(volume, "part", at, read_only=False)
    assert Path("/proc/self/mountinfo").read_text().count(f" {at} ") == 1
    (volume / "part").rename(volume / "old")
    (volume / "part").mkdir()
    (volume / "part" / "new").touch()
    await sub_paths.bind(volume, "part", at, read_only=True)
    assert os.listdir(at) == ["new"]
    assert Path("/proc/self/mountinfo").read_text().count(f" {at} ") == 1
    (volume / "part" / "new").unlink()
    (volume / "part").rmdir()
    (volume / "part").write_text("a file now")
    await sub_paths.bind(volume, "part", at, read_only=True)
    assert at.read_text() == "a file now"


async def test_links_inside_the_volume_are_followed(sub_paths: KernelSubPaths, volume: Path, at: Path) -> None:
    (volume / "real" / "deep").mkdir(parents=True)
    (volume / "a").mkdir()
    (volume / "a" / "link").symlink_to("../real")
    await sub_paths.bind(volume, "a/link/deep", at, read_only=False)
    (at / "file").touch()
    assert (volume / "real" / "deep" / "file").exists()


@pytest.mark.parametrize("target", ["/etc", "../outside", "../../..", "/proc/self/root", "nowhere"])
async def test_links_out_of_the_volume_or_to_nowhere_are_refused(
    sub_paths: KernelSubPaths, volume: Path, at: Path, target: str
) -> None:
    (volume / "link").symlink_to(target)
    for part in ("link", "link/more"):
        with pytest.raises(errors.OutsideFolder):
            await sub_paths.bind(volume, part, at, read_only=False)
    assert not at.exists() or not os.listdir(at)
    assert not (volume.parent / "outside" / "more").exists()


async def test_a_part_that_is_swapped_for_a_link_meanwhile_never_shows_the_outside(
    sub_paths: KernelSubPaths, volume: Path, at: Path, tmp_path: Path
) -> None:
    (volume / "part").mkdir()
    (volume / "link").symlink_to(tmp_path / "outside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for name in ("link", "dir"):
                try:
                    os.rename(volume / "part", volume / "spare")
                    os.rename(volume / ("link" if name == "link" else "dir"), volume / "part")
                    os.rename(volume / "spare", volume / ("dir" if name == "link" else "link"))
                except OSError:
                    pass

    thread = threading.Thread(target=swap)
    thread.start()
    shown = 0
    try:
        for _ in range(150):
            try:
                await sub_paths.bind(volume, "part", at, read_only=False)
            except errors.HostError:
                continue
            shown += 1
            assert "secret" not in os.listdir(at)
            mounter.unmount_now(at)
    finally:
        stop.set()
        thread.join()
    assert shown


async def test_without_the_help_of_the_kernel_no_link_is_followed(
    sub_paths: KernelSubPaths, volume: Path, at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localpv.host.openat._usable", False)
    (volume / "real").mkdir()
    (volume / "link").symlink_to("real")
    with pytest.raises(errors.OutsideFolder):
        await sub_paths.bind(volume, "link", at, read_only=False)
    await sub_paths.bind(volume, "real/deep", at, read_only=False)
    (at / "file").touch()
    assert (volume / "real" / "deep" / "file").exists()


async def test_what_is_missing_in_a_read_only_volume_cannot_be_made(
    sub_paths: KernelSubPaths, volume: Path, at: Path, mount: Callable[..., None]
) -> None:
    mount("--bind", volume, volume)
    mount("-o", "remount,bind,ro", volume)
    with pytest.raises(errors.HostError, match="Read-only"):
        await sub_paths.bind(volume, "missing", at, read_only=True)
