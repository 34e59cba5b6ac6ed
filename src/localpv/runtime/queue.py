"""A queue of keys to look at, each at most once.

A key that is added many times before somebody takes it is taken once. A key that is added while it is being looked at
is looked at again afterwards, never twice at the same time. So the queue cannot grow beyond the number of keys, which
is the number of objects: it needs no other bound, and adding never waits and never drops anything.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from localpv.runtime.backoff import KeyedBackoff
from localpv.runtime.clock import Clock, Timer

K = TypeVar("K", bound=Hashable)


class Closed(Exception):
    """The queue takes and gives no more keys."""


class Observer(Protocol):
    """Is told what happens in a queue; for metrics."""

    def depth(self, waiting: int) -> None:
        """So many keys wait to be taken."""

    def taken(self, waited_seconds: float) -> None: ...

    def done(self, worked_seconds: float) -> None: ...

    def retried(self, why: str) -> None: ...


class Unobserved:
    """An observer that looks away."""

    def depth(self, waiting: int) -> None: ...

    def taken(self, waited_seconds: float) -> None: ...

    def done(self, worked_seconds: float) -> None: ...

    def retried(self, why: str) -> None: ...


Observing = Callable[[str], Observer]
"""Gives the observer for a queue of that name."""


def unobserved(name: str) -> Observer:
    return Unobserved()


class WorkQueue(Generic[K]):
    """Keys in the order in which they were first added."""

    def __init__(
        self, *, clock: Clock, backoff: KeyedBackoff[K] | None = None, observer: Observer | None = None
    ) -> None:
        self._clock = clock
        self._backoff: KeyedBackoff[K] = backoff or KeyedBackoff()
        self._observer = observer or Unobserved()
        self._waiting: dict[K, float] = {}
        """Keys to take, oldest first, with the time at which they were added."""

        self._taken: dict[K, float] = {}
        self._again: set[K] = set()
        """Keys that were added while they were taken."""

        self._later: dict[K, tuple[float, Timer]] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """How many keys wait to be taken now; those of later do not count."""
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Have a key looked at as soon as possible."""
        if self._closed:
            return
        self._forget_timer(key)
        if key in self._taken:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = self._clock.monotonic()
            self._observer.depth(len(self._waiting))
            self._wake_one()

    def add_after(self, key: K, seconds: float) -> None:
        """Have a key looked at after some time; the earliest of several such wishes counts."""
        if seconds <= 0:
            self.add(key)
        if self._closed or seconds <= 0 or key in self._waiting:
            return
        when = self._clock.monotonic() + seconds
        if (known := self._later.get(key)) is not None:
            if known[0] <= when:
                return
            known[1].cancel()
        self._later[key] = (when, self._clock.call_later(seconds, lambda: self._due(key)))

    def retry(self, key: K, *, at_least: float = 0.0, why: str = "error") -> float:
        """Have a key looked at after its back-off, which grows with each call until `forget`; says how long it is."""
        wait = max(self._backoff.failed(key), at_least)
        self._observer.retried(why)
        self.add_after(key, wait)
        return wait

    def forget(self, key: K) -> None:
        """The key worked: its next failure is its first."""
        self._backoff.worked(key)

    def failures(self, key: K) -> int:
        return self._backoff.failures(key)

    async def take(self) -> K:
        """The next key, which nobody else gets until `done`; raises Closed after `close`."""
        while not self._waiting:
            if self._closed:
                raise Closed
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker in self._takers:
                    self._takers.remove(taker)
                elif self._waiting:
                    # We were woken and will not come: the key must not wait for the next add.
                    self._wake_one()
                raise
        if self._closed:
            raise Closed
        key = next(iter(self._waiting))
        now = self._clock.monotonic()
        self._observer.taken(now - self._waiting.pop(key))
        self._taken[key] = now
        self._observer.depth(len(self._waiting))
        return key

    def done(self, key: K) -> None:
        """The key has been looked at; if it was added meanwhile, it is next in line again."""
        self._observer.done(self._clock.monotonic() - self._taken.pop(key))
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def close(self) -> None:
        """Give no more keys and forget those of later; whoever waits for one is told."""
        self._closed = True
        for _, timer in self._later.values():
            timer.cancel()
        self._later.clear()
        while self._takers:
            self._wake_one()

    def _due(self, key: K) -> None:
        self._later.pop(key, None)
        self.add(key)

    def _forget_timer(self, key: K) -> None:
        if (known := self._later.pop(key, None)) is not None:
            known[1].cancel()

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return
