"""What holds the parsers to their cost notices what is too steep, in time and in memory."""

from __future__ import annotations

import pytest
from tests.unit.linear import growth


def test_what_grows_in_proportion_passes() -> None:
    growth.check(lambda size: "x" * size, lambda text: [one.upper() for one in text], limit=300_000, what="letters")


def test_time_that_grows_with_the_square_is_noticed() -> None:
    with pytest.raises(AssertionError, match="times as long"):
        growth.check(range, lambda all_: [one for one in all_ for _ in all_], limit=4_000, what="pairs")


def test_memory_that_grows_with_the_square_is_noticed() -> None:
    with pytest.raises(AssertionError, match="times the memory"):
        growth.check_memory(lambda size: size, lambda size: bytes(size * size), limit=10_000, what="a field")
