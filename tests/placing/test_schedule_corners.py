"""Corners of scheduling in which one could easily think otherwise than Kubernetes."""

from __future__ import annotations

from typing import Any

from tests.contract import builders
from tests.placing.cluster import HOSTNAME, OTHERS, Cluster
from tests.placing.places import Place
from tests.placing.test_schedule_nodes import with_port
from tests.placing.test_schedule_pods import APART, apart, term
from tests.placing.test_schedule_volumes import NO_VOLUME, SELECTED_NODE

PORTS = "node(s) didn't have free ports for the requested pod ports"


def node_terms(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    found = [{"matchExpressions": expressions} for expressions in terms]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}}


def test_what_a_pod_asks_for_as_a_whole_counts_instead_of_its_containers(cluster: Cluster) -> None:
    node = cluster.node(cpu="2")
    whole = {"requests": {"cpu": "1500m"}}
    first = cluster.pod(resources=whole, requests={"cpu": "100m"})
    assert cluster.until_node(first) == node
    cluster.refused(requests={"cpu": "600m"}, why={"Insufficient cpu": 1})


def test_ephemeral_storage_is_rationed_where_it_is_measured(cluster: Cluster) -> None:
    node = cluster.node(ephemeral_storage="1Gi")
    assert cluster.placed(requests={"ephemeral-storage": "600Mi"}) == node
    cluster.refused(requests={"ephemeral-storage": "600Mi"}, why={"Insufficient ephemeral-storage": 1})


def test_terms_of_node_affinity_are_alternatives_and_an_empty_one_is_none(cluster: Cluster) -> None:
    node = cluster.node(labels={"disk": "ssd"})
    hdd = [{"key": "disk", "operator": "In", "values": ["hdd"]}]
    ssd = [{"key": "disk", "operator": "In", "values": ["ssd"]}]
    assert cluster.placed(affinity=node_terms(hdd, ssd)) == node
    cluster.refused(affinity=node_terms(hdd, []), words=OTHERS)


def test_node_selector_and_node_affinity_must_both_hold(cluster: Cluster) -> None:
    cluster.node(labels={"disk": "ssd"})
    ssd = [{"key": "disk", "operator": "In", "values": ["ssd"]}]
    cluster.refused(affinity=node_terms(ssd), node_selector={"rack": "r1"}, words=OTHERS)


def test_a_toleration_without_a_key_tolerates_everything(cluster: Cluster) -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "c", "effect": "NoExecute"}]
    node = cluster.node(spec={"taints": taints})
    assert cluster.placed(tolerations=[{"operator": "Exists"}]) == node
    some = [{"operator": "Exists", "effect": "NoSchedule"}]
    cluster.refused(tolerations=some, why={"node(s) had untolerated taint(s)": 1})


def test_ports_of_a_pod_in_the_network_of_the_node_are_ports_of_the_node(cluster: Cluster) -> None:
    cluster.node()
    cluster.placed(hostNetwork=True, containers=with_port())
    cluster.refused(containers=with_port(hostPort=80), why={PORTS: 1})


def test_ports_on_different_addresses_do_not_clash(cluster: Cluster) -> None:
    node = cluster.node()
    assert cluster.placed(containers=with_port(hostPort=80, hostIP="127.0.0.1")) == node
    assert cluster.placed(containers=with_port(hostPort=80, hostIP="127.0.0.2")) == node
    cluster.refused(containers=with_port(hostPort=80), why={PORTS: 1})


def test_apart_can_mean_only_pods_of_the_same_revision(cluster: Cluster) -> None:
    node = cluster.node()
    how = apart(term("web", matchLabelKeys=["revision"]))
    for number in "12":
        assert cluster.placed(labels={"app": "web", "revision": number}, affinity=how) == node
    cluster.refused(labels={"app": "web", "revision": "2"}, affinity=how, why={APART: 1})


def test_two_pods_that_race_for_a_claim_for_one_pod_only(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    node = cluster.node()
    place.available(node=node, accessModes=["ReadWriteOncePod"])
    claim = place.claim(accessModes=["ReadWriteOncePod"])
    # Who is tried before the claim is known comes after the other one.
    cluster.fence()
    pods = [cluster.pod(claim), cluster.pod(claim)]
    assert cluster.until_node(pods[0]) == node
    cluster.until_refused(pods[1], "ReadWriteOncePod")
    cluster.stays_without_node(pods[1])


def test_a_volume_in_deletion_is_not_given(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    node = cluster.node()
    volume = place.available(node=node)
    place.api.merge(place.volume_path(volume), {"metadata": {"finalizers": ["example.com/hold"]}})
    place.api.delete(place.volume_path(volume))
    cluster.fence()
    cluster.refused(place.claim(), why={NO_VOLUME: 1})
    assert not place.get_volume(volume)["spec"].get("claimRef")


def test_a_volume_reserved_on_a_node_that_will_not_do_is_not_replaced(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    full, roomy = cluster.node(cpu="1"), cluster.node()
    place.available(node=roomy)
    name = builders.unique("claim")
    place.available(node=full, claim=place.reference(name))
    place.claim(name=name)
    cluster.fence()
    pod = cluster.pod(name, requests={"cpu": "2"})
    cluster.until_refused(pod, "1 Insufficient cpu")
    cluster.stays_without_node(pod)


def test_a_node_that_was_selected_for_a_claim_stays_selected(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True, provisioner="example.com/maker")
    selected, other = cluster.node(cpu="1"), cluster.node()
    place.available(node=other)
    claim = place.claim(annotations={SELECTED_NODE: selected})
    cluster.refused(claim, requests={"cpu": "2"}, why={"Insufficient cpu": 1, NO_VOLUME: 1})


def test_a_claim_that_names_a_volume_must_be_bound_first(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    cluster.node()
    claim = place.claim(volumeName="not-there-yet")
    cluster.refused(claim, words="pod has unbound immediate PersistentVolumeClaims.")


def test_a_volume_of_another_zone_is_refused(cluster: Cluster, place: Place) -> None:
    zone = "topology.kubernetes.io/zone"
    place.storage_class()
    cluster.node(labels={zone: "z1"})
    anywhere = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": HOSTNAME, "operator": "Exists"}]}]}}
    place.available(nodeAffinity=anywhere, labels={zone: "z2"})
    claim, _ = place.bound()
    pod = cluster.pod(claim)
    cluster.until_refused(pod, why={"node(s) had no available volume zone": 1})
    zoned = cluster.node(labels={zone: "z2"})
    assert cluster.until_node(pod) == zoned


def test_a_class_that_comes_later_lets_the_pod_go_on(cluster: Cluster, place: Place) -> None:
    node = cluster.node()
    claim = place.claim()
    pod = cluster.pod(claim)
    cluster.until_refused(pod)
    place.volume(node=node)
    place.storage_class(waits=True)
    assert cluster.until_node(pod) == node


def test_pods_that_were_there_before_the_disks_get_them_as_they_come(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    nodes = [cluster.node(), cluster.node()]
    pods = [cluster.pod(place.claim()) for _ in range(6)]
    for pod in pods:
        cluster.until_refused(pod, "2 node(s) didn't find available persistent volumes to bind")
    for number in range(6):
        place.volume(node=nodes[number % 2])
    where = [cluster.until_node(pod) for pod in pods]
    assert sorted(where.count(node) for node in nodes) == [3, 3]
