"""Open connections: how many there may be in all and of one client, and how long one may be silent.

They are counted from the moment at which they are accepted, before TLS: a client that never gets further takes room as
well. Until a request on it was authenticated, a connection belongs to the address it came from, and soon it can be
closed to make room for another: so whoever opens thousands and says nothing pushes out their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import time
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from localpv.engine.apiserver import responses
from localpv.engine.apiserver.auth.identity import ANONYMOUS, User
from localpv.engine.apiserver.bounds import SHARE, Bounds, client_of
from localpv.errors import BadRequest, TooManyRequests

log = logging.getLogger(__name__)

HEAD_SECONDS = 32.0
"""How long a client may take for TLS and the head of its first request, and for the head of each later one;
kube-apiserver has the same number."""

LOGIN_SECONDS = 1.0
"""How long a client has for TLS and a request that is authenticated, however many others come from its address. After
that its connection goes when another one needs the room."""

IDLE_SECONDS = 120.0
"""How long a connection stays open without a request."""

SWEEP_EVERY = 5.0
"""Seconds between two looks for connections that have been silent for too long."""

RESERVED_FILES = 256
"""Open files that are kept for everything but connections: the database, pods, the kernel's feeds."""

_MASTERS = ""


class Connection(socket.socket):
    """An accepted socket that knows whose it is."""

    book: Connections
    client = ""
    opened = 0.0
    used = 0.0
    """When its last request was answered; 0 before the first one that was authenticated."""
    name: str | None = None
    """The user who was authenticated last."""
    busy = False
    receiving: float | None = None
    """Since when part of a request is there."""
    leaving = False
    """It is to be closed after this answer."""
    lasting: asyncio.Task[Any] | None = None
    """The watch that ends with it."""

    def close(self) -> None:
        self.book.closed(self)
        super().close()

    def cut(self) -> None:
        """Have it closed: the event loop sees its end and clears up."""
        self.book.closed(self)
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)


class Listener(socket.socket):
    """A listening socket that accepts no more than there is room for."""

    book: Connections

    def accept(self) -> tuple[socket.socket, Any]:
        plain, address = super().accept()
        connection = Connection(fileno=plain.detach())
        connection.book = self.book
        if not self.book.admit(connection, str(address[0])):
            connection.close()
            raise BlockingIOError("no room for another connection")
        return connection, address


class Connections:
    """All that are open, by client."""

    def __init__(self, bounds: Bounds) -> None:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most = max(SHARE, min(bounds.connections, files - RESERVED_FILES))
        self.share = self.most // SHARE
        self._clients: dict[str, dict[Connection, None]] = {}
        self._by_file: dict[int, Connection] = {}

    def __len__(self) -> int:
        return len(self._by_file)

    def listen(self, family: int, address: Any) -> Listener:
        """A bound socket whose connections are counted here."""
        listener = Listener(family, socket.SOCK_STREAM)
        listener.book = self
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
        return listener

    def of(self, file: int) -> Connection | None:
        return self._by_file.get(file)

    def admit(self, connection: Connection, address: str) -> bool:
        connection.client = f"address {address}"
        connection.opened = time.monotonic()
        group = self._clients.get(connection.client, {})
        if len(group) >= self.share:
            oldest = next(iter(group))
            if connection.opened - oldest.opened < LOGIN_SECONDS:
                return False
            oldest.cut()
        if len(self._by_file) >= self.most and not self._make_room():
            return False
        self._clients.setdefault(connection.client, {})[connection] = None
        self._by_file[connection.fileno()] = connection
        return True

    def _make_room(self) -> bool:
        """Close a connection that is not in use, of the client that has most of them."""
        groups = [group for client, group in self._clients.items() if client != _MASTERS]
        for group in sorted(groups, key=len, reverse=True):
            for connection in group:
                if not connection.used or not connection.busy:
                    connection.cut()
                    return True
        return False

    def authenticated(self, connection: Connection, user: User) -> None:
        """A request came from this user. Raises TooManyRequests when they have too many connections already."""
        if user.name == connection.name or user is ANONYMOUS:
            return
        client = _MASTERS if user.is_master else client_of(user)
        connection.name = user.name
        if client == connection.client or connection.fileno() not in self._by_file:
            return
        if client != _MASTERS and len(self._clients.get(client, ())) >= self.share:
            connection.name, connection.leaving = None, True
            raise TooManyRequests(
                "Too many requests, please try again later: you have too many connections open",
                details={"retryAfterSeconds": 1},
            )
        self._leave_group(connection)
        connection.client = client
        connection.used = time.monotonic()
        self._clients.setdefault(client, {})[connection] = None

    def closed(self, connection: Connection) -> None:
        if self._by_file.get(connection.fileno()) is connection:
            del self._by_file[connection.fileno()]
            self._leave_group(connection)

    def _leave_group(self, connection: Connection) -> None:
        group = self._clients[connection.client]
        group.pop(connection, None)
        if not group:
            del self._clients[connection.client]

    async def sweep(self) -> None:
        """Close connections that have begun something and do not go on with it."""
        while True:
            await asyncio.sleep(SWEEP_EVERY)
            latest = time.monotonic() - HEAD_SECONDS
            for connection in list(self._by_file.values()):
                began = connection.receiving if connection.used else connection.opened
                if not connection.busy and began is not None and began < latest:
                    connection.cut()


class _Protocol(RequestHandler):
    """HTTP on one connection."""

    connection: Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.connection = self._manager.book.of(transport.get_extra_info("socket").fileno())  # type: ignore[union-attr]

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        connection = self.connection
        if connection is not None and connection.lasting is not None:
            # It would wait for the next change, to tell it to nobody.
            connection.lasting.cancel()

    def data_received(self, data: bytes) -> None:
        connection = self.connection
        if connection is not None and not connection.busy and connection.receiving is None:
            connection.receiving = time.monotonic()
        super().data_received(data)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        # What is no HTTP comes from strangers, and as often as they like: it is no news, and its text is theirs.
        log.debug("no request of HTTP address=%s reason=%s", request.remote, type(exc).__name__)
        response = responses.failure(BadRequest("this is no request that the server can read"))
        response.force_close()
        return response


class Server(web.Server):
    """aiohttp's server, with connections that are counted."""

    def __init__(self, handler: Any, *, book: Connections) -> None:
        super().__init__(self._handle, keepalive_timeout=IDLE_SECONDS, access_log=None)
        self._handler = handler
        self.book = book

    def __call__(self) -> RequestHandler:
        return _Protocol(self, loop=self._loop, **self._kwargs)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = of_request(request)
        if connection is None:
            return await self._handler(request)  # type: ignore[no-any-return]
        connection.busy, connection.receiving = True, None
        try:
            response: web.StreamResponse = await self._handler(request)
        finally:
            connection.busy, connection.lasting = False, None
            if connection.used:
                connection.used = time.monotonic()
        if connection.leaving:
            response.force_close()
        return response


def of_request(request: web.BaseRequest) -> Connection | None:
    """The connection that a request came on; None for one from inside the process."""
    protocol = getattr(request, "protocol", None)
    return protocol.connection if isinstance(protocol, _Protocol) else None
