"""Bytes on their way to the server count until it is known what became of them."""

from __future__ import annotations

import contextlib

import pytest

from localpv import errors
from localpv.manager.provision.assume_cache import AssumeCache
from localpv.volume.pool_ledger import PoolKey

HERE, THERE = PoolKey("node-1", "fast"), PoolKey("node-2", "fast")


def test_bytes_count_in_their_pool_for_as_long_as_the_write_takes() -> None:
    cache = AssumeCache()
    with cache.assuming("pvc-1", HERE, 5), cache.assuming("pvc-2", HERE, 7), cache.assuming("pvc-3", THERE, 1):
        assert (cache.in_pool(HERE), cache.in_pool(THERE)) == (12, 1)

    assert (cache.in_pool(HERE), cache.in_pool(THERE)) == (0, 0)


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (errors.Conflict("somebody else wrote first"), 0),
        (errors.Forbidden("no"), 0),
        (errors.InternalError("etcdserver: request timed out"), 5),
        (errors.ConnectionLost("cut"), 5),
        (TimeoutError(), 5),
    ],
)
def test_a_refusal_frees_them_and_a_lost_answer_does_not(error: Exception, left: int) -> None:
    cache = AssumeCache()
    with contextlib.suppress(type(error)), cache.assuming("pvc-1", HERE, 5):
        raise error

    assert cache.in_pool(HERE) == left
    assert ("pvc-1" in cache) == bool(left)
    cache.forget("pvc-1")
    assert cache.in_pool(HERE) == 0
