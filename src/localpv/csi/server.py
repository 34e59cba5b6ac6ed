"""Answers calls on a unix socket.

Each call is a task of its own: it ends at the time limit that the caller stated, and is cancelled when the caller loses
interest. On close those that run are waited for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from h2 import events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

from localpv import errors
from localpv.csi import codec, status
from localpv.csi.codec import Message
from localpv.csi.connection import MAX_MESSAGE_BYTES, PREFIX_BYTES, Connection, headers_of
from localpv.csi.status import Code, RpcError

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Message], Awaitable[Message]]

MAX_CONNECTIONS: Final = 32
"""More are closed at once. A kubelet has one or two, each sidecar one."""

MAX_CALLS: Final = 128
"""Calls that run at the same time; more are told to come again."""

MAX_BUFFERED_BYTES: Final = 16 << 20
"""Of requests that have not come to their end, and answers that have not been taken, on all connections."""

REQUEST_SECONDS: Final = 30.0
"""In which a request must have come to its end, and in which its answer must have been taken."""

CALL_SECONDS: Final = 600.0
"""The time limit of a call whose caller states none, or a longer one. What it began goes on, and a repeated call finds
it: the interface is made so."""

DRAIN_SECONDS: Final = 5.0
"""How long calls may go on when the server is closed."""

_MAX_PATH: Final = 107
"""Bytes of the path of a unix socket."""


class Server:
    """What `serve` gives: close it at the end."""

    def __init__(self, path: Path, services: Mapping[str, Handler]) -> None:
        self._path = path
        self._services = dict(services)
        self._connections: set[_ServerConnection] = set()
        self._listening: asyncio.AbstractServer | None = None
        self._identity = (0, 0)
        self._calls = 0
        self._idle = asyncio.Event()
        """Set whenever a last call has been answered and its answer taken."""
        self.buffered_bytes = 0

    async def open(self) -> None:
        listening = await asyncio.to_thread(_bind, self._path)
        found = self._path.lstat()
        self._identity = found.st_dev, found.st_ino
        self._listening = await asyncio.get_running_loop().create_unix_server(self._connection, sock=listening)

    async def close(self, *, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Take no more calls, wait for those that run, cancel what is left."""
        if self._listening is not None:
            self._listening.close()
        with suppress(OSError):
            found = self._path.lstat()
            if (found.st_dev, found.st_ino) == self._identity:  # not that of one who came after us
                self._path.unlink()
        connections = list(self._connections)
        for connection in connections:
            connection.say_going()
        running = [call.task for connection in connections for call in connection.calls.values() if call.task]
        if self._calls:
            with suppress(TimeoutError):
                async with asyncio.timeout(drain_seconds):
                    await self._idle.wait()
        for connection in connections:
            connection.abandon()
        if connections:
            await asyncio.wait([connection.ended for connection in connections])
        left = [task for task in running if not task.done()]
        if left:
            await asyncio.wait(left, timeout=drain_seconds)

    def handler(self, path: str) -> tuple[Handler, str, str] | None:
        handler, names = self._services.get(path), codec.method(path)
        return (handler, *names) if handler is not None and names is not None else None

    @property
    def calls(self) -> int:
        """Calls that are coming in, run, or whose answer is going out."""
        return self._calls

    @calls.setter
    def calls(self, count: int) -> None:
        self._calls = count
        if count:
            self._idle.clear()
        else:
            self._idle.set()

    def joined(self, connection: _ServerConnection) -> bool:
        if len(self._connections) >= MAX_CONNECTIONS:
            log.warning("connection refused: there are %d already", len(self._connections))
            return False
        self._connections.add(connection)
        return True

    def left(self, connection: _ServerConnection) -> None:
        self._connections.discard(connection)

    def _connection(self) -> _ServerConnection:
        return _ServerConnection(self)


async def serve(path: Path, services: Mapping[str, Handler]) -> Server:
    """Answer calls of these methods, by their full names such as `/csi.v1.Node/NodePublishVolume`."""
    server = Server(path, services)
    await server.open()
    return server


def _bind(path: Path) -> socket.socket:
    """A socket in place of one that a killed process left behind, for its owner only."""
    if len(os.fsencode(path)) > _MAX_PATH:
        raise errors.StartError(f"{path} is too long for the path of a socket: at most {_MAX_PATH} bytes")
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        _remove_left_behind(path)
        found.bind(str(path))
        path.chmod(0o600)  # nobody can connect before somebody listens
    except OSError as error:
        found.close()
        raise errors.StartError(f"cannot make the socket {path}: {error.strerror}") from error
    except errors.StartError:
        found.close()
        raise
    return found


def _remove_left_behind(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return  # bind says that something is there
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass  # there is one who listens, and has much to do
    raise errors.StartError(f"another process answers on {path}", hint="stop it first")


class _Call:
    __slots__ = ("body", "deadline", "handler", "held_bytes", "limit", "stream_id", "task")

    def __init__(self, stream_id: int, handler: tuple[Handler, str, str], deadline: float) -> None:
        self.stream_id = stream_id
        self.handler = handler
        self.deadline = deadline
        """When its caller stops waiting, on the clock of the loop."""
        self.body = bytearray()
        self.held_bytes = 0
        """Of the request or the answer, whichever is held in memory now."""
        self.task: asyncio.Task[None] | None = None
        self.limit: asyncio.TimerHandle | None = None
        """Ends it while it comes in and while its answer goes out."""


class _ServerConnection(Connection):
    def __init__(self, server: Server) -> None:
        super().__init__(client_side=False)
        self._server = server
        self.calls: dict[int, _Call] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._server.joined(self):
            assert isinstance(transport, asyncio.Transport)
            transport.abort()
            return
        super().connection_made(transport)

    def lost(self) -> None:
        self._server.left(self)
        for call in list(self.calls.values()):
            self._forget(call)

    def happened(self, event: events.Event) -> None:
        match event:
            case events.RequestReceived():
                self._begin(event.stream_id, headers_of(event.headers))
            case events.DataReceived() if (call := self.calls.get(event.stream_id)) is not None:
                self._more(call, event.data)
            case events.StreamEnded() if (call := self.calls.get(event.stream_id)) is not None:
                self._start(call)
            case events.StreamReset() if (call := self.calls.get(event.stream_id)) is not None:
                self._forget(call)

    def sent(self, stream_id: int) -> None:
        self.progressed()
        if (call := self.calls.get(stream_id)) is not None:
            self._forget(call)

    def _begin(self, stream_id: int, headers: dict[str, str]) -> None:
        if self.going:
            return self.reset(stream_id, ErrorCodes.REFUSED_STREAM)  # it came while our GOAWAY was on its way
        if headers.get(":method") != "POST":
            return self._refuse_http(stream_id, "405")
        if not headers.get("content-type", "").startswith("application/grpc"):
            return self._refuse_http(stream_id, "415")
        path = headers.get(":path", "")
        handler = self._server.handler(path)
        if handler is None:
            return self._refuse(stream_id, Code.UNIMPLEMENTED, f"there is no method {path[:200]}")
        seconds = status.read_timeout(headers["grpc-timeout"]) if "grpc-timeout" in headers else CALL_SECONDS
        if seconds is None:
            return self._refuse(stream_id, Code.INTERNAL, "grpc-timeout is not understood")
        if self._server.calls >= MAX_CALLS:
            return self._refuse(stream_id, Code.UNAVAILABLE, f"there are {MAX_CALLS} calls already")
        loop = asyncio.get_running_loop()
        call = _Call(stream_id, handler, loop.time() + min(seconds, CALL_SECONDS))
        call.limit = loop.call_later(REQUEST_SECONDS, self._give_up, call)
        self.calls[stream_id] = call
        self._server.calls += 1
        return None

    def _more(self, call: _Call, data: bytes) -> None:
        if call.task is not None:
            return
        call.body += data
        self._hold(call, len(call.body))
        if len(call.body) > MAX_MESSAGE_BYTES + PREFIX_BYTES:
            self._refuse(call.stream_id, Code.RESOURCE_EXHAUSTED, f"more than {MAX_MESSAGE_BYTES} bytes in a message")
        elif self._server.buffered_bytes > MAX_BUFFERED_BYTES:
            self._refuse(call.stream_id, Code.RESOURCE_EXHAUSTED, "too much in all requests that are coming in")

    def _start(self, call: _Call) -> None:
        if call.limit is not None:
            call.limit.cancel()
        call.task = asyncio.get_running_loop().create_task(self._answer(call), name="csi call")

    async def _answer(self, call: _Call) -> None:
        handler, request_type, response_type = call.handler
        try:
            message = _unframed(call.body)
            self._hold(call, 0)
            call.body = bytearray()
            async with asyncio.timeout_at(call.deadline) as limit:
                answer = codec.encode(response_type, await handler(codec.decode(request_type, message)))
            if len(answer) > MAX_MESSAGE_BYTES:
                raise RpcError(Code.RESOURCE_EXHAUSTED, f"the answer has more than {MAX_MESSAGE_BYTES} bytes")
            if self._server.buffered_bytes + len(answer) > MAX_BUFFERED_BYTES:
                raise RpcError(Code.RESOURCE_EXHAUSTED, "too much in all answers that nobody takes")
        except RpcError as error:
            return self._refuse(call.stream_id, error.code, error.message)
        except codec.Malformed as reason:
            return self._refuse(call.stream_id, Code.INTERNAL, f"the message is not valid: {reason}")
        except errors.LocalpvError as error:
            return self._refuse(call.stream_id, Code.INTERNAL, error.message)
        except TimeoutError as error:
            if limit.expired():
                return self._refuse(call.stream_id, Code.DEADLINE_EXCEEDED, "the time that the caller waits is over")
            return self._fail(call, error)
        except asyncio.CancelledError:
            self._refuse(call.stream_id, Code.UNAVAILABLE, "the call was ended")
            raise
        except Exception as error:
            return self._fail(call, error)
        if call.stream_id not in self.calls or self.transport is None:
            return None  # nobody waits for it any more
        self.http2.send_headers(call.stream_id, [(":status", "200"), ("content-type", "application/grpc")])
        call.limit = asyncio.get_running_loop().call_later(REQUEST_SECONDS, self._give_up, call)
        call.task = None
        self._hold(call, len(answer))
        self.send(call.stream_id, answer, status.trailers(Code.OK))
        return None

    def _fail(self, call: _Call, error: Exception) -> None:
        log.error("unexpected error in a call", exc_info=error)
        self._refuse(call.stream_id, Code.INTERNAL, f"unexpected error: {type(error).__name__}")

    def _refuse(self, stream_id: int, code: Code, message: str) -> None:
        headers = [(":status", "200"), ("content-type", "application/grpc"), *status.trailers(code, message)]
        self._end(stream_id, headers)

    def _refuse_http(self, stream_id: int, http_status: str) -> None:
        self._end(stream_id, [(":status", http_status)])

    def _end(self, stream_id: int, headers: list[tuple[str, str]]) -> None:
        """An answer without a message. What is still coming in on the stream is not wanted."""
        call = self.calls.get(stream_id)
        if call is not None:
            call.task = None  # it is the one who says so
            self._forget(call)
        with suppress(ProtocolError):  # the other end has reset the stream
            self.http2.send_headers(stream_id, headers, end_stream=True)
            if stream_id in self.http2.streams and not self.http2.streams[stream_id].closed:
                self.http2.reset_stream(stream_id, ErrorCodes.NO_ERROR)
            self.progressed()
        self.flush()

    def _give_up(self, call: _Call) -> None:
        self.reset(call.stream_id, ErrorCodes.CANCEL)
        self._forget(call)

    def _forget(self, call: _Call) -> None:
        """The call is over, or nobody waits for it any more."""
        if self.calls.pop(call.stream_id, None) is None:
            return
        self._server.calls -= 1
        self._hold(call, 0)
        if call.limit is not None:
            call.limit.cancel()
        if call.task is not None:
            call.task.cancel()

    def _hold(self, call: _Call, size: int) -> None:
        if call.stream_id in self.calls or not size:
            self._server.buffered_bytes += size - call.held_bytes
            call.held_bytes = size


def _unframed(body: bytearray) -> bytes:
    """The one message of a request."""
    if len(body) < PREFIX_BYTES or int.from_bytes(body[1:PREFIX_BYTES]) != len(body) - PREFIX_BYTES:
        raise RpcError(Code.INTERNAL, "the request is not one whole message")
    if body[0]:
        raise RpcError(Code.UNIMPLEMENTED, "the message is compressed, which was not offered")
    return bytes(body[PREFIX_BYTES:])
