"""Volumes and claims that somebody has meant for each other beforehand, from either side."""

from __future__ import annotations

import pytest
from tests.contract import builders
from tests.placing.places import BIND_COMPLETED, BOUND_BY_CONTROLLER, Place


def test_a_reserved_volume_is_available_and_goes_to_the_claim_it_names(place: Place) -> None:
    place.storage_class()
    name = builders.unique("claim")
    reserved = place.available(size="100Gi", claim=place.reference(name))
    place.available(size="1Gi")
    _, got = place.bound(name=name)
    assert got == reserved

    volume, claim = place.until_volume(reserved, "Bound"), place.get_claim(name)
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert BOUND_BY_CONTROLLER not in volume["metadata"].get("annotations", {})
    assert claim["metadata"]["annotations"][BOUND_BY_CONTROLLER] == "yes"


def test_a_reserved_volume_goes_to_nobody_else(place: Place) -> None:
    place.storage_class()
    reserved = place.available(claim=place.reference("somebody-else"))
    place.stays_pending(place.claim())
    assert place.get_volume(reserved)["status"]["phase"] == "Available"


def test_a_reserved_volume_may_be_of_another_class_and_not_selected(place: Place) -> None:
    place.storage_class()
    name = builders.unique("claim")
    reserved = place.available(storageClassName="another", claim=place.reference(name))
    _, got = place.bound(name=name, selector={"matchLabels": {"disk": "ssd"}})
    assert got == reserved


def test_a_reserved_volume_that_is_too_small_is_passed_over(place: Place) -> None:
    place.storage_class()
    name = builders.unique("claim")
    place.available(size="1Gi", claim=place.reference(name))
    big = place.available(size="10Gi")
    _, got = place.bound(name=name, size="5Gi")
    assert got == big


def test_a_volume_that_names_the_uid_too_finishes_what_was_begun(place: Place) -> None:
    place.storage_class()
    name = place.claim()
    uid = place.get_claim(name)["metadata"]["uid"]
    volume = place.volume(claim=place.reference(name, uid), annotations={BOUND_BY_CONTROLLER: "yes"})
    assert place.until_claim(name, "Bound")["spec"]["volumeName"] == volume
    place.until_volume(volume, "Bound")


def test_a_claim_gets_the_volume_it_asks_for_by_name(place: Place) -> None:
    place.storage_class()
    place.available(size="1Gi")
    wanted = place.available(size="100Gi")
    name, got = place.bound(volumeName=wanted)
    assert got == wanted
    claim, volume = place.get_claim(name), place.until_volume(wanted, "Bound")
    assert BOUND_BY_CONTROLLER not in claim["metadata"]["annotations"]
    assert claim["metadata"]["annotations"][BIND_COMPLETED] == "yes"
    assert volume["metadata"]["annotations"][BOUND_BY_CONTROLLER] == "yes"


def test_both_may_name_each_other(place: Place) -> None:
    place.storage_class()
    name = builders.unique("claim")
    volume = place.available(claim=place.reference(name))
    _, got = place.bound(name=name, volumeName=volume)
    assert got == volume
    assert BOUND_BY_CONTROLLER not in place.get_volume(volume)["metadata"].get("annotations", {})
    assert BOUND_BY_CONTROLLER not in place.get_claim(name)["metadata"]["annotations"]


def test_a_claim_waits_for_the_volume_it_asks_for(place: Place) -> None:
    place.storage_class()
    other = place.available()
    name = builders.unique("volume")
    claim = place.claim(volumeName=name)
    place.stays_pending(claim)
    made = builders.local_volume(name, storageClassName=place.class_name)
    place.api.post("/api/v1/persistentvolumes", made)
    assert place.until_claim(claim, "Bound")["spec"]["volumeName"] == name
    assert place.get_volume(other)["status"]["phase"] == "Available"


def test_a_volume_asked_for_by_name_that_is_another_claims_is_refused_with_an_event(place: Place) -> None:
    place.storage_class()
    place.available()
    _, taken = place.bound()
    claim = place.claim(volumeName=taken)
    place.until_event(claim, "FailedBinding")
    place.stays_pending(claim)


@pytest.mark.parametrize(
    ("volume", "claim"),
    [
        pytest.param({"size": "1Gi"}, {"size": "5Gi"}, id="size"),
        pytest.param({"storageClassName": "another"}, {}, id="class"),
        pytest.param({"volumeMode": "Block"}, {}, id="volume mode", marks=pytest.mark.seed("RAW-11")),
        pytest.param({"accessModes": ["ReadOnlyMany"]}, {}, id="access mode"),
    ],
)
def test_a_volume_asked_for_by_name_that_does_not_fit_is_refused_with_an_event(
    place: Place, volume: dict[str, object], claim: dict[str, object]
) -> None:
    place.storage_class()
    wanted = place.available(**volume)
    name = place.claim(volumeName=wanted, **claim)
    event = place.until_event(name, "VolumeMismatch")
    assert event["type"] == "Warning"
    assert wanted in event["message"]
    place.stays_pending(name)


@pytest.mark.seed("RAW-11")
def test_a_reserved_volume_of_the_other_mode_is_told_on_both_sides(place: Place) -> None:
    place.storage_class()
    name = place.claim()
    uid = place.get_claim(name)["metadata"]["uid"]
    volume = place.volume(volumeMode="Block", claim=place.reference(name, uid))
    assert "volumeMode" in place.until_event(name, "VolumeMismatch")["message"]
    assert "volumeMode" in place.until_event(volume, "VolumeMismatch", kind="PersistentVolume")["message"]
    place.stays_pending(name)


def test_a_bound_claim_whose_volume_forgot_it_is_bound_again(place: Place) -> None:
    place.storage_class()
    place.available()
    name, volume = place.bound()
    place.until_volume(volume, "Bound")
    place.api.merge(place.volume_path(volume), {"spec": {"claimRef": None}})
    uid = place.get_claim(name)["metadata"]["uid"]
    place.until_reference(volume, uid)
    place.until_volume(volume, "Bound")


def test_what_was_bound_to_a_claim_that_has_another_volume_is_free_again(place: Place) -> None:
    place.storage_class()
    place.available()
    name, _ = place.bound()
    uid = place.get_claim(name)["metadata"]["uid"]
    second = place.volume(claim=place.reference(name, uid), annotations={BOUND_BY_CONTROLLER: "yes"})
    place.until_reference(second, None)
    volume = place.until_volume(second, "Available")
    assert BOUND_BY_CONTROLLER not in volume["metadata"].get("annotations", {})


def test_what_a_person_reserved_for_a_claim_that_has_another_volume_stays_reserved(place: Place) -> None:
    place.storage_class()
    place.available()
    name, _ = place.bound()
    uid = place.get_claim(name)["metadata"]["uid"]
    second = place.volume(claim=place.reference(name, uid))
    place.until_reference(second, "")
    assert place.until_volume(second, "Available")["spec"]["claimRef"]["name"] == name
