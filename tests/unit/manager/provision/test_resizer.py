"""Larger volumes: with the reservation before the growth, and a way back from too much."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.manager.provision.pool_world import Dies, PoolWorld
from tests.unit.volume.pools import GI

from localpv.api.kinds.localpool import PoolVolume
from localpv.api.kinds.volumes import PersistentVolumeClaim, StorageClass

STORAGE = "storage"


async def _until_stage(world: PoolWorld, stage: str, **allocated: Any) -> PersistentVolumeClaim:
    async def there() -> bool:
        status = (await world.get_claim()).status
        return status.allocated_resource_statuses.get(STORAGE, "") == stage and (
            not allocated or dict(status.allocated_resources) == allocated
        )

    await world.until(there, f"the claim says {stage} {allocated}")
    return await world.get_claim()


def _conditions(claim: PersistentVolumeClaim) -> dict[str, str]:
    return {one.type: one.message for one in claim.status.conditions}


async def test_a_volume_with_a_file_system_grows_and_waits_for_its_node(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool()
    async with world.everybody():
        await world.claim()
        await world.bound()
        await world.request("5Gi")
        claim = await _until_stage(world, "NodeResizePending", storage="5Gi")

    [volume] = (await world.volumes()).values()
    [order] = (await world.orders()).values()
    assert volume.spec.capacity == {"storage": "5Gi"}
    assert order.spec.size_bytes == order.status.size_bytes == 5 * GI
    assert [*_conditions(claim)] == ["FileSystemResizePending"]
    assert claim.status.capacity == {"storage": "1Gi"}
    await world.until_event("Require file system resize", reason="FileSystemResizeRequired")


async def test_a_raw_volume_has_grown_when_its_device_has(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool()
    async with world.everybody():
        await world.claim(volumeMode="Block")
        await world.bound()
        await world.request("5Gi")

        async def grown() -> bool:
            return (await world.get_claim()).status.capacity == {"storage": "5Gi"}

        await world.until(grown, "the claim has its size")

    claim = await world.get_claim()
    assert _conditions(claim) == {} and not claim.status.allocated_resource_statuses


async def test_without_room_nothing_is_promised_and_the_claim_may_ask_for_less(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool(size=10 * GI)
    async with world.everybody():
        await world.claim()
        await world.bound()
        await world.request("50Gi")
        claim = await _until_stage(world, "ControllerResizeInfeasible", storage="50Gi")
        assert "40Gi less than needed" in _conditions(claim)["ControllerResizeError"]
        [order] = (await world.orders()).values()
        assert order.spec.size_bytes == GI
        await world.until_event("40Gi less than needed", reason="VolumeResizeFailed")
        await world.request("8Gi")
        claim = await _until_stage(world, "NodeResizePending", storage="8Gi")

    assert [*_conditions(claim)] == ["FileSystemResizePending"]
    assert max(world.agent.most.values()) == 8 * GI


async def test_a_claim_that_waits_for_room_grows_when_there_is_some(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool(size=10 * GI)
    async with world.everybody():
        await world.claim()
        await world.bound()
        await world.request("50Gi")
        await _until_stage(world, "ControllerResizeInfeasible", storage="50Gi")
        await world.measures(capacityBytes=100 * GI)
        await _until_stage(world, "NodeResizePending", storage="50Gi")


async def test_a_promise_that_the_agent_cannot_keep_is_taken_back(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool()

    def refuse(order: PoolVolume) -> tuple[str, str] | None:
        return ("RESOURCE_EXHAUSTED", "the pool is full") if order.spec.size_bytes > 2 * GI else None

    world.agent.refuse = refuse
    async with world.everybody():
        await world.claim()
        await world.bound()
        await world.request("5Gi")
        await _until_stage(world, "ControllerResizeInfeasible", storage="5Gi")

        async def taken_back() -> bool:
            [order] = (await world.orders()).values()
            return order.spec.size_bytes == GI

        await world.until(taken_back, "the promise is taken back")
        await world.request("2Gi")
        await _until_stage(world, "NodeResizePending", storage="2Gi")


async def test_a_class_that_allows_no_growth_gives_none(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool()
    async with world.everybody():
        await world.claim()
        await world.bound()
        await world.client.objects(StorageClass).patch("fast", {"allowVolumeExpansion": False})
        patch = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
        objects = world.client.objects(PersistentVolumeClaim)
        try:
            await objects.patch("data", patch, "default")
        except Exception as error:
            assert "expan" in str(error).lower() or "resize" in str(error).lower()  # a server that refuses it itself
        await world.claim("later")
        await world.bound("later")

    assert {one.spec.size_bytes for one in (await world.orders()).values()} == {GI}


@pytest.mark.parametrize("answered", [False, True], ids=["lost", "written"])
@pytest.mark.parametrize("writes", range(4))
async def test_whoever_comes_after_a_crash_finishes_the_growth(world: PoolWorld, writes: int, answered: bool) -> None:
    await world.storage_class()
    await world.node_with_pool()
    async with world.cluster():
        async with world.provisioning():
            await world.claim()
            await world.bound()
        dying = Dies(world.engine.transport, writes, answered=answered)
        async with world.provisioning(dying):
            await world.request("5Gi")

            async def over() -> bool:
                stage = (await world.get_claim()).status.allocated_resource_statuses.get(STORAGE)
                return dying.dead.is_set() or stage == "NodeResizePending"

            await world.until(over, "it died, or the volume has grown")
        async with world.provisioning():
            await _until_stage(world, "NodeResizePending", storage="5Gi")

    [volume] = (await world.volumes()).values()
    assert volume.spec.capacity == {"storage": "5Gi"}
    assert max(world.agent.most.values()) == 5 * GI
