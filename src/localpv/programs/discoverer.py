"""`localpv discoverer`: the rules of udev for one group of nodes of a LocalStorage, on one node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from localpv.agent.udev.discoverer import Discoverer
from localpv.client import client as clients
from localpv.client.config import Connection
from localpv.config import local_storage
from localpv.config.local_storage import NodeConfiguration
from localpv.errors import ConfigurationError
from localpv.host.udev import HostUdev
from localpv.host.uevents import KernelUevents
from localpv.host.workers import Workers
from localpv.programs import memory, stopping
from localpv.programs.observing import Observed
from localpv.runtime.clock import Clock, SystemClock
from localpv.runtime.group import Group

log = logging.getLogger(__name__)

AT_ONCE = 2
"""Calls to the machine at the same time: all of them are about small files."""

LOOK_EVERY_SECONDS = 5.0
"""How often the mounted ConfigMap is read; the kubelet writes it about a minute after it has changed."""

CONNECTIONS = 2
"""To the API server: there is no watch, and one question at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    connection: Connection
    probes: str = ""
    """HOST:PORT where /livez, /readyz and /metrics are answered; empty for nowhere."""

    node: str
    namespace: str
    """Namespace of the operator: LocalStorages of others have it in the names of their files."""

    config: Path
    """Folder with the keys of the ConfigMap as files."""

    rules: Path
    """The host's folder of rules."""

    state: Path
    """Folder on the node that everybody who changes our rules has, for their lock."""


async def run(settings: Settings) -> None:
    """Serve this node until SIGTERM or Ctrl-C; then remove the rules, unless this is an update."""
    clock = SystemClock()
    observed = Observed("discoverer")
    requests = observed.requests(settings.connection.url)
    memory.use_small_buffers()
    async with clients.connect(
        settings.connection, component="discoverer", observer=requests, connections=CONNECTIONS
    ) as client:
        discoverer = Discoverer(
            node=settings.node,
            client=client,
            udev=HostUdev(rules=settings.rules, workers=Workers(at_once=AT_ONCE)),
            uevents=KernelUevents(),
            state=settings.state,
            clock=clock,
            namespace=settings.namespace,
        )
        told = Told(settings.config, tell=discoverer.configure, clock=clock)
        await told.load()
        observe(observed, discoverer, told)
        group = Group(clock=clock)
        group.add("configuration", told.run)
        group.add("discoverer", discoverer.run)
        line = f"ready discoverer of node {settings.node}"
        await stopping.until_stopped(group, line, probes=settings.probes, observed=observed)
        await discoverer.leave()


def observe(observed: Observed, discoverer: Discoverer, told: Told) -> None:
    observed.checks["rules"] = lambda: discoverer.synced
    problems = observed.registry.gauge(
        "localpv_configuration_problems",
        "What is wrong in the configuration; as long as it is not zero, the last good one is in force.",
    )
    matched = observed.registry.gauge(
        "localpv_discoverer_matched_devices", "Devices of the node that rules of its LocalStorage have linked."
    )
    in_force = observed.registry.gauge(
        "localpv_discoverer_rules_in_force", "1 when udev works with the rules of now, else 0."
    )
    unseen = observed.registry.gauge(
        "localpv_discoverer_unseen_devices", "Devices that udev has not looked at with the rules of now."
    )

    def scrape() -> None:
        problems.set(int(bool(told.problem)))
        matched.set(discoverer.matched)
        in_force.set(int(discoverer.synced))
        unseen.set(discoverer.unseen)

    observed.registry.before_scrape(scrape)


class Told:
    """The mounted ConfigMap, read again and again; a wrong one changes nothing."""

    def __init__(self, folder: Path, *, tell: Callable[[Iterable[NodeConfiguration]], None], clock: Clock) -> None:
        self._file, self._tell, self._clock = folder / local_storage.KEY, tell, clock
        self._current: NodeConfiguration | None = None
        self.problem = ""

    async def load(self) -> None:
        """What to start with; ConfigurationError when there is no right one."""
        self._take(await asyncio.to_thread(self._read))

    async def run(self) -> None:
        began = False
        while True:
            await self._clock.sleep(LOOK_EVERY_SECONDS)
            if not began:
                began = True
                memory.give_back()  # from now on there is little to do
            try:
                self._take(await asyncio.to_thread(self._read))
                self.problem = ""
            except ConfigurationError as error:
                if str(error) != self.problem:
                    self.problem = str(error)
                    log.error("the configuration is wrong, the last good one stays in force problem=%s", error)

    def _read(self) -> NodeConfiguration:
        try:
            with self._file.open("rb") as file:
                text = file.read(2 * local_storage.MOST_BYTES + 1)
        except OSError as error:
            raise ConfigurationError(
                f"{self._file} cannot be read: {error.strerror}", hint="mount the ConfigMap that the operator made"
            ) from error
        return local_storage.read(text)

    def _take(self, read: NodeConfiguration) -> None:
        if read != self._current:
            log.info("new configuration localstorage=%s generation=%d", read.key, read.generation)
            self._current = read
            self._tell([read])
