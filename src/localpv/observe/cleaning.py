"""Cleanings on one node. How long and how many under the classic names, what is ours beside them."""

from __future__ import annotations

from localpv.observe.registry import LONG, Histogram, Registry

_CLASSIC = "local_volume_provisioner_persistentvolume_delete"
_PROCESS = "process"
"""The classic word for a cleaning by the program itself, not by a Job."""

STEP_GIB = 500
MODES = ("Block", "Filesystem")
REFUSALS = ("IdentityChanged", "OutsideFolder")
"""Why a disk is not touched at all, for the two reasons that should never be seen."""


class Cleanings:
    """Is told by the cleaner what it did."""

    def __init__(self, registry: Registry) -> None:
        self.failures = registry.counter(
            f"{_CLASSIC}_failed_total", "Cleanings that failed or were refused.", ("mode", "type")
        )
        self.duration = durations(registry)
        self.begun = registry.counter("localpv_clean_started_total", "Cleanings begun.", ("mode", "method"))
        self.cleaned = registry.counter("localpv_clean_verified_total", "Cleanings verified.", ("mode", "method"))
        self.bytes = registry.counter(
            "localpv_clean_verified_bytes_total", "Size of the devices that were cleaned.", ("mode", "method")
        )
        self.failed_for = registry.counter(
            "localpv_clean_failed_total", "Cleanings that failed after they had begun, by reason.", ("method", "reason")
        )
        self.refusals = registry.counter(
            "localpv_clean_refused_total",
            "Orders to clean that were refused before anything was touched, by reason: another disk than the recorded"
            " one (IdentityChanged), a path that leads out of its directory (OutsideFolder), and others.",
            ("reason",),
        )
        for mode in MODES:
            self.failures.begin(mode, _PROCESS)
        for reason in REFUSALS:
            self.refusals.begin(reason)

    def began(self, mode: str, method: str) -> None:
        self.begun.add(mode, method)

    def verified(self, mode: str, method: str, *, seconds: float, size_bytes: int) -> None:
        self.cleaned.add(mode, method)
        self.bytes.add(mode, method, by=size_bytes)
        self.duration.observe(seconds, mode, _PROCESS, capacity_step(size_bytes), method)

    def failed(self, mode: str, method: str, reason: str) -> None:
        self.failed_for.add(method, reason)
        self.failures.add(mode, _PROCESS)

    def refused(self, mode: str, reason: str) -> None:
        self.refusals.add(reason)
        self.failures.add(mode, _PROCESS)


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
