"""Clients that begin something and do not go on: their connection ends, and nobody else notices."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from localpv.engine.apiserver import body, connections
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.engine.apiserver.verbs.create import create_object
from localpv.testing.waiting import PATIENCE_SECONDS, eventually

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    monkeypatch.setattr(connections, "SWEEP_EVERY", 0.05)
    monkeypatch.setattr(body, "BODY_SECONDS", 0.3)
    monkeypatch.setattr(body, "TAKE_SECONDS", 0.3)
    started = ApiServer(Settings(data=tmp_path, port=0, durable=False))
    await started.start()
    yield started
    await started.stop()


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on heads must come soon: a busy machine needs its time for what is to be answered before."""
    return lambda: monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)


async def _connect(server: ApiServer, *, limit: int = 2**16) -> Streams:
    context = ssl.create_default_context(cafile=str(server.settings.data / "tls" / "ca.crt"))
    port = int(server.url.rpartition(":")[2])
    return await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=limit)


def _head(server: ApiServer, request: str, *more: str) -> bytes:
    lines = (f"{request} HTTP/1.1", "Host: x", f"Authorization: Bearer {server.tokens.admin_token}", *more)
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


async def _ask(streams: Streams, head: bytes) -> bytes:
    reader, writer = streams
    writer.write(head)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length"))
    return answer + await reader.readexactly(int(length.split(b":")[1]))


async def _until_closed(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_SECONDS):
        try:
            return await reader.read()
        except (ConnectionError, ssl.SSLError):
            return b""


@pytest.mark.parametrize("sent", [b"", b"GET /api", b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: "])
async def test_a_first_request_that_does_not_come_ends_the_connection(
    server: ApiServer, sent: bytes, hurry: Callable[[], None]
) -> None:
    reader, writer = await _connect(server)
    writer.write(sent)
    hurry()
    await _until_closed(reader)
    writer.close()


async def test_tcp_without_tls_ends_too(server: ApiServer, hurry: Callable[[], None]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    hurry()
    await _until_closed(reader)
    writer.close()


async def test_a_later_request_that_does_not_come_ends_the_connection_and_silence_does_not(
    server: ApiServer, hurry: Callable[[], None]
) -> None:
    quiet, slow = await _connect(server), await _connect(server)
    for streams in (quiet, slow):
        assert b" 200 OK" in await _ask(streams, _head(server, "GET /api"))
    slow[1].write(b"GET /api HTTP/1.1\r\nX-Slow: ")
    hurry()
    await _until_closed(slow[0])
    assert b" 200 OK" in await _ask(quiet, _head(server, "GET /api")), "who only waits may go on waiting"
    quiet[1].close()
    slow[1].close()


async def test_a_body_that_does_not_come_is_a_timeout(server: ApiServer) -> None:
    streams = await _connect(server)
    post = _head(server, "POST /api/v1/namespaces/default/secrets", "Content-Length: 100")
    assert b" 504 " in await _ask(streams, post + b"{")
    streams[1].close()


async def test_an_answer_that_is_not_taken_ends_the_connection(server: ApiServer) -> None:
    kind = server.kinds.find("", "v1", "secrets")
    assert kind is not None
    for number in range(30):
        secret = {"metadata": {"name": f"big{number}"}, "data": {"a": "A" * 1_000_000}}
        secret |= {"apiVersion": "v1", "kind": "Secret"}
        await create_object(Call(kind=kind, namespace="default"), secret, storage=server.storage)
    reader, writer = await _connect(server, limit=1000)
    writer.write(_head(server, "GET /api/v1/secrets"))
    await reader.readexactly(100)
    book = server._runner.server.book  # type: ignore[union-attr]
    await eventually(lambda: not len(book), what="the connection is cut")
    assert len(await _until_closed(reader)) < 30_000_000
    writer.close()
