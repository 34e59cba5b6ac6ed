"""From a LocalDisk to a volume, a claim, a cleaning and a volume again, on our engine.

The tests write what an agent would find on its node, and do what the volume and protection controllers of a cluster
do.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.journey.place import Place

from localpv.api.kinds import Node
from localpv.api.kinds.localdisk import (
    CleaningState,
    Phase,
)
from localpv.client.client import Client
from localpv.lifecycle.publish import naming


@pytest.fixture
async def place(client: Client) -> Place:
    return Place(client)


@pytest.mark.seed("DSC-1", "DSC-5", "DSC-6", "DSC-10", "DSC-11", "LIF-4")
async def test_disk_becomes_a_volume_that_only_its_node_can_use(place: Place) -> None:
    await place.set_up()
    async with place.managed():
        disk = await place.finds()
        volume = await place.published(disk.key)

        assert volume.key == naming.volume_name("disk1", place.node, place.storage_class)
        assert volume.spec.storage_class_name == place.storage_class
        assert volume.spec.capacity == {"storage": "100Gi"}
        assert volume.metadata.labels[naming.NODE_LABEL] == place.node
        node = await place.client.objects(Node).get(place.node)
        maker = volume.metadata.annotations[naming.PROVISIONED_BY]
        assert maker == f"local-volume-provisioner-{place.node}-{node.metadata.uid}"
        affinity = volume.spec.node_affinity
        assert affinity is not None and affinity.required is not None
        (expression,) = affinity.required.node_selector_terms[0].match_expressions
        assert (expression.key, expression.values) == ("kubernetes.io/hostname", (f"host-{place.suffix}",))
        recorded = await place.disks.get(disk.key)
        assert recorded.spec.identity == disk.status.identity


@pytest.mark.seed("DEL-1", "DEL-6", "DSC-2")
async def test_released_disk_is_offered_again_only_after_a_verified_cleaning(place: Place) -> None:
    await place.set_up()
    async with place.managed():
        disk = await place.finds()
        first = await place.published(disk.key)
        await place.claims(first.key)
        await place.phase(first.key, "Released")

        ordered = await place.until_disk(disk.key, lambda disk: disk.spec.clean is not None)
        assert ordered.spec.clean.volume_uid == first.metadata.uid
        await place.cleans(disk.key, CleaningState.RUNNING)
        await asyncio.sleep(0.2)
        (still,) = await place.own_volumes()
        assert (still.metadata.uid, still.metadata.deleting) == (first.metadata.uid, False)

        await place.cleans(disk.key)
        await place.until_disk(disk.key, lambda disk: disk.spec.volume is None)
        await place.reports(disk.key, phase=Phase.AVAILABLE, eligible=True)
        second = await place.published(disk.key)
        assert (second.key, second.metadata.uid == first.metadata.uid) == (first.key, False)
        told = await place.told(first.key)
        assert {"VolumePublished", "CleaningStarted", "CleaningFinished", "VolumeDelete"} <= told
