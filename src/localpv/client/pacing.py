"""Time as components see it: a clock that tests can replace, and how long to wait between tries."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Where the time comes from; `testing.clock.FakeClock` is the one that tests move by hand."""

    def monotonic(self) -> float:
        """Seconds that never go back; for intervals."""

    def now(self) -> datetime:
        """The time of day in UTC; for what people and other programs read."""

    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer: ...


class SystemClock:
    """The clock of the machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


@asynccontextmanager
async def deadline(seconds: float, *, clock: Clock) -> AsyncIterator[None]:
    """Raise TimeoutError in the with-block once that much time of the clock has passed."""
    async with asyncio.timeout(None) as limit:
        timer = clock.call_later(seconds, lambda: limit.reschedule(asyncio.get_running_loop().time()))
        try:
            yield
        finally:
            timer.cancel()


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Waits that double from `first` to `most` seconds until something works again.

    Each is spread by `jitter` (0.5: up to half as long again), so that a thousand nodes that lost the same server do
    not come back in the same instant.
    """

    first: float = 0.2
    most: float = 30.0
    jitter: float = 0.5
    random: Callable[[], float] = field(default=random.random, repr=False)
    tries: int = 0

    def next(self) -> float:
        """How long to wait before the next try."""
        # A float overflows after a thousand doublings; the cap is reached long before the sixtieth.
        wait = min(self.first * 2.0 ** min(self.tries, 60), self.most)
        self.tries += 1
        return wait * (1 + self.jitter * self.random())

    def reset(self) -> None:
        self.tries = 0
