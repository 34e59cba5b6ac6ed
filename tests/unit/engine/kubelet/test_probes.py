"""Probes decide when a container has started, is ready, and is given up."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.engine.kubelet.builders import container

from localpv.api.kinds.containers import Container, Probe
from localpv.engine.kubelet import probes as probing
from localpv.engine.kubelet.probes import Health, Prober
from localpv.host.containers import Bundle
from localpv.testing.clock import FakeClock
from localpv.testing.fake_containers import FakeContainers, FakeSandboxes
from localpv.testing.waiting import PATIENCE_SECONDS

BUNDLE = Bundle(id="uid.main.0", folder=Path("/nowhere"), log=Path("/nowhere"))
CHECK = {"exec": {"command": ["check"]}, "periodSeconds": 10, "failureThreshold": 3}


class Bench:
    """One container with probes, on a clock that a test moves."""

    def __init__(self) -> None:
        self.clock, self.containers = FakeClock(), FakeContainers()
        self.prober = Prober(containers=self.containers, sandboxes=FakeSandboxes([]), clock=self.clock)
        self.unhealthy: list[str] = []
        self.changes = 0

    def answer(self, code: int) -> None:
        self.containers.answers["check",] = (code, b"")

    @asynccontextmanager
    async def probing(self, **probes: Any) -> AsyncIterator[Health]:
        await self.containers.create(BUNDLE)
        await self.containers.start(BUNDLE)
        of = msgspec.convert(container(**probes), Container)
        health = probing.fresh(of)

        def changed() -> None:
            self.changes += 1

        work = self.prober.run(
            of,
            BUNDLE,
            Path("/nowhere"),
            health,
            changed=changed,
            unhealthy=lambda probe, found: self.unhealthy.append(probe),
        )
        task = asyncio.create_task(work)
        try:
            yield health
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def test_container_without_probes_has_started_and_is_ready() -> None:
    health = probing.fresh(msgspec.convert(container(), Container))
    assert health.started and health.ready and not health.dead


async def test_container_is_ready_after_its_first_success_and_unready_after_three_failures() -> None:
    bench = Bench()
    bench.answer(1)
    async with bench.probing(readinessProbe=CHECK | {"initialDelaySeconds": 5}) as health:
        await bench.clock.advance(4)
        assert bench.unhealthy == []
        await bench.clock.advance(2)
        assert not health.ready and bench.unhealthy == ["Readiness"]
        bench.answer(0)
        await bench.clock.advance(10)
        assert health.ready and bench.changes == 1
        bench.answer(1)
        await bench.clock.advance(20)
        assert health.ready, "two failures are not enough"
        await bench.clock.advance(10)
        assert not health.ready and bench.changes == 2 and not health.dead


async def test_container_is_given_up_after_three_failures_in_a_row() -> None:
    bench = Bench()
    bench.answer(0)
    async with bench.probing(livenessProbe=CHECK) as health:
        await bench.clock.advance(15)
        bench.answer(1)
        await bench.clock.advance(20)
        bench.answer(0)
        await bench.clock.advance(10)
        bench.answer(1)
        await bench.clock.advance(20)
        assert not health.dead
        await bench.clock.advance(10)
        assert health.dead == "liveness"


async def test_other_probes_wait_until_the_container_has_started() -> None:
    bench = Bench()
    bench.answer(1)
    async with bench.probing(startupProbe=CHECK | {"failureThreshold": 10}, livenessProbe=CHECK) as health:
        await bench.clock.advance(50)
        assert not health.started and set(bench.unhealthy) == {"Startup"} and not health.dead
        bench.answer(0)
        await bench.clock.advance(10)
        assert health.started


async def test_container_that_never_starts_is_given_up() -> None:
    bench = Bench()
    bench.answer(1)
    async with bench.probing(startupProbe=CHECK) as health:
        await bench.clock.advance(30)
        assert health.dead == "startup"


@pytest.fixture
def port() -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/ok" and self.headers.get("X-Word") == "yes" else 503)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


async def ask(probe: dict[str, Any], **more: Any) -> str:
    of = msgspec.convert(container(**more), Container)
    patient = msgspec.convert({**probe, "timeoutSeconds": int(PATIENCE_SECONDS)}, Probe)
    return await Bench().prober.ask(patient, of, BUNDLE, Path("/nowhere"))


async def test_request_is_answered_with_a_good_code(port: int) -> None:
    get = {"port": port, "path": "/ok", "httpHeaders": [{"name": "X-Word", "value": "yes"}]}
    assert await ask({"httpGet": get}) == ""
    assert "statuscode: 503" in await ask({"httpGet": get | {"path": "/bad"}})
    named = {"ports": [{"name": "web", "containerPort": port}]}
    assert await ask({"httpGet": get | {"port": "web"}}, **named) == ""
    assert "no port named" in await ask({"httpGet": get | {"port": "other"}}, **named)


async def test_connection_is_all_that_a_tcp_probe_wants(port: int) -> None:
    assert await ask({"tcpSocket": {"port": port}}) == ""
    assert "dial tcp" in await ask({"tcpSocket": {"port": 1}})
