"""What both ends of an HTTP/2 connection do: read, write as fast as the other end takes it, and end.

What the other end sends costs a bounded amount of memory: it is read in small pieces, nothing is read while it does not
take what is written for it, and one that sends frames without ever asking or answering anything is turned away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from h2 import events
from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 4 << 20
"""The longest message that is read or written, as gRPC has it by itself."""

MAX_STREAMS: Final = 100
"""Calls at the same time on one connection. What gRPC takes for granted before it has heard of a limit."""

MAX_HEADER_BYTES: Final = 16 << 10

READ_BYTES: Final = 16 << 10
"""Read at once: all frames of it are worked off before anything else of the process has its turn."""

WRITE_BYTES: Final = 64 << 10
"""Written and not yet taken by the other end, from which on nothing more is read from it."""

MAX_IDLE_FRAMES: Final = 2000
"""Frames in a row that carry no byte of a message and end no call."""

STALLED_SECONDS: Final = 60.0
"""How long the other end may take nothing of what is written."""

PREFIX_BYTES: Final = 5
"""Before each message: whether it is compressed, and its length in four bytes."""


class _Http2(H2Connection):
    """h2, which takes a GOAWAY for the end of all; only new calls end with it, and those that run go on."""

    MAX_CLOSED_STREAMS = 256  # a connection may live as long as the process; each that is remembered takes memory
    DEFAULT_MAX_HEADER_LIST_SIZE = MAX_HEADER_BYTES

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Any], list[events.Event]]:
        state = self.state_machine.state
        waiting = self.data_to_send()
        answer, found = super()._receive_goaway_frame(frame)
        if state is not ConnectionState.CLOSED:
            self.state_machine.state = state
            self._data_to_send += waiting
        return answer, found


class Connection(asyncio.BufferedProtocol):
    """One end. Subclasses say what an event of a stream means to them."""

    def __init__(self, *, client_side: bool) -> None:
        self.http2 = _Http2(H2Configuration(client_side=client_side, header_encoding=False))
        self.http2.local_settings = Settings(
            client=client_side,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
                **({SettingCodes.ENABLE_PUSH: 0} if client_side else {}),
            },
        )
        self.transport: asyncio.Transport | None = None
        self.ended = asyncio.get_running_loop().create_future()
        self._buffer = bytearray(READ_BYTES)
        self._outgoing: dict[int, _Outgoing] = {}
        self._full = False
        self._stalled: asyncio.TimerHandle | None = None
        self._idle_frames = 0
        self.going = False
        """One of the two ends has said that there will be no more calls."""

    # What asyncio tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=WRITE_BYTES)
        self.http2.initiate_connection()
        self.flush()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for event in self.http2.receive_data(bytes(memoryview(self._buffer)[:nbytes])):
                self._received(event)
        except ProtocolError as reason:
            log.debug("connection ended reason=%s", reason)
            self.abandon()  # h2 has a GOAWAY ready that says why
            return
        except Exception as error:
            # Whatever the other end sent must not do more than end its own connection.
            log.warning("connection ended: unexpected error=%r", error)
            self.abandon()
            return
        if self._idle_frames > MAX_IDLE_FRAMES:
            log.warning("connection ended: %d frames without a call", self._idle_frames)
            self.abandon(ErrorCodes.ENHANCE_YOUR_CALM)
            return
        self._send_waiting()
        self.flush()

    def eof_received(self) -> bool:
        return False  # and the transport closes itself

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._outgoing.clear()
        if self._stalled is not None:
            self._stalled.cancel()
        if not self.ended.done():
            self.ended.set_result(None)
        self.lost()

    def pause_writing(self) -> None:
        self._full = True
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
            self._stalled = asyncio.get_running_loop().call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._full = False
        if self._stalled is not None:
            self._stalled.cancel()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
            self._send_waiting()
            self.flush()

    # What subclasses do and use.

    def happened(self, event: events.Event) -> None:
        """Something about a stream, or about calls that will not be answered any more."""
        raise NotImplementedError

    def sent(self, stream_id: int) -> None:
        """All that was to be sent on a stream has been."""

    def lost(self) -> None:
        """The connection is gone."""
        raise NotImplementedError

    def send(self, stream_id: int, message: bytes, trailers: Iterable[tuple[str, str]] = ()) -> None:
        """Send a message, as the other end takes it, then trailers, or the end of the stream without any."""
        data = b"\0" + len(message).to_bytes(PREFIX_BYTES - 1) + message
        self._outgoing[stream_id] = _Outgoing(memoryview(data), list(trailers))
        self._send_one(stream_id)
        self.flush()

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """Say that nobody cares for a stream any more."""
        self._outgoing.pop(stream_id, None)
        with suppress(ProtocolError):  # it has ended in the meantime
            self.http2.reset_stream(stream_id, code)
        self.flush()

    def progressed(self) -> None:
        """A call came to its end: the other end does not only keep us busy."""
        self._idle_frames = 0

    def flush(self) -> None:
        data = self.http2.data_to_send()
        if data and self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def say_going(self) -> None:
        """GOAWAY: calls that run are answered, new ones must go elsewhere. h2 itself would end everything."""
        self.going = True
        if self.transport is not None and not self.transport.is_closing():
            frame = GoAwayFrame(stream_id=0, last_stream_id=self.http2.highest_inbound_stream_id, error_code=0)
            self.flush()
            self.transport.write(frame.serialize())

    def abandon(self, code: ErrorCodes | None = None) -> None:
        """End the connection with all its calls."""
        if code is not None:
            with suppress(ProtocolError):
                self.http2.close_connection(code)
        if self.transport is None:
            return
        self.flush()
        self.transport.close()
        # close() waits until the other end has taken what was written: that may be never.
        asyncio.get_running_loop().call_later(1.0, self.transport.abort)

    def _received(self, event: events.Event) -> None:
        match event:
            case events.DataReceived():
                length = event.flow_controlled_length
                if length and event.stream_id in self.http2.streams:
                    with suppress(ProtocolError):
                        self.http2.acknowledge_received_data(length, event.stream_id)
                if not event.data:
                    self._idle_frames += 1
                self.happened(event)
            case (
                events.WindowUpdated()
                | events.PingReceived()
                | events.PriorityUpdated()
                | events.SettingsAcknowledged()
            ):
                self._idle_frames += 1
            case _:
                self._idle_frames += 1
                self.happened(event)

    def _send_waiting(self) -> None:
        for stream_id in list(self._outgoing):
            self._send_one(stream_id)

    def _send_one(self, stream_id: int) -> None:
        """As much as the other end has room for, and no more than fits into what is not yet taken."""
        outgoing = self._outgoing[stream_id]
        try:
            while outgoing.data and not self._full:
                room = min(self.http2.local_flow_control_window(stream_id), self.http2.max_outbound_frame_size)
                if room <= 0:
                    return
                piece, outgoing.data = outgoing.data[:room], outgoing.data[room:]
                self.http2.send_data(stream_id, bytes(piece), end_stream=not outgoing.data and not outgoing.trailers)
                self.flush()
            if outgoing.data:
                return
            if outgoing.trailers:
                self.http2.send_headers(stream_id, outgoing.trailers, end_stream=True)
        except ProtocolError:
            pass  # the stream has been reset in the meantime
        self._outgoing.pop(stream_id, None)
        self.sent(stream_id)


class _Outgoing:
    __slots__ = ("data", "trailers")

    def __init__(self, data: memoryview, trailers: list[tuple[str, str]]) -> None:
        self.data, self.trailers = data, trailers


def headers_of(found: Iterable[tuple[Any, Any]]) -> dict[str, str]:
    """Headers as texts; of one that comes twice the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in found}
