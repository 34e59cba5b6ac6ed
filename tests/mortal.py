"""A transport whose client can die at any write, for tests of what the next one finds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from localpv.client.transport import Answer, Request, Transport


def is_write(request: Request) -> bool:
    return request.method != "GET" and "/events" not in request.path


class Mortal:
    """Lets so many writes through. The next takes effect or is lost; after it nothing comes back any more."""

    def __init__(
        self, inner: Transport, dies_at: int, *, takes_effect: bool, counts: Callable[[Request], bool] = is_write
    ) -> None:
        self._inner = inner
        self._dies_at, self._takes_effect, self._counts = dies_at, takes_effect, counts
        self._writes = 0
        self.dead = asyncio.Event()

    async def request(self, request: Request) -> Answer:
        if not self.dead.is_set() and self._counts(request):
            if self._writes == self._dies_at:
                if self._takes_effect:
                    await self._inner.request(request)
                self.dead.set()
            self._writes += 1
        if self.dead.is_set():
            await asyncio.get_running_loop().create_future()
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)
