"""Cleanings on one node: told on the LocalDisk (the manager tells what is on the volume), counted and logged.

How long and how many under the classic names, what is ours beside them.
"""

from __future__ import annotations

import logging
from enum import StrEnum

from localpv.api.kinds.localdisk import CleanOrder, LocalDisk
from localpv.observe.recorder import Recorder
from localpv.observe.registry import LONG, Histogram, Registry

_CLASSIC = "local_volume_provisioner_persistentvolume_delete"
_PROCESS = "process"
"""The classic word for a cleaning by the program itself, not by a Job."""

STEP_GIB = 500
MODES = ("Block", "Filesystem")
REFUSALS = ("IdentityChanged", "OutsideFolder")
"""Why a disk is not touched at all, for the two reasons that should never be seen."""


log = logging.getLogger(__name__)


class Happening(StrEnum):
    """What an event is about; the reason that the event carries."""

    STARTED = "CleaningStarted"
    RUNS_LONG = "CleaningLong"
    FAILED = "CleaningFailed"
    FINISHED = "CleaningFinished"


class Cleanings(Recorder):
    """Is told by the cleaner what it did; the method is the first word of it."""

    def __init__(self, registry: Registry | None = None, to: Recorder | None = None) -> None:
        super().__init__(to)
        registry = registry or Registry()
        self._failures = registry.counter(
            f"{_CLASSIC}_failed_total", "Cleanings that failed or were refused.", ("mode", "type")
        )
        self._duration = durations(registry)
        self._begun = registry.counter("localpv_clean_started_total", "Cleanings begun.", ("mode", "method"))
        self._cleaned = registry.counter("localpv_clean_verified_total", "Cleanings verified.", ("mode", "method"))
        self._bytes = registry.counter(
            "localpv_clean_verified_bytes_total", "Size of the devices that were cleaned.", ("mode", "method")
        )
        self._failed_for = registry.counter(
            "localpv_clean_failed_total", "Cleanings that failed after they had begun, by reason.", ("method", "reason")
        )
        self._refusals = registry.counter(
            "localpv_clean_refused_total",
            "Orders to clean that were refused before anything was touched, by reason: another disk than the recorded"
            " one (IdentityChanged), a path that leads out of its directory (OutsideFolder), and others.",
            ("reason",),
        )
        for mode in MODES:
            self._failures.begin(mode, _PROCESS)
        for reason in REFUSALS:
            self._refusals.begin(reason)

    def started(self, disk: LocalDisk, order: CleanOrder, method: str) -> None:
        self._begun.add(disk.spec.volume_mode, method)
        message = (
            f"Cleaning of {disk.spec.path} with {method} has begun; the volume is deleted when it has finished, which"
            " can take long on a large disk."
        )
        self._say(Happening.STARTED, disk, order, message)

    def runs_long(self, disk: LocalDisk, order: CleanOrder, how_far: str) -> None:
        self._say(Happening.RUNS_LONG, disk, order, how_far)

    def failed(self, disk: LocalDisk, order: CleanOrder, method: str, *, reason: str, message: str) -> None:
        """After it had begun."""
        self._failed_for.add(method, reason)
        self._failures.add(disk.spec.volume_mode, _PROCESS)
        self._say(Happening.FAILED, disk, order, f"Cleaning of {disk.spec.path} failed: {message}")

    def refused(self, disk: LocalDisk, order: CleanOrder, *, reason: str, message: str) -> None:
        """Nothing was touched: another disk than the recorded one, or a path that leads out."""
        self._refusals.add(reason)
        self._failures.add(disk.spec.volume_mode, _PROCESS)
        self._say(Happening.FAILED, disk, order, f"{disk.spec.path} is not cleaned: {message}")

    def verified(self, disk: LocalDisk, order: CleanOrder, method: str, *, seconds: float, size_bytes: int) -> None:
        mode = disk.spec.volume_mode
        self._cleaned.add(mode, method)
        self._bytes.add(mode, method, by=size_bytes)
        self._duration.observe(seconds, mode, _PROCESS, capacity_step(size_bytes), method)
        self._say(Happening.FINISHED, disk, order, f"{disk.spec.path} is clean; it took {seconds:.0f} s with {method}.")

    def _say(self, what: Happening, disk: LocalDisk, order: CleanOrder, message: str) -> None:
        log.info("%s disk=%s volume=%s message=%s", what, disk.metadata.name, order.volume_name, message)
        self.event(disk, what, message, warning=what is Happening.FAILED)


def durations(registry: Registry) -> Histogram:
    """How long cleanings took: told by whoever was there at the end, the agent or, of Jobs, the manager."""
    return registry.histogram(
        f"{_CLASSIC}_duration_seconds",
        "How long cleanings took that were verified in the end, by size in steps of 500 GiB.",
        ("mode", "type", "capacity", "cleanup_command"),
        bounds=LONG,
    )


def capacity_step(size_bytes: int) -> str:
    """A size as the classic provisioner sorts them: `0G`, `500G`, and so on."""
    return f"{size_bytes // (STEP_GIB << 30) * STEP_GIB}G"
