"""The LocalDisks as they were last seen, and which of them something else is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from localpv.api.kinds.localdisk import LocalDisk
from localpv.api.kinds.volumes import PersistentVolume
from localpv.disk import labels
from localpv.manager.publish import ownership


class DiskIndex:
    """Disks by name, and their names by node, class and path."""

    def __init__(self) -> None:
        self._disks: dict[str, LocalDisk] = {}
        self._names: dict[tuple[str, str], set[str]] = {}

    def get(self, name: str) -> LocalDisk | None:
        return self._disks.get(name)

    def put(self, disk: LocalDisk) -> None:
        self.remove(disk.key)
        self._disks[disk.key] = disk
        for word in _words(disk):
            self._names.setdefault(word, set()).add(disk.key)

    def remove(self, name: str) -> None:
        old = self._disks.pop(name, None)
        for word in _words(old) if old is not None else ():
            names = self._names[word]
            names.discard(name)
            if not names:
                del self._names[word]

    def names(self) -> Iterable[str]:
        return [*self._disks]

    def of_node(self, node: str) -> list[LocalDisk]:
        return self._under("node", node)

    def of_class(self, storage_class: str) -> list[LocalDisk]:
        return self._under("class", storage_class)

    def at(self, path: str) -> list[LocalDisk]:
        return self._under("path", path)

    def of_volume(self, volume: PersistentVolume) -> LocalDisk | None:
        """The disk that a volume was made for."""
        if named := volume.metadata.annotations.get(labels.DISK):
            return self.get(named)
        path = volume.spec.local.path if volume.spec.local is not None else ""
        return next((disk for disk in self.at(path) if ownership.owns(disk, volume)), None)

    def __iter__(self) -> Iterator[LocalDisk]:
        return iter([*self._disks.values()])

    def __len__(self) -> int:
        return len(self._disks)

    def _under(self, sort: str, word: str) -> list[LocalDisk]:
        return [self._disks[name] for name in self._names.get((sort, word), ())]


def _words(disk: LocalDisk) -> tuple[tuple[str, str], ...]:
    spec = disk.spec
    return ("node", spec.node_name), ("class", spec.storage_class_name), ("path", spec.path)
