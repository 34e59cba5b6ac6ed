"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

ROUNDS = 50
"""Turns of the event loop in which data that is on its way through sockets of this process arrives."""

MOST_ROUNDS = 100_000
"""Whoever is still at work then never waits for anything."""


class FakeTimer:
    """A call of a fake clock that is still to come."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """Time passes only in `advance`, from one sleeper to the next, in order and without waiting."""

    def __init__(self, *, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._seconds = 0.0
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        return self._seconds

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._seconds)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> FakeTimer:
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (self._seconds + seconds, next(self._order), timer))
        return timer

    @property
    def pending(self) -> int:
        """How many sleepers and timers wait for the time to pass."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    async def advance(self, seconds: float) -> None:
        """Let time pass; whoever wakes in between does its work at its own time."""
        await settle()
        until = self._seconds + seconds
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heapq.heappop(self._timers)
            if timer.callback is None:
                continue
            self._seconds = max(self._seconds, when)
            timer.callback()
            await settle()
        self._seconds = until
        await settle()


_settling = 0
"""How many wait for everything to settle; each of them is ready in every turn."""


async def settle() -> None:
    """Let every task run until it waits for something that is not ready.

    How many turns of the loop that takes depends on how busy the machine is: who has worked for long lets others in.
    """
    global _settling
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    _settling += 1
    try:
        for turn in range(MOST_ROUNDS):
            await asyncio.sleep(0)
            if turn >= ROUNDS and len(ready) < _settling:
                return
    finally:
        _settling -= 1
    raise AssertionError(f"some task is still at work after {MOST_ROUNDS} turns of the event loop")
