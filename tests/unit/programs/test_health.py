"""What a program answers to probes and to Prometheus, over a real socket."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from localpv.api import media_types
from localpv.errors import StartError
from localpv.observe.registry import Registry
from localpv.programs import health as healths
from localpv.programs.health import Health
from localpv.testing.waiting import PATIENCE_SECONDS


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Probed:
    """A program's answers, asked as a kubelet does: from outside its event loop."""

    def __init__(self) -> None:
        self.port = _free_port()
        self.registry = Registry()
        self.checks: dict[str, Callable[[], bool]] = {}
        self.health = Health(f"127.0.0.1:{self.port}", registry=self.registry, checks=self.checks)

    def ask_now(self, path: str, method: str = "GET", timeout: float = PATIENCE_SECONDS) -> tuple[int, str, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers["Content-Type"]
        finally:
            connection.close()

    async def ask(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        return await asyncio.to_thread(self.ask_now, path, method)

    async def code(self, path: str) -> int:
        return (await self.ask(path))[0]

    async def send(self, raw: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(raw)
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await reader.read()
        finally:
            writer.close()


@pytest.fixture
async def probed() -> AsyncIterator[Probed]:
    made = Probed()
    await made.health.start()
    yield made
    await made.health.stop()


async def test_program_is_live_at_once_and_ready_only_when_it_has_started_and_every_check_holds(
    probed: Probed,
) -> None:
    synced = False
    probed.checks["disks"] = lambda: synced
    assert [await probed.code(path) for path in ("/livez", "/healthz", "/readyz", "/ready")] == [200, 200, 503, 503]
    probed.health.ready = True
    assert await probed.ask("/readyz") == (503, "not ready yet: disks\n", "text/plain; charset=utf-8")
    assert await probed.ask("/readyz?verbose") == (503, "[+]ping\n[+]started\n[-]disks\n", "text/plain; charset=utf-8")
    synced = True
    assert [await probed.code(path) for path in ("/readyz", "/ready", "/readyz?verbose")] == [200, 200, 200]


async def test_program_whose_event_loop_stands_still_is_not_live(probed: Probed) -> None:
    answers: list[object] = []

    def ask() -> None:
        try:
            answers.append(probed.ask_now("/livez", timeout=0.2)[0])
        except TimeoutError as error:
            answers.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join(PATIENCE_SECONDS)  # meanwhile the loop stands still
    assert [type(answer) for answer in answers] == [TimeoutError]
    assert await probed.code("/livez") == 200


async def test_metrics_are_where_the_probes_are(probed: Probed) -> None:
    probed.registry.counter("x_total", "X.").add()
    code, text, kind = await probed.ask("/metrics")
    assert (code, kind) == (200, media_types.METRICS)
    assert text == "# HELP x_total X.\n# TYPE x_total counter\nx_total 1\n"
    head, body, _ = await probed.ask("/metrics", "HEAD")
    assert (head, body) == (200, "")


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"GET /secrets HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 Method Not Allowed"),
        (b"GET /livez\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
        (b"GET /livez HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b""),
    ],
)
async def test_what_is_no_right_request_gets_no_other_answer(probed: Probed, raw: bytes, line: bytes) -> None:
    try:
        answer = await probed.send(raw)
    except ConnectionResetError:
        answer = b""
    assert answer.split(b"\r\n", 1)[0] == line
    assert await probed.code("/livez") == 200


async def test_connections_that_say_nothing_are_bounded_and_closed(
    probed: Probed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healths, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(healths, "REQUEST_SECONDS", 0.2)
    idle = [await asyncio.open_connection("127.0.0.1", probed.port) for _ in range(3)]
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert [await reader.read() for reader, _ in idle] == [b"", b"", b""]
    for _, writer in idle:
        writer.close()
    monkeypatch.setattr(healths, "REQUEST_SECONDS", PATIENCE_SECONDS)
    assert await probed.code("/livez") == 200


async def test_program_that_stops_lets_go_of_its_connections_and_its_address(probed: Probed) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", probed.port)
    await probed.health.stop()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await reader.read() == b""
    writer.close()
    again = Health(f"127.0.0.1:{probed.port}")
    await again.start()
    await again.stop()


async def test_address_that_is_in_use_is_told_with_what_to_do(probed: Probed) -> None:
    second = Health(f"127.0.0.1:{probed.port}")
    with pytest.raises(StartError, match="the address is in use") as told:
        await second.start()
    assert "--listen-address" in told.value.hint
