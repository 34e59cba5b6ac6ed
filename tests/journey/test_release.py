"""From a released volume to a clean disk and a volume again; and what becomes of volumes whose disk or node is gone."""

from __future__ import annotations

import contextlib

import pytest
from tests.journey.place import Place

from localpv import errors
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localdisk import (
    CleaningState,
    Phase,
)
from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.config.settings import NodeLoss, NodeLossPolicy, Reclaim


@pytest.mark.seed("DEL-1", "DEL-6", "DSC-2")
async def test_released_disk_is_offered_again_only_after_a_verified_cleaning(place: Place) -> None:
    await place.set_up()
    async with place.managed(workers=1):
        disk = await place.finds()
        first = await place.published(disk.key)
        await place.claims(first.key)
        await place.phase(first.key, "Released")

        ordered = await place.until_disk(disk.key, lambda disk: disk.spec.clean is not None)
        assert ordered.spec.clean.volume_uid == first.metadata.uid
        await place.cleans(disk.key, CleaningState.RUNNING)
        later = await place.fence()
        (still,) = (each for each in await place.own_volumes() if each.key != later)
        assert (still.metadata.uid, still.metadata.deleting) == (first.metadata.uid, False)

        await place.cleans(disk.key)
        await place.until_gone(first.key)
        await place.until_disk(disk.key, lambda disk: disk.spec.volume is None)
        await place.reports(disk.key, phase=Phase.AVAILABLE, eligible=True)
        second = await place.published(disk.key)
        assert (second.key, second.metadata.uid == first.metadata.uid) == (first.key, False)
        for reason in ("VolumePublished", "CleaningStarted", "CleaningFinished", "VolumeDelete"):
            await place.until_told(first.key, reason)


@pytest.mark.seed("DEL-9")
async def test_volume_deleted_by_hand_during_its_cleaning_comes_back_only_after_it(place: Place) -> None:
    await place.set_up()
    async with place.managed(workers=1):
        disk = await place.finds()
        first = await place.published(disk.key)
        await place.claims(first.key)
        await place.phase(first.key, "Released")
        await place.until_disk(disk.key, lambda disk: disk.spec.clean is not None)
        await place.cleans(disk.key, CleaningState.RUNNING)
        await place.volumes.delete(first.key)
        later = await place.fence()
        (still,) = (each for each in await place.own_volumes() if each.key != later)
        assert (still.metadata.uid, still.metadata.deleting) == (first.metadata.uid, True)

        await place.cleans(disk.key)
        await place.until_gone(first.key)
        await place.until_disk(disk.key, lambda disk: disk.spec.volume is None)
        await place.reports(disk.key, phase=Phase.AVAILABLE, eligible=True)
        second = await place.published(disk.key)
        assert second.metadata.uid != first.metadata.uid


@pytest.mark.seed("LVD-4")
async def test_recycled_volume_keeps_its_uid_and_loses_its_claim(place: Place) -> None:
    await place.set_up()
    async with place.managed(place.configuration(reclaim=Reclaim.RECYCLE)):
        disk = await place.finds()
        first = await place.published(disk.key)
        for _ in range(2):
            await place.claims(first.key)
            await place.phase(first.key, "Released")
            await place.until_disk(disk.key, lambda disk: disk.spec.clean is not None)
            assert (await place.disks.get(disk.key)).status.cleaning is None
            await place.cleans(disk.key)
            await place.until_volume(first.key, lambda volume: volume.spec.claim_ref is None)
            await place.phase(first.key, "Available")
            await place.until_disk(disk.key, lambda disk: disk.spec.clean is None)
        (still,) = await place.own_volumes()
        assert still.metadata.uid == first.metadata.uid


async def test_missing_disk_of_a_volume_in_use_is_told_on_the_volume(place: Place) -> None:
    await place.set_up()
    async with place.managed():
        disk = await place.finds()
        volume = await place.published(disk.key)
        await place.claims(volume.key)
        await place.reports(disk.key, phase=Phase.MISSING, eligible=False, message="It is gone.")
        told = await place.until_volume(volume.key, lambda volume: volume.status.message == "It is gone.")
        assert (told.status.phase, told.status.reason) == ("Bound", "DiskMissing")


async def test_claims_of_a_node_that_is_gone_are_released_and_its_volumes_deleted(place: Place) -> None:
    await place.set_up()
    loss = NodeLoss(policy=NodeLossPolicy.DELETE, grace_seconds=0.3)
    claims = place.client.untyped(PersistentVolumeClaim.resource)
    name = f"data-{place.suffix}"
    async with place.managed(place.configuration(node_loss=loss)):
        disk = await place.finds()
        volume = await place.published(disk.key)
        claim = await claims.create(
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": place.storage_class,
                    "resources": {"requests": {"storage": "1Gi"}},
                    "volumeName": volume.key,
                },
            }
        )
        await place.claims(volume.key, claim["metadata"]["name"], claim["metadata"]["uid"])
        await place.client.objects(Node).delete(place.node)

        async def is_gone() -> bool:
            found = await claims.find(name, "default")
            if found is not None and found["metadata"].get("deletionTimestamp"):
                with contextlib.suppress(errors.NotFound):
                    await claims.patch(name, {"metadata": {"finalizers": None}}, "default")
            return found is None

        await place.until(is_gone)
        await place.phase(volume.key, "Released")
        await place.until_gone(volume.key)
        remembers = await place.until_disk(disk.key, lambda disk: disk.spec.clean is not None)
        assert remembers.spec.clean.volume_uid == volume.metadata.uid
