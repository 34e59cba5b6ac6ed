"""Bytes that are promised but not yet seen: a write is on its way to the server, or its answer got lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from localpv import errors
from localpv.volume.pool_ledger import PoolKey


class AssumeCache:
    """By the name of the volume, so that each counts once; the ledger counts the rest."""

    def __init__(self) -> None:
        self._assumed: dict[str, tuple[PoolKey, int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._assumed

    def in_pool(self, key: PoolKey) -> int:
        return sum(size for where, size in self._assumed.values() if where == key)

    def forget(self, name: str) -> None:
        """What became of it is known."""
        self._assumed.pop(name, None)

    @contextmanager
    def assuming(self, name: str, key: PoolKey, size: int) -> Iterator[None]:
        """Count these bytes for as long as the write takes, and beyond if nobody knows what became of it."""
        self._assumed[name] = (key, size)
        try:
            yield
        except errors.ApiError as error:
            if error.code < 500:
                self.forget(name)
            raise
        else:
            self.forget(name)
