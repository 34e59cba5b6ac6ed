"""What every pool can do, whatever it is made of.

The state of a pool lies in the pool itself: tags of LVM, records beside files. So every call can be repeated after any
crash, and whoever calls needs to remember nothing. What carries no tag of ours is never touched, and what is open or
mounted never removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host.model.methods import Method
from localpv.host.workers import Report
from localpv.volume import pool_names


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeState:
    """A volume or snapshot of ours."""

    name: str
    size_bytes: int
    promised_bytes: int
    """What of the pool it takes, as long as it is there; of a snapshot that shares its blocks too."""

    is_snapshot: bool = False
    source: str = ""
    """The volume or snapshot whose bytes it began with."""

    ready: bool = True
    """False: half made, or going. Such a one is never handed out."""

    going: bool = False
    abnormal: str = ""
    """What is wrong with it, in a sentence; empty for healthy."""

    created: str = ""
    """RFC 3339; empty when nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """A pool as it is now."""

    capacity_bytes: int
    """All that volumes of ours may be promised together, overprovision included."""

    free_bytes: int
    """What is really free below them, for people."""

    extent_bytes: int
    """Sizes are multiples of it."""

    volumes: Mapping[str, VolumeState] = field(default_factory=dict)
    """Those that carry our tag, by name."""

    foreign_bytes: int = 0
    """Of the capacity, what is used by things without our tag."""

    data_percent: float | None = None
    metadata_percent: float | None = None
    """How full a thin pool is; None for others."""

    error: str = ""
    """Why nothing can be made here now, though volumes that are there are served; empty for nothing wrong."""

    warning: str = ""
    """What is wrong and keeps nothing from being made; empty for nothing."""

    @property
    def promised_bytes(self) -> int:
        return sum(volume.promised_bytes for volume in self.volumes.values())

    @property
    def unpromised_bytes(self) -> int:
        """The largest volume that could be made now."""
        left = self.capacity_bytes - self.foreign_bytes - self.promised_bytes
        return max(0, left) // self.extent_bytes * self.extent_bytes


class Pool(Protocol):
    """A pool of this node. Sizes are in bytes and multiples of `extent_bytes`."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def snapshots(self) -> bool:
        """Whether snapshots and clones can be made."""

    async def state(self) -> PoolState:
        """What is there now; HostError when the pool itself is not there or does not answer."""

    async def create(
        self, name: str, size_bytes: int, *, source: str = "", progress: Report | None = None
    ) -> VolumeState:
        """Make a volume, all zero, or with the bytes of a volume or snapshot and zeroes behind them.

        Repeatable: one of this name, size and source is taken as it is. AlreadyThere for another of the name, NoRoom,
        NotThere without the source; DeviceBusy while one of this name goes, or while the source cannot be read.
        """

    async def expand(self, name: str, size_bytes: int) -> VolumeState:
        """Let a volume grow; one that is as large already stays. NoRoom, NotThere."""

    async def snapshot(self, name: str, source: str) -> VolumeState:
        """Keep the bytes of a volume as they are at this moment. Repeatable, and refused, as `create`."""

    async def remove(self, name: str, *, method: Method, progress: Report | None = None) -> None:
        """Remove a volume or snapshot so that none of its bytes is ever seen again; one that is not there is fine.

        It is marked as going first, and from then on never handed out. DeviceBusy while it is open or mounted,
        StillNeeded while something else is made of it: both before anything is changed.
        """

    async def attach(self, name: str) -> Path:
        """The block device of a volume, made if need be; read-only for snapshots. Repeatable. NotThere."""

    async def detach(self, name: str) -> None:
        """Let the block device go; none is fine. DeviceBusy while it is open or mounted."""


def check_name(name: str) -> None:
    """Names of volumes become paths and arguments: HostError for one that could be more than a name."""
    if not pool_names.is_volume(name):
        raise errors.HostError(f"{name[:100]!r} is no name of a volume")
