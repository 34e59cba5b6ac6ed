"""Which volume a claim gets, and what both look like then."""

from __future__ import annotations

from typing import Any

import pytest
from tests import volume_modes
from tests.contract import builders, wire
from tests.placing.places import BIND_COMPLETED, BOUND_BY_CONTROLLER, Place


def test_claim_and_volume_are_bound_and_name_each_other(place: Place) -> None:
    place.storage_class()
    volume = place.available(size="10Gi", accessModes=["ReadWriteOnce", "ReadOnlyMany"])
    name, got = place.bound(size="5Gi")
    assert got == volume

    claim = place.get_claim(name)
    assert claim["status"]["capacity"] == {"storage": "10Gi"}
    assert claim["status"]["accessModes"] == ["ReadWriteOnce", "ReadOnlyMany"]
    assert claim["metadata"]["annotations"][BIND_COMPLETED] == "yes"
    assert claim["metadata"]["annotations"][BOUND_BY_CONTROLLER] == "yes"

    bound = place.until_volume(volume, "Bound")
    reference = bound["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"]) == (place.space.name, name)
    assert reference["uid"] == claim["metadata"]["uid"]
    assert (reference["kind"], reference["apiVersion"]) == ("PersistentVolumeClaim", "v1")
    assert bound["metadata"]["annotations"][BOUND_BY_CONTROLLER] == "yes"
    assert bound["status"]["lastPhaseTransitionTime"]


@pytest.mark.parametrize(("allowed", "status"), [(True, 200), (False, 403), (None, 403)])
def test_a_bound_claim_grows_only_where_its_class_allows_it(place: Place, allowed: bool | None, status: int) -> None:
    place.storage_class(**({} if allowed is None else {"allowVolumeExpansion": allowed}))
    place.available(size="1Gi")
    name, _ = place.bound(size="1Gi")
    path = place.space.core("persistentvolumeclaims", name)

    def ask(size: str, expect: int) -> Any:
        return place.api.merge(path, {"spec": {"resources": {"requests": {"storage": size}}}}, expect=expect)

    answer = ask("2Gi", status)
    if status == 403:
        assert "must support resize" in answer["message"]
    else:
        # A growth can be taken back as far as the volume has not followed.
        ask("1536Mi", 200)
        ask("1Gi", 422)
    place.api.merge(path, {"metadata": {"labels": {"a": "b"}}})


def test_a_volume_that_nobody_claims_is_available(place: Place) -> None:
    place.until_volume(place.volume(), "Available")


def test_the_smallest_volume_that_fits_is_taken(place: Place) -> None:
    place.storage_class()
    place.available(size="100Gi")
    place.available(size="1Gi")
    right = place.available(size="10Gi")
    _, got = place.bound(size="5Gi")
    assert got == right


def test_a_claim_waits_until_a_volume_comes(place: Place) -> None:
    place.storage_class()
    claim = place.claim()
    place.stays_pending(claim)
    volume = place.volume()
    assert place.until_claim(claim, "Bound")["spec"]["volumeName"] == volume


@pytest.mark.parametrize(
    ("volume", "claim"),
    [
        pytest.param({"size": "1Gi"}, {"size": "2Gi"}, id="size"),
        pytest.param({}, {"accessModes": ["ReadOnlyMany"]}, id="access mode"),
        pytest.param({"storageClassName": "another"}, {}, id="class"),
        pytest.param({"storageClassName": None}, {}, id="no class"),
        pytest.param({"labels": {"disk": "hdd"}}, {"selector": {"matchLabels": {"disk": "ssd"}}}, id="selector"),
    ],
)
def test_what_does_not_fit_is_not_taken(place: Place, volume: dict[str, Any], claim: dict[str, Any]) -> None:
    place.storage_class()
    offered = place.available(**volume)
    place.stays_pending(place.claim(**claim))
    assert place.get_volume(offered)["status"]["phase"] == "Available"


@pytest.mark.seed("RAW-1")
@volume_modes.each_pair
def test_volume_modes_bind_by_the_matrix(
    place: Place, of_volume: str | None, of_claim: str | None, binds: bool
) -> None:
    place.storage_class()
    volume = place.available(volumeMode=of_volume)
    claim = place.claim(volumeMode=of_claim)
    if binds:
        assert place.until_claim(claim, "Bound")["spec"]["volumeName"] == volume
    else:
        place.stays_pending(claim)


@pytest.mark.seed("RAW-2", "RAW-3")
def test_a_block_claim_without_a_class_gets_a_block_volume_without_a_class(place: Place) -> None:
    # Volumes without a class are everybody's, so a label keeps other tests away.
    label = {"placing": place.class_name}
    place.available(storageClassName=None, labels=label)
    raw = place.available(storageClassName=None, labels=label, volumeMode="Block")
    _, got = place.bound(storageClassName="", volumeMode="Block", selector={"matchLabels": label})
    assert got == raw


def test_fewer_access_modes_are_preferred_to_a_smaller_size(place: Place) -> None:
    place.storage_class()
    place.available(size="5Gi", accessModes=["ReadWriteOnce", "ReadWriteMany"])
    narrow = place.available(size="50Gi")
    _, got = place.bound()
    assert got == narrow


def test_a_selector_chooses_among_the_volumes_of_the_class(place: Place) -> None:
    place.storage_class()
    place.available(size="1Gi", labels={"disk": "hdd"})
    ssd = place.available(labels={"disk": "ssd"})
    expression = {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}
    _, got = place.bound(selector={"matchExpressions": [expression]})
    assert got == ssd


@pytest.mark.seed("API-10")
def test_the_class_may_stand_in_the_old_annotation(place: Place) -> None:
    place.storage_class()
    volume = place.available()
    annotation = {"volume.beta.kubernetes.io/storage-class": place.class_name}
    _, got = place.bound(storageClassName=None, annotations=annotation)
    assert got == volume


def test_the_class_of_a_volume_may_stand_in_the_old_annotation(place: Place) -> None:
    place.storage_class()
    annotation = {"volume.beta.kubernetes.io/storage-class": place.class_name}
    volume = place.available(storageClassName=None, annotations=annotation)
    _, got = place.bound()
    assert got == volume


def test_a_class_need_not_exist_as_an_object(place: Place) -> None:
    volume = place.available()
    _, got = place.bound()
    assert got == volume


def test_many_claims_get_one_volume_each(place: Place) -> None:
    place.storage_class()
    volumes = {place.volume() for _ in range(20)}
    claims = [place.claim() for _ in range(20)]
    got = [place.until_claim(claim, "Bound")["spec"]["volumeName"] for claim in claims]
    assert sorted(got) == sorted(volumes)
    references = {place.get_volume(name)["spec"]["claimRef"]["name"] for name in volumes}
    assert references == set(claims)


def test_of_more_claims_than_volumes_some_wait(place: Place) -> None:
    place.storage_class()
    volumes = [place.available() for _ in range(3)]
    claims = [place.claim() for _ in range(5)]
    for volume in volumes:
        place.until_volume(volume, "Bound")

    def phases() -> list[str]:
        return sorted(place.get_claim(claim)["status"]["phase"] for claim in claims)

    wire.eventually(lambda: phases().count("Bound") == 3, "three have a volume")
    place.fence()
    assert phases() == ["Bound"] * 3 + ["Pending"] * 2


def test_a_claim_gets_a_default_class_that_comes_later(place: Place) -> None:
    claim = place.claim(storageClassName=None)
    place.until_event(claim, "FailedBinding")
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    made = builders.storage_class(place.class_name, volumeBindingMode="Immediate")
    made["metadata"]["annotations"] = default
    place.api.post("/apis/storage.k8s.io/v1/storageclasses", made)
    volume = place.volume()
    bound = place.until_claim(claim, "Bound")
    assert bound["spec"]["storageClassName"] == place.class_name
    assert bound["spec"]["volumeName"] == volume
