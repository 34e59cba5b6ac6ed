"""Pods whose claims were placed together or apart: they go where their volumes are."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.contract import wire
from tests.placing import placer_process
from tests.placing.cluster import Cluster
from tests.placing.places import Place

GROUP = {"volume.beta.kubernetes.io/group": json.dumps({"name": "group1", "count": 2})}


@pytest.fixture(scope="module", autouse=True)
def _placer(target: wire.Target) -> Iterator[None]:
    with placer_process.beside(target):
        yield


@pytest.mark.seed("LVD-5", "SCH-3")
def test_a_pod_with_the_claims_of_a_group_goes_to_their_node(place: Place, cluster: Cluster) -> None:
    place.storage_class(waits=True)
    one, two = cluster.node(), cluster.node()
    place.available(node=one)
    for _ in range(2):
        place.available(node=two)
    claims = [place.claim(annotations=GROUP) for _ in range(2)]
    for claim in claims:
        place.until_claim(claim, "Bound")
    assert cluster.placed(*claims) == two


@pytest.mark.seed("SCH-4", "SCH-3")
def test_pods_whose_claims_are_spread_run_on_different_nodes(place: Place, cluster: Cluster) -> None:
    place.storage_class(waits=True)
    nodes = [cluster.node(), cluster.node()]
    for node in (*nodes, *nodes):
        place.available(node=node)
    apart = {"localpv.dev/spread": json.dumps({"name": place.class_name})}
    claims = [place.claim(annotations=apart) for _ in range(2)]
    for claim in claims:
        place.until_claim(claim, "Bound")
    assert sorted(cluster.placed(claim) for claim in claims) == sorted(nodes)
