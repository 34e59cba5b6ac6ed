"""Probes: whether a container has started, is ready for work, and still lives; by network or a command inside it."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from localpv import errors
from localpv.api.kinds.containers import Container, HTTPGetAction, Probe
from localpv.host.containers import Bundle, Containers
from localpv.host.sandboxes import Sandboxes
from localpv.runtime.clock import Clock

KEPT_BYTES = 10 * 1024

MOST_BODY = 10 * 1024
GRACE_SECONDS = 1.0
"""For what a probe does besides waiting for its answer."""

Unhealthy = Callable[[str, str], None]
"""Told the name of a probe (Startup, Liveness, Readiness) and what it found."""


@dataclass(frozen=True, slots=True)
class _Answer:
    exit_code: int
    output: str


async def _run_in(containers: Containers, bundle: Bundle, command: Sequence[str], *, seconds: float) -> _Answer:
    """Run a command in a container; HostTimeout when it takes longer, and it is ended then."""
    process = await containers.exec(bundle, command, stdin=False, tty=False)
    kept = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for _, chunk in process.output():
                if len(kept) < KEPT_BYTES:
                    kept += chunk
            code = await process.wait()
    except TimeoutError:
        raise errors.HostTimeout(f"command timed out after {seconds:g}s") from None
    finally:
        await process.close()
    return _Answer(code, kept[:KEPT_BYTES].decode(errors="replace"))


@dataclass(slots=True)
class Health:
    """What the probes of one container have found."""

    started: bool
    ready: bool
    dead: str = ""
    """Which probe has given it up."""


def fresh(container: Container) -> Health:
    """A container without probes has started when it runs, and is ready then."""
    return Health(started=container.startup_probe is None, ready=container.readiness_probe is None)


def has_probes(container: Container) -> bool:
    return any((container.startup_probe, container.readiness_probe, container.liveness_probe))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prober:
    """Probes the containers of this machine."""

    containers: Containers
    sandboxes: Sandboxes
    clock: Clock

    async def run(
        self,
        container: Container,
        bundle: Bundle,
        sandbox: Path,
        health: Health,
        *,
        changed: Callable[[], None],
        unhealthy: Unhealthy,
    ) -> None:
        """Keep the health up to date until cancelled, or until a probe has given the container up."""
        watch = _Watch(self, container, bundle, sandbox, health, changed, unhealthy)
        if container.startup_probe is not None and not health.started:
            await watch.start_up(container.startup_probe)
            if health.dead:
                return
        async with asyncio.TaskGroup() as group:
            if container.readiness_probe is not None:
                group.create_task(watch.readiness(container.readiness_probe))
            if container.liveness_probe is not None:
                group.create_task(watch.liveness(container.liveness_probe))

    async def ask(self, probe: Probe, container: Container, bundle: Bundle, sandbox: Path) -> str:
        """Empty when the probe is content, else what is wrong."""
        seconds = float(max(probe.timeout_seconds, 1))
        try:
            if probe.exec is not None:
                answer = await _run_in(self.containers, bundle, probe.exec.command, seconds=seconds)
                return "" if answer.exit_code == 0 else answer.output or f"exit code {answer.exit_code}"
            if probe.http_get is not None:
                get = probe.http_get
                port = _port(get.port, container)
                return await self.sandboxes.inside(
                    sandbox, lambda: _http(get, port, seconds), seconds=seconds + GRACE_SECONDS
                )
            if probe.tcp_socket is not None:
                host, number = probe.tcp_socket.host or "127.0.0.1", _port(probe.tcp_socket.port, container)
                return await self.sandboxes.inside(
                    sandbox, lambda: _tcp(host, number, seconds), seconds=seconds + GRACE_SECONDS
                )
        except errors.HostError as error:
            return error.message
        return ""


@dataclass(slots=True)
class _Watch:
    prober: Prober
    container: Container
    bundle: Bundle
    sandbox: Path
    health: Health
    changed: Callable[[], None]
    unhealthy: Unhealthy

    async def start_up(self, probe: Probe) -> None:
        if await self._until(probe, "Startup"):
            self.health.started = True
        else:
            self.health.dead = "startup"
        self.changed()

    async def liveness(self, probe: Probe) -> None:
        while await self._until(probe, "Liveness", failing=True):
            pass
        self.health.dead = "liveness"
        self.changed()

    async def readiness(self, probe: Probe) -> None:
        await self.prober.clock.sleep(probe.initial_delay_seconds)
        good = bad = 0
        while True:
            wrong = await self._ask(probe, "Readiness")
            good, bad = (0, bad + 1) if wrong else (good + 1, 0)
            ready = self.health.ready
            if good >= max(probe.success_threshold, 1):
                ready = True
            elif bad >= max(probe.failure_threshold, 1):
                ready = False
            if ready != self.health.ready:
                self.health.ready = ready
                self.changed()
            await self.prober.clock.sleep(max(probe.period_seconds, 1))

    async def _until(self, probe: Probe, name: str, *, failing: bool = False) -> bool:
        """True at the first success (of a liveness probe: never), False after too many failures in a row."""
        await self.prober.clock.sleep(probe.initial_delay_seconds)
        bad = 0
        while True:
            wrong = await self._ask(probe, name)
            bad = bad + 1 if wrong else 0
            if not wrong and not failing:
                return True
            if bad >= max(probe.failure_threshold, 1):
                return False
            await self.prober.clock.sleep(max(probe.period_seconds, 1))

    async def _ask(self, probe: Probe, name: str) -> str:
        wrong = await self.prober.ask(probe, self.container, self.bundle, self.sandbox)
        if wrong:
            self.unhealthy(name, wrong)
        return wrong


def _port(port: int | str, container: Container) -> int:
    if isinstance(port, int) or port.isdecimal():
        return int(port)
    named = next((one.container_port for one in container.ports if one.name == port), None)
    if named is None:
        raise errors.HostError(f"the container has no port named {port}")
    return named


def _http(get: HTTPGetAction, port: int, seconds: float) -> str:
    host = get.host or "127.0.0.1"
    connection: http.client.HTTPConnection
    if get.scheme.upper() == "HTTPS":
        # As everywhere in Kubernetes a probe asks whether somebody answers, not who it is.
        unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=unverified)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        path = get.path if get.path.startswith("/") else f"/{get.path}"
        headers = {"User-Agent": "kube-probe/1.35", "Accept": "*/*"}
        headers |= {header.name: header.value for header in get.http_headers}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read(MOST_BODY)
        return "" if 200 <= answer.status < 400 else f"HTTP probe failed with statuscode: {answer.status}"
    except (OSError, http.client.HTTPException) as error:
        return f"Get {get.scheme.lower() or 'http'}://{host}:{port}{get.path}: {error}"
    finally:
        connection.close()


def _tcp(host: str, port: int, seconds: float) -> str:
    try:
        socket.create_connection((host, port), timeout=seconds).close()
        return ""
    except OSError as error:
        return f"dial tcp {host}:{port}: {error}"
