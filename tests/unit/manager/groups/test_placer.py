"""The placer on the real engine: a group gets everything or nothing, whenever somebody dies."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.unit.engine.binder import engines
from tests.unit.engine.binder.engines import SPACE, Engine, dies_after

from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.testing.waiting import PATIENCE_SECONDS

COUNT = 3
WISH = {"volume.beta.kubernetes.io/group": json.dumps({"name": "g", "count": COUNT})}
NAMES = [f"claim-{number}" for number in range(COUNT)]


async def furnish(engine: Engine) -> None:
    for node in ("one", "two"):
        await engine.node(node)
    await engine.volume("one-0", node="one")
    for number in range(COUNT):
        await engine.volume(f"two-{number}", node="two")


async def until_available(engine: Engine) -> None:
    async def available() -> bool:
        return all(one.status.phase == "Available" for one in (await engine.volumes()).values())

    await engine.until(available, "all volumes are free")


@pytest.mark.parametrize("writes", range(2 * COUNT))
async def test_a_placer_that_dies_after_any_write_is_made_good_by_the_next(engine: Engine, writes: int) -> None:
    await furnish(engine)
    async with engines.binding(engine.client):
        await until_available(engine)
        for name in NAMES:
            await engine.claim(name, annotations=WISH)
        dying = dies_after(engine.transport, writes)
        async with engines.placing(engine.client_over(dying)):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await dying.dead.wait()
        if writes < COUNT:
            # Not all are held yet: nobody has got anything.
            assert all(not one.spec.volume_name for one in (await engine.claims()).values())
        async with engines.placing(engine.client):
            await engine.until_bound(*NAMES)
    assert {one.spec.volume_name for one in (await engine.claims()).values()} == {"two-0", "two-1", "two-2"}


async def test_what_was_held_for_a_group_that_is_no_more_is_let_go(engine: Engine) -> None:
    await furnish(engine)
    async with engines.binding(engine.client):
        await until_available(engine)
        for name in NAMES:
            await engine.claim(name, annotations=WISH)
        dying = dies_after(engine.transport, 2)
        async with engines.placing(engine.client_over(dying)):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await dying.dead.wait()
        assert sum(one.spec.claim_ref is not None for one in (await engine.volumes()).values()) == 2
        for name in NAMES:
            await engine.client.objects(PersistentVolumeClaim).delete(name, SPACE)
        async with engines.placing(engine.client):

            async def free() -> bool:
                return all(one.spec.claim_ref is None for one in (await engine.volumes()).values())

            await engine.until(free, "no volume is held any more")
    assert {one.status.phase for one in (await engine.volumes()).values()} == {"Available"}


async def test_two_groups_that_want_the_same_node_do_not_hold_half_of_it_each(engine: Engine) -> None:
    await engine.node("one")
    for number in range(COUNT):
        await engine.volume(f"one-{number}", node="one")
    groups = {name: [f"{name}-{number}" for number in range(2)] for name in ("a", "b")}
    async with (
        engines.binding(engine.client),
        engines.placing(engine.client),
    ):
        for number in range(2):
            for name, members in groups.items():
                wish = {"volume.beta.kubernetes.io/group": json.dumps({"name": name, "count": 2})}
                await engine.claim(members[number], annotations=wish)

        async def one_group_is_bound() -> bool:
            claims = await engine.claims()
            bound = [all(claims[one].status.phase == "Bound" for one in members) for members in groups.values()]
            return sum(bound) == 1

        await engine.until(one_group_is_bound, "one of the groups is bound")

        async def the_other_complains() -> bool:
            return {event.reason for event in await engine.events()} >= {"FailedBinding"}

        await engine.until(the_other_complains, "the other group says why it waits")
        assert sum(bool(one.spec.volume_name) for one in (await engine.claims()).values()) == 2
