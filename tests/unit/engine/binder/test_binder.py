"""The binder on the real engine: crashes, rivals, and what it is not sure of."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.engine.binder import engines
from tests.unit.engine.binder.engines import SPACE, Elsewhere, Engine, Interrupts, dies_after

from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.engine.binder import binder as binders
from localpv.testing.waiting import PATIENCE_SECONDS

CLAIMS = "/api/v1/persistentvolumeclaims"


@pytest.mark.parametrize("writes", range(6))
async def test_a_binder_that_dies_after_any_write_is_made_good_by_the_next(engine: Engine, writes: int) -> None:
    for name in ("one", "two"):
        await engine.volume(name)
    await engine.claim("only")
    dying = dies_after(engine.transport, writes)
    async with engines.binding(engine.client_over(dying), workers=1):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await dying.dead.wait()
    async with engines.binding(engine.client):
        await engine.until_bound("only")

        async def other_is_free() -> bool:
            volumes = await engine.volumes()
            return sorted(one.status.phase for one in volumes.values()) == ["Available", "Bound"]

        await engine.until(other_is_free, "the other volume is free")
        claims = await engine.claims()
        named = [one for one in (await engine.volumes()).values() if one.spec.claim_ref is not None]
        assert [one.key for one in named] == [claims["only"].spec.volume_name]


async def test_two_binders_at_once_never_give_one_volume_to_two_claims(engine: Engine) -> None:
    names = [f"number-{number:02}" for number in range(20)]
    async with engines.binding(engine.client), engines.binding(engine.client):
        for name in names:
            await engine.volume(name)
            await engine.claim(name)
        await engine.until_bound(*names)
        claims = await engine.claims()
        assert len({one.spec.volume_name for one in claims.values()}) == len(names)


async def test_claims_beyond_the_volumes_get_them_one_by_one_as_they_come(engine: Engine) -> None:
    await engine.storage_class()
    async with engines.binding(engine.client):
        for number in range(10):
            await engine.claim(f"claim-{number}")
        for number in range(10):
            # Of falling sizes, so that claims are woken for one volume and find a better one.
            await engine.volume(f"volume-{number}", capacity={"storage": f"{20 - number}Gi"})
        await engine.until_bound(*(f"claim-{number}" for number in range(10)))


async def test_a_volume_is_not_released_because_its_claim_was_not_heard_of(engine: Engine) -> None:
    claim = await engine.claim("here")
    reference = {"namespace": SPACE, "name": "here", "uid": claim.metadata.uid}
    await engine.volume("held", claimRef=reference)
    gone = {"namespace": SPACE, "name": "gone", "uid": "00000000-0000-4000-8000-000000000001"}
    await engine.volume("released", claimRef=gone)
    deaf = Elsewhere(engine.transport, CLAIMS, "/api/v1/namespaces/nowhere/persistentvolumeclaims")
    async with engines.binding(engine.client_over(deaf)):

        async def other_is_released() -> bool:
            return (await engine.volumes())["released"].status.phase == "Released"

        await engine.until(other_is_released, "the other volume is released")
        assert (await engine.volumes())["held"].status.phase != "Released"


async def test_a_claim_is_not_lost_because_its_volume_was_not_heard_of(engine: Engine) -> None:
    await engine.volume("there")
    await engine.claim("mine")
    async with engines.binding(engine.client):
        await engine.until_bound("mine")
    await engine.claim("marker", volumeName="nothing", annotations={"pv.kubernetes.io/bind-completed": "yes"})
    deaf = Elsewhere(engine.transport, "/api/v1/persistentvolumes", "/api/v1/nodes")
    async with engines.binding(engine.client_over(deaf)):

        async def marker_is_lost() -> bool:
            return (await engine.claims())["marker"].status.phase == "Lost"

        await engine.until(marker_is_lost, "the claim of a volume that does not exist is lost")
        assert (await engine.claims())["mine"].status.phase == "Bound"


@pytest.mark.seed("RAW-11")
async def test_a_claim_that_only_volumes_of_the_other_mode_could_serve_says_so(engine: Engine) -> None:
    await engine.storage_class()
    await engine.volume("raw", volumeMode="Block")
    await engine.claim("wants-files")
    async with engines.binding(engine.client):

        async def told() -> bool:
            return any(
                event.reason == "FailedBinding" and "1 is of another volumeMode" in event.message
                for event in await engine.events()
            )

        await engine.until(told, "an event that names the volumeMode")


async def test_a_claim_that_is_bound_at_once_leaves_no_complaint(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At once means before it is complained; on a busy machine that may be a while.
    monkeypatch.setattr(binders, "PATIENCE_SECONDS", PATIENCE_SECONDS)
    await engine.storage_class()
    async with engines.binding(engine.client):
        for number in range(5):
            await engine.claim(f"claim-{number}")
            await engine.volume(f"volume-{number}")
        await engine.until_bound(*(f"claim-{number}" for number in range(5)))
    assert await engine.events() == []


async def test_a_claim_deleted_while_nobody_looked_leaves_its_volume_released(engine: Engine) -> None:
    await engine.volume("data")
    await engine.claim("mine")
    async with engines.binding(engine.client):
        await engine.until_bound("mine")
    await engine.client.objects(PersistentVolumeClaim).delete("mine", SPACE)
    await engine.claim("mine")
    async with engines.binding(engine.client):

        async def is_released() -> bool:
            return (await engine.volumes())["data"].status.phase == "Released"

        await engine.until(is_released, "the volume is released")
    assert (await engine.claims())["mine"].status.phase == "Pending"


async def test_a_released_volume_is_offered_again_only_when_its_reference_is_taken_off(engine: Engine) -> None:
    await engine.volume("data")
    await engine.claim("first")
    async with engines.binding(engine.client):
        await engine.until_bound("first")
        await engine.client.objects(PersistentVolumeClaim).delete("first", SPACE)

        async def is_released() -> bool:
            return (await engine.volumes())["data"].status.phase == "Released"

        await engine.until(is_released, "the volume is released")
        await engine.claim("second")
        await engine.volume("other", capacity={"storage": "500Gi"})
        await engine.until_bound("second")
        assert (await engine.claims())["second"].spec.volume_name == "other"
        await engine.claim("third")
        await engine.client.objects(PersistentVolume).patch("data", {"spec": {"claimRef": None}})
        await engine.until_bound("third")


async def test_a_volume_that_a_claim_could_not_get_after_all_goes_to_the_next(engine: Engine) -> None:
    await engine.storage_class()
    async with engines.binding(engine.client):
        await engine.claim("small")
        await engine.claim("picky", selector={"matchLabels": {"disk": "ssd"}})
        await engine.claim("big", resources={"requests": {"storage": "50Gi"}})
        for number in range(3):
            await engine.volume(f"volume-{number}", capacity={"storage": "60Gi"})
        await engine.until_bound("small", "big")
        left = [one.key for one in (await engine.volumes()).values() if one.spec.claim_ref is None]
        await engine.client.objects(PersistentVolume).patch(left[0], {"metadata": {"labels": {"disk": "ssd"}}})
        await engine.until_bound("picky")


async def test_a_claim_that_goes_in_the_middle_of_its_binding_leaves_the_volume_released(engine: Engine) -> None:
    await engine.volume("data")
    await engine.claim("short")

    async def lose_claim() -> None:
        await engine.client.objects(PersistentVolumeClaim).delete("short", SPACE)
        # The watch shall be faster than the answer to the write.
        await asyncio.sleep(0.3)

    interrupted = Interrupts(engine.transport, lose_claim)
    async with engines.binding(engine.client_over(interrupted)):

        async def is_released() -> bool:
            return (await engine.volumes())["data"].status.phase == "Released"

        await engine.until(is_released, "the volume is released")


async def test_a_volume_that_somebody_else_reserves_in_the_middle_is_bound_as_they_say(engine: Engine) -> None:
    await engine.volume("data")
    first = await engine.claim("first")
    await engine.volume("other", capacity={"storage": "500Gi"})

    async def reserve_for_another() -> None:
        other = await engine.claim("second", resources={"requests": {"storage": "100Gi"}})
        reference = {"namespace": SPACE, "name": "second", "uid": other.metadata.uid}
        await engine.client.objects(PersistentVolume).patch("other", {"spec": {"claimRef": reference}})

    interrupted = Interrupts(engine.transport, reserve_for_another)
    async with engines.binding(engine.client_over(interrupted)):
        await engine.until_bound("first", "second")
    claims = await engine.claims()
    assert (claims["first"].metadata.uid, claims["first"].spec.volume_name) == (first.metadata.uid, "data")
    assert claims["second"].spec.volume_name == "other"
