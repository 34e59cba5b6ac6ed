"""What is free in each pool: its capacity, less what others have in it, less what is promised.

Computed from the objects alone, so manager and scheduler come to the same answer. A volume counts from the moment its
PoolVolume is written until it is gone, with the larger of what is asked for and what it has: while one grows or was
made larger than asked for, nobody else is promised the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from localpv.api.kinds.localdisk import size_text
from localpv.api.kinds.localpool import LocalPool, PoolSnapshot, PoolVolume

_Key = TypeVar("_Key")


class PoolKey(NamedTuple):
    """Which pool: names of pools are those of their node."""

    node: str
    pool: str


def key_of(one: LocalPool | PoolVolume | PoolSnapshot) -> PoolKey:
    return PoolKey(one.spec.node_name, one.spec.pool_name)


def promised_to(one: PoolVolume | PoolSnapshot) -> int:
    """Bytes of its pool that a volume or snapshot has or may come to have."""
    return max(one.spec.size_bytes, one.status.size_bytes)


def offers(pool: LocalPool) -> bool:
    """Whether volumes can be made in the pool at all."""
    return not pool.status.error and pool.status.observed_at is not None and not pool.metadata.deleting


def needed(pool: LocalPool, size_bytes: int) -> int:
    """What a volume of this size takes: at least the pool's smallest, in whole extents."""
    size = max(size_bytes, pool.status.minimum_bytes, 1)
    extent = max(pool.status.extent_bytes, 1)
    return -(-size // extent) * extent


class PoolLedger:
    """The pools of all nodes with what is promised in them. The three `…_changed` are handlers of informers."""

    def __init__(self) -> None:
        self._pools: dict[PoolKey, dict[str, LocalPool]] = {}
        self._classes: dict[str, dict[str, LocalPool]] = {}
        self._promised: dict[PoolKey, int] = {}

    def pool_changed(self, old: LocalPool | None, new: LocalPool | None) -> None:
        if old is not None:
            _drop(self._pools, key_of(old), old.key)
            for name in old.spec.class_names:
                _drop(self._classes, name, old.key)
        if new is not None:
            self._pools.setdefault(key_of(new), {})[new.key] = new
            for name in new.spec.class_names:
                self._classes.setdefault(name, {})[new.key] = new

    def volume_changed(self, old: PoolVolume | None, new: PoolVolume | None) -> None:
        self._count(old, new)

    def snapshot_changed(self, old: PoolSnapshot | None, new: PoolSnapshot | None) -> None:
        self._count(old, new)

    def _count(self, old: PoolVolume | PoolSnapshot | None, new: PoolVolume | PoolSnapshot | None) -> None:
        for one, sign in ((old, -1), (new, +1)):
            if one is not None:
                key = key_of(one)
                if total := self._promised.get(key, 0) + sign * promised_to(one):
                    self._promised[key] = total
                else:
                    self._promised.pop(key, None)

    def pool(self, key: PoolKey) -> LocalPool | None:
        """The pool; None also when two objects claim to be it, for then nobody knows its size."""
        found = self._pools.get(key, {})
        return next(iter(found.values())) if len(found) == 1 else None

    def of_class(self, class_name: str) -> Iterator[LocalPool]:
        """The pools whose volumes a class has, in the order of their names."""
        for _, pool in sorted(self._classes.get(class_name, {}).items()):
            if self.pool(key_of(pool)) is pool:
                yield pool

    def classes(self) -> Iterable[str]:
        """Names of the classes that some pool serves."""
        return self._classes.keys()

    def promised(self, key: PoolKey) -> int:
        """Bytes that PoolVolumes and PoolSnapshots have or may come to have in a pool."""
        return self._promised.get(key, 0)

    def free(self, pool: LocalPool) -> int:
        """Bytes that can still be promised; never less than nothing, though a pool can have shrunk."""
        if not offers(pool):
            return 0
        status = pool.status
        return max(status.capacity_bytes - status.foreign_bytes - self.promised(key_of(pool)), 0)

    def largest(self, pool: LocalPool) -> int:
        """Size of the largest volume that there is room for: whole extents, and nothing below the smallest volume."""
        free = self.free(pool)
        size = free - free % max(pool.status.extent_bytes, 1)
        return size if size >= needed(pool, 1) else 0

    def lacking(self, pool: LocalPool, size_bytes: int, *, also: int = 0) -> str:
        """Why a volume of this size has no room, beside `also` bytes for other volumes; empty when it has."""
        if pool.status.error:
            return f"pool {pool.spec.pool_name} is out of order: {pool.status.error}"
        if not offers(pool):
            return f"pool {pool.spec.pool_name} is not ready"
        size, free = needed(pool, size_bytes), max(self.free(pool) - also, 0)
        if size <= free:
            return ""
        return f"pool {pool.spec.pool_name} has {size_text(free)} free, {size_text(size - free)} less than needed"


def _drop(index: dict[_Key, dict[str, LocalPool]], key: _Key, name: str) -> None:
    kept = index.get(key, {})
    kept.pop(name, None)
    if not kept:
        index.pop(key, None)
