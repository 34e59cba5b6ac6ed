"""Time as components see it: a clock that tests can replace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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
