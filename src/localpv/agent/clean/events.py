"""What a cleaning tells: people by events on the LocalDisk (the manager tells those on the volume), and figures."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from localpv.api.kinds import Kind


class Happening(StrEnum):
    """What an event is about; the reason that the event carries."""

    STARTED = "CleaningStarted"
    RUNS_LONG = "CleaningLong"
    FAILED = "CleaningFailed"
    FINISHED = "CleaningFinished"


class Metrics(Protocol):
    """Figures about cleanings."""

    def began(self, mode: str, method: str) -> None:
        """The mode is that of the volume: Block or Filesystem."""

    def verified(self, mode: str, method: str, *, seconds: float, size_bytes: int) -> None: ...

    def failed(self, mode: str, method: str, reason: str) -> None: ...

    def refused(self, mode: str, reason: str) -> None:
        """Nothing was touched: another disk than the recorded one, or a path that leads out."""


class Silent:
    """Tells nobody."""

    def tell(self, about: Kind, reason: str, message: str, *, warning: bool = False) -> None: ...

    def began(self, mode: str, method: str) -> None: ...

    def verified(self, mode: str, method: str, *, seconds: float, size_bytes: int) -> None: ...

    def failed(self, mode: str, method: str, reason: str) -> None: ...

    def refused(self, mode: str, reason: str) -> None: ...
