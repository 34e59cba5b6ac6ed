"""What a cleaning does on the machine, and what it promises."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from localpv.agent.clean.paths import Place
from localpv.agent.clean.plans import Plan
from localpv.api.kinds.localdisk import DiskKind, LocalDisk
from localpv.host.model.identity import Identity
from localpv.host.openat import Numbers
from localpv.host.workers import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A disk that was looked at: it is in its place and is the one that was recorded."""

    kind: DiskKind
    place: Place
    identity: Identity
    """The recorded one, which whoever acts compares once more."""

    lock: str
    """Names the disk itself, whatever record or path led to it."""

    size_bytes: int = 0
    device: Path | None = None
    """The node of a block device, links resolved."""

    found: Identity | None = None
    """What was read of a block device now: it may have grown, or have names that were not recorded."""

    directory: Numbers | None = None
    """Which directory was looked at."""


class Executor(Protocol):
    """The machine as a cleaning sees it."""

    async def look(self, disk: LocalDisk, place: Place) -> Target:
        """Find the disk of a record without touching it.

        OutsideFolder when its path leads elsewhere or nowhere, DeviceChanged when it is of another kind than recorded
        or not the recorded disk, or when nothing was recorded.
        """

    async def users(self, target: Target) -> str:
        """Who still uses it, as the end of a sentence that begins with "it"; empty when nobody does."""

    async def clean(self, target: Target, plan: Plan, *, on_progress: Report) -> None:
        """Clean and verify; returning means that nothing of the old data is left. Can be repeated from any point.

        Cancelled: returns when it has stopped, or could not be stopped and was left behind.
        """
