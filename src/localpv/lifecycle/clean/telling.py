"""Whom a cleaning tells: people by events on the volume, and programs by figures."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from localpv.api.kinds.localdisk import CleanOrder, LocalDisk


class Happening(StrEnum):
    """What an event is about; the reason that the event carries."""

    STARTED = "CleaningStarted"
    RUNS_LONG = "CleaningInProgress"
    FAILED = "CleaningFailed"
    FINISHED = "CleaningFinished"


class Events(Protocol):
    """Events about the volume that an order names."""

    def tell(self, what: Happening, message: str, *, disk: LocalDisk, order: CleanOrder) -> None:
        """Returns at once; an event that cannot be delivered is lost, and nothing waits for it."""


class Metrics(Protocol):
    """Figures about cleanings."""

    def began(self, method: str) -> None: ...

    def verified(self, method: str, *, seconds: float, size_bytes: int) -> None: ...

    def failed(self, method: str, reason: str) -> None: ...

    def refused(self, reason: str) -> None:
        """Nothing was touched: another disk than the recorded one, or a path that leads out."""


class Silent:
    """Tells nobody."""

    def tell(self, what: Happening, message: str, *, disk: LocalDisk, order: CleanOrder) -> None: ...

    def began(self, method: str) -> None: ...

    def verified(self, method: str, *, seconds: float, size_bytes: int) -> None: ...

    def failed(self, method: str, reason: str) -> None: ...

    def refused(self, reason: str) -> None: ...
