"""From a released volume back to free space, and what stays with Retain."""

from __future__ import annotations

import pytest
from tests.unit.manager.provision.pool_world import PoolWorld

from localpv.api import well_known
from localpv.api.kinds.localpool import PoolVolume
from localpv.api.kinds.volumes import PersistentVolume
from localpv.disk import labels
from localpv.manager.provision.deleter import Deleter


async def test_a_released_volume_goes_when_its_bytes_are_wiped_and_not_before(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool()
    async with world.everybody():
        await world.claim()
        volume = await world.bound()
        world.agent.paused = True
        await world.delete_claim()

        async def withdrawn() -> bool:
            order = (await world.orders())[volume.key]
            return order.metadata.deleting and labels.PROTECTED not in order.metadata.finalizers

        await world.until(withdrawn, "the agent may wipe")
        assert (await world.volumes())[volume.key].status.phase == "Released"
        world.agent.paused = False
        await world.until_empty()

    assert world.agent.wiped == {volume.key: 1}


async def test_what_keeps_a_volume_from_being_wiped_is_said(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool()
    async with world.everybody():
        await world.claim()
        volume = await world.bound()
        world.agent.paused = True
        await world.delete_claim()

        async def withdrawn() -> bool:
            return (await world.orders())[volume.key].metadata.deleting

        await world.until(withdrawn, "the volume is withdrawn")
        status = {"phase": "Deleting", "code": "FAILED_PRECONDITION", "message": "a pod has it mounted"}
        await world.client.objects(PoolVolume).patch(volume.key, {"status": status}, subresource="status")
        await world.until_event("a pod has it mounted", name=volume.key, reason="VolumeFailedDelete")
        assert volume.key in await world.volumes()


async def test_a_retained_volume_keeps_its_bytes_also_when_somebody_deletes_it(world: PoolWorld) -> None:
    await world.storage_class(reclaim_policy="Retain")
    await world.node_with_pool()
    async with world.everybody():
        await world.claim()
        volume = await world.bound()

        async def let_go() -> bool:
            present = (await world.volumes())[volume.key]
            return well_known.PROVISIONER_FINALIZER not in present.metadata.finalizers

        await world.until(let_go, "nothing of ours keeps the volume")
        await world.delete_claim()

        async def released() -> bool:
            return (await world.volumes())[volume.key].status.phase == "Released"

        await world.until(released, "the volume is released")
        await world.client.objects(PersistentVolume).patch(volume.key, {"metadata": {"finalizers": None}})
        await world.client.objects(PersistentVolume).delete(volume.key)
        # A fence: what comes later in the same queue is done.
        await world.claim("later")
        await world.bound("later")
        assert volume.key in world.agent.held
        assert not (await world.orders())[volume.key].metadata.deleting
        # Until somebody says that the bytes are not needed.
        patch = {"metadata": {"annotations": {labels.RETAINED: None}}}
        await world.client.objects(PoolVolume).patch(volume.key, patch)

        async def wiped() -> bool:
            return volume.key not in await world.orders()

        await world.until(wiped, "the bytes are gone")

    assert world.agent.wiped == {volume.key: 1}


async def test_bytes_are_said_to_stay_also_by_a_manager_that_has_heard_of_the_volume_only(
    world: PoolWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its two watches are not equally fast, and once the volume is let go nobody would say it any more."""
    monkeypatch.setattr(Deleter, "_order_of", lambda self, volume: None)
    await world.storage_class(reclaim_policy="Retain")
    await world.node_with_pool()
    async with world.everybody():
        await world.claim()
        volume = await world.bound()

        async def let_go() -> bool:
            present = (await world.volumes())[volume.key]
            return well_known.PROVISIONER_FINALIZER not in present.metadata.finalizers

        await world.until(let_go, "nothing of ours keeps the volume")
        assert labels.RETAINED in (await world.orders())[volume.key].metadata.annotations


async def test_a_policy_that_is_changed_to_delete_is_followed(world: PoolWorld) -> None:
    await world.storage_class(reclaim_policy="Retain")
    await world.node_with_pool()
    async with world.everybody():
        await world.claim()
        volume = await world.bound()

        async def retained() -> bool:
            return labels.RETAINED in (await world.orders())[volume.key].metadata.annotations

        await world.until(retained, "the bytes are to stay")
        patch = {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
        await world.client.objects(PersistentVolume).patch(volume.key, patch)

        async def held() -> bool:
            present = (await world.volumes())[volume.key]
            return well_known.PROVISIONER_FINALIZER in present.metadata.finalizers and not await retained()

        await world.until(held, "the volume is held again")
        await world.delete_claim()
        await world.until_empty()


async def test_orders_that_somebody_deletes_by_hand_are_not_wiped_under_a_bound_claim(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool()
    async with world.everybody():
        await world.claim()
        volume = await world.bound()
        await world.client.objects(PoolVolume).delete(volume.key)
        await world.claim("later")
        await world.bound("later")
        assert (await world.orders())[volume.key].metadata.deleting
        assert volume.key in world.agent.held and not world.agent.wiped
        for name in ("data", "later"):
            await world.delete_claim(name)
        await world.until_empty()


@pytest.mark.parametrize("driver", ["localpv.dev", "other.example.com"])
async def test_volumes_that_somebody_else_made_are_left_alone(world: PoolWorld, driver: str) -> None:
    await world.storage_class()
    await world.node_with_pool()
    async with world.everybody():
        theirs = {
            "metadata": {"name": "theirs", "annotations": {well_known.PROVISIONED_BY: driver}},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": "none",
                "csi": {"driver": driver, "volumeHandle": "fast/theirs"},
            },
        }
        await world.client.objects(PersistentVolume).create_from(theirs)
        await world.client.objects(PersistentVolume).patch(
            "theirs", {"status": {"phase": "Released"}}, subresource="status"
        )
        await world.claim()
        await world.bound()

    assert not (await world.volumes())["theirs"].metadata.deleting
