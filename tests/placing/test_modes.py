"""A claim that waits is told when nothing but volumeMode keeps it from a free volume.

kube-controller-manager does not tell it; there the manager does.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract import wire
from tests.placing import placer_process
from tests.placing.places import Place

MODES = [("Block", "Filesystem"), ("Filesystem", "Block")]


@pytest.fixture(scope="module", autouse=True)
def manager(target: wire.Target) -> Iterator[None]:
    with placer_process.beside(target):
        yield


def told(place: Place, claim: str) -> str:
    return str(place.until_event(claim, "VolumeMismatch")["message"])


@pytest.mark.seed("RAW-14", "RAW-11")
@pytest.mark.parametrize("waits", [False, True], ids=["binds at once", "waits for a pod"])
@pytest.mark.parametrize(("of_volume", "of_claim"), MODES)
def test_claim_that_comes_after_the_volume_is_told(place: Place, of_volume: str, of_claim: str, waits: bool) -> None:
    place.storage_class(waits=waits)
    volume = place.available(volumeMode=of_volume)
    claim = place.claim(volumeMode=of_claim)
    message = told(place, claim)
    assert volume in message and of_volume in message and of_claim in message


@pytest.mark.seed("RAW-14", "RAW-11")
@pytest.mark.parametrize("waits", [False, True], ids=["binds at once", "waits for a pod"])
@pytest.mark.parametrize(("of_volume", "of_claim"), MODES)
def test_claim_that_came_before_the_volume_is_told(place: Place, of_volume: str, of_claim: str, waits: bool) -> None:
    place.storage_class(waits=waits)
    claim = place.claim(volumeMode=of_claim)
    place.stays_pending(claim)
    volume = place.available(volumeMode=of_volume)
    message = told(place, claim)
    assert volume in message and of_volume in message and of_claim in message


@pytest.mark.seed("RAW-14")
def test_claim_is_not_told_where_more_than_the_mode_differs_or_another_volume_suits(place: Place) -> None:
    place.storage_class(waits=True)
    place.available(volumeMode="Block", size="1Gi")
    too_large = place.claim(size="2Gi")
    other_access = place.claim(accessModes=["ReadWriteMany"])
    place.available(volumeMode="Filesystem", size="1500Mi")
    suited = place.claim(size="1Gi")
    marked = place.claim(volumeMode="Block", size="1200Mi")
    told(place, marked)  # who came last was told, so the others had their turn
    for claim in (too_large, other_access, suited):
        assert "VolumeMismatch" not in [event["reason"] for event in place.events(claim)]
