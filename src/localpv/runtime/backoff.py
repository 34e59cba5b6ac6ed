"""How long to wait before a key is tried again, counted for each key by itself."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from localpv.client.pacing import Backoff

K = TypeVar("K", bound=Hashable)


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
