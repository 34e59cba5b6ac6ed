"""A worker that is told which keys to look at, and looks at each once however often it was told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from localpv.errors import LocalpvError
from localpv.runtime.turns import Turn

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)

FIRST_RETRY = 0.05
LONGEST_RETRY = 30.0


class Worker(Generic[Key]):
    """Calls `look(key)` for every key that was added; True or an error means: look again later.

    The set of keys is unbounded but holds each key once, so it is never longer than the list of objects.
    """

    def __init__(self, name: str, look: Callable[[Key], Awaitable[bool]]) -> None:
        self._name = name
        self._look = look
        self._keys: dict[Key, None] = {}
        self._tries: dict[Key, int] = {}
        self._wake = asyncio.Event()

    def add(self, key: Key) -> None:
        """Look at this soon. May be called from the listeners of the store."""
        self._keys[key] = None
        self._wake.set()

    async def run(self) -> None:
        turn = Turn()
        while True:
            # A look that finds nothing to write waits for nothing: thousands of them in a row must let others in.
            await turn.over()
            while not self._keys:
                self._wake.clear()
                await self._wake.wait()
            key = next(iter(self._keys))
            del self._keys[key]
            try:
                again = await self._look(key)
            except LocalpvError as error:
                log.info("will try again task=%s key=%s error=%s", self._name, key, error)
                again = True
            except Exception:
                # One object that trips over a bug must not stop the work on all others.
                log.exception("failed task=%s key=%s", self._name, key)
                again = True
            if again:
                self._later(key)
            else:
                self._tries.pop(key, None)

    def _later(self, key: Key) -> None:
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        delay = min(LONGEST_RETRY, FIRST_RETRY * 2 ** min(tries - 1, 20))
        asyncio.get_running_loop().call_later(delay, self.add, key)
