from __future__ import annotations

import pytest

from localpv.engine.apiserver.tables import layout

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (0.9, "0s"),
        (59, "59s"),
        (60, "60s"),
        (119.9, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (5 * MINUTE + 3, "5m3s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE, "10m"),
        (10 * MINUTE + 59, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 2 * MINUTE + 59, "3h2m"),
        (8 * HOUR - 1, "7h59m"),
        (8 * HOUR, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + HOUR - 1, "2d"),
        (2 * DAY + 4 * HOUR, "2d4h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (3 * YEAR + 20 * DAY, "3y20d"),
        (8 * YEAR - 1, "7y364d"),
        (8 * YEAR, "8y"),
        (100 * YEAR + 200 * DAY, "100y"),
        (2000 * YEAR, "292y"),
    ],
)
def test_a_duration_shows_the_units_that_matter(seconds: float, shown: str) -> None:
    assert layout.human(seconds) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(-0.5, "0s"), (-1.9, "0s"), (-2, "<invalid>"), (-3600, "<invalid>")])
def test_the_near_future_is_now_and_the_far_one_is_invalid(seconds: float, shown: str) -> None:
    assert layout.human(seconds) == shown


@pytest.mark.parametrize(
    "timestamp",
    ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z", "2026-01-01T02:00:00+02:00"],
)
def test_timestamps_count_from_their_moment_in_any_zone(timestamp: str) -> None:
    assert layout.since(timestamp, 1767225600.0 + 90) == "90s"


@pytest.mark.parametrize("timestamp", [None, ""])
def test_without_a_timestamp_the_age_is_unknown(timestamp: str | None) -> None:
    assert layout.since(timestamp, 0.0) == "<unknown>"
