"""The parts of the machine that volumes of pods need, and how they are used together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """All that is done on the machine goes through these."""

    mounts: Mounts
    mounting: Mounter
    devices: Devices
    file_systems: FileSystems
    holding: Holders
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
            await self.mounting.unmount(mount)
        if left := await self._at_or_below(path):
            raise errors.DeviceBusy(f"{left[-1]} is still mounted", hint="it is tried again by itself")

    async def _at_or_below(self, path: Path) -> list[Path]:
        """In the order in which they were mounted over each other."""
        found = (await self.mounts.table()).at_or_below(path)
        return sorted((mount.mount_point for mount in found), key=lambda place: len(place.parts))


def on_this_machine(*, workers: Workers | None = None) -> Hands:
    """The real parts."""
    workers = workers or Workers()
    mounts = KernelMounts()
    return Hands(
        mounts=mounts,
        mounting=KernelMounter(workers=workers),
        # A pod that comes just when another goes must not see the hold of that one.
        devices=KernelDevices(workers=workers, loops_seconds=0.0),
        file_systems=KernelFileSystems(workers=workers),
        holding=LoopHolders(workers=workers),
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
