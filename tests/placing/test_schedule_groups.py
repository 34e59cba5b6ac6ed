"""Pods whose claims were placed together or apart: they go where their volumes are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract import builders, wire
from tests.placing import placer_process
from tests.placing.cluster import Cluster
from tests.placing.places import Place

GROUP = {"volume.beta.kubernetes.io/group": json.dumps({"name": "group1", "count": 2})}


@pytest.fixture(scope="module", autouse=True)
def _placer(target: wire.Target) -> Iterator[None]:
    with placer_process.beside(target):
        yield


@pytest.mark.seed("LVD-5", "SCH-3")
def test_a_pod_with_the_claims_of_a_group_goes_to_their_node(
    place: Place, cluster: Cluster, target: wire.Target
) -> None:
    place.storage_class(waits=target.log is None)
    one, two = cluster.node(), cluster.node()
    place.available(node=one)
    for _ in range(2):
        place.available(node=two)
    claims = [place.claim(annotations=GROUP) for _ in range(2)]
    for claim in claims:
        place.until_claim(claim, "Bound")
    assert cluster.placed(*claims) == two


@pytest.mark.seed("SCH-4", "SCH-3")
def test_pods_whose_claims_are_spread_run_on_different_nodes(
    place: Place, cluster: Cluster, target: wire.Target
) -> None:
    place.storage_class(waits=target.log is None)
    nodes = [cluster.node(), cluster.node()]
    for node in (*nodes, *nodes):
        place.available(node=node)
    apart = {"localpv.dev/spread": json.dumps({"name": place.class_name})}
    claims = [place.claim(annotations=apart) for _ in range(2)]
    for claim in claims:
        place.until_claim(claim, "Bound")
    assert sorted(cluster.placed(claim) for claim in claims) == sorted(nodes)


# What the pods need. On Kubernetes the manager places claims before there is a pod (docs/limits.md).


@pytest.fixture
def ours(place: Place, target: wire.Target) -> Place:
    if target.log is None:
        pytest.skip("beside kube-scheduler claims must be placed before their pods are there")
    place.storage_class(waits=True)
    return place


def a_group(place: Place, *, name: str = "group1", count: int = 2) -> list[str]:
    wish = {"volume.beta.kubernetes.io/group": json.dumps({"name": name, "count": count})}
    return [place.claim(annotations=wish) for _ in range(count)]


def two_nodes(place: Place, cluster: Cluster, **first: Any) -> tuple[str, str]:
    """The first is the one that claims prefer: its volumes are the smaller ones."""
    one, two = cluster.node(**first), cluster.node()
    for _ in range(4):
        place.available(node=one, size="1Gi")
        place.available(node=two, size="2Gi")
    return one, two


@pytest.mark.seed("SCH-6")
@pytest.mark.parametrize(
    ("first", "pod"),
    [
        ({"cpu": "1"}, {"requests": {"cpu": "2"}}),
        ({"memory": "1Gi"}, {"requests": {"memory": "2Gi"}}),
        ({"spec": {"taints": [{"key": "kept", "effect": "NoSchedule"}]}}, {}),
        ({"labels": {"room": "small"}}, {"node_selector": {"room": "large"}}),
    ],
    ids=["processors", "memory", "taints", "node selector"],
)
def test_a_group_goes_where_its_pod_can_be(ours: Place, cluster: Cluster, first: Any, pod: Any) -> None:
    _, two = two_nodes(ours, cluster, **first)
    if "node_selector" in pod:
        cluster.change_node(two, {"metadata": {"labels": {"room": "large"}}})
    claims = a_group(ours)
    ours.until_event(claims[0], "WaitForFirstConsumer")
    assert cluster.placed(*claims, **pod) == two


@pytest.mark.seed("SCH-6")
def test_a_group_goes_where_all_of_its_pods_have_room_together(ours: Place, cluster: Cluster) -> None:
    _, two = two_nodes(ours, cluster, cpu="3")
    # The group is complete only after both pods are there: a pod that comes later must take what it finds.
    names = [builders.unique("claim") for _ in range(2)]
    pods = [cluster.pod(name, requests={"cpu": "2"}) for name in names]
    for name, pod in zip(names, pods, strict=True):
        cluster.until_refused(pod, f'persistentvolumeclaim "{name}" not found.')
    for name in names:
        ours.claim(name=name, annotations=GROUP)
    assert [cluster.until_node(pod) for pod in pods] == [two, two]


@pytest.mark.seed("SCH-6")
def test_two_groups_do_not_take_the_room_of_one_pod(ours: Place, cluster: Cluster) -> None:
    one, two = two_nodes(ours, cluster, cpu="3")
    groups = [a_group(ours, name=name) for name in ("first", "second")]
    pods = [cluster.pod(*claims, requests={"cpu": "2"}) for claims in groups]
    assert sorted(cluster.until_node(pod) for pod in pods) == sorted((one, two))


@pytest.mark.seed("SCH-6")
def test_claims_of_a_spread_go_where_their_pods_can_be(ours: Place, cluster: Cluster) -> None:
    _, two = two_nodes(ours, cluster, cpu="1")
    apart = {"localpv.dev/spread": json.dumps({"name": ours.class_name})}
    assert cluster.placed(ours.claim(annotations=apart), requests={"cpu": "2"}) == two


@pytest.mark.seed("SCH-6")
def test_a_group_whose_pod_fits_nowhere_says_so_and_goes_on_when_there_is_room(ours: Place, cluster: Cluster) -> None:
    one = cluster.node(cpu="1")
    for _ in range(2):
        ours.available(node=one)
    claims = a_group(ours)
    pod = cluster.pod(*claims, requests={"cpu": "2"})
    assert "1 Insufficient cpu" in ours.until_event(claims[0], "FailedBinding")["message"]
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ours.api.merge(f"/api/v1/nodes/{one}/status", {"status": {"capacity": room, "allocatable": room}})
    assert cluster.until_node(pod) == one
