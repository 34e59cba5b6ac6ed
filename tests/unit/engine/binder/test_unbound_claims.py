"""Which claim is woken by a volume that becomes free."""

from __future__ import annotations

from tests.unit.volume.samples import claim, volume

from localpv.engine.binder.unbound_claims import Waiting


def waiting(*claims: str) -> Waiting:
    made = Waiting()
    for name in claims:
        made.add(claim(name))
    return made


def test_each_volume_wakes_one_claim_the_longest_waiting_first() -> None:
    claims = waiting("first", "second")
    assert [claims.wake(volume(name)) for name in "abc"] == ["tests/first", "tests/second", None]


def test_a_volume_wakes_only_a_claim_that_it_suits() -> None:
    claims = Waiting()
    claims.add(claim("big", size="100Gi"))
    claims.add(claim("raw", volumeMode="Block"))
    claims.add(claim("chosen", selector={"matchLabels": {"disk": "ssd"}}))
    claims.add(claim("plain"))
    assert claims.wake(volume()) == "tests/plain"
    assert claims.wake(volume(labels={"disk": "ssd"})) == "tests/chosen"
    assert claims.wake(volume(storageClassName="other")) is None


def test_a_woken_claim_says_for_which_volumes_it_was_woken() -> None:
    claims = waiting("first")
    claims.wake(volume("a"))
    claims.add(claim("first"))
    claims.wake(volume("b"))
    assert claims.looked("tests/first") == ["a", "b"]
    assert claims.looked("tests/first") == []


def test_a_claim_that_goes_is_not_woken() -> None:
    claims = waiting("first", "second")
    claims.remove("tests/first")
    claims.remove("tests/first")
    assert claims.wake(volume()) == "tests/second"
