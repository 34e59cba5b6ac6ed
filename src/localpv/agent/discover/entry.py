"""What one look at a discovery directory and the mount table shows of an entry. Disks are not touched for it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from localpv.api.kinds.localdisk import DiskKind
from localpv.host.folders import Entry, FileKind
from localpv.host.model.devices import DeviceNumber
from localpv.host.mounts import Mount, MountTable


class Place(NamedTuple):
    """Where a candidate is: an entry of the discovery directory of a class."""

    storage_class: str
    entry: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """An entry as it lies there. Two equal sightings need no second look at the disk."""

    entry: Entry
    folder: Path
    """The discovery directory as this process sees it; on the host it may have another name."""

    mount: Mount | None = None
    """What is mounted exactly there, if it is a directory."""

    around: Mount | None = None
    """What a plain directory lies in."""

    elsewhere: tuple[str, ...] = ()
    """Where else the same directory or device is mounted."""

    target: str = ""
    """What the entry leads to in the end: equal for two ways to the same device or directory; empty if nowhere."""

    root: bool = False
    """Whether it is the machine's root directory under another name."""

    twice: str = ""
    """Another discovery directory of the class that has an entry of this name too."""

    @property
    def path(self) -> Path:
        return self.folder / self.entry.name

    @property
    def kind(self) -> DiskKind | None:
        if self.entry.kind is FileKind.BLOCK_DEVICE:
            return DiskKind.BLOCK_DEVICE
        if self.entry.kind is FileKind.DIRECTORY:
            return DiskKind.MOUNT_POINT if self.mount else DiskKind.DIRECTORY
        return None


class Index:
    """A mount table that answers two hundred questions without being read two hundred times."""

    def __init__(self, table: MountTable) -> None:
        self._at: dict[str, Mount] = {}
        self._of: defaultdict[DeviceNumber, list[Mount]] = defaultdict(list)
        self._nodes: defaultdict[str, list[Mount]] = defaultdict(list)
        for mount in table:
            self._at[os.fspath(mount.mount_point)] = mount  # the last one is what is seen, where several are stacked
            self._of[mount.device].append(mount)
            if mount.device_node:
                self._nodes[mount.device_node].append(mount)

    def at(self, path: str) -> Mount | None:
        return self._at.get(path)

    def containing(self, path: str) -> Mount | None:
        while True:
            if mount := self._at.get(path):
                return mount
            if path in ("/", ""):
                return None
            path = os.path.dirname(path)

    def of(self, device: DeviceNumber) -> Iterable[Mount]:
        return self._of.get(device, ())

    def of_node(self, path: str) -> Iterable[Mount]:
        """Bind mounts of a device node."""
        below_dev = os.path.relpath(path, "/dev")
        yield from self._nodes.get(below_dev, ())
        if below_dev.startswith("..") and (around := self.containing(path)) is not None:
            inside = os.path.join(around.root, os.path.relpath(path, around.mount_point))
            yield from (mount for mount in self.of(around.device) if mount.root == inside)


def see(entry: Entry, *, folder: Path, real_folder: str, mounts: Index) -> Sighting:
    """One entry of a folder, whose path without links is `real_folder`: mount tables know only such paths."""
    if entry.kind is FileKind.BLOCK_DEVICE and entry.device is not None:
        node = os.path.join(real_folder, entry.name) if entry.target is None else os.fspath(entry.target)
        users = {os.fspath(mount.mount_point) for mount in (*mounts.of(entry.device), *mounts.of_node(node))}
        elsewhere = tuple(sorted(users - {os.path.join(real_folder, entry.name)}))
        return Sighting(entry=entry, folder=folder, elsewhere=elsewhere, target=f"device {entry.device}")
    if entry.kind is FileKind.DIRECTORY:
        real = os.path.join(real_folder, entry.name) if entry.target is None else os.fspath(entry.target)
        return _directory(entry, folder, real, mounts)
    return Sighting(entry=entry, folder=folder)


def _directory(entry: Entry, folder: Path, real: str, mounts: Index) -> Sighting:
    mount = mounts.at(real)
    around = None if mount else mounts.containing(real)
    owner = mount or around
    if owner is None:
        return Sighting(entry=entry, folder=folder, target=f"directory {real}")
    inside = owner.root
    if mount is None:
        inside = os.path.join(owner.root, os.path.relpath(real, owner.mount_point))
    elsewhere = tuple(
        sorted(
            os.fspath(other.mount_point)
            for other in mounts.of(owner.device)
            if other.root == inside and other.mount_id != owner.mount_id and os.fspath(other.mount_point) != real
        )
    )
    top = mounts.at("/")
    return Sighting(
        entry=entry,
        folder=folder,
        mount=mount,
        around=around,
        elsewhere=elsewhere,
        target=f"directory {owner.device} {inside}",
        root=top is not None and (top.device, top.root) == (owner.device, inside),
    )
