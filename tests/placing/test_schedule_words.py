"""What is said about a pod: conditions and events, in the words that users know."""

from __future__ import annotations

import re

from tests.contract import wire
from tests.contract.builders import Object
from tests.placing.cluster import Cluster
from tests.placing.places import Place


def test_a_pod_without_a_node_says_so_in_its_condition_and_in_an_event(cluster: Cluster, place: Place) -> None:
    cluster.node(cpu="1")
    pod = cluster.pod(requests={"cpu": "2"})
    said = cluster.until_refused(pod, "1 Insufficient cpu")
    assert re.match(r"0/\d+ nodes are available: 1 Insufficient cpu(, \d+ node\(s\) [^,.]+)?\.", said)
    condition = cluster.condition(pod)
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["lastTransitionTime"]
    assert condition["observedGeneration"] == cluster.get_pod(pod)["metadata"]["generation"]

    def told() -> Object | None:
        # Nodes of other tests come and go, and each time their number is another.
        first = said.split(". ")[0].removesuffix(".")
        found = (each for each in place.events(pod, kind="Pod") if each["reason"] == "FailedScheduling")
        return next((each for each in found if each["message"].startswith(first)), None)

    event = wire.eventually(told, "an event that says the same") or {}
    assert event["type"] == "Warning"
    assert (event.get("reportingComponent") or event["source"]["component"]) == "default-scheduler"


def test_a_pod_with_a_node_says_so_in_its_condition_and_in_an_event(cluster: Cluster, place: Place) -> None:
    node = cluster.node()
    pod = cluster.pod()
    cluster.until_node(pod)
    assert cluster.condition(pod)["status"] == "True"
    event = place.until_event(pod, "Scheduled", kind="Pod")
    assert event["type"] == "Normal"
    assert event["message"] == f"Successfully assigned {place.space.name}/{pod} to {node}"


def test_the_condition_is_true_once_there_is_a_node_after_all(cluster: Cluster) -> None:
    pod = cluster.pod(requests={"cpu": "2"})
    cluster.until_refused(pod)
    node = cluster.node()
    assert cluster.until_node(pod) == node
    condition = cluster.condition(pod)
    assert condition["status"] == "True"
    assert "reason" not in condition


def test_the_words_change_with_the_world(cluster: Cluster) -> None:
    node = cluster.node(cpu="1")
    pod = cluster.pod(requests={"cpu": "2"})
    cluster.until_refused(pod, "1 Insufficient cpu")
    cluster.change_node(node, {"spec": {"taints": [{"key": "disks", "effect": "NoSchedule"}]}})
    cluster.until_refused(pod, why={"node(s) had untolerated taint(s)": 1})


def test_reasons_stand_in_the_order_of_their_text(cluster: Cluster) -> None:
    cluster.node(cpu="1")
    cluster.node(cpu="1")
    cluster.node(spec={"unschedulable": True})
    said = cluster.refused(requests={"cpu": "2"}, why={"Insufficient cpu": 2, "node(s) were unschedulable": 1})
    first, _, _ = said.partition(". ")
    parts = first.removesuffix(".").partition(": ")[2].split(", ")
    assert parts == sorted(parts)
    assert {"1 node(s) were unschedulable", "2 Insufficient cpu"} <= {*parts}
