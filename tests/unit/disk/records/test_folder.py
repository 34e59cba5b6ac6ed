"""Records in a folder: what is left after a crash, and what happens when the disk does not play along."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.unit.disk.records.conftest import Side
from tests.unit.disk.records.test_records import SEEN, a_disk

from localpv import errors
from localpv.api.kinds.localdisk import LocalDiskStatus
from localpv.disk.records.folder import FolderRecords


@pytest.fixture
def records(tmp_path: Path) -> Iterator[FolderRecords]:
    made = FolderRecords(tmp_path)
    made.open()
    yield made
    made.close()


def disk_of(records: FolderRecords, entry: str = "sdb") -> Any:
    return a_disk(Side(records, records, node="node-1"), entry)


def reopened(records: FolderRecords, folder: Path) -> FolderRecords:
    records.close()
    made = FolderRecords(folder)
    made.open()
    return made


async def test_records_are_there_after_a_restart(records: FolderRecords, tmp_path: Path) -> None:
    seen = await records.write_status(await records.create(disk_of(records)), SEEN)
    again = reopened(records, tmp_path)
    assert list(await again.list()) == [seen]
    newer = await again.write_status(seen, LocalDiskStatus(phase="Missing"))
    assert int(newer.metadata.resource_version) > int(seen.metadata.resource_version)
    again.close()


async def test_deleted_record_stays_deleted(records: FolderRecords, tmp_path: Path) -> None:
    await records.delete(await records.create(disk_of(records)))
    again = reopened(records, tmp_path)
    assert list(await again.list()) == []
    again.close()


async def test_unfinished_write_of_a_crash_is_removed(records: FolderRecords, tmp_path: Path) -> None:
    made = await records.create(disk_of(records))
    (tmp_path / ".new-0123").write_bytes(b'{"half":')
    again = reopened(records, tmp_path)
    assert list(await again.list()) == [made]
    assert not (tmp_path / ".new-0123").exists()
    again.close()


def test_second_process_is_kept_out(records: FolderRecords, tmp_path: Path) -> None:
    with pytest.raises(errors.StartError, match="another process"):
        FolderRecords(tmp_path).open()
    opened = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    assert opened.count(str(tmp_path / ".lock")) == 1


def test_folder_that_cannot_be_made_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.StartError, match="cannot be used"):
        FolderRecords(tmp_path / "file" / "state").open()


def test_folder_is_made_with_all_above_it_and_for_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    made = FolderRecords(folder)
    made.open()
    made.close()
    made.open()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / ".lock")] == [0o700, 0o600]
    made.close()
    made.close()


def test_folder_that_did_not_open_is_not_kept_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = FolderRecords(tmp_path)

    def fails(folder: Path) -> Iterator[Path]:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "iterdir", fails)
        with pytest.raises(errors.StartError, match="cannot be used"):
            made.open()
    other = FolderRecords(tmp_path)
    other.open()
    other.close()


async def test_files_that_are_no_records_are_left_alone(records: FolderRecords, tmp_path: Path) -> None:
    for name in (".hidden.json", "notes.txt"):
        (tmp_path / name).write_text("?")
    again = reopened(records, tmp_path)
    assert (list(await again.list()), again.damaged) == ([], {})
    assert {path.name for path in tmp_path.iterdir()} == {".lock", ".hidden.json", "notes.txt"}
    again.close()


@pytest.mark.parametrize("content", [b"", b"{", b'{"metadata": {"name": "other"}}', b"\xff"])
async def test_damaged_record_keeps_its_disk_out_and_no_other(
    records: FolderRecords, tmp_path: Path, content: bytes
) -> None:
    bad = await records.create(disk_of(records))
    good = await records.create(disk_of(records, "sdc"))
    file = tmp_path / f"{bad.key}.json"
    file.write_bytes(content)
    again = reopened(records, tmp_path)
    assert list(await again.list()) == [good]
    assert set(again.damaged) == {bad.key}
    with pytest.raises(errors.StoreDamaged):
        await again.get(bad.key)
    with pytest.raises(errors.StoreDamaged):
        await again.create(disk_of(again))
    assert file.read_bytes() == content
    again.close()


@pytest.mark.parametrize(("number", "expected"), [(errno.ENOSPC, errors.StoreFull), (errno.EIO, errors.StoreError)])
async def test_write_that_fails_leaves_the_record_as_it_was(
    records: FolderRecords,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    expected: type[errors.StoreError],
) -> None:
    made = await records.create(disk_of(records))

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(expected):
            await records.write_status(made, SEEN)
    assert await records.get(made.key) == made
    assert {path.name for path in tmp_path.iterdir()} == {".lock", f"{made.key}.json"}
    assert (await records.write_status(made, SEEN)).status == SEEN


async def test_memory_follows_the_disk_when_a_rename_is_not_known_to_be_safe(
    records: FolderRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await records.create(disk_of(records))
    real, calls = os.fsync, 0

    def fail_on_the_folder(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail_on_the_folder)
        with pytest.raises(errors.StoreError):
            await records.write_status(made, SEEN)
    found = await records.get(made.key)
    assert found is not None and found.status == SEEN
    again = reopened(records, tmp_path)
    assert await again.get(made.key) == found
    again.close()


async def test_cancelled_writer_leaves_memory_and_disk_alike(records: FolderRecords, tmp_path: Path) -> None:
    made = await records.create(disk_of(records))
    writing = asyncio.create_task(records.write_status(made, SEEN))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    # Queued behind the write that goes on without its caller.
    await records.create(disk_of(records, "sdc"))
    found = await records.get(made.key)
    assert found is not None and found.status == SEEN
    again = reopened(records, tmp_path)
    assert await again.get(made.key) == found
    again.close()


WRITER = textwrap.dedent(
    """
    import asyncio, sys
    from pathlib import Path
    from localpv.api.kinds.meta import ObjectMeta
    from localpv.api.kinds.localdisk import Cleaning, LocalDisk, LocalDiskSpec, LocalDiskStatus
    from localpv.disk.records.folder import FolderRecords

    async def main():
        records = FolderRecords(Path(sys.argv[1]))
        records.open()
        disk = await records.get("one")
        if disk is None:
            spec = LocalDiskSpec(node_name="n", storage_class_name="c", entry="e", path="/p/e", volume_mode="Block")
            disk = await records.create(LocalDisk(metadata=ObjectMeta(name="one"), spec=spec))
        done = disk.status.cleaning.bytes_done if disk.status.cleaning else 0
        while True:
            done += 1
            cleaning = Cleaning(volume_uid="u", state="Running", bytes_done=done, error="x" * 3000)
            disk = await records.write_status(disk, LocalDiskStatus(cleaning=cleaning))
            print(done, flush=True)

    asyncio.run(main())
    """
)


def killed_writer(folder: Path) -> int:
    """The last write that a process acknowledged before it was killed."""
    acknowledged = 0
    with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(15):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        for line in process.stdout.read().split("\n")[:-1]:
            acknowledged = int(line)
    return acknowledged


async def test_nothing_that_was_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    for _ in range(3):
        acknowledged = await asyncio.to_thread(killed_writer, tmp_path)
        records = FolderRecords(tmp_path)
        records.open()
        found = await records.get("one")
        records.close()
        assert found is not None and found.status.cleaning is not None
        assert acknowledged <= found.status.cleaning.bytes_done <= acknowledged + 1
        assert found.status.cleaning.error == "x" * 3000


async def test_generation_counts_changes_of_the_spec_only(records: FolderRecords) -> None:
    made = await records.create(disk_of(records))
    seen = await records.write_status(made, SEEN)
    assert seen.metadata.generation == 1
    changed = await records.write_spec(seen, structs.replace(seen.spec, fs_type="xfs"))
    assert changed.metadata.generation == 2
