"""A pool of files on the real kernel: on xfs, which shares blocks between files, and on ext4, which copies."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localpv import errors
from localpv.agent.pools.file_pool import FilePool
from localpv.host import loop, pool_files
from localpv.host.model import methods
from localpv.host.model.methods import Progress
from localpv.host.workers import Workers

MIB = 1024 * 1024
PATTERN = b"old tenant" * 409 + b"......"  # 4096 bytes


@pytest.fixture(params=["xfs", "ext4"])
def directory(
    request: pytest.FixtureRequest, tmp_path: Path, make_disk: Callable[..., Path], mount: Callable[..., None]
) -> Path:
    disk, at = make_disk(512), tmp_path / "mounted"
    subprocess.run([f"mkfs.{request.param}", "-q", str(disk)], check=True)
    at.mkdir()
    mount(disk, at)
    return at / "pool"


@pytest.fixture
def pool(directory: Path) -> Iterator[FilePool]:
    yield a_pool(directory)
    for data in directory.glob("*/data"):
        if (device := loop.of_file(data)) is not None:
            loop.detach(device)


def a_pool(directory: Path, *, size: int = 256 * MIB) -> FilePool:
    return FilePool(name="fast", directory=directory, size_bytes=size, workers=Workers())


def run(*argv: str | Path) -> str:
    return subprocess.run([*map(str, argv)], check=True, capture_output=True, text=True).stdout


def fill(device: Path, size: int) -> None:
    with open(device, "r+b", buffering=0) as file:
        for _ in range(size // len(PATTERN)):
            file.write(PATTERN)
        os.fsync(file.fileno())


def read(device: Path) -> bytes:
    return device.read_bytes()


async def test_a_volume_is_made_zero_used_and_removed(pool: FilePool) -> None:
    made = await pool.create("pvc-1", 8 * MIB)
    assert (made.size_bytes, made.ready) == (8 * MIB, True)
    device = await pool.attach("pvc-1")
    assert await pool.attach("pvc-1") == device
    assert read(device) == bytes(8 * MIB)
    fill(device, 8 * MIB)
    await pool.detach("pvc-1")
    await pool.detach("pvc-1")
    assert loop.status(device) is None
    await pool.remove("pvc-1", method=methods.ZeroOut())
    await pool.remove("pvc-1", method=methods.ZeroOut())
    assert (await pool.state()).volumes == {}


async def test_a_new_volume_shows_none_of_the_bytes_of_the_old_one(pool: FilePool, directory: Path) -> None:
    """The file system is filled to the last block each time, so that the new volumes have the blocks of the old."""
    size = a_pool(directory, size=0)
    left = (await size.state()).free_bytes // MIB * MIB - 24 * MIB
    for _ in range(2):
        await size.create("pvc-1", left)
        device = await size.attach("pvc-1")
        assert not any(read(device))
        fill(device, left)
        await size.remove("pvc-1", method=methods.ZeroOut())


async def test_the_same_once_more_is_taken_as_it_is_and_another_under_the_name_refused(pool: FilePool) -> None:
    await pool.create("pvc-1", 8 * MIB)
    fill(await pool.attach("pvc-1"), MIB)
    again = await pool.create("pvc-1", 8 * MIB)
    assert again.size_bytes == 8 * MIB
    assert read(await pool.attach("pvc-1")).startswith(PATTERN)
    with pytest.raises(errors.AlreadyThere):
        await pool.create("pvc-1", 9 * MIB)
    with pytest.raises(errors.AlreadyThere):
        await pool.snapshot("pvc-1", "pvc-1")


async def test_what_is_promised_counts_and_not_what_is_written(pool: FilePool) -> None:
    await pool.create("pvc-1", 200 * MIB)
    with pytest.raises(errors.NoRoom, match="56"):
        await pool.create("pvc-2", 57 * MIB)
    assert [*(await pool.state()).volumes] == ["pvc-1"]
    await pool.create("pvc-2", 56 * MIB)
    assert (await pool.state()).unpromised_bytes == 0


async def test_many_at_once_never_get_more_than_there_is(pool: FilePool) -> None:
    made = await asyncio.gather(*(pool.create(f"pvc-{n}", 32 * MIB) for n in range(20)), return_exceptions=True)
    assert sum(not isinstance(one, BaseException) for one in made) == 8
    assert {type(one) for one in made if isinstance(one, BaseException)} == {errors.NoRoom}
    assert len((await pool.state()).volumes) == 8


async def test_a_file_system_that_others_filled_has_no_room_whatever_the_pool_says(directory: Path) -> None:
    pool = a_pool(directory)
    free = (await pool.state()).free_bytes
    run("fallocate", "-l", str(free - 16 * MIB), directory.parent / "others")
    with pytest.raises(errors.NoRoom, match="file system"):
        await pool.create("pvc-1", 32 * MIB)
    assert (await pool.state()).volumes == {}


async def test_what_others_have_of_the_file_system_is_told_and_not_promised(directory: Path) -> None:
    pool = a_pool(directory, size=384 * MIB)
    await pool.create("pvc-1", 64 * MIB)
    assert (await pool.state()).foreign_bytes == 0
    run("fallocate", "-l", str(200 * MIB), directory.parent / "others")
    state = await pool.state()
    assert 64 * MIB < state.foreign_bytes < 200 * MIB
    with pytest.raises(errors.NoRoom, match="others have"):
        await pool.create("pvc-2", state.capacity_bytes - 64 * MIB)
    await pool.create("pvc-2", state.unpromised_bytes)
    assert 0 <= (await pool.state()).unpromised_bytes <= 16 * MIB


async def test_blocks_that_clones_share_are_promised_to_each_of_them(pool: FilePool) -> None:
    """A pool as large as its file system: each clone may come to differ in every block."""
    whole = a_pool(pool._files.directory, size=0)
    size = (await whole.state()).unpromised_bytes // 3 // MIB * MIB - 16 * MIB
    await whole.create("pvc-1", size)
    fill(await whole.attach("pvc-1"), size)
    await whole.detach("pvc-1")
    for name in ("pvc-2", "pvc-3"):
        await whole.create(name, size, source="pvc-1")
    with pytest.raises(errors.NoRoom):
        await whole.create("pvc-4", size, source="pvc-1")
    for name in ("pvc-2", "pvc-3"):
        fill(await whole.attach(name), size)


async def test_a_clone_has_the_bytes_of_its_source_and_zeroes_behind_them(pool: FilePool) -> None:
    await pool.create("pvc-1", 8 * MIB)
    fill(await pool.attach("pvc-1"), 4 * MIB)
    await pool.detach("pvc-1")
    told: list[Progress] = []
    await pool.create("pvc-2", 16 * MIB, source="pvc-1", progress=told.append)
    clone = await pool.attach("pvc-2")
    assert read(clone) == PATTERN * (4 * MIB // len(PATTERN)) + bytes(12 * MIB)
    fill(clone, 16 * MIB)
    assert read(await pool.attach("pvc-1"))[4 * MIB :] == bytes(4 * MIB)
    assert (await pool.state()).volumes["pvc-2"].source == "pvc-1"
    with pytest.raises(errors.HostError, match="as large"):
        await pool.create("pvc-3", 4 * MIB, source="pvc-1")
    with pytest.raises(errors.NotThere):
        await pool.create("pvc-3", 8 * MIB, source="pvc-0")


async def test_a_snapshot_stays_as_it_was_is_read_only_and_counted(pool: FilePool) -> None:
    await pool.create("pvc-1", 8 * MIB)
    fill(await pool.attach("pvc-1"), 4 * MIB)
    await pool.detach("pvc-1")
    taken = await pool.snapshot("snapshot-1", "pvc-1")
    assert (taken.is_snapshot, taken.size_bytes, taken.promised_bytes) == (True, 8 * MIB, 8 * MIB)
    assert taken == await pool.snapshot("snapshot-1", "pvc-1")
    fill(await pool.attach("pvc-1"), 8 * MIB)
    device = await pool.attach("snapshot-1")
    assert read(device)[4 * MIB :] == bytes(4 * MIB)
    with pytest.raises(PermissionError):
        fill(device, MIB)
    await pool.detach("snapshot-1")
    await pool.detach("pvc-1")
    # The source goes, the snapshot stays.
    await pool.remove("pvc-1", method=methods.ZeroOut())
    await pool.create("pvc-2", 8 * MIB, source="snapshot-1")
    assert read(await pool.attach("pvc-2"))[: 4 * MIB] == PATTERN * (4 * MIB // len(PATTERN))


async def test_a_snapshot_of_a_mounted_file_system_has_what_was_written_to_it(
    pool: FilePool, tmp_path: Path, mount: Callable[..., None]
) -> None:
    await pool.create("pvc-1", 64 * MIB)
    device, at, again = await pool.attach("pvc-1"), tmp_path / "volume", tmp_path / "restored"
    run("mkfs.ext4", "-q", device)
    at.mkdir()
    again.mkdir()
    mount(device, at)
    (at / "file").write_text("not yet on the disk")
    if "xfs" not in run("stat", "-f", "-c", "%T", tmp_path / "mounted"):
        with pytest.raises(errors.DeviceBusy, match="no one moment"):
            await pool.snapshot("snapshot-1", "pvc-1")
        return
    await pool.snapshot("snapshot-1", "pvc-1")
    await pool.create("pvc-2", 64 * MIB, source="snapshot-1")
    mount(await pool.attach("pvc-2"), again)
    assert (again / "file").read_text() == "not yet on the disk"


async def test_a_volume_grows_while_it_is_attached(pool: FilePool) -> None:
    await pool.create("pvc-1", 8 * MIB)
    device = await pool.attach("pvc-1")
    fill(device, 8 * MIB)
    grown = await pool.expand("pvc-1", 16 * MIB)
    assert grown.size_bytes == 16 * MIB
    assert read(device) == PATTERN * (8 * MIB // len(PATTERN)) + bytes(8 * MIB)
    assert (await pool.expand("pvc-1", 12 * MIB)).size_bytes == 16 * MIB
    with pytest.raises(errors.NoRoom):
        await pool.expand("pvc-1", 257 * MIB)
    assert (await pool.state()).volumes["pvc-1"].promised_bytes == 16 * MIB


async def test_a_volume_in_use_is_not_removed(pool: FilePool, tmp_path: Path, mount: Callable[..., None]) -> None:
    await pool.create("pvc-1", 32 * MIB)
    device, at = await pool.attach("pvc-1"), tmp_path / "volume"
    run("mkfs.ext4", "-q", device)
    at.mkdir()
    mount(device, at)
    for act in (pool.detach("pvc-1"), pool.remove("pvc-1", method=methods.ZeroOut())):
        with pytest.raises(errors.DeviceBusy):
            await act
    assert (await pool.state()).volumes["pvc-1"].ready


async def test_a_volume_that_a_process_has_open_is_not_removed(pool: FilePool) -> None:
    await pool.create("pvc-1", 8 * MIB)
    fd = os.open(await pool.attach("pvc-1"), os.O_RDONLY)
    with pytest.raises(errors.DeviceBusy):
        await pool.remove("pvc-1", method=methods.ZeroOut())
    os.close(fd)
    state = (await pool.state()).volumes["pvc-1"]
    assert (state.going, state.ready) == (True, False)
    with pytest.raises(errors.DeviceBusy):
        await pool.create("pvc-1", 8 * MIB)
    with pytest.raises(errors.DeviceBusy):
        await pool.attach("pvc-1")
    await pool.remove("pvc-1", method=methods.ZeroOut())
    assert (await pool.state()).volumes == {}


async def test_what_carries_no_record_of_ours_is_never_touched(pool: FilePool, directory: Path) -> None:
    await pool.state()
    (directory / "pvc-1").mkdir()
    (directory / "pvc-1" / "data").write_text("somebody else's")
    with pytest.raises(errors.AlreadyThere, match="no record"):
        await pool.create("pvc-1", 8 * MIB)
    await pool.remove("pvc-1", method=methods.ZeroOut())
    assert (directory / "pvc-1" / "data").read_text() == "somebody else's"
    assert (await pool.state()).volumes == {}
    for name in ("../pvc-1", ".", "", "a" * 81, "A", "-a"):
        with pytest.raises(errors.HostError, match="no name"):
            await pool.create(name, 8 * MIB)


async def test_a_record_that_cannot_be_read_holds_its_volume_and_no_other(pool: FilePool, directory: Path) -> None:
    await pool.create("pvc-1", 8 * MIB)
    (directory / "pvc-1" / pool_files.RECORD).write_text("{")
    state = (await pool.state()).volumes["pvc-1"]
    assert (state.ready, state.promised_bytes) == (False, 8 * MIB)
    assert "cannot be read" in state.abnormal
    with pytest.raises(errors.HostError, match="cannot be read"):
        await pool.remove("pvc-1", method=methods.ZeroOut())
    assert (directory / "pvc-1" / "data").stat().st_size == 8 * MIB
    await pool.create("pvc-2", 8 * MIB)


async def test_a_directory_that_others_may_write_in_is_no_pool(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(errors.HostError, match="others may write"):
        await a_pool(tmp_path).create("pvc-1", 8 * MIB)


async def test_a_volume_that_an_agent_before_has_attached_from_elsewhere_is_not_attached_twice(
    pool: FilePool, directory: Path, tmp_path: Path
) -> None:
    """As an agent in a container is started anew: the mount through which the file was attached is gone."""
    await pool.create("pvc-1", 8 * MIB)
    seen = tmp_path / "seen"
    seen.mkdir()
    run("mount", "--bind", directory, seen)
    attached = await a_pool(seen).attach("pvc-1")
    run("umount", "-l", seen)
    assert Path(f"/sys/block/{attached.name}/loop/backing_file").read_text().strip() == "/pvc-1/data"
    assert await pool.attach("pvc-1") == attached
    await pool.detach("pvc-1")
    assert loop.status(attached) is None
