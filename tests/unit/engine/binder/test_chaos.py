"""Claims and volumes come and go at random while two binders are at work: what must never be, never is."""

from __future__ import annotations

import contextlib
import random

import pytest
from tests.unit.engine.binder import engines
from tests.unit.engine.binder.engines import SPACE, Engine

from localpv import errors
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim

STEPS = 120
SIZES = ("1Gi", "5Gi", "20Gi")


async def _step(engine: Engine, dice: random.Random, number: int) -> None:
    match dice.choice(("volume", "volume", "claim", "claim", "claim", "drop claim", "drop volume", "free")):
        case "volume":
            await engine.volume(f"volume-{number}", capacity={"storage": dice.choice(SIZES)})
        case "claim":
            wanted = {"requests": {"storage": dice.choice(SIZES)}}
            # Few names, so that claims are often made anew under a name that a volume still knows.
            await engine.claim(f"claim-{dice.randrange(12)}", resources=wanted)
        case "drop claim":
            if claims := [*await engine.claims()]:
                await engine.client.objects(PersistentVolumeClaim).delete(dice.choice(claims), SPACE)
        case "drop volume":
            if volumes := [*await engine.volumes()]:
                await engine.client.objects(PersistentVolume).delete(dice.choice(volumes))
        case "free":
            released = [one for one in (await engine.volumes()).values() if one.status.phase == "Released"]
            for one in released:
                await engine.client.objects(PersistentVolume).patch(one.key, {"spec": {"claimRef": None}})


async def _check_never(engine: Engine) -> None:
    """What must hold at every moment, also half-way through a binding."""
    claims = await engine.claims()
    complete = [one for one in claims.values() if "pv.kubernetes.io/bind-completed" in one.metadata.annotations]
    names = [one.spec.volume_name for one in complete]
    assert len(names) == len(set(names)), "two claims have one volume"


@pytest.mark.parametrize("seed", range(4))
async def test_no_volume_has_two_claims_and_everything_settles(engine: Engine, seed: int) -> None:
    dice = random.Random(seed)
    async with engines.binding(engine.client), engines.binding(engine.client):
        for number in range(STEPS):
            # Others finish deletions in between, and names are taken.
            with contextlib.suppress(errors.NotFound, errors.AlreadyExists):
                await _step(engine, dice, number)
            await _check_never(engine)

        async def settled() -> bool:
            claims, volumes = await engine.claims(), await engine.volumes()
            free = [one for one in volumes.values() if one.spec.claim_ref is None]
            for claim in claims.values():
                if claim.status.phase == "Pending":
                    if any(_holds(one, claim) for one in free):
                        return False
                elif claim.status.phase == "Bound" and not engines.is_whole(claim, volumes):
                    return False
            by_uid = {claim.metadata.uid: claim for claim in claims.values()}
            for volume in volumes.values():
                reference = volume.spec.claim_ref
                if reference is None:
                    expected = "Available"
                else:
                    owner = by_uid.get(reference.uid)
                    expected = "Bound" if owner is not None else "Released"
                    if owner is not None and owner.spec.volume_name != volume.key:
                        return False
                if volume.status.phase != expected:
                    return False
            return True

        await engine.until(
            settled, f"seed {seed}: every claim that can have a volume has one, and all phases are right"
        )


def _holds(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    sizes = {size: rank for rank, size in enumerate(SIZES)}
    wanted = claim.spec.resources.requests["storage"]
    return not volume.metadata.deleting and sizes[volume.spec.capacity["storage"]] >= sizes[wanted]
