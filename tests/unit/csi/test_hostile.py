"""Whoever is at the other end: it harms nobody but itself."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from hyperframe import frame as frames
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localpv.csi import connection, server
from localpv.csi.channel import Channel
from localpv.csi.server import Server, serve
from localpv.csi.status import Code, RpcError
from localpv.testing.waiting import eventually

INFO = "/csi.v1.Node/NodeGetInfo"
CREATE = "/csi.v1.Controller/CreateVolume"
LIST = "/csi.v1.Controller/ListVolumes"
PUBLISH = "/csi.v1.Node/NodePublishVolume"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MIB = 1 << 20


async def info(request: dict[str, Any]) -> dict[str, Any]:
    return {"node_id": "n1"}


async def echo(request: dict[str, Any]) -> dict[str, Any]:
    return {"volume": {"volume_id": request.get("name", "")}}


async def large(request: dict[str, Any]) -> dict[str, Any]:
    return {"next_token": "x" * (2 * MIB)}


async def forever(request: dict[str, Any]) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Server, Path]]:
    path = folder / "csi.sock"
    path.unlink(missing_ok=True)
    serving = await serve(path, {INFO: info, CREATE: echo, LIST: large, PUBLISH: forever})
    try:
        yield serving, path
    finally:
        await serving.close(drain_seconds=0)
        assert serving.calls == 0
        assert serving.buffered_bytes == 0


class Raw:
    """A connection on which anything can be sent."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setblocking(False)
        self._socket.connect(str(path))
        self.http2 = H2Connection(H2Configuration(client_side=True))

    async def send(self, data: bytes) -> bool:
        """Send as much as is taken; False when nothing is taken any more, or the other end has gone."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(1):
                await loop.sock_sendall(self._socket, data)
        except (OSError, TimeoutError):
            return False
        return True

    async def flush(self) -> bool:
        return await self.send(self.http2.data_to_send())

    async def until_closed(self) -> bytes:
        loop = asyncio.get_running_loop()
        read = bytearray()
        with suppress(OSError):
            while data := await loop.sock_recv(self._socket, 65536):
                read += data
        return bytes(read)

    def open(self, method: str, *, end: bool = False, **headers: str) -> int:
        stream = self.http2.get_next_available_stream_id()
        self.http2.send_headers(
            stream,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", method),
                (":authority", "x"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
                *headers.items(),
            ],
            end_stream=end,
        )
        return stream

    def close(self) -> None:
        self._socket.close()


@asynccontextmanager
async def raw(path: Path) -> AsyncIterator[Raw]:
    found = Raw(path)
    try:
        yield found
    finally:
        found.close()


async def still_answers(path: Path) -> None:
    asking = Channel(path)
    assert await asking.call(INFO, {}) == {"node_id": "n1"}
    await asking.close()


STREAMS = st.sampled_from([0, 1, 2, 3, 5, 7, 2**31 - 1])
BODIES = st.binary(max_size=64)


@st.composite
def any_frame(draw: st.DrawFn) -> bytes:
    """A frame with a right length, whatever else it says."""
    body = draw(BODIES)
    kind, flags = draw(st.integers(0, 11)), draw(st.sampled_from([0, 1, 4, 5, 8, 0x20, 0xFF]))
    return len(body).to_bytes(3) + bytes((kind, flags)) + draw(STREAMS).to_bytes(4) + body


def header_block() -> bytes:
    peer = H2Connection(H2Configuration(client_side=True))
    peer.initiate_connection()
    peer.data_to_send()
    block = peer.encoder.encode(
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", CREATE),
            (":authority", "x"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ]
    )
    return bytes(block)


@st.composite
def likely_frame(draw: st.DrawFn) -> bytes:
    """A frame as a caller may send it, in an order in which none does."""
    stream = draw(st.sampled_from([1, 3, 5, 7, 9]))
    kinds: list[frames.Frame] = [
        frames.HeadersFrame(stream, data=header_block(), flags=["END_HEADERS"]),
        frames.HeadersFrame(stream, data=header_block(), flags=["END_HEADERS", "END_STREAM"]),
        frames.HeadersFrame(stream, data=header_block()),
        frames.ContinuationFrame(stream, data=draw(BODIES), flags=["END_HEADERS"]),
        frames.DataFrame(stream, data=draw(BODIES)),
        frames.DataFrame(stream, data=b"\0\0\0\0\3\x0a\1a", flags=["END_STREAM"]),
        frames.DataFrame(stream, data=b"\1\0\0\0\0", flags=["END_STREAM"]),
        frames.DataFrame(stream, data=b"\0\xff\xff\xff\xff", flags=["END_STREAM"]),
        frames.RstStreamFrame(stream, error_code=draw(st.integers(0, 20))),
        frames.WindowUpdateFrame(draw(st.sampled_from([0, stream])), window_increment=draw(st.integers(1, 2**31 - 1))),
        frames.PingFrame(0, opaque_data=b"12345678"),
        frames.SettingsFrame(0, settings={4: draw(st.sampled_from([0, 1, 65535, 2**31 - 1]))}),
        frames.SettingsFrame(0, flags=["ACK"]),
        frames.GoAwayFrame(0, last_stream_id=stream),
        frames.PriorityFrame(stream, depends_on=stream + 2, stream_weight=3),
    ]
    return draw(st.sampled_from(kinds)).serialize()


def tried(examples: int) -> Any:
    return settings(max_examples=examples, suppress_health_check=[HealthCheck.function_scoped_fixture])


@tried(40)
@given(sent=st.lists(st.one_of(st.binary(max_size=300), any_frame()), max_size=20), preface=st.booleans())
def test_any_bytes_leave_the_server_up(tmp_path: Path, sent: list[bytes], preface: bool) -> None:
    asyncio.run(_send_and_look(tmp_path, [PREFACE] * preface + sent))


@tried(60)
@given(sent=st.lists(st.one_of(likely_frame(), likely_frame(), any_frame()), max_size=30))
def test_frames_in_any_order_leave_the_server_up(tmp_path: Path, sent: list[bytes]) -> None:
    asyncio.run(_send_and_look(tmp_path, [PREFACE, frames.SettingsFrame(0).serialize(), *sent]))


async def _send_and_look(folder: Path, sent: Iterable[bytes]) -> None:
    async with served(folder) as (serving, path):
        async with raw(path) as hostile:
            for data in sent:
                if not await hostile.send(data):
                    break
            await still_answers(path)
        await eventually(lambda: serving.calls == 0)


@tried(40)
@given(answer=st.lists(st.one_of(st.binary(max_size=200), any_frame(), likely_frame()), max_size=20))
def test_any_answer_ends_a_call_and_no_more(tmp_path: Path, answer: list[bytes]) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            writer.write(b"".join(answer))
            await writer.drain()
            writer.close()

    async def call() -> None:
        path = tmp_path / "hostile.sock"
        path.unlink(missing_ok=True)
        listening = await asyncio.start_unix_server(answers, path)
        asking = Channel(path)
        with pytest.raises(RpcError):
            await asking.call(INFO, {}, timeout=30)
        await asking.close()
        listening.close()
        await listening.wait_closed()

    asyncio.run(call())


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(frames.PingFrame(0, opaque_data=b"12345678"), id="pings"),
        pytest.param(frames.SettingsFrame(0, settings={4: 65535}), id="settings"),
        pytest.param(frames.WindowUpdateFrame(0, window_increment=1), id="windows"),
        pytest.param(frames.PriorityFrame(1, depends_on=3, stream_weight=3), id="priorities"),
    ],
)
async def test_a_flood_of_frames_is_cut_off(tmp_path: Path, frame: frames.Frame) -> None:
    async with served(tmp_path) as (_, path), raw(path) as hostile:
        hostile.http2.initiate_connection()
        await hostile.flush()
        flood = frame.serialize() * 1000
        tracemalloc.start()
        try:
            for _ in range(1000):
                if not await hostile.send(flood):
                    break
            else:
                pytest.fail("a million frames were taken")
            assert tracemalloc.get_traced_memory()[1] < 4 * MIB
        finally:
            tracemalloc.stop()
        await still_answers(path)


async def test_calls_that_are_begun_and_taken_back_without_end_are_cut_off(tmp_path: Path) -> None:
    async with served(tmp_path) as (serving, path), raw(path) as hostile:
        hostile.http2.initiate_connection()
        for _ in range(2 * connection.MAX_IDLE_FRAMES):
            stream = hostile.open(PUBLISH, end=False)
            hostile.http2.reset_stream(stream)
            if not await hostile.flush():
                break
        assert await hostile.until_closed()
        assert serving.calls == 0
        await still_answers(path)


async def test_headers_without_end_are_cut_off(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, path), raw(path) as hostile:
        hostile.http2.initiate_connection()
        await hostile.flush()
        await hostile.send(frames.HeadersFrame(1, data=header_block()).serialize())
        more = frames.ContinuationFrame(1, data=b"\x40\x01a\x7f\x80\x7e" + b"b" * 254).serialize()
        while await hostile.send(more * 10):
            pass
        await still_answers(path)


async def test_headers_that_unpack_to_more_than_their_bound_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, path), raw(path) as hostile:
        hostile.http2.initiate_connection()
        await hostile.flush()
        value = hostile.http2.encoder.encode([("x", "y" * 4000)])
        await hostile.send(
            frames.HeadersFrame(1, data=header_block() + value + b"\xbe" * 2000, flags=["END_HEADERS"]).serialize()
        )
        assert await hostile.until_closed()
        await still_answers(path)


async def test_a_caller_that_takes_no_answer_holds_a_bounded_amount(tmp_path: Path) -> None:
    async with served(tmp_path) as (serving, path), raw(path) as hostile:
        hostile.http2.initiate_connection()
        for _ in range(60):
            stream = hostile.open(LIST)
            hostile.http2.send_data(stream, bytes(5), end_stream=True)
        await hostile.flush()
        await eventually(lambda: serving.buffered_bytes > server.MAX_BUFFERED_BYTES - 4 * MIB)
        await still_answers(path)
        assert serving.buffered_bytes <= server.MAX_BUFFERED_BYTES
        hostile.close()
        await eventually(lambda: serving.calls == 0)


async def test_a_request_that_does_not_come_to_its_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.1)
    async with served(tmp_path) as (serving, path), raw(path) as hostile:
        hostile.http2.initiate_connection()
        stream = hostile.open(CREATE)
        hostile.http2.send_data(stream, b"\0\0\0")
        await hostile.flush()
        await eventually(lambda: serving.calls == 1)
        await eventually(lambda: serving.calls == 0)


async def test_an_answer_that_is_not_taken_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.1)
    async with served(tmp_path) as (serving, path), raw(path) as hostile:
        hostile.http2.initiate_connection()
        stream = hostile.open(LIST)
        hostile.http2.send_data(stream, bytes(5), end_stream=True)
        await hostile.flush()
        await eventually(lambda: serving.buffered_bytes > 0)
        await eventually(lambda: serving.calls == serving.buffered_bytes == 0)


async def test_a_connection_that_takes_nothing_at_all_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STALLED_SECONDS", 0.1)
    monkeypatch.setattr(connection, "MAX_IDLE_FRAMES", 1 << 40)
    async with served(tmp_path) as (_, path), raw(path) as hostile:
        hostile.http2.initiate_connection()
        await hostile.flush()
        ping = frames.PingFrame(0, opaque_data=b"12345678").serialize() * 1000
        while await hostile.send(ping):
            pass
        await still_answers(path)


async def test_more_connections_than_the_bound_are_closed_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as (serving, path):
        kept = [Raw(path) for _ in range(server.MAX_CONNECTIONS)]
        asking = Channel(path)
        with pytest.raises(RpcError) as raised:
            await asking.call(INFO, {})
        assert raised.value.code is Code.UNAVAILABLE
        kept.pop().close()
        await eventually(lambda: len(serving._connections) < server.MAX_CONNECTIONS)
        assert await asking.call(INFO, {})
        await asking.close()
        for one in kept:
            one.close()


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({":method": "GET"}, b"405"),
        ({"content-type": "text/html"}, b"415"),
    ],
)
async def test_what_is_no_call_is_refused_as_http_says(tmp_path: Path, headers: dict[str, str], said: bytes) -> None:
    async with served(tmp_path) as (_, path), raw(path) as other:
        other.http2.initiate_connection()
        known = {
            ":method": "POST",
            ":scheme": "http",
            ":path": INFO,
            ":authority": "x",
            "content-type": "application/grpc",
        }
        other.http2.send_headers(1, list((known | headers).items()), end_stream=True)
        await other.flush()
        found = await _first_headers(other)
        assert dict(found)[b":status"] == said


async def _first_headers(other: Raw) -> list[tuple[bytes, bytes]]:
    loop = asyncio.get_running_loop()
    while True:
        data = await loop.sock_recv(other._socket, 65536)
        for event in other.http2.receive_data(data):
            if hasattr(event, "headers"):
                return list(event.headers)
