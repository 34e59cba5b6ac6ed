"""From a LocalDisk to a volume, on the server that the tests are given or on our engine.

The tests write what an agent would find on its node, and do what the volume and protection controllers of a cluster do.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time

import pytest
from tests.journey.place import Place

from localpv.api import well_known
from localpv.api.kinds.cluster import Node, NodeSpec, Taint
from localpv.api.kinds.localdisk import (
    Phase,
)
from localpv.api.kinds.meta import resource_of
from localpv.api.kinds.volumes import StorageClass
from localpv.config.settings import Configuration
from localpv.disk import labels as disk_labels
from localpv.manager import agents
from localpv.manager.agents import AgentPods
from localpv.manager.publish import names


@pytest.mark.seed("DSC-1", "DSC-5", "DSC-6", "DSC-10", "DSC-11", "LIF-4")
async def test_disk_becomes_a_volume_that_only_its_node_can_use(place: Place) -> None:
    await place.set_up()
    async with place.managed():
        disk = await place.finds()
        volume = await place.published(disk.key)

        assert volume.key == names.volume_name("disk1", place.node, place.storage_class)
        assert volume.spec.storage_class_name == place.storage_class
        assert volume.spec.capacity == {"storage": "100Gi"}
        assert volume.metadata.labels[disk_labels.NODE] == place.node
        node = await place.client.objects(Node).get(place.node)
        maker = volume.metadata.annotations[well_known.PROVISIONED_BY]
        assert maker == f"local-volume-provisioner-{place.node}-{node.metadata.uid}"
        affinity = volume.spec.node_affinity
        assert affinity is not None and affinity.required is not None
        (expression,) = affinity.required.node_selector_terms[0].match_expressions
        assert (expression.key, expression.values) == ("kubernetes.io/hostname", (f"host-{place.suffix}",))
        recorded = await place.disks.get(disk.key)
        assert recorded.spec.identity == disk.status.identity


async def test_disk_waits_for_its_class_and_says_so(place: Place) -> None:
    await place.set_up()
    await place.client.objects(StorageClass).delete(place.storage_class)
    async with place.managed():
        disk = await place.finds()
        waiting = await place.until_disk(disk.key, lambda disk: disk.status.conditions)
        assert waiting.status.conditions[0].reason == "NoStorageClass"
        await place.create_class()
        await place.published(disk.key)
        await place.until_disk(disk.key, lambda disk: not disk.status.conditions)


async def test_offer_that_nobody_took_is_taken_back_when_the_disk_is_gone(place: Place) -> None:
    await place.set_up()
    async with place.managed():
        disk = await place.finds()
        volume = await place.published(disk.key)
        await place.reports(disk.key, phase=Phase.MISSING, eligible=False, message="It is gone.")
        await place.until_gone(volume.key)
        left = await place.until_disk(disk.key, lambda disk: disk.spec.volume is None)
        assert left.spec.clean is None


@pytest.mark.seed("DSC-2", "DSC-7", "DEL-8")
async def test_manager_stopped_at_any_moment_publishes_each_disk_once(place: Place) -> None:
    await place.set_up()
    disks = [await place.finds(f"disk{number}") for number in range(12)]
    dice = random.Random(4)
    for _ in range(25):
        task = asyncio.create_task(_managed_for_ever(place))
        await asyncio.sleep(dice.uniform(0.02, 0.12))
        task.cancel()
        await asyncio.wait({task})
    async with place.managed():
        for disk in disks:
            await place.until_disk(disk.key, lambda disk: disk.spec.volume is not None and disk.spec.volume.uid)
    found = await place.own_volumes()
    assert len(found) == len(disks)
    recorded = {(await place.disks.get(disk.key)).spec.volume.uid for disk in disks}
    assert recorded == {volume.metadata.uid for volume in found}


async def _managed_for_ever(place: Place) -> None:
    async with place.managed():
        await asyncio.Event().wait()


async def test_startup_taint_goes_when_the_volumes_of_the_node_are_published(place: Place) -> None:
    key = "localpv.dev/agent-not-ready"
    await place.set_up(
        spec=NodeSpec(taints=(Taint(key=key, effect="NoSchedule"), Taint(key="stays", effect="NoSchedule")))
    )
    configuration = dataclasses.replace(
        place.configuration(), remove_node_not_ready_taint=True, not_ready_taint_key=key
    )
    async with place.managed(configuration):
        disk = await place.finds()
        await place.published(disk.key)
        nodes = place.client.objects(Node)

        async def keys() -> list[str]:
            return [taint.key for taint in (await nodes.get(place.node)).spec.taints]

        async def is_gone() -> bool:
            return key not in await keys()

        await place.until(is_gone)
        assert "stays" in await keys()


async def test_startup_taint_of_a_node_without_disks_goes_when_its_agent_is_ready(place: Place) -> None:
    key = "localpv.dev/agent-not-ready"
    await place.set_up(spec=NodeSpec(taints=(Taint(key=key, effect="NoSchedule"),)))
    configuration = dataclasses.replace(
        place.configuration(), remove_node_not_ready_taint=True, not_ready_taint_key=key
    )
    pods, nodes = place.client.untyped(resource_of("Pod")), place.client.objects(Node)
    labels = dict(pair.split("=") for pair in agents.AGENTS.split(","))
    name = f"agent-{place.suffix}"

    async def become(status: str) -> None:
        conditions = [{"type": "Ready", "status": status}]
        await pods.patch(name, {"status": {"conditions": conditions}}, "default", subresource="status")

    async def has_taint() -> bool:
        return any(taint.key == key for taint in (await nodes.get(place.node)).spec.taints)

    async def has_none() -> bool:
        return not await has_taint()

    container = {"name": "agent", "image": "agent"}
    await pods.create(
        {
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"nodeName": place.node, "containers": [container], "tolerations": [{"operator": "Exists"}]},
        }
    )
    answers: list[bool] = []

    async def has_looked(node: str) -> bool:
        found = await AgentPods(place.client, namespace="default").have_looked(node)
        if node == place.node:
            answers.append(found)
        return found

    async def has_answered_twice() -> bool:
        return len(answers) > 1

    async def has_answered() -> bool:
        return len(answers) > 0

    try:
        await become("False")
        async with place.managed(configuration, has_looked=has_looked):
            await place.until(has_answered)
            # Who asks again is done with what it did about the first answer.
            await nodes.patch(place.node, {"metadata": {"labels": {"look": "again"}}})
            await place.until(has_answered_twice)
            assert not any(answers)
            assert await has_taint(), "its agent has not looked yet"
        await become("True")
        async with place.managed(configuration, has_looked=has_looked):
            await place.until(has_none)
    finally:
        await pods.delete(name, "default", grace_seconds=0)


async def test_two_hundred_disks_are_two_hundred_volumes_in_seconds(place: Place) -> None:
    await place.set_up()
    disks = await asyncio.gather(*(place.finds(f"disk{number}") for number in range(200)))
    began = time.monotonic()
    async with place.managed():

        async def are_published() -> bool:
            own = [disk for disk in (await place.disks.list()).items if disk.spec.node_name == place.node]
            return all(disk.spec.volume is not None and disk.spec.volume.uid for disk in own)

        await place.until(are_published)
    print(f"{len(disks)} volumes in {time.monotonic() - began:.2f} s")
    assert len(await place.own_volumes()) == len(disks)


@pytest.mark.seed("DSC-4")
async def test_class_that_comes_into_the_configuration_is_served_at_once_and_one_that_goes_no_more(
    place: Place,
) -> None:
    await place.set_up()
    async with place.managed(Configuration()) as manager:
        disk = await place.finds()
        refused = await place.until_disk(disk.key, lambda disk: disk.status.conditions)
        assert refused.status.conditions[0].reason == "NotConfigured"
        manager.configure(place.configuration())
        await place.published(disk.key)
        manager.configure(Configuration())
        second = await place.finds("disk2")
        await place.until_disk(second.key, lambda disk: disk.status.conditions)
        assert len(await place.own_volumes()) == 1, "what is offered stays"


async def test_disk_of_a_renamed_class_is_offered_as_soon_as_its_old_volume_is_gone(place: Place) -> None:
    await place.set_up()
    renamed = dataclasses.replace(place, class_prefix="renamed")
    async with place.managed() as manager:
        disk = await place.finds()
        volume = await place.published(disk.key)
        # What the agent writes when the class has another name: the old record is of a class that is gone, and the
        # same directory is found again in the new one.
        await renamed.create_class()
        manager.configure(renamed.configuration())
        again = await renamed.finds()
        assert again.spec.path == disk.spec.path
        await place.until_disk(
            again.key, lambda found: [each.reason for each in found.status.conditions] == ["PathTaken"]
        )

        await place.reports(disk.key, phase=Phase.UNAVAILABLE, eligible=False, reason="ClassRemoved")
        await place.until_gone(volume.key)

        assert (await renamed.published(again.key)).spec.storage_class_name == renamed.storage_class
        await place.until_disk(again.key, lambda found: not found.status.conditions)
    await renamed.clear()
