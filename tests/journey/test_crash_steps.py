"""Killed before and after each act of the circle: no disk offered unclean, none lost, none wiped that was bound.

Agent, manager and provisioner run as they are, over a machine and an API server in memory; so every act is known, and
each gets its rounds. `test_crash_processes` does the same to real processes and disks at moments of chance.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.journey.crash_world import (
    AGENT,
    CREATE_DISK,
    CREATE_VOLUME,
    DELETE_VOLUME,
    MANAGER,
    PIECES,
    SERVER,
    WIPE,
    WRITE_SPEC,
    WRITE_STATUS,
    WRITE_VOLUME,
    Case,
    Death,
    World,
    named,
)

from localpv.api.kinds.localdisk import DiskKind
from localpv.config.settings import Reclaim

KINDS, RECLAIMS = (*DiskKind,), (Reclaim.DELETE, Reclaim.RETAIN, Reclaim.RECYCLE)
CASES = [
    # Every kind with every policy; where the records are does not depend on either, so it takes turns.
    *(Case(*parts, in_folder=bool(turn % 2)) for turn, parts in enumerate(itertools.product(KINDS, RECLAIMS))),
    *(Case(DiskKind.MOUNT_POINT, Reclaim.DELETE, in_folder, unseen=True) for in_folder in (False, True)),
]
AGENTS_ACTS = {CREATE_DISK, WRITE_STATUS, *(f"{WIPE} {piece}" for piece in range(PIECES))}
"""Part of every circle."""


def managers_acts(case: Case) -> set[str]:
    """What it does in every circle: a recycled volume stays, and one that is kept is deleted by the administrator."""
    ends = {Reclaim.DELETE: {DELETE_VOLUME}, Reclaim.RETAIN: set(), Reclaim.RECYCLE: {WRITE_VOLUME}}
    return {CREATE_VOLUME, WRITE_SPEC, *ends[case.reclaim]}


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
        assert (second["metadata"]["uid"] == first["metadata"]["uid"]) is recycled or world.death_came
        world.bind(second)
        await world.quiet()
        assert len(world.left) == PIECES, "data of the second tenant is gone"
    assert not world.broken


@pytest.mark.parametrize("case", CASES, ids=named)
@pytest.mark.seed("DEL-8", "DEL-6", "DSC-7")
async def test_killed_at_each_act_of_the_circle(case: Case, memory: Path) -> None:
    undisturbed = World(case, memory / "undisturbed")
    await go_round(undisturbed)
    acts: dict[str, Counter[str]] = {AGENT: Counter(), MANAGER: Counter(), SERVER: Counter()}
    for (who, act), times in undisturbed.acts.items():
        acts[who][act] += times
        acts[SERVER][act] += times
    always = {AGENT: AGENTS_ACTS, MANAGER: managers_acts(case), SERVER: AGENTS_ACTS | managers_acts(case)}
    for victim, after in itertools.product((MANAGER, AGENT, SERVER), (False, True)):
        assert always[victim] <= acts[victim].keys()
        for act, times in sorted(acts[victim].items()):
            # Before its death a round is an undisturbed one, so nobody gets to do more.
            for at in range(1, times + 1):
                death = Death(victim=victim, act=act, at=at, after=after)
                world = World(case, memory / f"{victim}-{after}-{act}-{at}", death=death)
                await go_round(world)
                if not death.came:
                    assert at > 1 or act not in always[victim], f"nobody died at {act!r} of the {victim}"
                    break


def test_all_kinds_and_policies_go_round() -> None:
    assert {(case.kind, case.reclaim) for case in CASES} == set(itertools.product(KINDS, RECLAIMS))
    assert {case.in_folder for case in CASES} == {True, False}
