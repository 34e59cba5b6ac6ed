"""Requests over the network, on aiohttp."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from multidict import CIMultiDict

import localpv
from localpv import errors
from localpv.api import media_types
from localpv.client.config import Connection
from localpv.client.lazy_aiohttp import aiohttp
from localpv.client.transport import Answer, Observer, Request, error_of

CONNECT_SECONDS = 10.0
CONNECTIONS = 100
"""Most connections at once, watches included; a request beyond it waits for one to come free. Each costs 300 KB, most
of it a buffer of asyncio: who has little memory takes fewer."""

_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""A server that vanished without a word is noticed after a minute, also by a watch on which nothing happens."""


class HttpTransport:
    """A connection pool to one API server. Open it with `async with`."""

    def __init__(
        self,
        connection: Connection,
        *,
        component: str,
        observer: Observer | None = None,
        connections: int = CONNECTIONS,
    ) -> None:
        self._connections = connections
        self._connection = connection
        self._observer = observer
        self._base = connection.url.rstrip("/")
        self._agent = f"localpv-{component}/{localpv.__version__}"
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            ssl=self._connection.tls or (ssl.create_default_context() if self._base.startswith("https:") else True),
            limit=self._connections,
            socket_factory=_socket,
            resolver=aiohttp.ThreadedResolver(),
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            # A list is read once and decoded at once: unpacking it would cost more than the network does.
            headers={"User-Agent": self._agent, "Accept": media_types.JSON, "Accept-Encoding": "identity"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(self, request: Request) -> Answer:
        """Ask once; a second time when the credentials were refused and there are newer ones."""
        answer = await self._request(request)
        if answer.code == 401 and self._connection.credentials.refused():
            return await self._request(request)
        return answer

    async def _request(self, request: Request) -> Answer:
        timeout = aiohttp.ClientTimeout(total=request.timeout_seconds, sock_connect=CONNECT_SECONDS)
        try:
            async with await self._send(request, timeout) as response:
                body = await response.read()
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Answer(code=response.status, body=body, headers=headers)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._lost(error, request) from error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=request.timeout_seconds)
        try:
            response = await self._send(request, timeout)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._lost(error, request) from error
        try:
            try:
                if response.status >= 400:
                    if response.status == 401:
                        self._connection.credentials.refused()
                    raise error_of(Answer(code=response.status, body=await response.read()))
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise self._lost(error, request) from error
            yield self._chunks(response, request)
        finally:
            # A stream is left before its end, so its connection cannot be used again.
            response.close()

    async def _chunks(self, response: aiohttp.ClientResponse, request: Request) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._lost(error, request) from error

    async def _send(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("HttpTransport is used outside its async with")
        headers = CIMultiDict(await self._connection.credentials.headers())
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        began, code = time.monotonic(), 0
        try:
            response = await self._session.request(
                request.method,
                self._base + request.path,
                params=request.query,
                data=request.body,
                headers=headers,
                timeout=limits,
                allow_redirects=False,
                server_hostname=self._connection.server_name or None,
            )
            code = response.status
            return response
        finally:
            if self._observer is not None:
                seconds = time.monotonic() - began
                self._observer.answered(request.method, request.path, code=code, seconds=seconds)

    def _lost(self, error: Exception, request: Request) -> errors.ConnectionLost:
        hint = ""
        if isinstance(error, (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError)):
            hint = f"the certificate does not fit the authority or the address in {self._connection.source}"
        elif isinstance(error, aiohttp.ClientConnectorError):
            hint = f"is the API server running at {self._base}, as {self._connection.source} says?"
        if isinstance(error, TimeoutError):
            what = f"no answer within {request.timeout_seconds:g} s"
        else:
            what = str(error) or type(error).__name__
        return errors.ConnectionLost(f"{request.method} {self._base}{request.path}: {what}", hint=hint)


def _socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
