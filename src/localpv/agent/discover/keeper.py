"""The LocalDisks of this node: followed, made, brought in step. What the manager writes is never touched."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

import msgspec

from localpv import errors
from localpv.agent.discover import remains
from localpv.agent.discover.entry import Place
from localpv.agent.discover.identities import Index
from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec, LocalDiskStatus, Phase
from localpv.api.kinds.meta import ObjectMeta
from localpv.disk.records import Records
from localpv.disk.records.names import disk_name

log = logging.getLogger(__name__)

OnChange = Callable[[Place, LocalDisk | None, LocalDisk | None], None]
"""Is told a place and its record as it was and as it is."""


class Keeper:
    """The records of one node, by place."""

    def __init__(self, *, node: str, records: Records, on_change: OnChange) -> None:
        self._node = node
        self._store = records
        self._on_change = on_change
        self._records: dict[Place, LocalDisk] = {}
        self._writing: dict[Place, list[str]] = {}
        """By place of a record that is being written, the versions of it that were told meanwhile."""

        self.index = Index()
        self.synced = asyncio.Event()
        """Set once every record that existed is known."""

    @property
    def records(self) -> Mapping[Place, LocalDisk]:
        return MappingProxyType(self._records)

    async def follow(self) -> None:
        await self._store.follow(self._told, synced=self.synced.set)

    def _told(self, old: LocalDisk | None, new: LocalDisk | None) -> None:
        if new is not None:
            self._changed(new)
        elif old is not None:
            self._deleted(old)

    def _changed(self, record: LocalDisk) -> None:
        place = Place(record.spec.storage_class_name, record.spec.entry)
        if record.metadata.name != disk_name(self._node, *place):
            return  # another node's, or made by hand under a name of its own: neither is ours to write
        known = self._records.get(place)
        if known is not None and known.metadata.resource_version == record.metadata.resource_version:
            return  # our own write comes back
        self._put(place, record)
        if (told := self._writing.get(place)) is not None:
            told.append(record.metadata.resource_version)  # our own write, or the server refuses that one
        else:
            self._on_change(place, known, record)

    def _deleted(self, record: LocalDisk) -> None:
        place = Place(record.spec.storage_class_name, record.spec.entry)
        known = self._records.get(place)
        if known is not None and known.metadata.uid == record.metadata.uid:
            self._put(place, None)
            self._on_change(place, known, None)

    async def ensure(self, place: Place, spec: LocalDiskSpec) -> LocalDisk | None:
        """The record of an entry, made or brought in step with its class; None when its name is somebody else's."""
        record = self._records.get(place)
        if record is None:
            return await self._create(place, spec)
        ours = msgspec.structs.replace(record.spec, path=spec.path, volume_mode=spec.volume_mode, fs_type=spec.fs_type)
        if ours == record.spec or remains.taken(record):
            return record
        if record.status.eligible:
            # It was found fit as what it was before; a manager must not offer it as what nobody has judged yet.
            moved = msgspec.structs.replace(
                record.status,
                eligible=False,
                phase=Phase.UNAVAILABLE.value,
                reason="Moved",
                message=f"It is judged anew as {ours.path}.",
            )
            record = await self._remember(place, self._store.write_status(record, moved))
        return await self._remember(place, self._store.write_spec(record, ours))

    async def _create(self, place: Place, spec: LocalDiskSpec) -> LocalDisk | None:
        name = disk_name(self._node, *place)
        try:
            # If this fails nothing is remembered, and the next try begins here again.
            new = LocalDisk(metadata=ObjectMeta(name=name), spec=spec)
            record: LocalDisk | None = await self._remember(place, self._store.create(new))
        except errors.AlreadyExists:
            record = await self._store.get(name)
        if record is None:
            raise errors.Conflict(f"LocalDisk {name} came and went")
        found = record.spec
        if (found.node_name, found.storage_class_name, found.entry) != (self._node, *place):
            log.error("name of the record is taken disk=%s class=%s entry=%r", name, *place)
            return None
        if place not in self._records:
            self._put(place, record)
        return record

    async def write(self, place: Place, record: LocalDisk, status: LocalDiskStatus) -> None:
        """Bring the status in step; Conflict when somebody else has written since the record was read."""
        if status == record.status:
            return
        await self._remember(place, self._store.write_status(record, status))
        if status.phase != record.status.phase:
            words = (*place, record.metadata.name, status.phase, status.reason)
            log.info("disk class=%s entry=%r disk=%s phase=%s reason=%s", *words)

    async def delete(self, place: Place, record: LocalDisk) -> None:
        """Delete a record as it was read: if the manager has given the disk to a volume meanwhile, it stays."""
        try:
            await self._store.delete(record)
        except errors.Conflict:
            await self._read_again(place)
            raise
        if self._records.get(place) is record:
            self._put(place, None)
            self._on_change(place, record, None)
        log.info("record deleted class=%s entry=%r disk=%s", *place, record.metadata.name)

    async def _remember(self, place: Place, writing: Awaitable[LocalDisk]) -> LocalDisk:
        """Write; that the record is then as it was written is no news to us, what others made of it next is."""
        before = self._records.get(place)
        told = self._writing[place] = []
        try:
            written = await writing
        except (errors.Conflict, errors.NotFound):
            await self._read_again(place)
            self._tell_since(place, before)
            raise
        except errors.LocalpvError:
            self._tell_since(place, before)
            raise
        finally:
            del self._writing[place]
        if not told:
            self._put(place, written)
        elif told[-1] != written.metadata.resource_version:
            # Others wrote on top of it, and their answer may have come before ours.
            self._on_change(place, written, self._records.get(place))
        return written

    def _tell_since(self, place: Place, before: LocalDisk | None) -> None:
        """What others made of a record while a write of ours was under way, which was refused: that a disk was given
        back, say, and must be looked at anew."""
        now = self._records.get(place)
        if _version(now) != _version(before):
            self._on_change(place, before, now)

    async def _read_again(self, place: Place) -> None:
        self._put(place, await self._store.get(disk_name(self._node, *place)))

    def _put(self, place: Place, record: LocalDisk | None) -> None:
        self.index.put(place, record)
        if record is None:
            self._records.pop(place, None)
        else:
            self._records[place] = record


def _version(record: LocalDisk | None) -> tuple[str, str] | None:
    return None if record is None else (record.metadata.uid, record.metadata.resource_version)
