"""What both sides of Records promise: LocalDisks at an API server, and in a folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs
from tests.unit.disk.records.conftest import Side

from localpv import errors
from localpv.api.kinds.localdisk import (
    Cleaning,
    CleanOrder,
    DiskIdentity,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    OfferedVolume,
)
from localpv.api.kinds.meta import ObjectMeta
from localpv.client.watching import Changed, Deleted, Synced
from localpv.disk.records import names
from localpv.disk.records.protocol import Records
from localpv.testing.waiting import PATIENCE_SECONDS

SEEN = LocalDiskStatus(
    phase="Available", eligible=True, kind="BlockDevice", identity=DiskIdentity(serial="S1", wwn="w")
)


def a_disk(side: Side, entry: str = "sdb") -> LocalDisk:
    return LocalDisk(
        metadata=ObjectMeta(name=names.disk_name(side.node, "fast", entry)),
        spec=LocalDiskSpec(
            node_name=side.node,
            storage_class_name="fast",
            entry=entry,
            path=f"/mnt/fast/{entry}",
            volume_mode="Block",
        ),
    )


@asynccontextmanager
async def watching(records: Records) -> AsyncIterator[asyncio.Queue[Any]]:
    """What a handler is told for the time of the with-block."""
    events: asyncio.Queue[Any] = asyncio.Queue()

    def changed(old: LocalDisk | None, new: LocalDisk | None) -> None:
        events.put_nowait(Changed(new) if new is not None else Deleted(old))

    task = asyncio.create_task(records.follow(changed, synced=lambda: events.put_nowait(Synced(""))))
    try:
        yield events
    finally:
        task.cancel()
        await asyncio.wait({task})


async def next_event(events: asyncio.Queue[Any]) -> Any:
    return await asyncio.wait_for(events.get(), PATIENCE_SECONDS)


async def test_record_is_found_as_it_was_created(side: Side) -> None:
    disk = a_disk(side)
    made = await side.agent.create(disk)
    assert made.spec == disk.spec
    assert made.metadata.uid and made.metadata.resource_version and made.metadata.creation_timestamp
    assert await side.manager.get(disk.key) == made
    assert list(await side.manager.list()) == [made]


async def test_record_that_is_not_there_is_none(side: Side) -> None:
    assert await side.agent.get("nothing") is None
    assert list(await side.agent.list()) == []


async def test_name_is_given_once(side: Side) -> None:
    made = await side.agent.create(a_disk(side))
    with pytest.raises(errors.AlreadyExists):
        await side.agent.create(a_disk(side))
    assert await side.agent.get(made.key) == made


async def test_name_that_leads_out_of_its_place_is_refused(side: Side) -> None:
    disk = structs.replace(a_disk(side), metadata=ObjectMeta(name="../evil"))
    with pytest.raises(errors.ApiError):
        await side.agent.create(disk)


async def test_new_record_has_no_status_until_it_is_written(side: Side) -> None:
    made = await side.agent.create(structs.replace(a_disk(side), status=SEEN))
    assert made.status == LocalDiskStatus()
    written = await side.agent.write_status(made, SEEN)
    assert written.status == SEEN
    assert await side.manager.get(made.key) == written


async def test_manager_and_agent_write_their_parts_and_leave_the_others(side: Side) -> None:
    seen = await side.agent.write_status(await side.agent.create(a_disk(side)), SEEN)
    spec = structs.replace(seen.spec, volume=OfferedVolume(name="local-pv-1"), identity=SEEN.identity)
    offered = await side.manager.write_spec(seen, spec)
    assert (offered.spec, offered.status) == (spec, SEEN)
    cleaning = Cleaning(volume_uid="u", state="Running", attempt=1)
    status = structs.replace(offered.status, phase="Cleaning", eligible=False, cleaning=cleaning)
    cleaned = await side.agent.write_status(offered, status)
    assert (cleaned.spec, cleaned.status) == (spec, status)


async def test_what_is_taken_back_is_gone(side: Side) -> None:
    made = await side.agent.create(a_disk(side))
    order = CleanOrder(volume_name="pv", volume_uid="u", method=("dd-zero", "1"), requested_at="2030-01-01T00:00:00Z")
    ordered = await side.manager.write_spec(
        made, structs.replace(made.spec, clean=order, volume=OfferedVolume(name="pv", uid="u"), identity=SEEN.identity)
    )
    assert ordered.spec.clean == order
    cleared = await side.manager.write_spec(
        ordered, structs.replace(ordered.spec, clean=None, volume=None, identity=None)
    )
    assert cleared.spec == made.spec
    found = await side.manager.get(made.key)
    assert found is not None and found.spec == made.spec


async def test_identity_of_another_disk_replaces_the_old_one_wholly(side: Side) -> None:
    seen = await side.agent.write_status(await side.agent.create(a_disk(side)), SEEN)
    status = structs.replace(seen.status, identity=DiskIdentity(serial="S2", by_id=("x",)))
    assert (await side.agent.write_status(seen, status)).status.identity == DiskIdentity(serial="S2", by_id=("x",))


async def test_write_that_somebody_else_overtook_is_a_conflict(side: Side) -> None:
    made = await side.agent.create(a_disk(side))
    await side.agent.write_status(made, SEEN)
    with pytest.raises(errors.Conflict):
        await side.manager.write_spec(made, structs.replace(made.spec, volume=OfferedVolume(name="pv")))
    with pytest.raises(errors.Conflict):
        await side.agent.write_status(made, LocalDiskStatus(phase="Missing"))
    found = await side.manager.get(made.key)
    assert found is not None and found.spec.volume is None and found.status == SEEN


async def test_progress_needs_no_lock_and_changes_nothing_else(side: Side) -> None:
    made = await side.agent.create(a_disk(side))
    running = LocalDiskStatus(phase="Cleaning", cleaning=Cleaning(volume_uid="u", state="Running", bytes_done=1))
    begun = await side.agent.write_status(made, running)
    await side.manager.write_spec(begun, structs.replace(begun.spec, volume=OfferedVolume(name="pv")))
    cleaning = Cleaning(volume_uid="u", state="Running", bytes_done=2)
    told = await side.agent.write_status(begun, structs.replace(running, cleaning=cleaning), locked=False)
    assert told.spec.volume == OfferedVolume(name="pv")
    assert told.status.cleaning == cleaning


async def test_record_is_never_mistaken_for_its_successor(side: Side) -> None:
    old = await side.agent.create(a_disk(side))
    await side.agent.delete(old)
    new = await side.agent.create(a_disk(side))
    with pytest.raises(errors.Conflict):
        await side.agent.write_status(old, SEEN, locked=False)
    with pytest.raises(errors.Conflict):
        await side.agent.delete(old)
    assert await side.agent.get(new.key) == new


async def test_writing_what_is_there_changes_no_version(side: Side) -> None:
    seen = await side.agent.write_status(await side.agent.create(a_disk(side)), SEEN)
    assert await side.agent.write_status(seen, SEEN) is seen
    assert await side.manager.write_spec(seen, seen.spec) is seen
    assert await side.agent.get(seen.key) == seen


async def test_write_to_a_record_that_is_gone_says_so(side: Side) -> None:
    made = await side.agent.create(a_disk(side))
    await side.agent.delete(made)
    with pytest.raises(errors.NotFound):
        await side.agent.write_status(made, SEEN)
    with pytest.raises(errors.NotFound):
        await side.manager.write_spec(made, structs.replace(made.spec, volume=OfferedVolume(name="pv")))


async def test_deleting_takes_only_what_was_seen_and_may_be_repeated(side: Side) -> None:
    made = await side.agent.create(a_disk(side))
    seen = await side.agent.write_status(made, SEEN)
    with pytest.raises(errors.Conflict):
        await side.agent.delete(made)
    await side.agent.delete(seen)
    assert await side.agent.get(made.key) is None
    await side.agent.delete(seen)


async def test_watcher_hears_of_all_that_is_there_and_then_of_changes(side: Side) -> None:
    one = await side.agent.create(a_disk(side, "sdb"))
    two = await side.agent.create(a_disk(side, "sdc"))
    async with watching(side.manager) as events:
        first = [await next_event(events), await next_event(events)]
        assert {event.object.key for event in first} == {one.key, two.key}
        assert isinstance(await next_event(events), Synced)
        seen = await side.agent.write_status(one, SEEN)
        assert await next_event(events) == Changed(seen)
        await side.agent.delete(two)
        gone = await next_event(events)
        assert isinstance(gone, Deleted) and gone.object.key == two.key


async def test_watcher_of_nothing_hears_that_there_is_nothing(side: Side) -> None:
    async with watching(side.manager) as events:
        assert isinstance(await next_event(events), Synced)
        made = await side.agent.create(a_disk(side))
        assert await next_event(events) == Changed(made)


async def test_slow_watcher_misses_no_end(side: Side) -> None:
    disk = await side.agent.create(a_disk(side))
    async with watching(side.manager) as events:
        await next_event(events)
        assert isinstance(await next_event(events), Synced)
        for done in range(1, 20):
            cleaning = Cleaning(volume_uid="u", state="Running", bytes_done=done)
            disk = await side.agent.write_status(disk, LocalDiskStatus(cleaning=cleaning))
        heard = await next_event(events)
        while heard != Changed(disk):
            heard = await next_event(events)


async def test_all_that_follow_have_heard_of_a_write_when_it_returns_and_hear_of_it_once(side: Side) -> None:
    async with watching(side.agent) as one, watching(side.agent) as two:
        for events in (one, two):
            assert isinstance(await next_event(events), Synced)
        made = await side.agent.create(a_disk(side))
        seen = await side.agent.write_status(made, SEEN)
        for events in (one, two):
            assert [events.get_nowait(), events.get_nowait()] == [Changed(made), Changed(seen)]
        await side.agent.delete(seen)
        fence = await side.agent.create(a_disk(side, "fence"))
        for events in (one, two):
            gone = await next_event(events)
            assert isinstance(gone, Deleted) and gone.object.key == made.key
            assert await next_event(events) == Changed(fence)


async def test_many_records_are_written_at_once(side: Side) -> None:
    made = await asyncio.gather(*(side.agent.create(a_disk(side, f"disk{number}")) for number in range(50)))
    await asyncio.gather(*(side.agent.write_status(disk, SEEN) for disk in made))
    assert [disk.status for disk in await side.agent.list()] == [SEEN] * 50
