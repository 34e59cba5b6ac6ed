"""Pods whose volumes are still to be made: a node must have room for all of them together."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.engine.scheduler.samples import World, node, pod
from tests.unit.volume import pools
from tests.unit.volume.pools import GI
from tests.unit.volume.samples import claim

from localpv.api.kinds.csi import CSIDriver, CSIDriverSpec, CSIStorageCapacity
from localpv.api.kinds.localpool import PoolClaim, PoolVolume
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import LabelSelector, PersistentVolumeClaim, StorageClass
from localpv.engine.scheduler.filter_messages import ClusterEvent
from localpv.engine.scheduler.schedule_one import Chosen, NoNode

LACKS = "node(s) did not have enough free storage"


def made_by(provisioner: str = "localpv.dev", name: str = "fast") -> StorageClass:
    return StorageClass(
        metadata=ObjectMeta(name=name), provisioner=provisioner, volume_binding_mode="WaitForFirstConsumer"
    )


def wanted(name: str, size: str, *, of: str = "fast", **more: Any) -> PersistentVolumeClaim:
    return claim(name, size=size, storageClassName=of, **more)


def order(made_for: PersistentVolumeClaim, size: int, *, on: str = "a") -> PoolVolume:
    made = pools.volume(f"pvc-{made_for.metadata.uid}", size, node=on)
    of = PoolClaim(namespace="tests", name=made_for.metadata.name, uid=made_for.metadata.uid)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, claim=of))


@pytest.fixture
def world() -> World:
    """Two nodes with a pool each: a with 10 GiB, b with 6."""
    made = World().add(node("a"), node("b"), node("none"), made_by())
    return made.tell(pools.pool("a", capacity_bytes=10 * GI), pools.pool("b", capacity_bytes=6 * GI))


def test_the_node_with_more_room_is_preferred_and_one_without_a_pool_never_taken(world: World) -> None:
    world.add(wanted("data", "5Gi"))
    assert world.node_for(pod("one", "data")) == "a"
    world.tell(pools.pool("b", capacity_bytes=20 * GI))
    assert world.node_for(pod("one", "data")) == "b"


@pytest.mark.seed("LVM-7", "SCH-2")
def test_all_claims_of_a_pod_must_fit_on_the_node_together_and_each_node_says_what_it_lacks(world: World) -> None:
    world.add(wanted("x", "6Gi"), wanted("y", "5Gi"))
    assert world.node_for(pod("one", "x")) == "a"
    message = world.refusal(pod("both", "x", "y"))
    assert f"1 {LACKS} (node a: pool fast has 4Gi free, 1Gi less than needed)" in message
    assert f"1 {LACKS} (node b: pool fast has 0 free, 5Gi less than needed)" in message
    assert f"1 {LACKS} (node none: no pool of class fast)" in message


def test_what_was_given_to_other_pods_is_counted_before_anybody_has_written_it(world: World) -> None:
    for name in ("one", "two", "three", "four"):
        world.add(wanted(name, "5Gi"))
    assert [world.node_info(pod(name, name)) for name in ("one", "two", "three")].count("a") == 2
    assert "5Gi less than needed" in world.refusal(pod("four", "four"))


def test_what_is_written_is_counted_once(world: World) -> None:
    one = wanted("one", "5Gi")
    world.add(one, wanted("two", "5Gi"), wanted("three", "5Gi"))
    assert world.node_info(pod("one", "one")) == "a"
    world.tell(order(one, 5 * GI))
    assert [world.node_info(pod(name, name)) for name in ("two", "three")] == ["b", "a"]
    assert world.node_for(pod("again", "one")) == "a", "the claim has its room already"


def test_what_is_given_back_can_be_given_again(world: World) -> None:
    first, second = wanted("one", "9Gi"), wanted("two", "9Gi")
    world.add(first, second)
    assert world.node_info(pod("one", "one")) == "a"
    assert LACKS in world.refusal(pod("two", "two"))
    world.storage.assume_cache.take_back(first)
    assert world.node_for(pod("two", "two")) == "a"


def test_two_pods_of_one_claim_take_its_room_once(world: World) -> None:
    world.add(wanted("data", "9Gi"))
    assert world.node_info(pod("one", "data")) == "a"
    assert world.node_info(pod("two", "data")) == "a"


def test_a_pod_of_several_classes_needs_room_in_the_pool_of_each(world: World) -> None:
    world.add(made_by(name="slow"), wanted("x", "5Gi"), wanted("y", "50Gi", of="slow"))
    assert "no pool of class slow" in world.refusal(pod("both", "x", "y"))
    world.tell(pools.pool("b", "slow", classes=("slow",), capacity_bytes=100 * GI))
    assert world.node_for(pod("both", "x", "y")) == "b"


def test_processor_and_room_must_be_on_the_same_node(world: World) -> None:
    world.add(wanted("data", "8Gi"), pod("busy", cpu="4", node="a"))
    message = world.refusal(pod("one", "data", cpu="1"))
    assert "1 Insufficient cpu" in message and "node b: pool fast has 6Gi free, 2Gi less than needed" in message


def test_a_pool_that_is_out_of_order_offers_nothing_and_says_why(world: World) -> None:
    world.add(wanted("data", "1Gi"))
    world.tell(pools.pool("a", error="the directory is gone"), pools.pool("b", error="the disk is full"))
    assert "node a: pool fast is out of order: the directory is gone" in world.refusal(pod("one", "data"))


def test_a_pod_that_lacks_room_is_looked_at_again_when_there_may_be_some(world: World) -> None:
    made_for = wanted("old", "5Gi")
    world.add(wanted("data", "8Gi"), made_for)
    world.tell(order(made_for, 5 * GI))
    found = world.choose(pod("one", "data"))
    assert isinstance(found, NoNode) and ClusterEvent.CAPACITY in found.wakes
    world.woken.clear()
    world.tell(order(made_for, 6 * GI))
    assert world.woken == [], "less room helps nobody"
    world.informers.informer(PoolVolume).deleted(world.informers.informer(PoolVolume).list()[0])
    assert world.woken == ["capacity"]
    assert isinstance(world.choose(pod("one", "data")), Chosen)


def test_of_many_nodes_some_are_named() -> None:
    world = World().add(made_by(), wanted("data", "5Gi"))
    for number in range(30):
        world.add(node(f"n{number:02}")).tell(pools.pool(f"n{number:02}", capacity_bytes=GI))
    message = world.refusal(pod("one", "data"))
    assert message.startswith(f"0/30 nodes are available: 1 {LACKS} (node n00: pool fast has 1Gi free, 4Gi less")
    assert message.count("(node ") == 10 and f"20 {LACKS}" in message


# -- other drivers -----------------------------------------------------------------------------------------------------


def capacity(name: str, size: str | None, *, on: str | None = "a", largest: str | None = None) -> CSIStorageCapacity:
    return CSIStorageCapacity(
        metadata=ObjectMeta(name=name, namespace="drivers"),
        storage_class_name="theirs",
        capacity=size,
        maximum_volume_size=largest,
        node_topology=None if on is None else LabelSelector(match_labels={"kubernetes.io/hostname": on}),
    )


@pytest.mark.parametrize(
    ("told", "fits"),
    [
        ((capacity("one", "10Gi"),), True),
        ((capacity("one", "9Gi"),), False),
        ((capacity("one", "10Gi", on="b"),), False),
        ((capacity("one", "10Gi", on=None),), False),
        ((capacity("one", None),), False),
        ((capacity("one", "100Gi", largest="9Gi"),), False),
        ((capacity("one", "1Gi"), capacity("two", "10Gi")), True),
        ((), False),
    ],
)
def test_a_driver_that_tells_what_it_has_is_asked_as_kube_scheduler_does(
    told: tuple[CSIStorageCapacity, ...], fits: bool
) -> None:
    world = World().add(node("a"), made_by("drivers.example.com", "theirs"), wanted("data", "10Gi", of="theirs"))
    driver = CSIDriver(metadata=ObjectMeta(name="drivers.example.com"), spec=CSIDriverSpec(storage_capacity=True))
    world.tell(driver, *told)
    if fits:
        assert world.node_for(pod("one", "data")) == "a"
    else:
        assert world.refusal(pod("one", "data")) == f"0/1 nodes are available: 1 {LACKS}."


@pytest.mark.parametrize("told", [False, None])
def test_a_driver_that_tells_nothing_is_not_asked(told: bool | None) -> None:
    world = World().add(node("a"), made_by("drivers.example.com", "theirs"), wanted("data", "10Gi", of="theirs"))
    if told is not None:
        world.tell(CSIDriver(metadata=ObjectMeta(name="drivers.example.com"), spec=CSIDriverSpec()))
    assert world.node_for(pod("one", "data")) == "a"
