"""What one watcher has not been told yet.

It holds at most one event per record, the newest, so a slow watcher costs no more memory than there are records.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from localpv.api.kinds.localdisk import LocalDisk
from localpv.client.watching import Changed, Deleted, Synced
from localpv.disk.records.protocol import Event


class Feed:
    """Filled by whoever sees changes, emptied by one watcher."""

    def __init__(self) -> None:
        self._news: dict[str, Event] = {}
        self._told: set[str] = set()
        """Names that the watcher knows: only of these it needs to hear that they are gone."""

        self._synced: Synced | None = None
        self._failure: BaseException | None = None
        self._something = asyncio.Event()

    def tell(self, old: LocalDisk | None, new: LocalDisk | None) -> None:
        """A record changed: as it was, and as it is."""
        if new is not None:
            self._news[new.key] = Changed(new)
        elif old is not None:
            self._news.pop(old.key, None)
            if old.key in self._told:
                self._news[old.key] = Deleted(old)
        self._something.set()

    def synced(self, resource_version: str) -> None:
        """Everything that existed has been told."""
        self._synced = Synced(resource_version)
        self._something.set()

    def fail(self, failure: BaseException) -> None:
        """Nothing will come any more."""
        self._failure = failure
        self._something.set()

    async def events(self) -> AsyncGenerator[Event, None]:
        while True:
            await self._something.wait()
            self._something.clear()
            while self._news:
                name = next(iter(self._news))
                event = self._news.pop(name)
                if isinstance(event, Deleted):
                    self._told.discard(name)
                else:
                    self._told.add(name)
                yield event
            if self._synced is not None:
                synced, self._synced = self._synced, None
                yield synced
            if self._failure is not None:
                raise self._failure
