"""What a cleaning under way hears of its record."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.clean.world import World

from localpv import errors
from localpv.agent.clean.progress import ORDER_SECONDS, Watched
from localpv.api.kinds.localdisk import Cleaning, DiskKind, LocalDisk, LocalDiskStatus
from localpv.host.model.methods import Progress
from localpv.testing.clock import FakeClock


class Answers:
    """Records of which somebody has taken the cleaning away, or the disk."""

    def __init__(self, disk: LocalDisk) -> None:
        self.disk: LocalDisk | None = disk
        self.written: list[LocalDiskStatus] = []

    async def write_status(self, disk: LocalDisk, status: LocalDiskStatus, *, locked: bool = True) -> LocalDisk:
        assert not locked, "progress must not fail because somebody else writes"
        self.written.append(status)
        if self.disk is None:
            raise errors.NotFound("gone")
        return self.disk

    async def get(self, name: str) -> LocalDisk | None:
        return self.disk


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    world = World(tmp_path)
    found = world.records.disks[world.add()]
    cleaning = Cleaning(volume_uid="uid", state="Running", attempt=1)
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, cleaning=cleaning))


def watched(disk: LocalDisk, records: Answers) -> Watched:
    assert disk.spec.clean is not None
    return Watched(
        disk,
        disk.spec.clean,
        records=records,  # type: ignore[arg-type]
        clock=FakeClock(),
        hung_seconds=60.0,
        on_long=lambda _: None,
        on_stall=lambda _: None,
    )


async def test_progress_goes_on_from_what_is_known_when_somebody_has_taken_the_cleaning_away(disk: LocalDisk) -> None:
    without = msgspec.structs.replace(disk, status=msgspec.structs.replace(disk.status, cleaning=None))
    records = Answers(without)
    one = watched(disk, records)
    for done in (1, 2):
        await one._write(Progress(done=done, total=4))
    states = [status.cleaning.state if status.cleaning else "" for status in records.written]
    assert states == ["Running", "Running"]
    assert not one._withdrawn


@pytest.mark.parametrize("change", ["gone", "another", "taken back", "for another"])
async def test_order_that_is_gone_or_another_one_stops_the_cleaning(disk: LocalDisk, change: str) -> None:
    records = Answers(disk)
    one = watched(disk, records)
    await one._read_order()
    assert not one._withdrawn
    order = disk.spec.clean
    assert order is not None
    match change:
        case "gone":
            records.disk = None
        case "another":
            meta = msgspec.structs.replace(disk.metadata, uid="another")
            records.disk = msgspec.structs.replace(disk, metadata=meta)
        case "taken back":
            records.disk = msgspec.structs.replace(disk, spec=msgspec.structs.replace(disk.spec, clean=None))
        case "for another":
            other = msgspec.structs.replace(order, claim_uid="another")
            records.disk = msgspec.structs.replace(disk, spec=msgspec.structs.replace(disk.spec, clean=other))
    await one._read_order()
    assert one._withdrawn


async def test_record_that_is_gone_when_progress_is_written_stops_the_cleaning(disk: LocalDisk) -> None:
    records = Answers(disk)
    records.disk = None
    one = watched(disk, records)
    await one._write(Progress(done=1))
    assert one._withdrawn


async def test_another_method_in_the_order_is_for_the_next_attempt(disk: LocalDisk) -> None:
    order = disk.spec.clean
    assert order is not None
    other = msgspec.structs.replace(order, method=("zero",))
    records = Answers(msgspec.structs.replace(disk, spec=msgspec.structs.replace(disk.spec, clean=other)))
    one = watched(disk, records)
    await one._read_order()
    assert not one._withdrawn


@pytest.mark.parametrize(
    ("kind", "counted"),
    [(DiskKind.BLOCK_DEVICE, (2, 4, 0)), (DiskKind.DIRECTORY, (0, 0, 2)), (DiskKind.MOUNT_POINT, (0, 0, 2))],
)
async def test_bytes_are_counted_on_devices_and_entries_in_directories(
    disk: LocalDisk, kind: DiskKind, counted: tuple[int, int, int]
) -> None:
    disk = msgspec.structs.replace(disk, status=msgspec.structs.replace(disk.status, kind=kind))
    records = Answers(disk)
    await watched(disk, records)._write(Progress(done=2, total=4))
    cleaning = records.written[0].cleaning
    assert cleaning is not None
    assert (cleaning.bytes_done or 0, cleaning.bytes_total or 0, cleaning.entries_done or 0) == counted


async def test_record_is_read_after_a_while_in_which_there_is_nothing_to_tell(disk: LocalDisk) -> None:
    records = Answers(disk)
    one = watched(disk, records)
    for now, moves, does in (
        (0.0, False, "nothing"),
        (ORDER_SECONDS - 1, False, "nothing"),
        (ORDER_SECONDS, False, "reads"),
        (ORDER_SECONDS + 1, False, "nothing"),
        (ORDER_SECONDS + 2, True, "writes"),
        (2 * ORDER_SECONDS + 1, False, "nothing"),
        (2 * ORDER_SECONDS + 2, False, "reads"),
    ):
        before, one._writing = len(records.written), None
        if moves:
            one._moves(Progress(done=1, total=4))
        one._write_progress(now)
        writing: asyncio.Task[None] | None = one._writing
        if writing is not None:
            await writing
        wrote = len(records.written) > before
        assert (writing is not None, wrote) == (does != "nothing", does == "writes"), now
