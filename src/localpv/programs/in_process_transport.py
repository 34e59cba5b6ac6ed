"""A transport for parts that live in one process with the server: writes go to its handler without a network.

The way over TLS and HTTP costs more than the write itself. Who asks, whether they may, and what is answered stay the
same: the request only does not leave the process. Reads are few, and watches stream, so these go over the network.
"""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from typing import cast

from aiohttp import web
from multidict import CIMultiDict

import localpv
from localpv.client.client import Client
from localpv.client.config import Connection
from localpv.client.http import HttpTransport
from localpv.client.transport import Answer, Observer, Request, Retrying, Transport
from localpv.engine.apiserver.server import ApiServer
from localpv.runtime.clock import Clock

WRITES = ("PATCH", "PUT", "DELETE", "POST")
STREAMS = ("/exec", "/attach", "/portforward")
"""Subresources that turn a POST into a connection."""


class InsideTransport:
    """Writes to the server in this process, and reads from it over another transport."""

    def __init__(
        self,
        server: ApiServer,
        outer: Transport,
        *,
        connection: Connection,
        component: str,
        observer: Observer | None = None,
    ) -> None:
        self._observer = observer
        self._handler = server.handler
        self._outer = outer
        self._connection = connection
        self._agent = f"localpv-{component}/{localpv.__version__}"

    async def request(self, request: Request) -> Answer:
        if request.method not in WRITES or request.path.endswith(STREAMS):
            return await self._outer.request(request)
        # A refusal waits for nothing: whoever is refused again and again must not be alone on the event loop.
        await asyncio.sleep(0)
        headers = CIMultiDict(await self._connection.credentials.headers())
        headers["User-Agent"] = self._agent
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        began = time.monotonic()
        response = await self._handler(cast(web.BaseRequest, _Inside(request, headers)))
        if self._observer is not None:
            seconds = time.monotonic() - began
            self._observer.answered(request.method, request.path, code=response.status, seconds=seconds)
        assert isinstance(response, web.Response) and isinstance(response.body, bytes)
        answered = {name.lower(): value for name, value in response.headers.items()}
        return Answer(code=response.status, body=response.body, headers=answered)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._outer.stream(request)


class _Inside:
    """What the handler looks at of a request that writes."""

    def __init__(self, request: Request, headers: CIMultiDict[str]) -> None:
        query = _written(tuple(request.query.items()))
        self.method = request.method
        self.raw_path = f"{request.path}?{query}" if query else request.path
        self.headers = headers
        self.content_type = headers.get("Content-Type", "application/octet-stream")
        self.content = _Body(request.body or b"")
        self.content_length = len(request.body or b"")


@lru_cache(maxsize=256)
def _written(query: tuple[tuple[str, str], ...]) -> str:
    """The options of a request as its address has them; those of writes are nearly always the same."""
    return urllib.parse.urlencode(query)


class _Body:
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self._body


@asynccontextmanager
async def connect(
    server: ApiServer, connection: Connection, *, component: str, clock: Clock, observer: Observer | None = None
) -> AsyncIterator[Client]:
    """A client for parts in the server's own process; it is to be used before the server stops."""
    async with HttpTransport(connection, component=component, observer=observer) as outer:
        inside = InsideTransport(server, outer, connection=connection, component=component, observer=observer)
        yield Client(Retrying(inside, clock=clock), field_manager=f"localpv-{component}")
