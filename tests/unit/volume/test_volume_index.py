"""Which of many volumes a claim gets."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests import volume_modes
from tests.unit.volume import samples
from tests.unit.volume.samples import claim, reference, storage_class, volume

from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.volume import volume_index
from localpv.volume.fit import Mismatch
from localpv.volume.volume_index import VolumeIndex

IMMEDIATE = storage_class()
WAITING = storage_class(waits=True)


def found(wish: PersistentVolumeClaim, *volumes: Any, **how: Any) -> str | None:
    best = volume_index.find(wish, VolumeIndex(volumes), **{"storage_class": IMMEDIATE, **how})
    return None if best is None else best.key


def test_the_smallest_volume_that_fits_is_taken() -> None:
    sizes = [volume("big", size="100Gi"), volume("small", size="1Gi"), volume("right", size="10Gi")]
    assert found(claim(size="5Gi"), *sizes) == "right"


def test_a_volume_of_exactly_the_size_fits_however_it_is_written() -> None:
    assert found(claim(size="1024Mi"), volume("exact", size="1Gi")) == "exact"


def test_among_equals_the_choice_is_always_the_same() -> None:
    assert found(claim(), volume("b"), volume("a"), volume("c")) == "a"


@pytest.mark.parametrize(
    "spec",
    [
        {"storageClassName": "other"},
        {"accessModes": ["ReadOnlyMany"]},
        {"volumeMode": "Block"},
        {"volumeAttributesClassName": "gold"},
        {"size": "1Mi"},
        {"phase": "Pending"},
        {"phase": "Released", "claimRef": reference("other", "uid-of-other")},
        {"phase": "Failed"},
        {"deleting": True},
    ],
)
def test_what_does_not_fit_is_never_taken(spec: dict[str, Any]) -> None:
    assert found(claim(), volume(**spec)) is None


@pytest.mark.seed("RAW-1")
@volume_modes.each_pair
def test_volume_modes_bind_by_the_matrix(of_volume: str | None, of_claim: str | None, binds: bool) -> None:
    offered = volume("offered", volumeMode=of_volume)
    assert found(claim(volumeMode=of_claim), offered) == ("offered" if binds else None)
    reserved = volume("reserved", volumeMode=of_volume, claimRef=reference())
    assert found(claim(volumeMode=of_claim), reserved) == ("reserved" if binds else None)


def test_fewer_access_modes_are_preferred_to_a_smaller_size() -> None:
    wide = volume("wide", size="1Gi", accessModes=["ReadWriteOnce", "ReadOnlyMany"])
    assert found(claim(), wide, volume("narrow", size="50Gi")) == "narrow"


def test_a_selector_leaves_out_what_it_does_not_match() -> None:
    wish = claim(selector={"matchLabels": {"disk": "ssd"}})
    assert (
        found(wish, volume("hdd", size="1Gi", labels={"disk": "hdd"}), volume("ssd", labels={"disk": "ssd"})) == "ssd"
    )


@pytest.mark.seed("API-10")
@pytest.mark.parametrize(
    "annotation", ["volume.beta.kubernetes.io/storage-class", "volume.alpha.kubernetes.io/storage-class"]
)
def test_the_class_may_stand_in_an_annotation(annotation: str) -> None:
    wish = claim(storageClassName=None, annotations={annotation: "local"})
    assert found(wish, volume("of-class"), volume("a-classless", storageClassName="")) == "of-class"


def test_the_beta_annotation_goes_before_the_field() -> None:
    wish = claim(storageClassName="other", annotations={"volume.beta.kubernetes.io/storage-class": "local"})
    assert found(wish, volume("of-class")) == "of-class"


def test_what_names_the_claim_is_taken_before_anything_else_whatever_its_class() -> None:
    reserved = volume("reserved", size="100Gi", storageClassName="other", claimRef=reference())
    assert found(claim(), reserved, volume("smaller")) == "reserved"


def test_what_named_an_earlier_claim_of_the_same_name_is_not_taken() -> None:
    assert found(claim(uid="new"), volume(phase="Released", claimRef=reference(uid="old"))) is None


def test_what_names_the_claim_but_is_too_small_is_passed_over() -> None:
    assert found(claim(size="5Gi"), volume("reserved", size="1Gi", claimRef=reference()), volume("free")) == "free"


def test_a_class_that_waits_gives_the_binder_only_what_names_the_claim() -> None:
    assert found(claim(), volume("free"), storage_class=WAITING) is None
    reserved = volume("reserved", claimRef=reference())
    assert found(claim(), volume("free"), reserved, storage_class=WAITING) == "reserved"


def test_with_a_node_only_what_can_be_used_there_is_found() -> None:
    here, there = volume("here", node="one"), volume("there", size="1Gi", node="two")
    assert found(claim(), here, there, storage_class=WAITING, node=samples.node("one")) == "here"
    assert found(claim(), here, there, storage_class=WAITING, node=samples.node("three")) is None


def test_a_volume_without_affinity_can_be_used_on_every_node() -> None:
    assert found(claim(), volume("anywhere"), storage_class=WAITING, node=samples.node("one")) == "anywhere"


def test_when_what_names_the_claim_is_elsewhere_a_node_has_nothing() -> None:
    reserved = volume("reserved", node="two", claimRef=reference())
    assert found(claim(), reserved, volume("free"), storage_class=WAITING, node=samples.node("one")) is None


def test_what_is_promised_to_others_is_passed_over() -> None:
    assert found(claim(), volume("a"), volume("b"), exclude={"a"}) == "b"


def test_a_volume_that_changes_moves_and_one_that_goes_is_not_found() -> None:
    index = VolumeIndex([volume("pv")])
    index.changed(volume("pv"), volume("pv", claimRef=reference("other")))
    assert volume_index.find(claim(), index, storage_class=IMMEDIATE) is None
    assert [one.key for one in index.reserved("tests/other")] == ["pv"]
    index.changed(None, volume("pv"))
    assert volume_index.find(claim(), index, storage_class=IMMEDIATE) is not None
    index.changed(volume("pv"), None)
    assert volume_index.find(claim(), index, storage_class=IMMEDIATE) is None
    assert index.reserved("tests/other") == []


def test_misses_are_counted_by_what_is_wrong() -> None:
    index = VolumeIndex(
        [
            volume("block", volumeMode="Block"),
            volume("small", size="1Mi"),
            volume("shared", accessModes=["ReadOnlyMany"]),
            volume("hdd", labels={"disk": "hdd"}),
            volume("other", storageClassName="other"),
        ]
    )
    wish = claim(selector={"matchLabels": {"disk": "ssd"}})
    wrong = (Mismatch.VOLUME_MODE, Mismatch.SIZE, Mismatch.ACCESS_MODES, Mismatch.SELECTOR)
    assert index.misses(wish) == dict.fromkeys(wrong, 1)


def _calls(work: Callable[[], object]) -> int:
    """How many functions of any kind are called."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # what earlier tests left calls functions when it goes
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def test_one_more_binding_costs_the_same_however_many_are_bound() -> None:
    def one_more(bound: int) -> int:
        taken = [
            volume(f"taken-{number}", phase="Bound", claimRef=reference(f"c{number}", "u")) for number in range(bound)
        ]
        index = VolumeIndex([*taken, volume("free"), volume("spare")])

        def work() -> None:
            best = volume_index.find(claim(), index, storage_class=IMMEDIATE)
            assert best is not None
            index.put(volume("free", claimRef=reference(uid="uid-of-claim")))

        work()  # what is read once and remembered does not count
        index.put(volume("free"))
        return _calls(work)

    assert one_more(10) == one_more(5000)
