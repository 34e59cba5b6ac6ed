"""Capacities are rounded down, and written as people read them."""

from __future__ import annotations

import pytest

from localpv.api.quantity import Quantity
from localpv.manager.publish import capacity

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40


@pytest.mark.seed("DSC-10")
@pytest.mark.parametrize(
    ("size_bytes", "rounded", "text"),
    [
        (1, 1, "1"),
        (1023, 1023, "1023"),
        (5 * KIB, 5 * KIB, "5Ki"),
        (10 * MIB - 1, 10 * MIB - 1, "10485759"),
        (10 * MIB, 10 * MIB, "10Mi"),
        (10 * MIB + 1, 10 * MIB, "10Mi"),
        (11 * MIB - 1, 10 * MIB, "10Mi"),
        (10 * GIB - 1, 10239 * MIB, "10239Mi"),
        (10 * GIB, 10 * GIB, "10Gi"),
        (11 * GIB - 1, 10 * GIB, "10Gi"),
        (1000204886016, 931 * GIB, "931Gi"),
        (2 * TIB, 2 * TIB, "2Ti"),
        (2 * TIB + GIB, 2 * TIB + GIB, "2049Gi"),
        (4000787030016, 3726 * GIB, "3726Gi"),
    ],
)
def test_capacity_is_rounded_down_to_whole_units(size_bytes: int, rounded: int, text: str) -> None:
    assert capacity.round_down(size_bytes) == rounded
    assert capacity.quantity(size_bytes) == text
    assert Quantity.parse(text).value == rounded
