"""The process dies between any two steps: the disk is clean exactly when the record says so, and always in the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.agent.clean.world import Killed, World

from localpv import errors


async def _lives_until(world: World, name: str, *, dies_at: int) -> bool:
    """One life of the process; whether it came to the end of its work."""
    world.start(dies_at=dies_at)
    try:
        await world.to_end(name)
    except Killed:
        world.check_rules(name)
        return False
    world.check_rules(name)
    return True


async def _calls_of_a_whole_life(folder: Path) -> int:
    world = World(folder)
    name = world.add()
    fuse = world.start()
    await world.to_end(name)
    return fuse.count


@pytest.mark.seed("DEL-8", "DEL-6")
async def test_killed_anywhere_the_disk_is_cleaned_by_the_next_process(tmp_path: Path) -> None:
    calls = await _calls_of_a_whole_life(tmp_path)
    assert calls > 10
    for point in range(1, calls + 1):
        world = World(tmp_path)
        name = world.add()
        assert not await _lives_until(world, name, dies_at=point)
        assert await _lives_until(world, name, dies_at=0)
        assert world.cleaning(name).state == "Verified", f"killed at call {point}"
        assert not world.disk(name).dirty


@pytest.mark.seed("DEL-8")
async def test_killed_twice_anywhere_it_is_still_never_skipped(tmp_path: Path) -> None:
    calls = await _calls_of_a_whole_life(tmp_path)
    for first in range(1, calls + 1):
        for second in range(1, calls + 1):
            world = World(tmp_path)
            name = world.add()
            await _lives_until(world, name, dies_at=first)
            await _lives_until(world, name, dies_at=second)
            await _lives_until(world, name, dies_at=0)
            assert world.cleaning(name).state == "Verified", f"killed at calls {first} and {second}"
            assert not world.disk(name).dirty


async def test_killed_anywhere_around_a_failure_it_waits_and_tries_again(tmp_path: Path) -> None:
    for point in range(1, 40):
        world = World(tmp_path)
        name = world.add()
        world.disk(name).fails = [errors.HostError("a bad block")]
        await _lives_until(world, name, dies_at=point)
        await _lives_until(world, name, dies_at=0)
        assert world.cleaning(name).state == "Verified", f"killed at call {point}"
        assert not world.disk(name).dirty


async def test_another_disk_after_a_crash_is_left_alone(tmp_path: Path) -> None:
    calls = await _calls_of_a_whole_life(tmp_path)
    for point in range(1, calls - 2):
        world = World(tmp_path)
        name = world.add()
        await _lives_until(world, name, dies_at=point)
        # The machine was off, and somebody has put another disk in.
        world.disk(name).identity, world.disk(name).dirty = "serial-new", {0, 1, 2, 3}
        world.start()
        await world.step(name)
        assert world.disk(name).dirty == {0, 1, 2, 3}, f"killed at call {point}"
        assert (world.cleaning(name).state, world.cleaning(name).reason) == ("Failed", "IdentityChanged")


async def test_every_life_counts_its_attempt(tmp_path: Path) -> None:
    world = World(tmp_path)
    name = world.add()
    begun = 0
    for _ in range(3):
        await _lives_until(world, name, dies_at=8)
        begun += 1
        assert (world.cleaning(name).state, world.cleaning(name).attempt) == ("Running", begun)
    await _lives_until(world, name, dies_at=0)
    assert world.cleaning(name).attempt == begun + 1
