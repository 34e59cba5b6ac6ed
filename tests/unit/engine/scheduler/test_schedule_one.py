"""Which node a pod gets. What both engines agree on is in tests/placing; here is what only we decide, and corners."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.engine.scheduler.samples import World, node, pod
from tests.unit.volume.samples import claim, reference, storage_class, volume

from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.engine.scheduler import filter_messages
from localpv.engine.scheduler.filter_messages import ClusterEvent
from localpv.engine.scheduler.schedule_one import Chosen, NoNode

WAITS = storage_class(waits=True)


def bound(name: str, to: str, **more: Any) -> PersistentVolumeClaim:
    return claim(name, volumeName=to, annotations={"pv.kubernetes.io/bind-completed": "yes"}, phase="Bound", **more)


def names(found: Chosen | NoNode) -> list[tuple[str, str]]:
    assert isinstance(found, Chosen), found
    return [(each.claim.metadata.name, each.volume.metadata.name) for each in found.plan.bindings]


def test_without_nodes_there_is_no_node() -> None:
    found = World().choose(pod())
    assert found == NoNode("no nodes available to schedule pods", frozenset({ClusterEvent.NODE}))


def test_the_emptier_node_is_taken_and_among_equals_the_first_by_name() -> None:
    world = World().add(node("b"), node("a"), node("c"), pod("there", cpu="2", node="a"))
    assert world.node_info(pod("one")) == "b"
    assert world.node_info(pod("two")) == "c"


def test_pods_that_ask_for_nothing_are_spread_too() -> None:
    world = World().add(*(node(f"n{number}") for number in range(4)))
    assert {world.node_info(pod(f"p{number}")) for number in range(4)} == {"n0", "n1", "n2", "n3"}


def test_pods_of_one_owner_are_spread_before_room_is_looked_at() -> None:
    world = World().add(node("big", cpu="64", memory="64Gi"), node("small", cpu="1", memory="1Gi"))
    assert [world.node_info(pod(f"p{number}", owner="set")) for number in range(2)] == ["big", "small"]


def test_ephemeral_storage_is_not_rationed_where_it_is_not_measured() -> None:
    wanted = pod(containers=[{"name": "main", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}])
    assert World().add(node("unmeasured")).node_for(wanted) == "unmeasured"
    assert "Insufficient ephemeral-storage" in World().add(node(ephemeral_storage="1Mi")).refusal(wanted)


def test_a_node_that_says_nothing_takes_no_pods() -> None:
    assert World().add(node(cpu="", memory="", pods="")).refusal(pod()) == "0/1 nodes are available: 1 Too many pods."


def test_a_pod_that_is_promised_a_node_takes_its_room_until_it_is_given_back() -> None:
    world = World().add(node(cpu="1"))
    world.node_info(pod("first", cpu="1"))
    assert "Insufficient cpu" in world.refusal(pod("second", cpu="1"))
    world.node_infos.give_back("tests/first")
    assert world.node_for(pod("second", cpu="1")) == "node"


def test_a_promise_that_came_true_is_not_given_back() -> None:
    world = World().add(node(cpu="1"))
    world.node_info(pod("first", cpu="1"))
    world.add(pod("first", cpu="1", node="node"))
    world.node_infos.give_back("tests/first")
    assert "Insufficient cpu" in world.refusal(pod("second", cpu="1"))


def test_a_pod_that_was_made_anew_does_not_take_the_room_of_the_old_one() -> None:
    world = World().add(node(cpu="1"))
    old = pod("first", cpu="1")
    world.node_info(old)
    world.node_infos.pod_changed(
        old, msgspec.structs.replace(old, metadata=ObjectMeta(name="first", namespace="tests", uid="new"))
    )
    assert world.node_for(pod("second", cpu="1")) == "node"


@pytest.mark.seed("LVD-6", "SCH-1")
def test_one_volume_is_not_given_twice() -> None:
    world = World().add(node("a"), WAITS, claim("one"), claim("two"), volume("disk", node="a"))
    assert filter_messages.NO_VOLUME in world.refusal(pod("both", "one", "two"))
    world.node_info(pod("first", "one"))
    assert filter_messages.NO_VOLUME in world.refusal(pod("second", "two"))


@pytest.mark.seed("LVD-6")
def test_claims_of_one_pod_get_volumes_of_one_node_smallest_claims_first() -> None:
    world = World().add(
        *(node("a"), node("b"), WAITS),
        *(claim("large", size="8Gi"), claim("small", size="1Gi")),
        *(volume("a1", node="a", size="10Gi"), volume("b1", node="b", size="10Gi"), volume("b2", node="b", size="2Gi")),
    )
    assert names(world.choose(pod("both", "large", "small"))) == [("small", "b2"), ("large", "b1")]


def test_two_pods_of_one_claim_get_the_volume_that_was_promised_first() -> None:
    world = World().add(node("a"), node("b"), WAITS, claim(), volume("on-a", node="a"), volume("on-b", node="b"))
    first = world.node_info(pod("first", "claim"))
    assert names(world.choose(pod("second", "claim"))) == [("claim", f"on-{first}")]
    assert world.node_for(pod("second", "claim")) == first


def test_what_names_a_claim_is_nobody_elses_and_draws_the_pod() -> None:
    world = World().add(
        *(node("a"), node("b"), WAITS, claim(), claim("other")),
        volume("reserved", node="b", claimRef=reference()),
        volume("free", node="a", size="1Gi"),
    )
    assert names(world.choose(pod("first", "claim"))) == [("claim", "reserved")]
    assert names(world.choose(pod("second", "other"))) == [("other", "free")]


def test_a_volume_of_an_earlier_claim_of_the_same_name_is_not_given() -> None:
    old = volume("old", node="a", phase="Released", claimRef=reference(uid="of-the-old-claim"))
    assert filter_messages.NO_VOLUME in World().add(node("a"), WAITS, claim(), old).refusal(pod("pod", "claim"))


@pytest.mark.seed("AFF-1", "AFF-2", "AFF-3", "AFF-4")
@pytest.mark.parametrize(
    ("affinity", "fits"),
    [
        (None, True),
        ({}, True),
        ({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}}, True),
        (
            {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]},
                        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
                    ]
                }
            },
            True,
        ),
        ({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]}}, False),
        (
            {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]},
                    ]
                }
            },
            False,
        ),
    ],
)
def test_volumes_are_found_wherever_their_affinity_leads(affinity: Any, fits: bool) -> None:
    there = node("a", labels={"disk": "ssd"})
    free = World().add(there, WAITS, claim(), volume("pv", nodeAffinity=affinity))
    has = World().add(there, WAITS, bound("claim", "pv"), volume("pv", phase="Bound", nodeAffinity=affinity))
    for world, phrase in ((free, filter_messages.NO_VOLUME), (has, filter_messages.VOLUME_NODE)):
        if fits:
            assert world.node_for(pod("pod", "claim")) == "a"
        else:
            assert phrase in world.refusal(pod("pod", "claim"))


def test_a_node_fails_for_both_kinds_of_claims_at_once() -> None:
    world = World().add(node("a"), WAITS, bound("has", "pv"), volume("pv", node="b", phase="Bound"), claim("waits"))
    expected = sorted([f"1 {filter_messages.VOLUME_NODE}", f"1 {filter_messages.NO_VOLUME}"])
    assert world.refusal(pod("pod", "has", "waits")) == f"0/1 nodes are available: {', '.join(expected)}."


def test_a_bound_claim_whose_volume_is_not_seen_yet_waits_for_the_volume() -> None:
    found = World().add(node(), bound("claim", "pv")).choose(pod("pod", "claim"))
    assert found == NoNode(
        '0/1 nodes are available: persistentvolume "pv" not found.', frozenset({ClusterEvent.VOLUME})
    )


def test_a_volume_of_another_zone_is_refused_unless_the_node_knows_no_zones() -> None:
    zone = "topology.kubernetes.io/zone"
    stored = (bound("claim", "pv"), volume("pv", phase="Bound", labels={zone: "z1__z2"}))
    assert World().add(node("a", labels={zone: "z2"}), *stored).node_for(pod("p", "claim")) == "a"
    assert World().add(node("a"), *stored).node_for(pod("p", "claim")) == "a"
    assert filter_messages.VOLUME_ZONE in World().add(node("a", labels={zone: "z3"}), *stored).refusal(
        pod("p", "claim")
    )
    old = (bound("claim", "pv"), volume("pv", phase="Bound", labels={"failure-domain.beta.kubernetes.io/zone": "z1"}))
    assert World().add(node("a", labels={zone: "z1"}), *old).node_for(pod("p", "claim")) == "a"


@pytest.mark.parametrize(
    ("phrase", "wakes"),
    [
        (filter_messages.insufficient("cpu"), {ClusterEvent.NODE, ClusterEvent.POD_LEFT}),
        (filter_messages.TOO_MANY_PODS, {ClusterEvent.NODE, ClusterEvent.POD_LEFT}),
        (filter_messages.TAINTED, {ClusterEvent.NODE}),
        (filter_messages.NO_VOLUME, {ClusterEvent.NODE, ClusterEvent.VOLUME, ClusterEvent.CLASS}),
        (filter_messages.ANTI_AFFINITY, {ClusterEvent.NODE, ClusterEvent.POD_CAME, ClusterEvent.POD_LEFT}),
    ],
)
def test_each_reason_knows_what_could_mend_it(phrase: str, wakes: set[ClusterEvent]) -> None:
    assert filter_messages.wakes(phrase) == wakes
