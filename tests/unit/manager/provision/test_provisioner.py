"""From a claim to a volume of a pool, in the real engine with its binder; an agent makes what it is told."""

from __future__ import annotations

import pytest
from tests.unit.manager.provision.pool_world import CLASS, Dies, PoolWorld
from tests.unit.volume.pools import GI

from localpv.api import well_known
from localpv.api.kinds.localpool import PoolVolume
from localpv.api.kinds.volumes import TopologyRequirement, TopologySelectorTerm
from localpv.config import cleaners
from localpv.config.settings import ClassSettings, Configuration
from localpv.disk import labels


async def test_a_claim_gets_a_volume_of_exactly_its_size(world: PoolWorld) -> None:
    await world.storage_class(mount_options=("noatime",), parameters={"csi.storage.k8s.io/fstype": "xfs"})
    await world.node_with_pool()
    async with world.everybody():
        await world.claim(size="3Gi")
        volume = await world.bound()

    claim = await world.get_claim()
    [order] = (await world.orders()).values()
    assert volume.key == order.key == f"pvc-{claim.metadata.uid}"
    assert volume.spec.capacity == {"storage": "3Gi"}
    assert volume.spec.csi is not None
    assert (volume.spec.csi.driver, volume.spec.csi.volume_handle) == ("localpv.dev", f"fast/{volume.key}")
    assert volume.spec.csi.fs_type == "xfs"
    assert volume.spec.mount_options == ("noatime",)
    assert volume.spec.persistent_volume_reclaim_policy == "Delete"
    assert volume.spec.claim_ref is not None and volume.spec.claim_ref.uid == claim.metadata.uid
    assert volume.metadata.annotations[well_known.PROVISIONED_BY] == "localpv.dev"
    assert volume.metadata.annotations[well_known.DELETION_SECRET_NAME] == ""
    assert well_known.PROVISIONER_FINALIZER in volume.metadata.finalizers
    assert volume.spec.node_affinity is not None and volume.spec.node_affinity.required is not None
    [term] = volume.spec.node_affinity.required.node_selector_terms
    [expression] = term.match_expressions
    assert (expression.key, expression.values) == ("topology.localpv.dev/node", ("node-1",))
    assert order.spec.size_bytes == 3 * GI
    assert set(order.metadata.finalizers) == {labels.POOL_VOLUME, labels.PROTECTED}
    assert labels.NODE not in volume.metadata.labels
    await world.until_event("Successfully provisioned", reason="ProvisioningSucceeded")


async def test_a_claim_that_waits_gets_its_volume_on_the_node_that_the_scheduler_chose(world: PoolWorld) -> None:
    await world.storage_class(waits=True)
    for node in ("node-1", "node-2"):
        await world.node_with_pool(node)
    async with world.everybody():
        await world.claim()
        await world.until_event("waiting for first consumer", reason="WaitForFirstConsumer")
        assert await world.orders() == {}
        await world.select("data", "node-2")
        await world.bound()

    assert [one.spec.node_name for one in (await world.orders()).values()] == ["node-2"]


async def test_an_immediate_claim_goes_to_the_node_with_most_room(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool("node-1", size=5 * GI)
    await world.node_with_pool("node-2", size=50 * GI)
    await world.node_with_pool("node-3", size=500 * GI, error="The disk is gone.")
    async with world.everybody():
        await world.claim()
        await world.bound()

    assert [one.spec.node_name for one in (await world.orders()).values()] == ["node-2"]


async def test_an_immediate_claim_stays_within_the_topologies_of_its_class(world: PoolWorld) -> None:
    allowed = TopologySelectorTerm(match_label_expressions=(TopologyRequirement(key="rack", values=("a",)),))
    await world.storage_class(allowed_topologies=(allowed,))
    await world.node_with_pool("node-1", size=5 * GI, node_labels={"rack": "a"})
    await world.node_with_pool("node-2", size=50 * GI, node_labels={"rack": "b"})
    async with world.everybody():
        await world.claim()
        await world.bound()

    assert [one.spec.node_name for one in (await world.orders()).values()] == ["node-1"]


async def test_sizes_are_rounded_up_to_what_the_pool_makes(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool(extentBytes=4 << 20, minimumBytes=300 << 20)
    async with world.everybody():
        await world.claim("small", size="1Ki")
        await world.claim("odd", size="1073741825")
        small, odd = await world.bound("small"), await world.bound("odd")

    assert small.spec.capacity == {"storage": "300Mi"}
    assert odd.spec.capacity == {"storage": "1028Mi"}


@pytest.mark.seed("LVM-9")
async def test_parameters_that_nobody_knows_are_refused_with_an_event_that_names_them(world: PoolWorld) -> None:
    await world.storage_class(parameters={"vgname": "a", "stripes": "2", "csi.storage.k8s.io/node-stage-secret": "x"})
    await world.node_with_pool()
    async with world.everybody():
        await world.claim()
        said = await world.until_event("not known")

    assert "stripes, vgname" in said and "mkfsOptions" in said and "node-stage-secret" not in said
    assert await world.orders() == {}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"accessModes": ["ReadWriteMany"]}, "ReadWriteMany"),
        ({"accessModes": ["ReadOnlyMany"]}, "ReadOnlyMany"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "selector"),
    ],
)
async def test_what_no_pool_can_give_is_refused_by_name(world: PoolWorld, spec: dict[str, object], words: str) -> None:
    await world.storage_class()
    await world.node_with_pool()
    async with world.everybody():
        await world.claim(**spec)
        await world.until_event(words)

    assert await world.orders() == {}


async def test_a_file_system_that_nobody_knows_is_refused(world: PoolWorld) -> None:
    await world.storage_class(parameters={"csi.storage.k8s.io/fstype": "zfs"})
    await world.node_with_pool()
    async with world.everybody():
        await world.claim()
        assert "ext4, xfs, btrfs" in await world.until_event("zfs")


async def test_a_raw_volume_has_no_file_system(world: PoolWorld) -> None:
    await world.storage_class(parameters={"mkfsOptions": "-m 0"})
    await world.node_with_pool()
    async with world.everybody():
        await world.claim(volumeMode="Block")
        volume = await world.bound()

    assert volume.spec.volume_mode == "Block"
    assert volume.spec.csi is not None
    assert (volume.spec.csi.fs_type, dict(volume.spec.csi.volume_attributes)) == ("", {})


async def test_what_the_class_says_about_making_and_wiping_reaches_the_node(world: PoolWorld) -> None:
    settings = ClassSettings(
        name=CLASS,
        host_dir="/x",
        mount_dir="/x",
        fs_type="btrfs",
        block_cleaner=cleaners.read(["dd-zero", "2"], for_devices=True),
    )
    await world.storage_class(parameters={"mkfsOptions": "-m dup"})
    await world.node_with_pool()
    async with world.everybody(configuration=Configuration(classes={CLASS: settings})):
        await world.claim()
        volume = await world.bound()

    [order] = (await world.orders()).values()
    assert order.spec.wipe_method == ("dd-zero", "2")
    assert volume.spec.csi is not None and volume.spec.csi.fs_type == "btrfs"
    assert dict(volume.spec.csi.volume_attributes) == {"mkfsOptions": "-m dup"}


async def test_without_room_the_scheduler_is_asked_for_another_node_and_the_missing_space_is_said(
    world: PoolWorld,
) -> None:
    await world.storage_class(waits=True)
    await world.node_with_pool("node-1", size=2 * GI)
    await world.node_with_pool("node-2", size=20 * GI)
    async with world.everybody():
        await world.claim(size="10Gi", node="node-1")
        said = await world.until_event("no room")

        async def unselected() -> bool:
            return well_known.SELECTED_NODE not in (await world.get_claim()).metadata.annotations

        await world.until(unselected, "the node is not selected any more")
        assert await world.orders() == {}
        await world.select("data", "node-2")
        await world.bound()

    assert "node node-1: pool fast has 2Gi free, 8Gi less than needed" in said


@pytest.mark.parametrize("node", ["node-2", "node-9"])
async def test_a_node_without_a_pool_or_without_being_there_is_given_back(world: PoolWorld, node: str) -> None:
    await world.storage_class(waits=True)
    await world.node_with_pool("node-1")
    await world.engine.node("node-2")
    async with world.everybody():
        await world.claim(node=node)
        await world.until_event(f"node {node}")

        async def unselected() -> bool:
            return well_known.SELECTED_NODE not in (await world.get_claim()).metadata.annotations

        await world.until(unselected, "the node is not selected any more")


async def test_an_agent_without_room_sends_the_claim_elsewhere(world: PoolWorld) -> None:
    await world.storage_class(waits=True)
    for node in ("node-1", "node-2"):
        await world.node_with_pool(node)

    def refuse(order: PoolVolume) -> tuple[str, str] | None:
        full = order.spec.node_name == "node-1"
        return ("RESOURCE_EXHAUSTED", "the volume group has 1Gi less than needed") if full else None

    world.agent.refuse = refuse
    async with world.everybody():
        await world.claim(node="node-1")
        await world.until_event("the volume group has 1Gi less than needed")

        async def unselected() -> bool:
            claim = await world.get_claim()
            return well_known.SELECTED_NODE not in claim.metadata.annotations and not await world.orders()

        await world.until(unselected, "the node is given back")
        await world.select("data", "node-2")
        await world.bound()

    assert [one.spec.node_name for one in (await world.orders()).values()] == ["node-2"]


async def test_other_errors_are_told_and_what_was_begun_is_kept(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool()
    world.agent.refuse = lambda order: ("UNAVAILABLE", "lvcreate gives no answer")
    async with world.everybody():
        await world.claim()
        await world.until_event("node node-1: UNAVAILABLE: lvcreate gives no answer")
        [before] = (await world.orders()).values()
        world.agent.refuse = lambda order: None
        await world.bound()

    assert [one.metadata.uid for one in (await world.orders()).values()] == [before.metadata.uid]


async def test_a_claim_that_waits_for_room_gets_it_when_another_goes(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool(size=2 * GI)
    async with world.everybody():
        await world.claim("first", size="2Gi")
        await world.bound("first")
        await world.claim("second", size="2Gi")
        await world.until_event("2Gi less than needed", name="second")
        await world.delete_claim("first")
        await world.bound("second")

    assert sum(world.agent.wiped.values()) == 1
    assert max(world.agent.most.values()) == 2 * GI


async def test_a_claim_that_waits_for_room_gets_it_when_the_pool_grows(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool(size=GI)
    async with world.everybody():
        await world.claim(size="2Gi")
        await world.until_event("1Gi less than needed")
        await world.measures(capacityBytes=5 * GI)
        await world.bound()


async def test_when_the_scheduler_changes_its_mind_what_was_begun_elsewhere_goes_first(world: PoolWorld) -> None:
    await world.storage_class(waits=True)
    for node in ("node-1", "node-2"):
        await world.node_with_pool(node)
    world.agent.paused = True
    async with world.everybody():
        await world.claim(node="node-1")

        async def ordered() -> bool:
            return bool(await world.orders())

        await world.until(ordered, "the volume is ordered")
        await world.select("data", "node-2")
        world.agent.paused = False
        await world.bound()

    assert [one.spec.node_name for one in (await world.orders()).values()] == ["node-2"]


async def test_a_claim_that_goes_half_way_leaves_nothing(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool()
    world.agent.refuse = lambda order: ("UNAVAILABLE", "not now")
    async with world.everybody():
        await world.claim()
        await world.until_event("not now")
        await world.delete_claim()
        await world.until_empty()


async def test_claims_of_other_provisioners_and_classes_are_left_alone(world: PoolWorld) -> None:
    await world.storage_class()
    await world.engine.storage_class(provisioner="other.example.com")
    await world.node_with_pool()
    async with world.everybody():
        await world.claim("theirs", storageClassName="contract")
        await world.claim("ours")
        await world.bound("ours")

    assert len(await world.orders()) == 1


async def test_a_copy_is_made_where_its_source_is(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool("node-1", size=10 * GI, snapshots=True)
    async with world.everybody():
        await world.claim("source")
        await world.bound("source")
        await world.node_with_pool("node-2", snapshots=True)
        await world.claim("copy", size="2Gi", dataSource={"kind": "PersistentVolumeClaim", "name": "source"})
        await world.bound("copy")

    orders = await world.orders()
    source, copy = [orders[(await world.get_claim(name)).spec.volume_name] for name in ("source", "copy")]
    assert copy.spec.node_name == source.spec.node_name == "node-1"
    assert copy.spec.source is not None and copy.spec.source.volume == source.key


@pytest.mark.parametrize(
    ("source", "copy", "words"),
    [
        ({}, {"size": "1Mi"}, "at least as much"),
        ({}, {"volumeMode": "Block"}, "volumeMode"),
        ({"storageClassName": "none"}, {}, "is not bound"),
    ],
)
async def test_a_copy_that_cannot_be_is_refused(
    world: PoolWorld, source: dict[str, str], copy: dict[str, str], words: str
) -> None:
    await world.storage_class()
    await world.node_with_pool(snapshots=True)
    async with world.everybody():
        await world.claim("source", **source)  # type: ignore[arg-type]
        if not source:
            await world.bound("source")
        reference = {"kind": "PersistentVolumeClaim", "name": "source"}
        await world.claim("copy", dataSource=reference, **copy)  # type: ignore[arg-type]
        await world.until_event(words, name="copy")


async def test_volumes_that_others_fill_are_left_to_them(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool()
    async with world.everybody():
        await world.claim(dataSourceRef={"apiGroup": "fill.example.com", "kind": "Filler", "name": "x"})
        await world.claim("plain")
        await world.bound("plain")

    assert len(await world.orders()) == 1


async def test_two_hundred_claims_on_pools_for_a_hundred_give_a_hundred_volumes(world: PoolWorld) -> None:
    await world.storage_class()
    for number in range(4):
        await world.node_with_pool(f"node-{number}", size=25 * GI)
    async with world.everybody():
        for number in range(200):
            await world.claim(f"claim-{number}")

        async def decided() -> bool:
            bound = sum(one.status.phase == "Bound" for one in (await world.claims()).values())
            told = {one.involved_object.name for one in await world.engine.events() if "no room" in one.message}
            return bound == 100 and len(told) == 100

        await world.until(decided, "each claim has a volume or knows why not")

    assert len(await world.orders()) == len(await world.volumes()) == len(world.agent.held) == 100
    assert {*world.agent.most.values()} == {25 * GI}


@pytest.mark.parametrize("answered", [False, True], ids=["lost", "written"])
@pytest.mark.parametrize("writes", range(6))
async def test_whoever_comes_after_a_crash_goes_on(world: PoolWorld, writes: int, answered: bool) -> None:
    """Killed before and after every write from a claim to a volume and back."""
    await world.storage_class()
    await world.node_with_pool()
    async with world.cluster():
        dying = Dies(world.engine.transport, writes, answered=answered)
        async with world.provisioning(dying):
            await world.claim()
            await _until_dead_or_bound(world, dying)
            if not dying.dead.is_set():
                await world.delete_claim()
                await _until_dead_or_empty(world, dying)
        async with world.provisioning():
            if "data" in await world.claims():
                await world.bound()
                assert len(await world.orders()) == len(await world.volumes()) == len(world.agent.held) == 1
                await world.delete_claim()
            await world.until_empty()

    assert {*world.agent.wiped.values()} <= {1}


@pytest.mark.parametrize("answered", [False, True], ids=["lost", "written"])
@pytest.mark.parametrize("writes", range(3))
async def test_a_claim_that_goes_while_nobody_looks_leaves_nothing(
    world: PoolWorld, writes: int, answered: bool
) -> None:
    await world.storage_class()
    await world.node_with_pool()
    async with world.cluster():
        dying = Dies(world.engine.transport, writes, answered=answered)
        async with world.provisioning(dying):
            await world.claim()
            await _until_dead_or_bound(world, dying)
        await world.delete_claim()
        async with world.provisioning():
            await world.until_empty()


async def _until_dead_or_bound(world: PoolWorld, dying: Dies) -> None:
    async def over() -> bool:
        return dying.dead.is_set() or (await world.get_claim()).status.phase == "Bound"

    await world.until(over, "it died, or the claim is bound")


async def _until_dead_or_empty(world: PoolWorld, dying: Dies) -> None:
    async def over() -> bool:
        return dying.dead.is_set() or not await world.volumes()

    await world.until(over, "it died, or nothing is left")
