"""Discovery on one node: how surveys go, how soon a disk is found, and what people must know of it."""

from __future__ import annotations

from localpv.observe.recorder import Recorder
from localpv.observe.registry import LONG, QUICK, Registry

_BOUNDS = (*QUICK, *(bound for bound in LONG if bound > QUICK[-1]))


class Discoveries(Recorder):
    """Is told by discovery what it did."""

    def __init__(self, registry: Registry | None = None, to: Recorder | None = None) -> None:
        super().__init__(to)
        registry = registry or Registry()
        label = ("storage_class",)
        self.surveys = registry.histogram(
            "localpv_discovery_survey_duration_seconds", "How long a look through a discovery directory took.", label
        )
        self.failures = registry.counter(
            "localpv_discovery_survey_failed_total", "Discovery directories that could not be read.", label
        )
        self.latency = registry.histogram(
            "localpv_discovery_latency_seconds",
            "From when an entry was first seen until its LocalDisk said that it can be offered.",
            ("mode",),
            bounds=_BOUNDS,
        )

    def surveyed(self, storage_class: str, *, seconds: float) -> None:
        self.failures.begin(storage_class)
        self.surveys.observe(seconds, storage_class)

    def unreadable(self, storage_class: str) -> None:
        """A discovery directory could not be read."""
        self.failures.add(storage_class)

    def found(self, mode: str, *, seconds: float) -> None:
        """An entry that came while we watched can be offered; so long after it was first seen."""
        self.latency.observe(seconds, mode)
