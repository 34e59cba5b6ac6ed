"""What a program shows of itself: its metrics, and whether it is ready."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from localpv.observe.loop import Loop
from localpv.observe.process import ProcessMetrics
from localpv.observe.queues import Queues
from localpv.observe.registry import Registry
from localpv.observe.requests import Requests
from localpv.runtime.watchdog import Watchdog

if TYPE_CHECKING:
    # Agents have no manager in them, managers no discovery, and discoverers neither; none should pay for the others.
    from localpv.agent.discover.discovery import Discovery
    from localpv.api.kinds.localdisk import LocalDisk
    from localpv.api.kinds.volumes import PersistentVolume
    from localpv.manager.manager import Manager
    from localpv.observe.cleaning import Cleanings
    from localpv.observe.discovery import Discoveries
    from localpv.observe.publishing import Publications
    from localpv.observe.recorder import Recorder
    from localpv.observe.storage_operations import StorageOperations
    from localpv.programs.configuring import Configured
    from localpv.runtime.clock import Clock


class Observed:
    """The registry of a program and its checks, with a part for each thing that can run in it."""

    def __init__(self, component: str) -> None:
        self.registry = Registry()
        self.checks: dict[str, Callable[[], bool]] = {}
        """Names of what must be so before the program is ready."""

        self._discovery: Discovery | None = None
        self._hung: Callable[[], int] = lambda: 0
        self._discoveries: Discoveries | None = None
        self._cleanings: Cleanings | None = None
        self.queues = Queues(self.registry)
        ProcessMetrics(self.registry, component=component)
        self.watchdog = Watchdog()
        Loop(self.registry, self.watchdog)

    def requests(self, server: str) -> Requests:
        """For the client of the program, with the address of its API server."""
        return Requests(self.registry, server=server)

    def discoveries(self, to: Recorder) -> Discoveries:
        """One for the whole program, whichever discovery works."""
        from localpv.observe.discovery import Discoveries

        self._discoveries = self._discoveries or Discoveries(self.registry)
        self._discoveries.pass_on_to(to)
        return self._discoveries

    def cleanings(self, to: Recorder) -> Cleanings:
        from localpv.observe.cleaning import Cleanings

        self._cleanings = self._cleanings or Cleanings(self.registry)
        self._cleanings.pass_on_to(to)
        return self._cleanings

    def publications(self, to: Recorder) -> Publications:
        from localpv.observe.publishing import Publications

        return Publications(self.registry, to)

    def storage_operations(self) -> StorageOperations:
        from localpv.observe.storage_operations import StorageOperations

        return StorageOperations(self.registry)

    def configuration(self, configured: Configured) -> None:
        problems = self.registry.gauge(
            "localpv_configuration_problems",
            "What is wrong in the configuration; as long as it is not zero, the last good one is in force.",
        )
        self.registry.before_scrape(lambda: problems.set(len(configured.problems)))

    def node(self, discovery: Discovery, *, hung: Callable[[], int], clock: Clock) -> None:
        """The discovery that works from now on; before it, and when it has ended, nothing is told of disks."""
        from localpv.observe.disks import DisksOfNode

        known, self._discovery, self._hung = "disks" in self.checks, discovery, hung
        self.checks["disks"] = lambda: self._discovery is None or self._discovery.synced
        if not known:
            DisksOfNode(
                self.registry, disks=self._disks, ignored=self._ignored, hung=lambda: self._hung(), now=clock.now
            )

    def _disks(self) -> Collection[LocalDisk]:
        return self._discovery.records.values() if self._discovery is not None else ()

    def _ignored(self) -> Iterable[tuple[str, str]]:
        found = self._discovery.ignored if self._discovery is not None else {}
        return ((place.storage_class, word) for place, word in found.items())

    def working(self, working: Callable[[], bool], *, idle_is_ready: bool) -> None:
        """Whether this agent is the one that works on its node."""
        status = self.registry.gauge(
            "localpv_agent_working", "1 in the agent that works on the node, 0 in those that stand by."
        )
        self.registry.before_scrape(lambda: status.set(int(working())))
        self.checks["node"] = lambda: idle_is_ready or working()

    def stands_by(self) -> None:
        """Another agent of the node works from now on."""
        self._discovery = None

    def manager(self, current: Callable[[], Manager | None]) -> None:
        """The manager that works now; None while another process leads, whose candidate is ready all the same."""
        from localpv.observe.disks import Volumes

        def disks() -> Collection[LocalDisk]:
            manager = current()
            return manager.disks() if manager is not None else ()

        def volumes() -> Collection[PersistentVolume]:
            manager = current()
            return manager.volumes() if manager is not None else ()

        def synced() -> bool:
            manager = current()
            return manager is None or manager.synced

        self.checks["volumes"] = synced
        Volumes(self.registry, disks=disks, volumes=volumes)

    def election(self, name: str, leading: Callable[[], bool]) -> None:
        status = self.registry.gauge(
            "leader_election_master_status", "1 in the process that leads, 0 in those that wait.", ("name",)
        )
        self.registry.before_scrape(lambda: status.set(int(leading()), name))
