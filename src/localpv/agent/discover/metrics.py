"""What discovery tells those who count and measure."""

from __future__ import annotations

from typing import Protocol

from localpv.api.kinds import Kind


class Metrics(Protocol):
    """Figures about discovery."""

    def surveyed(self, storage_class: str, *, seconds: float) -> None: ...

    def unreadable(self, storage_class: str) -> None:
        """A discovery directory could not be read."""

    def found(self, mode: str, *, seconds: float) -> None:
        """An entry that came while we watched can be offered; so long after it was first seen."""


class Silent:
    """Tells nobody."""

    def surveyed(self, storage_class: str, *, seconds: float) -> None: ...

    def unreadable(self, storage_class: str) -> None: ...

    def found(self, mode: str, *, seconds: float) -> None: ...


class Untold:
    """Events that nobody reads."""

    def tell(self, about: Kind, reason: str, message: str, *, warning: bool = False) -> None: ...
