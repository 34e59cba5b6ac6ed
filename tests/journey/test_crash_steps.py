"""Killed before and after each act of the circle: no disk offered unclean, none lost, none wiped that was bound.

Agent, manager and provisioner run as they are, over a machine and an API server in memory; so every act is known, and
each gets its rounds. `test_crash_processes` does the same to real processes and disks at moments of chance.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.journey.crash_world import AGENT, MANAGER, PIECES, SERVER, Case, Death, World, named, plus

from localpv.api.kinds.localdisk import DiskKind
from localpv.lifecycle.config.settings import Reclaim

KINDS, RECLAIMS = (*DiskKind,), (Reclaim.DELETE, Reclaim.RETAIN, Reclaim.RECYCLE)
CASES = [
    # Every kind with every policy; where the records are does not depend on either, so it takes turns.
    *(Case(*parts, in_folder=bool(turn % 2)) for turn, parts in enumerate(itertools.product(KINDS, RECLAIMS))),
    *(Case(DiskKind.MOUNT_POINT, Reclaim.DELETE, in_folder, unseen=True) for in_folder in (False, True)),
]
LEAST_ROUNDS = 70
"""Of each case: a circle has some fifteen acts of the agent, ten of the manager, and all of them of the server."""


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: a death is not a power cut, and disks take their time."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="localpv-crash-", dir=shared) as folder:
        yield Path(folder)


async def go_round(world: World) -> None:
    """One tenant comes, goes, and the next one finds a clean disk."""
    async with world.running():
        first = await world.until(world.free_volume, "the disk is offered")
        world.bind(first)
        await world.quiet()
        assert len(world.left) == PIECES, "data of a bound volume is gone"
        world.release()
        if world.case.reclaim is Reclaim.RETAIN:
            await world.quiet()
            assert len(world.left) == PIECES, "data that was to be kept is gone"
            world.delete()
            await world.until(lambda: world.volume() is None, "the kept volume goes")
            await world.quiet()
            assert len(world.left) == PIECES, "data that was to be kept is gone"
            await world.wipe_by_hand()
        second = await world.until(world.free_volume, "the disk is offered again")
        assert not world.left
        recycled = world.case.reclaim is Reclaim.RECYCLE
        assert (second["metadata"]["uid"] == first["metadata"]["uid"]) is recycled or world.death.came
        world.bind(second)
        await world.quiet()
        assert len(world.left) == PIECES, "data of the second tenant is gone"
    assert not world.broken


@pytest.mark.parametrize("case", CASES, ids=named)
@pytest.mark.seed("DEL-8", "DEL-6", "DSC-7")
@pytest.mark.timeout(120)
async def test_killed_at_each_act_of_the_circle(case: Case, memory: Path) -> None:
    rounds = 0
    for victim in (MANAGER, AGENT, SERVER):
        for after in (False, True):
            death = Death(victim=victim, after=after)
            for at in itertools.count(1):
                world = World(case, memory / f"{victim}-{after}-{at}", death=plus(death, at=at))
                await go_round(world)
                if not world.death.came:
                    break
                rounds += 1
    assert rounds >= LEAST_ROUNDS


def test_there_are_enough_rounds() -> None:
    assert len(CASES) * LEAST_ROUNDS >= 200
    assert {(case.kind, case.reclaim) for case in CASES} == set(itertools.product(KINDS, RECLAIMS))
    assert {case.in_folder for case in CASES} == {True, False}
