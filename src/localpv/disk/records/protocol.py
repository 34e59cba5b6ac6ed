"""What can be done with LocalDisks, and what both sides promise.

- A record that is created has no status yet; whoever creates it writes that next.
- Writing takes the record as it was read and what its spec or status shall be. Only the difference is sent, so fields
  that this version does not know stay as they are. Somebody else's write in between is a Conflict: read again.
- Nothing is told to who follows, and no call returns, before it is safe on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec, LocalDiskStatus
from localpv.client.informer import Handler

Ours = Callable[[LocalDisk], bool]
"""Which records are ours to judge, of those whose class is not configured here, or not with the directory of their
path: two configurations may have a class of one name."""


def every_record(disk: LocalDisk) -> bool:
    return True


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

    async def follow(self, handler: Handler[LocalDisk], *, synced: Callable[[], None]) -> None:
        """Tell the handler of every record, call `synced`, and tell it of each change until cancelled.

        The handler gets the record before and after, and must not wait. What was written through these records it has
        been told when the write returns, and once. Trouble with the server is waited out.
        """
