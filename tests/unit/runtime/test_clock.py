"""The clock of tests, and what is built on any clock."""

from __future__ import annotations

import asyncio

import pytest

from localpv.runtime.backoff import Backoff
from localpv.runtime.clock import SystemClock, deadline
from localpv.testing.clock import FakeClock


async def test_sleepers_wake_in_order_at_their_own_time() -> None:
    clock = FakeClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("slow", 3))
        group.create_task(sleeper("fast", 2))
        await clock.advance(10)
    assert woken == [("fast", 2), ("slow", 3), ("fast", 4), ("slow", 6)]
    assert clock.monotonic() == 10
    assert clock.pending == 0


async def test_cancelled_sleeper_leaves_no_timer() -> None:
    clock = FakeClock()
    sleeping = asyncio.create_task(clock.sleep(5))
    await clock.advance(1)
    assert clock.pending == 1
    sleeping.cancel()
    await clock.advance(0)
    assert clock.pending == 0


@pytest.mark.parametrize("clock", [FakeClock(), SystemClock()])
async def test_deadline_ends_what_takes_too_long(clock: FakeClock | SystemClock) -> None:
    async def work() -> None:
        async with deadline(0.01, clock=clock):
            await asyncio.get_running_loop().create_future()

    working = asyncio.create_task(work())
    if isinstance(clock, FakeClock):
        await clock.advance(0.01)
    with pytest.raises(TimeoutError):
        await working


async def test_deadline_that_is_kept_leaves_no_timer() -> None:
    clock = FakeClock()
    async with deadline(5, clock=clock):
        pass
    assert clock.pending == 0


def test_backoff_doubles_up_to_its_cap_and_starts_anew_after_success() -> None:
    backoff = Backoff(first=1, most=5, jitter=0)
    assert [backoff.next() for _ in range(5)] == [1, 2, 4, 5, 5]
    backoff.reset()
    assert backoff.next() == 1


def test_jitter_makes_waits_longer_and_never_shorter() -> None:
    assert Backoff(first=2, jitter=0.5, random=lambda: 0.0).next() == 2
    assert Backoff(first=2, jitter=0.5, random=lambda: 1.0).next() == 3


def test_backoff_survives_any_number_of_tries() -> None:
    backoff = Backoff(first=1, most=60, jitter=0, tries=100_000)
    assert backoff.next() == 60
