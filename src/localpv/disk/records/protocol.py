"""What can be done with LocalDisks, and what both sides promise.

- A record that is created has no status yet; whoever creates it writes that next.
- Writing takes the record as it was read and what its spec or status shall be. Only the difference is sent, so fields
  that this version does not know stay as they are. Somebody else's write in between is a Conflict: read again.
- Nothing is told to watchers, and no call returns, before it is safe on disk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec, LocalDiskStatus
from localpv.client.watching import Changed, Deleted, Synced

Event = Changed[LocalDisk] | Deleted[LocalDisk] | Synced


class Records(Protocol):
    """LocalDisks: of one node, or of all."""

    async def get(self, name: str) -> LocalDisk | None:
        """The record as it is now, or None."""

    async def list(self) -> Sequence[LocalDisk]:
        """All records as they are now."""

    async def create(self, disk: LocalDisk) -> LocalDisk:
        """A new record; AlreadyExists when its name is taken. Its status is not kept."""

    async def write_spec(self, disk: LocalDisk, spec: LocalDiskSpec) -> LocalDisk:
        """Change the spec of a record that was read; Conflict when anything of it has changed since, NotFound when
        it is gone. Writing what is there already costs nothing and returns the record as it was read."""

    async def write_status(self, disk: LocalDisk, status: LocalDiskStatus, *, locked: bool = True) -> LocalDisk:
        """The same for the status. Without the lock other writes in between do not matter, as long as it is the same
        record: for progress that is told often, never for a state that something relies on."""

    async def delete(self, disk: LocalDisk) -> None:
        """Delete the record if it still is as it was read; Conflict when not. That it is gone already is fine."""

    def watch(self) -> AsyncGenerator[Event, None]:
        """Every record, then Synced, then each change for as long as the caller listens; close it with `aclosing`.

        Only the newest state of a record is told: a slow listener skips what lies between and misses no end. Trouble
        with the server is waited out.
        """
