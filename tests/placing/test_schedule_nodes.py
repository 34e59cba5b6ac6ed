"""What a pod and a node ask of each other: resources, labels, taints, ports. Both engines place the same way."""

from __future__ import annotations

from typing import Any

import pytest
from tests.placing.cluster import OTHERS, OURS, Cluster


def required(*expressions: dict[str, Any], fields: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    term: dict[str, Any] = {"matchExpressions": [*expressions]}
    if fields:
        term["matchFields"] = fields
    how = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": how}


@pytest.mark.seed("SCH-5")
def test_a_pod_goes_where_there_is_room_for_it(cluster: Cluster) -> None:
    cluster.node(cpu="1")
    large = cluster.node(cpu="4")
    cluster.node(memory="1Gi")
    assert cluster.placed(requests={"cpu": "2", "memory": "2Gi"}) == large


@pytest.mark.seed("SCH-5")
def test_what_is_lacking_is_counted_for_each_node(cluster: Cluster) -> None:
    cluster.node(cpu="1")
    cluster.node(cpu="1", memory="1Gi")
    cluster.refused(requests={"cpu": "2", "memory": "2Gi"}, why={"Insufficient cpu": 2, "Insufficient memory": 1})


def test_pods_that_are_there_leave_less_room(cluster: Cluster) -> None:
    node = cluster.node(cpu="1")
    first = cluster.pod(requests={"cpu": "600m"})
    assert cluster.until_node(first) == node
    second = cluster.pod(requests={"cpu": "600m"})
    cluster.until_refused(second, why={"Insufficient cpu": 1})
    cluster.delete_pod(first)
    assert cluster.until_node(second) == node


def test_a_pod_that_has_finished_makes_room(cluster: Cluster) -> None:
    node = cluster.node(cpu="1")
    first = cluster.pod(requests={"cpu": "600m"})
    cluster.until_node(first)
    second = cluster.pod(requests={"cpu": "600m"})
    cluster.until_refused(second)
    cluster.place.api.merge(cluster.place.space.core("pods", first, "status"), {"status": {"phase": "Succeeded"}})
    assert cluster.until_node(second) == node


def test_a_node_takes_no_more_pods_than_it_says(cluster: Cluster) -> None:
    cluster.node(pods="1")
    cluster.placed()
    cluster.refused(why={"Too many pods": 1})


def test_init_containers_count_one_by_one_and_sidecars_together(cluster: Cluster) -> None:
    node = cluster.node(cpu="2")
    one = {"image": "registry.invalid/app:1", "resources": {"requests": {"cpu": "1500m"}}}
    assert cluster.placed(initContainers=[{"name": "a", **one}, {"name": "b", **one}], requests={"cpu": "1"}) == node
    sidecar = {"name": "a", **one, "restartPolicy": "Always"}
    cluster.refused(initContainers=[sidecar], requests={"cpu": "1"}, why={"Insufficient cpu": 1})


def test_resources_that_no_node_has_are_named(cluster: Cluster) -> None:
    cluster.node()
    wanted = {"example.com/gpu": "1"}
    container = {"name": "main", "image": "registry.invalid/app:1", "resources": {"requests": wanted, "limits": wanted}}
    cluster.refused(containers=[container], why={"Insufficient example.com/gpu": 1})


def test_a_new_node_is_used_by_who_waited_for_one(cluster: Cluster) -> None:
    pod = cluster.pod(requests={"cpu": "3"})
    cluster.until_refused(pod)
    node = cluster.node(cpu="4")
    assert cluster.until_node(pod) == node


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["ssd", "nvme"], True),
        ("In", ["hdd"], False),
        ("NotIn", ["hdd"], True),
        ("NotIn", ["ssd"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ],
)
def test_node_affinity_is_required(cluster: Cluster, operator: str, values: list[str], fits: bool) -> None:
    node = cluster.node(labels={"disk": "ssd"})
    affinity = required({"key": "disk", "operator": operator, "values": values})
    if fits:
        assert cluster.placed(affinity=affinity) == node
    else:
        cluster.refused(affinity=affinity, words=OTHERS)


@pytest.mark.parametrize(("operator", "value", "fits"), [("Gt", "7", True), ("Gt", "8", False), ("Lt", "9", True)])
def test_node_affinity_compares_numbers(cluster: Cluster, operator: str, value: str, fits: bool) -> None:
    node = cluster.node(labels={"disks": "8"})
    affinity = required({"key": "disks", "operator": operator, "values": [value]})
    if fits:
        assert cluster.placed(affinity=affinity) == node
    else:
        cluster.refused(affinity=affinity, words=OTHERS)


def test_a_node_can_be_asked_for_by_its_name(cluster: Cluster) -> None:
    cluster.node()
    wanted = cluster.node()
    name = {"key": "metadata.name", "operator": "In", "values": [wanted]}
    assert cluster.placed(affinity=required(fields=[name])) == wanted


def test_a_node_selector_is_met_once_the_node_gets_the_label(cluster: Cluster) -> None:
    node = cluster.node()
    pod = cluster.pod(node_selector={"disk": "ssd"})
    cluster.until_refused(pod)
    cluster.change_node(node, {"metadata": {"labels": {"disk": "ssd"}}})
    assert cluster.until_node(pod) == node


def test_the_preferred_node_is_taken_when_there_is_room(cluster: Cluster) -> None:
    cluster.node()
    liked = cluster.node(labels={"disk": "ssd"}, cpu="2")
    preference = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    how = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": preference}]}
    assert cluster.placed(affinity={"nodeAffinity": how}) == liked
    assert cluster.placed(affinity={"nodeAffinity": how}, requests={"cpu": "3"}) != liked


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_taint_keeps_pods_away_that_do_not_tolerate_it(cluster: Cluster, effect: str) -> None:
    node = cluster.node(spec={"taints": [{"key": "disks", "value": "broken", "effect": effect}]})
    refused = cluster.pod()
    cluster.until_refused(refused, why={"node(s) had untolerated taint(s)": 1})
    other = {"key": "disks", "operator": "Equal", "value": "fine"}
    cluster.refused(tolerations=[other], why={"node(s) had untolerated taint(s)": 1})
    assert cluster.placed(tolerations=[{"key": "disks", "operator": "Exists", "effect": effect}]) == node
    assert cluster.placed(tolerations=[{"key": "disks", "value": "broken"}]) == node
    cluster.change_node(node, {"spec": {"taints": None}})
    assert cluster.until_node(refused) == node


def test_a_node_that_prefers_no_pods_is_taken_last(cluster: Cluster) -> None:
    cluster.node(spec={"taints": [{"key": "disks", "effect": "PreferNoSchedule"}]})
    welcoming = cluster.node()
    assert cluster.placed() == welcoming


def test_a_cordoned_node_takes_only_who_tolerates_that(cluster: Cluster) -> None:
    node = cluster.node(spec={"unschedulable": True})
    pod = cluster.pod()
    cluster.until_refused(pod, why={"node(s) were unschedulable": 1})
    toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    assert cluster.placed(tolerations=[toleration]) == node
    cluster.change_node(node, {"spec": {"unschedulable": None, "taints": None}})
    assert cluster.until_node(pod) == node


def with_port(**port: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "image": "registry.invalid/app:1", "ports": [{"containerPort": 80, **port}]}]


def test_a_port_of_the_node_is_given_once(cluster: Cluster) -> None:
    node = cluster.node()
    first = cluster.pod(containers=with_port(hostPort=8080))
    cluster.until_node(first)
    second = cluster.pod(containers=with_port(hostPort=8080, hostIP="127.0.0.1"))
    cluster.until_refused(second, why={"node(s) didn't have free ports for the requested pod ports": 1})
    assert cluster.placed(containers=with_port(hostPort=8080, protocol="UDP")) == node
    cluster.delete_pod(first)
    assert cluster.until_node(second) == node


def test_a_pod_of_another_scheduler_is_left_alone(cluster: Cluster) -> None:
    cluster.node()
    pod = cluster.pod(schedulerName="another-scheduler")
    cluster.stays_without_node(pod)
    assert cluster.condition(pod) == {}


def test_a_pod_waits_at_its_gates(cluster: Cluster) -> None:
    node = cluster.node()
    pod = cluster.pod(schedulingGates=[{"name": "example.com/gate"}])
    cluster.stays_without_node(pod)
    assert cluster.condition(pod)["reason"] == "SchedulingGated"
    cluster.place.api.merge(cluster.place.space.core("pods", pod), {"spec": {"schedulingGates": None}})
    assert cluster.until_node(pod) == node


def test_a_pod_with_a_node_name_is_not_scheduled(cluster: Cluster) -> None:
    cluster.node()
    pod = cluster.pod(nodeName="a-node-that-is-not-there", node_selector={OURS: "nobody"})
    cluster.until_node(cluster.pod())
    assert cluster.get_pod(pod)["spec"]["nodeName"] == "a-node-that-is-not-there"
    assert cluster.condition(pod).get("reason") is None
