"""What becomes of a volume when its claim goes, and of a claim when its volume goes."""

from __future__ import annotations

import pytest
from tests.contract import builders, wire
from tests.placing.places import Place


def test_a_retained_volume_is_released_and_stays(place: Place) -> None:
    place.storage_class()
    place.available(persistentVolumeReclaimPolicy="Retain")
    name, volume = place.bound()
    uid = place.get_claim(name)["metadata"]["uid"]
    place.delete_claim(name)
    released = place.until_volume(volume, "Released")
    assert released["spec"]["claimRef"]["uid"] == uid
    assert place.settled_volume(volume) == "Released"


def test_the_time_of_the_last_phase_is_kept(place: Place) -> None:
    volume = place.available()
    before = place.get_volume(volume)["status"]["lastPhaseTransitionTime"]
    assert before >= place.get_volume(volume)["metadata"]["creationTimestamp"]


def test_a_claim_made_anew_under_the_same_name_does_not_get_the_released_volume(place: Place) -> None:
    place.storage_class()
    place.available()
    name, volume = place.bound()
    first = place.get_claim(name)["metadata"]["uid"]
    place.delete_claim(name)
    place.until_volume(volume, "Released")
    place.claim(name=name)
    place.stays_pending(name)
    assert place.get_volume(volume)["spec"]["claimRef"]["uid"] == first
    assert place.get_volume(volume)["status"]["phase"] == "Released"


def test_a_claim_that_is_replaced_at_once_leaves_its_volume_released(place: Place) -> None:
    place.storage_class()
    place.available()
    name, volume = place.bound()
    place.delete_claim(name)
    wire.eventually(lambda: place.api.gone(place.claim_path(name)), "the claim is gone")
    place.claim(name=name)
    place.until_volume(volume, "Released")
    place.stays_pending(name)


def test_a_released_volume_is_free_again_when_a_person_takes_the_reference_off(place: Place) -> None:
    place.storage_class()
    place.available()
    name, volume = place.bound()
    place.delete_claim(name)
    place.until_volume(volume, "Released")
    place.api.merge(place.volume_path(volume), {"spec": {"claimRef": None}})
    place.until_volume(volume, "Available")
    _, got = place.bound()
    assert got == volume


def test_a_volume_to_delete_that_somebody_outside_looks_after_is_left_to_them(place: Place) -> None:
    place.storage_class()
    made_by = {"pv.kubernetes.io/provisioned-by": "placing.example.com/disks"}
    place.available(persistentVolumeReclaimPolicy="Delete", annotations=made_by)
    name, volume = place.bound()
    place.delete_claim(name)
    place.until_volume(volume, "Released")
    assert place.settled_volume(volume) == "Released"


@pytest.mark.parametrize(("policy", "reason"), [("Delete", "VolumeFailedDelete"), ("Recycle", "VolumeFailedRecycle")])
def test_a_policy_that_nobody_can_carry_out_fails_the_volume(place: Place, policy: str, reason: str) -> None:
    place.storage_class()
    place.available(persistentVolumeReclaimPolicy=policy)
    name, volume = place.bound()
    place.delete_claim(name)
    failed = place.until_volume(volume, "Failed")
    assert failed["status"]["message"]
    assert place.until_event(volume, reason, kind="PersistentVolume")["type"] == "Warning"


def test_a_failed_volume_is_not_given_to_anybody(place: Place) -> None:
    place.storage_class()
    place.available(persistentVolumeReclaimPolicy="Delete")
    name, volume = place.bound()
    place.delete_claim(name)
    place.until_volume(volume, "Failed")
    place.stays_pending(place.claim())


def test_a_volume_that_is_being_deleted_is_never_chosen(place: Place) -> None:
    place.storage_class()
    volume = place.available()
    place.api.merge(place.volume_path(volume), {"metadata": {"finalizers": ["placing.example.com/hold"]}})
    place.api.delete(place.volume_path(volume))
    place.fence()
    place.stays_pending(place.claim())
    name = place.claim(volumeName=volume)
    place.until_event(name, "VolumeMismatch")
    place.stays_pending(name)
    place.api.merge(place.volume_path(volume), {"metadata": {"finalizers": None}})


def test_a_claim_whose_volume_is_gone_is_lost(place: Place) -> None:
    place.storage_class()
    place.available()
    name, volume = place.bound()
    place.api.delete(place.volume_path(volume))
    # Whoever forces this has been warned: the finalizer stands for exactly this claim.
    place.api.send(
        "PATCH", place.volume_path(volume), {"metadata": {"finalizers": None}}, content_type=wire.MERGE_PATCH
    )
    lost = place.until_claim(name, "Lost")
    assert "capacity" not in lost["status"]
    assert place.until_event(name, "ClaimLost")["type"] == "Warning"


def test_a_second_claim_that_says_it_has_the_same_volume_is_lost(place: Place) -> None:
    place.storage_class()
    place.available()
    _, volume = place.bound()
    wrong = place.claim(volumeName=volume, annotations={"pv.kubernetes.io/bind-completed": "yes"})
    place.until_claim(wrong, "Lost")
    place.until_event(wrong, "ClaimMisbound")


def test_a_volume_made_for_a_claim_that_never_existed_is_released(place: Place) -> None:
    uid = "00000000-0000-4000-8000-000000000001"
    volume = place.volume(claim=place.reference(builders.unique("claim"), uid))
    place.until_volume(volume, "Released")


def test_a_claim_that_a_pod_uses_keeps_its_volume_until_the_pod_goes(place: Place) -> None:
    place.storage_class()
    place.available()
    name, volume = place.bound()
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    pod = builders.pod(spec={"volumes": volumes, "schedulerName": "nobody", "nodeName": "node-of-nobody"})
    path = place.space.core("pods", place.api.post(place.space.core("pods"), pod)["metadata"]["name"])
    place.delete_claim(name)
    place.protection_fence()
    assert place.settled_volume(volume) == "Bound"
    assert place.get_claim(name)["metadata"]["deletionTimestamp"]
    place.api.delete(path, gracePeriodSeconds=0)
    place.until_volume(volume, "Released")


def test_a_bound_volume_that_is_deleted_stays_until_its_claim_goes(place: Place) -> None:
    place.storage_class()
    place.available()
    name, volume = place.bound()
    place.until_volume(volume, "Bound")
    place.api.delete(place.volume_path(volume))
    place.protection_fence()
    assert place.settled_volume(volume) == "Bound"
    place.delete_claim(name)
    wire.eventually(lambda: place.api.gone(place.volume_path(volume)), "the volume is gone")
