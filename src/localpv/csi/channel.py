"""Makes calls over a unix socket: connects when the first is made, and anew after the connection was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from h2 import events
from h2.errors import ErrorCodes

from localpv.csi import codec, status
from localpv.csi.codec import Message
from localpv.csi.connection import MAX_MESSAGE_BYTES, PREFIX_BYTES, Connection, headers_of
from localpv.csi.status import Code, RpcError

TIMEOUT_SECONDS: Final = 60.0
"""Of a call, when its caller says nothing else."""


class Channel:
    """One connection for any number of calls at the same time; `close` it at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: _ClientConnection | None = None
        self._connecting = asyncio.Lock()

    async def call(self, method: str, request: Mapping[str, Any], *, timeout: float = TIMEOUT_SECONDS) -> Message:  # noqa: ASYNC109
        """The answer of a method by its full name; RpcError with what the other end says instead, or UNAVAILABLE."""
        names = codec.method(method)
        if names is None:
            raise RpcError(Code.UNIMPLEMENTED, f"there is no method {method}")
        message = codec.encode(names[0], request)
        if len(message) > MAX_MESSAGE_BYTES:
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"the request has more than {MAX_MESSAGE_BYTES} bytes")
        try:
            async with asyncio.timeout(timeout) as limit:
                connection = await self._connected()
                answer = await connection.ask(method, message, timeout)
        except TimeoutError:
            if not limit.expired():
                raise
            raise RpcError(Code.DEADLINE_EXCEEDED, f"no answer from {self._path} in {timeout:g} s") from None
        try:
            return codec.decode(names[1], answer)
        except codec.Malformed as reason:
            raise RpcError(Code.INTERNAL, f"the answer of {self._path} is not valid: {reason}") from None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon(ErrorCodes.NO_ERROR)
            await connection.ended

    async def _connected(self) -> _ClientConnection:
        async with self._connecting:
            if self._connection is None or not self._connection.takes_calls:
                try:
                    _, self._connection = await asyncio.get_running_loop().create_unix_connection(
                        _ClientConnection, str(self._path)
                    )
                except OSError as error:
                    reason = error.strerror or str(error)
                    raise RpcError(Code.UNAVAILABLE, f"cannot connect to {self._path}: {reason}") from error
            return self._connection


class _Waiting:
    __slots__ = ("answer", "body", "headers")

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.headers: dict[str, str] = {}
        self.body = bytearray()


class _ClientConnection(Connection):
    def __init__(self) -> None:
        super().__init__(client_side=True)
        self._waiting: dict[int, _Waiting] = {}
        self._for_room: list[asyncio.Future[None]] = []

    @property
    def takes_calls(self) -> bool:
        return not self.going and self.transport is not None and not self.transport.is_closing()

    async def ask(self, method: str, message: bytes, seconds: float) -> bytes:
        """Send a message and wait for the answer. A cancelled caller takes the call back."""
        while self.takes_calls and len(self._waiting) >= self.http2.remote_settings.max_concurrent_streams:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._for_room.append(turn)
            await turn
        if not self.takes_calls:
            raise RpcError(Code.UNAVAILABLE, "the other end takes no more calls")
        stream_id = self.http2.get_next_available_stream_id()
        self.http2.send_headers(
            stream_id,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", method),
                (":authority", "localhost"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
                ("grpc-timeout", status.write_timeout(seconds)),
            ],
        )
        waiting = self._waiting[stream_id] = _Waiting()
        try:
            self.send(stream_id, message)
            return await waiting.answer
        except asyncio.CancelledError:
            self.reset(stream_id, ErrorCodes.CANCEL)
            raise
        finally:
            del self._waiting[stream_id]
            self._wake()
            if self.going and not self._waiting:
                self.abandon()

    def happened(self, event: events.Event) -> None:
        match event:
            case events.ConnectionTerminated():
                self._say_goodbye(event.last_stream_id or 0)
            case events.RemoteSettingsChanged():
                self._wake()
            case (
                events.ResponseReceived()
                | events.TrailersReceived()
                | events.DataReceived()
                | events.StreamEnded()
                | events.StreamReset()
            ) if (waiting := self._waiting.get(event.stream_id)) is not None:
                self._about(event, waiting)

    def lost(self) -> None:
        for waiting in self._waiting.values():
            _fail(waiting, RpcError(Code.UNAVAILABLE, "the connection was lost"))
        self._wake()

    def _about(self, event: events.Event, waiting: _Waiting) -> None:
        match event:
            case events.ResponseReceived() | events.TrailersReceived():
                waiting.headers |= headers_of(event.headers)
            case events.DataReceived():
                waiting.body += event.data
                if len(waiting.body) > MAX_MESSAGE_BYTES + PREFIX_BYTES:
                    waiting.body = bytearray()
                    too_long = RpcError(Code.RESOURCE_EXHAUSTED, f"the answer has more than {MAX_MESSAGE_BYTES} bytes")
                    _fail(waiting, too_long)
                    self.reset(event.stream_id, ErrorCodes.CANCEL)
            case events.StreamEnded():
                self.progressed()
                _finish(waiting)
            case events.StreamReset():
                code = Code.CANCELLED if event.error_code == ErrorCodes.CANCEL else Code.UNAVAILABLE
                if event.error_code == ErrorCodes.NO_ERROR and "grpc-status" in waiting.headers:
                    _finish(waiting)
                else:
                    _fail(waiting, RpcError(code, "the other end has reset the call"))

    def _say_goodbye(self, last_stream_id: int) -> None:
        """The other end takes no more calls, and has not looked at those after the last one that it names."""
        self.going = True
        for stream_id, waiting in self._waiting.items():
            if stream_id > last_stream_id:
                _fail(waiting, RpcError(Code.UNAVAILABLE, "the other end is going"))
        self._wake()

    def _wake(self) -> None:
        """Those who wait for room look again."""
        waiting, self._for_room = self._for_room, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)


def _fail(waiting: _Waiting, error: RpcError) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(error)


def _finish(waiting: _Waiting) -> None:
    error = status.error_of(waiting.headers)
    body = waiting.body
    if error is None and (len(body) < PREFIX_BYTES or int.from_bytes(body[1:PREFIX_BYTES]) != len(body) - PREFIX_BYTES):
        error = RpcError(Code.INTERNAL, "the answer is not one whole message")
    if error is None and body[0]:
        error = RpcError(Code.INTERNAL, "the answer is compressed, which was not offered")
    if error is not None:
        _fail(waiting, error)
    elif not waiting.answer.done():
        waiting.answer.set_result(bytes(body[PREFIX_BYTES:]))
