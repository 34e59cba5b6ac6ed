"""Counters, gauges and histograms, and the text that Prometheus reads."""

from __future__ import annotations

import math

import pytest

from localpv.observe.registry import MOST_SERIES, OTHER, Registry


def samples(registry: Registry) -> dict[str, str]:
    lines = [line for line in registry.text().splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


def test_text_has_help_type_and_samples_in_the_order_in_which_they_were_made() -> None:
    registry = Registry()
    wiped = registry.counter("wiped_total", "Disks wiped.\nAll of them.", ("method",))
    registry.gauge("disks", "Disks.").set(3)
    wiped.add("shred")
    wiped.add("shred", by=2.5)
    assert registry.text() == (
        "# HELP wiped_total Disks wiped.\\nAll of them.\n"
        "# TYPE wiped_total counter\n"
        'wiped_total{method="shred"} 3.5\n'
        "# HELP disks Disks.\n"
        "# TYPE disks gauge\n"
        "disks 3\n"
    )


def test_values_of_labels_are_escaped_and_never_break_a_line() -> None:
    registry = Registry()
    registry.counter("x_total", "X.", ("a",)).add('one\\two"three\nfour\udc80')
    assert samples(registry) == {r'x_total{a="one\\two\"three\nfour?"}': "1"}


def test_histogram_counts_up_to_each_bound_and_all_together() -> None:
    registry = Registry()
    took = registry.histogram("took_seconds", "Time.", ("verb",), bounds=(0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        took.observe(seconds, "get")
    assert samples(registry) == {
        'took_seconds_bucket{verb="get",le="0.1"}': "2",
        'took_seconds_bucket{verb="get",le="1"}': "3",
        'took_seconds_bucket{verb="get",le="+Inf"}': "4",
        'took_seconds_sum{verb="get"}': "7.65",
        'took_seconds_count{verb="get"}': "4",
    }


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (3.0, "3"), (0.25, "0.25"), (1 << 50, "1125899906842624.0"), (-math.inf, "-Inf"), (math.inf, "+Inf")],
)
def test_numbers_are_written_so_that_nothing_is_lost(number: float, shown: str) -> None:
    registry = Registry()
    registry.gauge("g", "G.").set(number)
    assert samples(registry) == {"g": shown}
    assert float(shown) == number


def test_series_are_bounded_whatever_others_write() -> None:
    registry = Registry()
    refused = registry.counter("refused_total", "Refused.", ("reason",))
    took = registry.histogram("took_seconds", "Time.", ("reason",))
    for number in range(3 * MOST_SERIES):
        refused.add(f"forged-{number}")
        took.observe(1.0, f"forged-{number}")
    refused.add("forged-0")
    assert len(list(refused.lines())) == MOST_SERIES + 1
    assert refused.value("forged-0") == 2
    assert refused.value(OTHER) == 2 * MOST_SERIES
    assert took.count(OTHER) == 2 * MOST_SERIES


def test_gauge_that_becomes_something_else_forgets_what_it_was() -> None:
    registry = Registry()
    disks = registry.gauge("disks", "Disks.", ("phase",))
    disks.become({("Missing",): 2, ("Available",): 1})
    disks.become({("Available",): 3})
    assert samples(registry) == {'disks{phase="Available"}': "3"}
    disks.become({(f"forged-{number}",): 1 for number in range(2 * MOST_SERIES)})
    assert disks.value(OTHER) == MOST_SERIES


def test_counter_that_has_begun_shows_a_zero() -> None:
    registry = Registry()
    refused = registry.counter("refused_total", "Refused.", ("reason",))
    refused.begin("IdentityChanged")
    assert samples(registry) == {'refused_total{reason="IdentityChanged"}': "0"}
    refused.add("IdentityChanged")
    refused.begin("IdentityChanged")
    assert refused.value("IdentityChanged") == 1


def test_what_is_worked_out_at_a_scrape_is_worked_out_at_no_other_time() -> None:
    registry = Registry()
    asked: list[None] = []
    registry.before_scrape(lambda: asked.append(None))
    registry.gauge("g", "G.").set(1)
    assert asked == []
    registry.text()
    registry.text()
    assert len(asked) == 2


def test_one_name_is_one_metric() -> None:
    registry = Registry()
    first = registry.counter("x_total", "X.", ("a",))
    assert registry.counter("x_total", "X.", ("a",)) is first
    with pytest.raises(ValueError, match="x_total is another metric already"):
        registry.counter("x_total", "X.", ("b",))
    with pytest.raises(ValueError, match="x_total is another metric already"):
        registry.gauge("x_total", "X.", ("a",))
