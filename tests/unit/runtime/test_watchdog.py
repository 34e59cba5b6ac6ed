"""The watchdog sees an event loop that is held, and what holds it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest
from tests.held_loops import LINE

from localpv.observe.loop import Loop
from localpv.observe.registry import Registry
from localpv.runtime.watchdog import Held, Watchdog
from localpv.testing.waiting import eventually


def _compute(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(1000))


async def _seen(watchdog: Watchdog) -> None:
    await eventually(lambda: watchdog.times, what="the watchdog has told that the loop goes on")


@pytest.mark.holds_the_loop
async def test_who_holds_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog()
    with caplog.at_level(logging.ERROR), watchdog.watching():
        _compute(1.8)
        await _seen(watchdog)
    first, *_, last = caplog.messages  # on a busy machine it is told of more than once
    assert "is held" in first and "_compute" in first
    assert "goes on" in last
    found = LINE.search(last.encode())
    assert found is not None and float(found[1]) > 1
    assert watchdog.seconds > 1


async def test_waiting_on_purpose_is_no_computing() -> None:
    reports: list[Held] = []
    watchdog = Watchdog(on_held=reports.append, limit=0.2)
    with watchdog.watching():
        while not reports:
            time.sleep(0.5)  # noqa: ASYNC251 -- as a read from a hung disk would
        await _seen(watchdog)
    assert reports[0].seconds >= 0.2
    assert all(report.cpu_seconds < 0.5 for report in reports)
    assert "time.sleep" in reports[0].stack


async def test_a_loop_that_turns_is_not_reported() -> None:
    reports: list[Held] = []
    with Watchdog(on_held=reports.append, limit=0.5).watching():
        for _ in range(60):
            _compute(0.01)
            await asyncio.sleep(0.01)
    # On a busy machine the loop may have to wait for a processor: that is told, as no computing.
    assert not [report for report in reports if report.cpu_seconds >= 0.5]


async def test_it_ends_with_what_it_watches() -> None:
    with Watchdog().watching():
        assert "watchdog" in [thread.name for thread in threading.enumerate()]
    mine = [thread for thread in threading.enumerate() if thread.name == "watchdog"]
    # That of the test run itself stays.
    await eventually(lambda: sum(thread.is_alive() for thread in mine) == 1, what="the thread has ended")


@pytest.mark.holds_the_loop
async def test_what_it_saw_is_in_the_metrics() -> None:
    registry, watchdog = Registry(), Watchdog(on_held=lambda held: None, limit=0.2)
    Loop(registry, watchdog)
    with watchdog.watching():
        _compute(1.2)
        await _seen(watchdog)
    lines = dict(line.rsplit(" ", 1) for line in registry.text().splitlines() if not line.startswith("#"))
    assert int(lines["localpv_event_loop_held_total"]) >= 1
    assert 0.5 < float(lines["localpv_event_loop_held_seconds_total"]) < 60
