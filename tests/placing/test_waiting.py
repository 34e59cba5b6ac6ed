"""Claims that stay Pending: what they wait for, and what is told about it."""

from __future__ import annotations

import pytest
from tests.contract import builders
from tests.placing.places import BOUND_BY_CONTROLLER, Place

SELECTED_NODE = "volume.kubernetes.io/selected-node"


def test_a_claim_of_a_class_that_waits_is_not_bound_before_a_pod_uses_it(place: Place) -> None:
    place.storage_class(waits=True)
    volume = place.available()
    claim = place.claim()
    event = place.until_event(claim, "WaitForFirstConsumer")
    assert event["type"] == "Normal"
    place.stays_pending(claim)
    assert place.get_volume(volume)["status"]["phase"] == "Available"


def test_a_claim_whose_pod_has_no_node_yet_says_which_pod(place: Place) -> None:
    place.storage_class(waits=True)
    claim = place.claim()
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    pod = builders.pod(spec={"volumes": volumes, "schedulerName": "nobody"})
    place.api.post(place.space.core("pods"), pod)
    assert pod["metadata"]["name"] in place.until_event(claim, "WaitForPodScheduled")["message"]


def test_a_class_that_waits_lets_a_reserved_volume_be_bound_at_once(place: Place) -> None:
    place.storage_class(waits=True)
    name = builders.unique("claim")
    reserved = place.available(claim=place.reference(name))
    _, got = place.bound(name=name)
    assert got == reserved


def test_a_class_that_waits_lets_a_scheduler_choose(place: Place) -> None:
    place.storage_class(waits=True)
    volume = place.available()
    name = place.claim()
    uid = place.get_claim(name)["metadata"]["uid"]
    chosen = {
        "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}},
        "spec": {"claimRef": place.reference(name, uid)},
    }
    place.api.merge(place.volume_path(volume), chosen)
    assert place.until_claim(name, "Bound")["spec"]["volumeName"] == volume
    place.until_volume(volume, "Bound")


def test_a_claim_without_a_class_says_that_nothing_is_there(place: Place) -> None:
    claim = place.claim(storageClassName="", selector={"matchLabels": {"nobody": "has-this"}})
    place.until_event(claim, "FailedBinding")
    place.stays_pending(claim)


def test_a_claim_of_a_class_that_makes_no_volumes_says_so(place: Place) -> None:
    place.storage_class()
    claim = place.claim()
    assert place.until_event(claim, "ProvisioningFailed")["type"] == "Warning"
    place.stays_pending(claim)


def test_a_claim_of_a_class_that_does_not_exist_names_it(place: Place) -> None:
    claim = place.claim()
    assert place.class_name in place.until_event(claim, "ProvisioningFailed")["message"]


def test_a_class_that_comes_later_is_seen(place: Place) -> None:
    claim = place.claim()
    place.until_event(claim, "ProvisioningFailed")
    place.storage_class(waits=True)
    place.until_event(claim, "WaitForFirstConsumer")


def test_a_claim_of_a_class_of_somebody_outside_is_handed_to_them(place: Place) -> None:
    place.storage_class(provisioner="placing.example.com/disks")
    name = place.claim()
    assert "placing.example.com/disks" in place.until_event(name, "ExternalProvisioning")["message"]
    annotations = place.get_claim(name)["metadata"]["annotations"]
    assert annotations["volume.kubernetes.io/storage-provisioner"] == "placing.example.com/disks"
    assert annotations["volume.beta.kubernetes.io/storage-provisioner"] == "placing.example.com/disks"

    uid = place.get_claim(name)["metadata"]["uid"]
    made = place.volume(claim=place.reference(name, uid))
    assert place.until_claim(name, "Bound")["spec"]["volumeName"] == made


def test_a_class_of_somebody_outside_that_waits_is_handed_over_with_the_node(place: Place) -> None:
    place.storage_class(waits=True, provisioner="placing.example.com/disks")
    claim = place.claim()
    place.until_event(claim, "WaitForFirstConsumer")
    assert "volume.kubernetes.io/storage-provisioner" not in place.get_claim(claim)["metadata"].get("annotations", {})
    place.api.merge(place.claim_path(claim), {"metadata": {"annotations": {SELECTED_NODE: "node-1"}}})
    place.until_event(claim, "ExternalProvisioning")


@pytest.mark.parametrize("waits", [False, True])
def test_a_volume_made_by_hand_serves_a_claim_that_somebody_outside_was_asked_for(place: Place, waits: bool) -> None:
    place.storage_class(provisioner="placing.example.com/disks", waits=waits)
    name = place.claim()
    place.until_event(name, "WaitForFirstConsumer" if waits else "ExternalProvisioning")
    volume = place.volume(claim=place.reference(name) if waits else None)
    assert place.until_claim(name, "Bound")["spec"]["volumeName"] == volume
