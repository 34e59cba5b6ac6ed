"""What the manager's steps tell those who count and measure."""

from __future__ import annotations

from typing import Protocol

from localpv.api.kinds.localdisk import LocalDisk


class Figures(Protocol):
    """Figures about volumes; the mode is that of the volume, Block or Filesystem."""

    def published(self, mode: str, *, seconds: float) -> None: ...

    def refused(self, mode: str) -> None:
        """The API server did not let a volume be created."""

    def withdrawn(self, mode: str) -> None:
        """A volume that nobody had claimed went, for its disk is not fit any more."""

    def ordered(self, mode: str) -> None:
        """The cleaning of a disk was ordered."""

    def deleted(self, disk: LocalDisk) -> None:
        """The volume of a clean disk went; the record is as it was when it went."""

    def recycled(self, mode: str) -> None:
        """The volume of a clean disk is offered again."""

    def volume_lost(self, phase: str, *, failed: bool = False) -> None:
        """A volume of a lost node was deleted, or could not be."""

    def claim_lost(self, *, failed: bool = False) -> None:
        """A claim on a volume of a lost node was deleted, or could not be."""


class Silent:
    """Tells nobody."""

    def published(self, mode: str, *, seconds: float) -> None: ...

    def refused(self, mode: str) -> None: ...

    def withdrawn(self, mode: str) -> None: ...

    def ordered(self, mode: str) -> None: ...

    def deleted(self, disk: LocalDisk) -> None: ...

    def recycled(self, mode: str) -> None: ...

    def volume_lost(self, phase: str, *, failed: bool = False) -> None: ...

    def claim_lost(self, *, failed: bool = False) -> None: ...
