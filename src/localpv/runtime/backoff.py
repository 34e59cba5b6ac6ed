"""How long to wait before something is tried again, also counted for each key by itself."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


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


class KeyedBackoff(Generic[K]):
    """A back-off per key that failed; keys that work are not remembered."""

    def __init__(
        self,
        *,
        first: float = 0.05,
        most: float = 300.0,
        jitter: float = 0.2,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._fresh = functools.partial(Backoff, first=first, most=most, jitter=jitter, random=random)
        self._failing: dict[K, Backoff] = {}

    def failed(self, key: K) -> float:
        """Count one more failure; how long to wait after it."""
        backoff = self._failing.get(key)
        if backoff is None:
            backoff = self._failing[key] = self._fresh()
        return backoff.next()

    def worked(self, key: K) -> None:
        self._failing.pop(key, None)

    def failures(self, key: K) -> int:
        backoff = self._failing.get(key)
        return backoff.tries if backoff else 0
