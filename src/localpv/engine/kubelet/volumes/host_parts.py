"""The parts of the machine that volumes of pods need, how they are used together, and how long each operation took."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host.devices import Devices, KernelDevices
from localpv.host.filesystems import FileSystems, KernelFileSystems
from localpv.host.loop import Holders, LoopHolders
from localpv.host.marks import DiskMarks, Marks
from localpv.host.mounter import KernelMounter, KernelSubPaths, Mounter, SubPaths
from localpv.host.mounts import KernelMounts, Mounts
from localpv.host.own_folders import DiskFolders, OwnFolders
from localpv.host.trees import KernelTrees, Trees
from localpv.host.volume_files import DiskFileSets, FileSets, KernelNodePaths, KernelOwnership, NodePaths, Ownership
from localpv.host.workers import Workers
from localpv.runtime.clock import Clock


class Operation(StrEnum):
    """Under the names that a kubelet's metrics have for them."""

    MOUNT = "volume_mount"
    UNMOUNT = "volume_unmount"
    MOUNT_DEVICE = "mount_device"
    """A part of `volume_mount`, for which a kubelet has no name of its own."""

    UNMOUNT_DEVICE = "unmount_device"
    MAP = "map_volume"
    UNMAP = "unmap_volume"
    UNMAP_DEVICE = "unmap_device"


class Observer(Protocol):
    """Told every operation after its end."""

    def operated(self, plugin: str, operation: str, *, seconds: float, failed: bool) -> None: ...


class Operations:
    """Measures operations for an observer, if there is one."""

    def __init__(self, observer: Observer | None, *, clock: Clock) -> None:
        self._observer, self._clock = observer, clock

    @contextmanager
    def measured(self, plugin: str, operation: Operation) -> Iterator[None]:
        """Around one operation. One that is cancelled has neither succeeded nor failed."""
        began = self._clock.monotonic()
        try:
            yield
        except Exception:
            self._tell(plugin, operation, began, failed=True)
            raise
        self._tell(plugin, operation, began, failed=False)

    def _tell(self, plugin: str, operation: Operation, began: float, *, failed: bool) -> None:
        if self._observer is not None:
            self._observer.operated(plugin, operation, seconds=self._clock.monotonic() - began, failed=failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParts:
    """All that is done on the machine goes through these."""

    mounts: Mounts
    mounter: Mounter
    devices: Devices
    file_systems: FileSystems
    holders: Holders
    ownership: Ownership
    sub_paths: SubPaths
    trees: Trees
    folders: OwnFolders
    file_sets: FileSets
    node_paths: NodePaths
    marks: Marks

    async def unmount_all(self, path: Path) -> None:
        """Unmount what is mounted at a path of ours and below it, deepest first; DeviceBusy when something stays.

        Every removal of a folder comes after this, so nothing is ever removed through a mount.
        """
        for mount in reversed(await self._at_or_below(path)):
            await self.mounter.unmount(mount)
        if left := await self._at_or_below(path):
            raise errors.DeviceBusy(f"{left[-1]} is still mounted", hint="it is tried again by itself")

    async def refuse_mounted(self, path: Path) -> None:
        """DeviceBusy when anything is mounted at a path of ours that somebody else was to unmount."""
        if left := await self._at_or_below(path):
            raise errors.DeviceBusy(
                f"{left[-1]} is still mounted, though its driver says that it is not",
                hint="it is tried again by itself",
            )

    async def _at_or_below(self, path: Path) -> list[Path]:
        """In the order in which they were mounted over each other."""
        found = (await self.mounts.table()).at_or_below(path)
        return sorted((mount.mount_point for mount in found), key=lambda place: len(place.parts))


def on_this_machine(*, workers: Workers | None = None) -> HostParts:
    """The real parts."""
    workers = workers or Workers()
    mounts = KernelMounts()
    return HostParts(
        mounts=mounts,
        mounter=KernelMounter(workers=workers),
        # A pod that comes just when another goes must not see the hold of that one.
        devices=KernelDevices(workers=workers, loops_seconds=0.0),
        file_systems=KernelFileSystems(workers=workers),
        holders=LoopHolders(workers=workers),
        ownership=KernelOwnership(workers=workers),
        sub_paths=KernelSubPaths(workers=workers),
        trees=KernelTrees(workers=workers, mounts=mounts),
        folders=DiskFolders(),
        file_sets=DiskFileSets(workers=workers),
        node_paths=KernelNodePaths(workers=workers),
        marks=DiskMarks(workers=workers),
    )


class Turns:
    """One at a time for each key: two pods that come and go at once must agree on who is the first and who the last."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}

    @asynccontextmanager
    async def of(self, key: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._locks[key]
