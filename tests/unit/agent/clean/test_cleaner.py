"""The component: it follows the records and keeps going, whatever one disk does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.unit.agent.clean.world import CHUNKS, NODE, World

from localpv import errors
from localpv.agent.clean.cleaner import Cleaner
from localpv.agent.clean.reconciler import CleaningScope, Limits
from localpv.config.settings import Configuration


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, limits=Limits(at_once=2, hung_seconds=600.0))


@asynccontextmanager
async def running(world: World) -> AsyncIterator[Cleaner]:
    cleaner = world.cleaner()
    task = asyncio.create_task(cleaner.run())
    try:
        yield cleaner
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_orders_that_are_there_and_orders_that_come_are_done(world: World) -> None:
    early, late, never = world.add("sdb"), world.add("sdc", uid=""), world.add("sdd", uid="")
    async with running(world):
        await world.clock.advance(1)
        assert world.cleaning(early).state == "Verified"
        assert world.status(late).cleaning is None
        world.order(late, "uid-9")
        await world.clock.advance(1)
        assert (world.cleaning(late).state, world.cleaning(late).volume_uid) == ("Verified", "uid-9")
        assert len(world.disk(never).dirty) == CHUNKS


async def test_failed_disk_is_tried_again_by_itself(world: World) -> None:
    name = world.add()
    world.disk(name).fails = [errors.HostError("a bad block")]
    async with running(world):
        await world.clock.advance(5)
        assert world.cleaning(name).state == "Failed"
        await world.clock.advance(10)
        assert (world.cleaning(name).state, world.cleaning(name).attempt) == ("Verified", 2)


async def test_disk_is_cleaned_soon_after_it_was_unmounted(world: World) -> None:
    name = world.add()
    world.disk(name).users = "is mounted at /a"
    async with running(world):
        await world.clock.advance(120)
        assert world.cleaning(name).state == "Waiting"
        world.disk(name).users = ""
        await world.clock.advance(17)
        assert world.cleaning(name).state == "Verified"


async def test_all_disks_get_their_turn_and_never_more_than_allowed_at_once(world: World) -> None:
    names = [world.add(f"disk-{number}") for number in range(20)]
    async with running(world):
        await world.clock.advance(5)
    assert {world.cleaning(name).state for name in names} == {"Verified"}
    assert world.executor.most_running == 2


async def test_new_configuration_says_how_many_are_cleaned_at_once(world: World) -> None:
    names = [world.add(f"disk-{number}") for number in range(20)]
    async with running(world) as cleaner:
        cleaner.configure(Configuration(cleanings_at_once=5))
        await world.clock.advance(5)
    assert {world.cleaning(name).state for name in names} == {"Verified"}
    assert world.executor.most_running == 5


async def test_hung_disks_stop_nobody_else(world: World) -> None:
    hung = [world.add("bad-1"), world.add("bad-2")]
    for name in hung:
        world.disk(name).gate, world.disk(name).deaf = asyncio.Event(), True
    async with running(world):
        await world.clock.advance(1)
        good = world.add("good")
        await world.clock.advance(700)
        assert world.cleaning(good).state == "Verified"
        assert {world.cleaning(name).state for name in hung} <= {"Failed", "Waiting"}
        for name in hung:
            gate = world.disk(name).gate
            assert gate is not None
            gate.set()


async def test_disk_whose_order_is_taken_back_leaves_the_line(world: World) -> None:
    gate = asyncio.Event()
    first = [world.add("sdb"), world.add("sdc")]
    for name in first:
        world.disk(name).gate = gate
    async with running(world):
        await world.clock.advance(1)
        gone, last = world.add("sdd"), world.add("sde")
        await world.clock.advance(1)
        assert world.cleaning(gone).reason == "InLine"
        world.order(gone, None)
        await world.clock.advance(1)
        assert world.status(gone).cleaning is None
        gate.set()
        await world.clock.advance(5)
        assert world.cleaning(last).state == "Verified"
        assert len(world.disk(gone).dirty) == CHUNKS


async def test_deleted_record_leaves_the_line(world: World) -> None:
    gate = asyncio.Event()
    for name in [world.add("sdb"), world.add("sdc")]:
        world.disk(name).gate = gate
    async with running(world):
        await world.clock.advance(1)
        gone, last = world.add("sdd"), world.add("sde")
        await world.clock.advance(1)
        await world.records.delete(world.records.disks[gone])
        gate.set()
        await world.clock.advance(5)
        assert world.cleaning(last).state == "Verified"


async def test_stopped_cleaner_leaves_running_and_the_next_one_repeats(world: World) -> None:
    name = world.add()
    world.disk(name).gate = asyncio.Event()
    async with running(world):
        await world.clock.advance(2)
    assert world.cleaning(name).state == "Running"
    assert world.disk(name).running == 0
    world.disk(name).gate = None
    async with running(world):
        await world.clock.advance(2)
    assert (world.cleaning(name).state, world.cleaning(name).attempt) == ("Verified", 2)


async def test_conflicts_and_an_absent_server_are_waited_out(world: World) -> None:
    name = world.add()
    world.records.troubles = [errors.Conflict("x"), errors.Unavailable("x"), errors.ConnectionLost("x")]
    async with running(world):
        await world.clock.advance(10)
    assert world.cleaning(name).state == "Verified"
    assert world.disk(name).most_running == 1


async def test_cleaner_that_nobody_listens_to_cleans_too(world: World) -> None:
    name = world.add()
    cleaner = Cleaner(
        scope=CleaningScope(node=NODE),
        records=world.records,
        classes=lambda: world.settings,
        executor=world.executor,
        state_folder=world.folder,
        clock=world.clock,
    )
    task = asyncio.create_task(cleaner.run())
    try:
        await world.clock.advance(1)
        assert world.cleaning(name).state == "Verified"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
