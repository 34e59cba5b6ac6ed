"""Pods with claims: the node that can serve all of them, or none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import builders, wire
from tests.placing.cluster import HOSTNAME, Cluster
from tests.placing.places import Place

OTHER_NODE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


@pytest.mark.seed("AFF-5", "SCH-3")
def test_a_pod_follows_the_volume_that_its_claim_is_bound_to(cluster: Cluster, place: Place) -> None:
    place.storage_class()
    nodes = [cluster.node() for _ in range(3)]
    place.available(node=nodes[1])
    claim, _ = place.bound()
    assert cluster.placed(claim) == nodes[1]
    assert cluster.placed(claim) == nodes[1]


@pytest.mark.seed("AFF-5")
def test_a_bound_volume_elsewhere_is_counted_for_each_node(cluster: Cluster, place: Place) -> None:
    place.storage_class()
    home = cluster.node(cpu="1")
    cluster.node()
    place.available(node=home)
    claim, _ = place.bound()
    cluster.refused(claim, requests={"cpu": "2"}, why={"Insufficient cpu": 1, OTHER_NODE: 1})


@pytest.mark.seed("AFF-1")
def test_a_volume_without_node_affinity_can_be_used_everywhere(cluster: Cluster, place: Place) -> None:
    place.storage_class()
    node = cluster.node()
    place.available(local=None, nodeAffinity=None, hostPath={"path": "/mnt/any"})
    claim, _ = place.bound()
    assert cluster.placed(claim) == node


@pytest.mark.seed("AFF-5")
def test_a_claim_that_waits_gets_a_volume_of_the_node_that_suits_the_pod(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    small, large = cluster.node(cpu="1"), cluster.node(cpu="4")
    place.available(node=small, size="5Gi")
    wanted = place.available(node=large, size="50Gi")
    claim = place.claim()
    assert cluster.placed(claim, requests={"cpu": "2"}) == large
    assert place.until_claim(claim, "Bound")["spec"]["volumeName"] == wanted


def test_the_smallest_volume_of_the_node_is_taken(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    node = cluster.node()
    place.available(node=node, size="50Gi")
    right = place.available(node=node, size="10Gi")
    place.available(node=node, size="1Gi")
    claim = place.claim(size="5Gi")
    cluster.fence()
    cluster.placed(claim)
    assert place.until_claim(claim, "Bound")["spec"]["volumeName"] == right


@pytest.mark.seed("LVD-6", "AFF-5", "SCH-1")
def test_all_claims_of_a_pod_are_served_by_one_node(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    one, two = cluster.node(), cluster.node()
    place.available(node=one)
    disks = {place.available(node=two), place.available(node=two)}
    claims = [place.claim(), place.claim()]
    assert cluster.placed(*claims) == two
    assert {place.until_claim(claim, "Bound")["spec"]["volumeName"] for claim in claims} == disks


@pytest.mark.seed("LVD-6", "SCH-1")
def test_a_pod_whose_claims_no_node_can_serve_together_takes_nothing(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    one, two = cluster.node(), cluster.node()
    disks = [place.available(node=one), place.available(node=two)]
    claims = [place.claim(), place.claim()]
    pod = cluster.pod(*claims)
    cluster.until_refused(pod, why={NO_VOLUME: 2})
    assert [place.get_volume(disk)["spec"].get("claimRef") for disk in disks] == [None, None]
    more = place.volume(node=two)
    assert cluster.until_node(pod) == two
    assert place.until_volume(more, "Bound")


def test_the_large_claim_gets_the_large_volume_whatever_their_order(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    node = cluster.node()
    small, large = place.available(node=node, size="5Gi"), place.available(node=node, size="50Gi")
    wants_large, wants_small = place.claim(size="20Gi"), place.claim(size="1Gi")
    cluster.fence()
    cluster.placed(wants_large, wants_small)
    assert place.until_claim(wants_large, "Bound")["spec"]["volumeName"] == large
    assert place.until_claim(wants_small, "Bound")["spec"]["volumeName"] == small


@pytest.mark.seed("SCH-3")
def test_a_claim_that_waits_goes_where_the_bound_one_is(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    cluster.node()
    home = cluster.node()
    name = builders.unique("claim")
    place.available(node=home, claim=place.reference(name))
    place.bound(name=name)
    place.available(node=home)
    assert cluster.placed(name, place.claim()) == home


def test_a_volume_that_was_reserved_for_the_claim_draws_the_pod(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    cluster.node()
    home = cluster.node()
    name = builders.unique("claim")
    place.available(node=home, size="50Gi", claim=place.reference(name))
    place.available(node=home, size="2Gi")
    place.claim(name=name)
    cluster.fence()
    assert cluster.placed(name) == home


def test_many_pods_at_once_get_a_volume_each(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    nodes = [cluster.node() for _ in range(3)]
    volumes = {place.volume(node=node) for node in nodes for _ in range(4)}
    for volume in volumes:
        place.until_volume(volume, "Available")
    claims = [place.claim() for _ in range(12)]
    pods = [cluster.pod(claim) for claim in claims]
    where = [cluster.until_node(pod) for pod in pods]
    got = [place.until_claim(claim, "Bound")["spec"]["volumeName"] for claim in claims]
    assert set(got) == volumes
    for node, volume in zip(where, got, strict=True):
        terms = place.get_volume(volume)["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms[0]["matchExpressions"][0]["values"] == [node]


def test_two_pods_of_one_claim_that_waits_go_to_the_same_node(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    nodes = [cluster.node() for _ in range(3)]
    for node in nodes:
        place.available(node=node)
    claim = place.claim()
    pods = [cluster.pod(claim) for _ in range(4)]
    assert len({cluster.until_node(pod) for pod in pods}) == 1


@pytest.mark.parametrize("key", [HOSTNAME, "placing.test/rack"])
def test_any_label_can_tie_a_volume_to_nodes(cluster: Cluster, place: Place, key: str) -> None:
    place.storage_class(waits=True)
    cluster.node(labels={"placing.test/rack": "r1"})
    wanted = cluster.node(labels={"placing.test/rack": "r2"})
    value = wanted if key == HOSTNAME else "r2"
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": ["nobody", value]}]}]
    place.available(nodeAffinity={"required": {"nodeSelectorTerms": terms}})
    assert cluster.placed(place.claim()) == wanted


@pytest.mark.seed("AFF-2", "AFF-3", "AFF-4")
@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": "disk", "operator": "In", "values": ["ssd"]}, True),
        ({"key": "disk", "operator": "NotIn", "values": ["hdd"]}, True),
        ({"key": "disk", "operator": "Exists"}, True),
        ({"key": "rack", "operator": "DoesNotExist"}, True),
        ({"key": "disks", "operator": "Gt", "values": ["7"]}, True),
        ({"key": "disks", "operator": "Lt", "values": ["8"]}, False),
        ({"key": "rack", "operator": "In", "values": ["r1"]}, False),
        ({"key": "disk", "operator": "In", "values": ["hdd"]}, False),
    ],
)
def test_the_affinity_of_a_volume_is_held_against_the_labels_of_the_node(
    cluster: Cluster, place: Place, expression: dict[str, Any], fits: bool
) -> None:
    place.storage_class()
    node = cluster.node(labels={"disk": "ssd", "disks": "8"})
    ours = {"key": HOSTNAME, "operator": "Exists"}
    place.available(nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [ours, expression]}]}})
    claim, _ = place.bound()
    pod = cluster.pod(claim)
    if fits:
        assert cluster.until_node(pod) == node
    else:
        cluster.until_refused(pod, why={OTHER_NODE: 1})


def test_a_pod_waits_for_its_claim(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    node = cluster.node()
    place.available(node=node)
    name = builders.unique("claim")
    pod = cluster.pod(name)
    cluster.until_refused(pod, f'persistentvolumeclaim "{name}" not found.')
    place.claim(name=name)
    assert cluster.until_node(pod) == node


def test_a_pod_waits_for_a_claim_that_is_bound_without_it(cluster: Cluster, place: Place) -> None:
    place.storage_class()
    node = cluster.node()
    claim = place.claim()
    pod = cluster.pod(claim)
    cluster.until_refused(pod, "pod has unbound immediate PersistentVolumeClaims.")
    place.volume(node=node)
    assert cluster.until_node(pod) == node


def test_a_claim_of_a_class_that_is_not_there_counts_as_one_that_does_not_wait(cluster: Cluster, place: Place) -> None:
    cluster.node()
    claim = place.claim()
    cluster.refused(claim, words="pod has unbound immediate PersistentVolumeClaims.")


def test_a_claim_in_deletion_serves_no_further_pod(cluster: Cluster, place: Place) -> None:
    place.storage_class()
    node = cluster.node()
    place.available(node=node)
    claim, _ = place.bound()
    assert cluster.placed(claim) == node
    place.delete_claim(claim)
    cluster.fence()
    cluster.refused(claim, words=f'persistentvolumeclaim "{claim}" is being deleted.')


def test_a_claim_whose_volume_is_gone_is_named(cluster: Cluster, place: Place) -> None:
    place.storage_class()
    cluster.node()
    volume = place.available(node="elsewhere")
    claim, _ = place.bound()
    place.until_volume(volume, "Bound")
    place.api.delete(place.volume_path(volume))
    place.api.merge(place.volume_path(volume), {"metadata": {"finalizers": None}})
    place.until_claim(claim, "Lost")
    cluster.fence()
    wanted = f'persistentvolumeclaim "{claim}" bound to non-existent persistentvolume "{volume}".'
    cluster.refused(claim, words=wanted)


def test_a_claim_for_one_pod_only_serves_one_pod_only(cluster: Cluster, place: Place) -> None:
    place.storage_class()
    node = cluster.node()
    place.available(node=node, accessModes=["ReadWriteOncePod"])
    claim, _ = place.bound(accessModes=["ReadWriteOncePod"])
    first = cluster.pod(claim)
    cluster.until_node(first)
    second = cluster.pod(claim)
    phrase = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by"
        " another pod"
    )
    cluster.until_refused(second, why={phrase: 1})
    cluster.delete_pod(first)
    assert cluster.until_node(second) == node


def test_a_claim_to_be_provisioned_is_told_its_node(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True, provisioner="example.com/maker")
    cluster.node(cpu="1")
    node = cluster.node()
    claim = place.claim()
    pod = cluster.pod(claim, requests={"cpu": "2"})
    selected = wire.eventually(
        lambda: place.get_claim(claim)["metadata"].get("annotations", {}).get(SELECTED_NODE), "a node is selected"
    )
    assert selected == node
    assert not cluster.get_pod(pod)["spec"].get("nodeName")
    place.volume(node=node, claim=place.reference(claim, place.get_claim(claim)["metadata"]["uid"]))
    assert cluster.until_node(pod) == node


def test_a_volume_that_is_there_is_preferred_to_one_to_be_made(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True, provisioner="example.com/maker")
    node = cluster.node()
    volume = place.available(node=node)
    claim = place.claim()
    cluster.fence()
    assert cluster.placed(claim) == node
    assert place.until_claim(claim, "Bound")["spec"]["volumeName"] == volume


def test_a_class_provisions_only_where_it_says(cluster: Cluster, place: Place) -> None:
    allowed = cluster.node()
    topology = [{"matchLabelExpressions": [{"key": HOSTNAME, "values": [allowed]}]}]
    place.storage_class(waits=True, provisioner="example.com/maker", allowedTopologies=topology)
    other = cluster.node()
    pod = cluster.pod(place.claim(), node_selector={HOSTNAME: other})
    cluster.until_refused(pod, why={NO_VOLUME: 1})


def test_an_ephemeral_volume_waits_for_the_claim_of_its_pod(cluster: Cluster, place: Place) -> None:
    place.storage_class(waits=True)
    cluster.node()
    template = {"spec": builders.claim(storageClassName=place.class_name)["spec"]}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    # A claim of somebody else that happens to have the name.
    made = builders.pod(builders.unique("pod"), spec={"volumes": [volume]})
    name = made["metadata"]["name"]
    place.claim(name=f"{name}-scratch")
    place.api.post(place.space.core("pods"), made)
    cluster.until_refused(name, "was not created for pod")


def test_a_pod_can_be_sent_to_a_node_without_its_volume_but_its_claim_stays_where_it_is(
    cluster: Cluster, place: Place
) -> None:
    place.storage_class()
    home, other = cluster.node(), cluster.node()
    volume = place.available(node=home)
    claim, _ = place.bound()
    pod = cluster.pod(claim, nodeName=other)
    assert cluster.until_node(cluster.pod(claim)) == home
    assert cluster.get_pod(pod)["status"]["phase"] == "Pending"
    assert place.get_volume(volume)["spec"]["claimRef"]["name"] == claim
