"""Claims that want to be together on one node, and claims that want to be apart.

The class waits for its consumer: on Kubernetes nobody can keep kube-controller-manager from binding other claims at
once, one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.placing import placer_process
from tests.placing.places import Place

GROUP = "volume.beta.kubernetes.io/group"
SPREAD = "localpv.dev/spread"


@pytest.fixture(scope="module", autouse=True)
def _placer(target: wire.Target) -> Iterator[None]:
    """Ours runs in `localpv up` already; beside Kubernetes it is a part of the manager."""
    with placer_process.beside(target):
        yield


@pytest.fixture
def group(place: Place, target: wire.Target) -> Place:
    """Here no pod comes: with us a class that waits would wait for one, for its room."""
    place.storage_class(waits=target.log is None)
    return place


def wish(count: int | str = 2, name: str = "group1") -> dict[str, str]:
    return {GROUP: json.dumps({"name": name, "count": count})}


def node_of(place: Place, volume: str) -> str:
    terms = place.get_volume(volume)["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return str(terms[0]["matchExpressions"][0]["values"][0])


def nodes_of(place: Place, claims: list[str]) -> list[str]:
    bound = [place.until_claim(claim, "Bound")["spec"]["volumeName"] for claim in claims]
    return [node_of(place, volume) for volume in bound]


@pytest.mark.seed("LVD-5")
def test_the_claims_of_a_group_land_on_one_node(group: Place) -> None:
    one, two, three = group.node(), group.node(), group.node()
    for node in (one, three):
        group.available(node=node, size="1Gi")
    for _ in range(2):
        group.available(node=two)
    claims = [group.claim(annotations=wish("2")) for _ in range(2)]
    assert nodes_of(group, claims) == [two, two]


@pytest.mark.seed("LVD-5")
def test_an_incomplete_group_gets_nothing_and_says_how_many_are_there(group: Place) -> None:
    node = group.node()
    volumes = [group.available(node=node) for _ in range(3)]
    first = group.claim(annotations=wish(3))
    assert "1 of 3" in group.until_event(first, "WaitForGroup")["message"]
    second = group.claim(annotations=wish(3))
    assert "2 of 3" in group.until_event(second, "WaitForGroup")["message"]
    for claim in (first, second):
        group.stays_pending(claim)
    assert [group.get_volume(volume)["spec"].get("claimRef") for volume in volumes] == [None] * 3

    third = group.claim(annotations=wish(3))
    assert nodes_of(group, [first, second, third]) == [node] * 3


@pytest.mark.seed("LVD-5")
def test_a_group_that_no_node_can_serve_takes_nothing(group: Place) -> None:
    volumes = [group.available(node=group.node()) for _ in range(2)]
    claims = [group.claim(annotations=wish()) for _ in range(2)]
    for claim in claims:
        group.until_event(claim, "FailedBinding")
        group.stays_pending(claim)
    assert [group.get_volume(volume)["spec"].get("claimRef") for volume in volumes] == [None] * 2


def test_a_group_that_waits_goes_on_when_a_volume_comes(group: Place) -> None:
    node = group.node()
    group.available(node=node)
    claims = [group.claim(annotations=wish()) for _ in range(2)]
    group.until_event(claims[0], "FailedBinding")
    group.volume(node=node)
    assert nodes_of(group, claims) == [node, node]


def test_groups_of_one_name_in_two_namespaces_are_two_groups(group: Place, api: wire.Api) -> None:
    node = group.node()
    group.available(node=node)
    group.available(node=node)
    other = Space(api.post("/api/v1/namespaces", builders.namespace())["metadata"]["name"])
    elsewhere = Place(api, other, class_name=group.class_name)
    claims = [group.claim(annotations=wish()), elsewhere.claim(annotations=wish())]
    assert "1 of 2" in group.until_event(claims[0], "WaitForGroup")["message"]
    assert "1 of 2" in elsewhere.until_event(claims[1], "WaitForGroup")["message"]


def test_a_claim_that_is_bound_already_says_where_its_group_goes(group: Place) -> None:
    one, two = group.node(), group.node()
    for node in (one, one, two, two):
        group.available(node=node)
    first = builders.unique("claim")
    reserved = group.available(node=two, size="50Gi", claim=group.reference(first))
    group.bound(name=first, annotations=wish(3))
    others = [group.claim(annotations=wish(3)) for _ in range(2)]
    assert nodes_of(group, others) == [two, two]
    assert group.get_claim(first)["spec"]["volumeName"] == reserved


def test_sizes_that_fit_only_one_way_are_given_that_way(group: Place) -> None:
    node = group.node()
    small, big = group.available(node=node, size="5Gi"), group.available(node=node, size="50Gi")
    claims = [group.claim(annotations=wish(), size="1Gi"), group.claim(annotations=wish(), size="20Gi")]
    got = [group.until_claim(claim, "Bound")["spec"]["volumeName"] for claim in claims]
    assert got == [small, big]


@pytest.mark.parametrize("text", ["two", '{"name": "a"}', '{"name": "a", "count": 0}'])
def test_a_bad_group_is_named_in_an_event(group: Place, text: str) -> None:
    claim = group.claim(annotations={GROUP: text})
    event = group.until_event(claim, "FailedBinding")
    assert event["type"] == "Warning"
    assert GROUP in event["message"]


@pytest.mark.seed("SCH-4")
def test_claims_of_a_spread_land_on_different_nodes(group: Place) -> None:
    one, two = group.node(), group.node()
    for node in (one, one, two, two):
        group.available(node=node)
    apart = {SPREAD: json.dumps({"name": group.class_name})}
    claims = [group.claim(annotations=apart) for _ in range(2)]
    assert sorted(nodes_of(group, claims)) == sorted([one, two])
    third = group.claim(annotations=apart)
    message = group.until_event(third, "FailedBinding")["message"]
    assert one in message and two in message
    group.stays_pending(third)


@pytest.mark.seed("SCH-4")
def test_a_spread_may_be_over_racks(group: Place) -> None:
    racks = {group.node(**{"example.com/rack": rack}): rack for rack in ("a", "a", "b")}
    for node in racks:
        group.available(node=node)
    apart = {SPREAD: json.dumps({"name": group.class_name, "key": "example.com/rack"})}
    claims = [group.claim(annotations=apart) for _ in range(2)]
    assert sorted(racks[node] for node in nodes_of(group, claims)) == ["a", "b"]


@pytest.mark.seed("SCH-4")
def test_a_node_is_free_for_the_spread_again_when_its_claim_goes(group: Place) -> None:
    node = group.node()
    group.available(node=node)
    group.available(node=node)
    apart = {SPREAD: json.dumps({"name": group.class_name})}
    first, _ = group.bound(annotations=apart)
    second = group.claim(annotations=apart)
    group.until_event(second, "FailedBinding")
    group.delete_claim(first)
    assert nodes_of(group, [second]) == [node]


def test_groups_of_a_spread_go_to_different_nodes_each_as_a_whole(group: Place) -> None:
    one, two = group.node(), group.node()
    for node in (one, one, two, two):
        group.available(node=node)
    apart = {SPREAD: json.dumps({"name": group.class_name})}
    claims = [[group.claim(annotations=wish(2, name) | apart) for _ in range(2)] for name in ("a", "b")]
    found = [set(nodes_of(group, each)) for each in claims]
    assert [len(each) for each in found] == [1, 1]
    assert found[0] != found[1]


def test_a_group_that_was_bound_apart_before_it_could_be_placed_is_told(group: Place) -> None:
    names = [builders.unique("claim") for _ in range(2)]
    for name in names:
        group.available(node=group.node(), claim=group.reference(name))
    for name in names:
        group.bound(name=name, annotations=wish())
    for name in names:
        assert "WaitForFirstConsumer" in group.until_event(name, "GroupApart")["message"]
