"""What is free in pools: exact after any order of changes, and never promised twice."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.volume.pools import GI, MI, NOW, pool, snapshot, volume

from localpv.api.kinds.localpool import LocalPool, PoolSnapshot, PoolVolume
from localpv.volume import pool_ledger
from localpv.volume.pool_ledger import PoolKey, PoolLedger

KEY = PoolKey("node-1", "fast")


def ledger(*objects: LocalPool | PoolVolume | PoolSnapshot) -> PoolLedger:
    made = PoolLedger()
    for one in objects:
        match one:
            case LocalPool():
                made.pool_changed(None, one)
            case PoolVolume():
                made.volume_changed(None, one)
            case PoolSnapshot():
                made.snapshot_changed(None, one)
    return made


def test_what_is_promised_and_what_others_have_is_not_free() -> None:
    one = pool(foreign_bytes=5 * GI)
    book = ledger(one, volume("pvc-1", 10 * GI), snapshot("snapshot-1", GI), volume("pvc-2", GI, node="node-2"))

    assert book.promised(KEY) == 11 * GI
    assert book.free(one) == 84 * GI


def test_a_volume_that_is_larger_than_asked_for_counts_with_what_it_has() -> None:
    assert ledger(pool(), volume("pvc-1", GI, real=3 * GI)).promised(KEY) == 3 * GI


def test_a_volume_that_grows_counts_with_what_it_is_to_have() -> None:
    assert ledger(pool(), volume("pvc-1", 3 * GI, real=GI)).promised(KEY) == 3 * GI


def test_a_volume_counts_until_it_is_gone() -> None:
    book, one = ledger(pool()), volume("pvc-1", GI)
    going = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, deletion_timestamp=NOW))

    book.volume_changed(None, one)
    book.volume_changed(one, going)
    assert book.promised(KEY) == GI

    book.volume_changed(going, None)
    assert book.promised(KEY) == 0


@pytest.mark.parametrize("status", [{"error": "The volume group is gone."}, {"observed_at": None}])
def test_a_pool_that_is_out_of_order_or_was_never_measured_offers_nothing(status: dict[str, object]) -> None:
    one = pool(**status)

    assert ledger(one).free(one) == 0
    assert ledger(one).largest(one) == 0
    assert ledger(one).lacking(one, 1)


def test_a_pool_that_goes_offers_nothing() -> None:
    one = pool()
    going = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, deletion_timestamp=NOW))

    assert ledger(going).lacking(going, 1) == "pool fast is not ready"


def test_a_pool_that_shrank_below_what_is_promised_has_nothing_free() -> None:
    one = pool(capacity_bytes=GI)

    assert ledger(one, volume("pvc-1", 2 * GI)).free(one) == 0


def test_sizes_are_whole_extents_and_not_below_the_smallest_volume() -> None:
    one = pool(extent_bytes=4 * MI, minimum_bytes=16 * MI)

    assert pool_ledger.needed(one, 1) == 16 * MI
    assert pool_ledger.needed(one, 16 * MI + 1) == 20 * MI
    assert pool_ledger.needed(one, 20 * MI) == 20 * MI


def test_the_largest_volume_is_whole_extents_and_none_where_the_smallest_has_no_room() -> None:
    one = pool(capacity_bytes=18 * MI, extent_bytes=4 * MI, minimum_bytes=16 * MI)

    assert ledger(one).largest(one) == 16 * MI
    assert ledger(one, volume("pvc-1", 4 * MI)).largest(one) == 0


def test_the_missing_space_is_said() -> None:
    one = pool(capacity_bytes=10 * GI)
    book = ledger(one, volume("pvc-1", 8 * GI))

    assert book.lacking(one, 2 * GI) == ""
    assert book.lacking(one, 5 * GI) == "pool fast has 2Gi free, 3Gi less than needed"
    assert book.lacking(one, 2 * GI, also=GI) == "pool fast has 1Gi free, 1Gi less than needed"
    assert book.lacking(one, 2 * GI, also=50 * GI) == "pool fast has 0 free, 2Gi less than needed"


def test_pools_are_found_by_class_and_forgotten_when_they_leave_it() -> None:
    first, second = pool("node-1"), pool("node-2", classes=("fast", "slow"))
    book = ledger(first, second)
    assert [one.spec.node_name for one in book.of_class("fast")] == ["node-1", "node-2"]
    assert set(book.classes()) == {"fast", "slow"}

    book.pool_changed(second, pool("node-2", classes=("fast",)))
    assert set(book.classes()) == {"fast"}
    book.pool_changed(first, None)
    assert [one.spec.node_name for one in book.of_class("fast")] == ["node-2"]
    assert book.pool(KEY) is None


def test_two_objects_that_say_they_are_one_pool_offer_nothing() -> None:
    first, second = pool(), msgspec.structs.replace(pool(), metadata=msgspec.structs.replace(pool().metadata, name="x"))
    book = ledger(first, second)
    assert book.pool(KEY) is None
    assert [*book.of_class("fast")] == []

    book.pool_changed(second, None)
    assert book.pool(KEY) is first


volumes = st.builds(
    volume,
    st.sampled_from(["pvc-1", "pvc-2", "pvc-3"]),
    st.integers(1, 100),
    node=st.sampled_from(["node-1", "node-2"]),
    pool_name=st.sampled_from(["fast", "slow"]),
    real=st.integers(0, 100),
)


@given(changes=st.lists(st.one_of(volumes, st.sampled_from(["pvc-1", "pvc-2", "pvc-3"])), max_size=30))
def test_after_any_changes_the_ledger_says_what_a_new_one_would(changes: list[PoolVolume | str]) -> None:
    book, present = ledger(), dict[str, PoolVolume]()
    for change in changes:
        name = change if isinstance(change, str) else change.key
        old, new = present.pop(name, None), None if isinstance(change, str) else change
        if new is not None:
            present[name] = new
        book.volume_changed(old, new)

    for node in ("node-1", "node-2"):
        for name in ("fast", "slow"):
            expected = sum(
                max(one.spec.size_bytes, one.status.size_bytes)
                for one in present.values()
                if (one.spec.node_name, one.spec.pool_name) == (node, name)
            )
            assert book.promised(PoolKey(node, name)) == expected


@given(
    capacity=st.integers(0, 1 << 40),
    foreign=st.integers(0, 1 << 40),
    extent=st.integers(1, 1 << 24),
    minimum=st.integers(0, 1 << 26),
    sizes=st.lists(st.integers(1, 1 << 38), max_size=40),
)
def test_whoever_asks_first_never_promises_more_than_there_is(
    capacity: int, foreign: int, extent: int, minimum: int, sizes: list[int]
) -> None:
    one = pool(capacity_bytes=capacity, foreign_bytes=foreign, extent_bytes=extent, minimum_bytes=minimum)
    book = ledger(one)
    for number, size in enumerate(sizes):
        fits = pool_ledger.needed(one, size) <= book.free(one)
        assert fits == (book.lacking(one, size) == "")
        assert not (fits and size > book.largest(one))
        if fits:
            book.volume_changed(None, volume(f"pvc-{number}", pool_ledger.needed(one, size)))

    assert book.promised(KEY) <= max(capacity - foreign, 0)
    if largest := book.largest(one):
        assert book.lacking(one, largest) == ""
    assert book.lacking(one, book.largest(one) + 1)


def test_a_burst_on_pools_that_hold_half_of_it_promises_exactly_what_they_hold() -> None:
    pools = [pool(f"node-{number}", capacity_bytes=10 * GI) for number in range(10)]
    book, chance, placed = ledger(*pools), random.Random(7), 0
    for number in range(200):
        room = [one for one in book.of_class("fast") if not book.lacking(one, GI)]
        if room:
            chosen = chance.choice(room)
            book.volume_changed(None, volume(f"pvc-{number}", GI, node=chosen.spec.node_name))
            placed += 1

    assert placed == 100
    assert all(book.free(one) == 0 for one in pools)
