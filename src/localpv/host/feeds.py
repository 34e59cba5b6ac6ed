"""Changes that the kernel tells through a file descriptor, as an async iterator.

A feed listens from the moment it is made, so nothing is missed between "start to listen" and "look at everything". It
is bounded: equal changes that nobody has read yet are one, and when too many wait the oldest go and `overflow` takes
their place, which asks the reader to look at everything again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Self, TypeVar

T = TypeVar("T")

WAITING = 1024
"""Unread changes that a feed holds."""


class Feed(Generic[T]):
    """`async for change in feed`; close it, or use it in `async with`."""

    def __init__(self, *, overflow: T, on_close: Callable[[], None] = lambda: None) -> None:
        self._waiting: dict[T, None] = {}
        self._overflow = overflow
        self._on_close = on_close
        self._woken = asyncio.Event()
        self._closed = False

    def put(self, change: T) -> None:
        """Called from the event loop only."""
        if len(self._waiting) >= WAITING:
            self._waiting.clear()
            change = self._overflow
        self._waiting[change] = None
        self._woken.set()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._on_close()
            self._woken.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._woken.clear()
            await self._woken.wait()
        change = next(iter(self._waiting))
        del self._waiting[change]
        return change

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
