"""Records in a dictionary, held to the same suite as the real ones (`tests/unit/disk/records/test_records.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec import structs

from localpv import errors
from localpv.api import names
from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec, LocalDiskStatus
from localpv.client.informer import Handler


class MemoryRecords:
    """LocalDisks as a server keeps them."""

    def __init__(self) -> None:
        self.disks: dict[str, LocalDisk] = {}
        self._version = 0
        self._handlers: list[Handler[LocalDisk]] = []

    async def get(self, name: str) -> LocalDisk | None:
        return self.disks.get(name)

    async def list(self) -> Sequence[LocalDisk]:
        return [*self.disks.values()]

    async def create(self, disk: LocalDisk) -> LocalDisk:
        if disk.key in self.disks:
            raise errors.AlreadyExists(disk.key)
        if names.dns_subdomain(disk.key):
            raise errors.Invalid(disk.key)
        uid = disk.metadata.uid or f"disk-{self._version + 1}"
        meta = structs.replace(disk.metadata, uid=uid, creation_timestamp="2030-01-01T00:00:00Z")
        return self.keep(structs.replace(disk, metadata=meta, status=LocalDiskStatus()))

    async def write_spec(self, disk: LocalDisk, spec: LocalDiskSpec) -> LocalDisk:
        return self.change(disk, spec=spec)

    async def write_status(self, disk: LocalDisk, status: LocalDiskStatus, *, locked: bool = True) -> LocalDisk:
        return self.change(disk, locked=locked, status=status)

    async def delete(self, disk: LocalDisk) -> None:
        if disk.key not in self.disks:
            return
        self.same(disk)
        del self.disks[disk.key]
        for handler in self._handlers:
            handler(disk, None)

    async def follow(self, handler: Handler[LocalDisk], *, synced: Callable[[], None]) -> None:
        for disk in self.disks.values():
            handler(None, disk)
        self._handlers.append(handler)
        try:
            synced()
            await asyncio.get_running_loop().create_future()
        finally:
            self._handlers.remove(handler)

    def keep(self, disk: LocalDisk) -> LocalDisk:
        """Write a record whoever has written it meanwhile, for tests."""
        self._version += 1
        new = structs.replace(disk, metadata=structs.replace(disk.metadata, resource_version=str(self._version)))
        old = self.disks.get(new.key)
        self.disks[new.key] = new
        for handler in self._handlers:
            handler(old, new)
        return new

    def same(self, read: LocalDisk, *, locked: bool = True) -> LocalDisk:
        """The record that was read as it is now; Conflict when it is another one, or with the lock has changed."""
        now = self.disks.get(read.key)
        if now is None:
            raise errors.NotFound(read.key)
        same_version = now.metadata.resource_version == read.metadata.resource_version
        if now.metadata.uid != read.metadata.uid or (locked and not same_version):
            raise errors.Conflict(read.key)
        return now

    def change(
        self,
        read: LocalDisk,
        *,
        locked: bool = True,
        spec: LocalDiskSpec | None = None,
        status: LocalDiskStatus | None = None,
    ) -> LocalDisk:
        if spec in (None, read.spec) and status in (None, read.status):
            return read
        now = self.same(read, locked=locked)
        new = structs.replace(now, spec=now.spec if spec is None else spec, status=status or now.status)
        self.check(now, new)
        return self.keep(new)

    def check(self, now: LocalDisk, new: LocalDisk) -> None:
        """Where a test says what must never be written."""
