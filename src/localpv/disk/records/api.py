"""LocalDisks at an API server.

Agent and manager each come with a client of their own, whose name stands in managedFields beside the fields it wrote.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from localpv import errors
from localpv.api.kinds import Part
from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec, LocalDiskStatus
from localpv.api.patch import merge_patch
from localpv.client.cache import Cache
from localpv.client.client import Client
from localpv.client.objects import EVERYTHING, Selection
from localpv.disk.records.feed import Feed
from localpv.disk.records.protocol import Event
from localpv.runtime.clock import Clock, SystemClock

UNLOCKED_TRIES = 5
"""How often a write that needs no lock goes round others; a record has only two writers."""


class ApiRecords:
    """The LocalDisks of one node, or, without a node, of all. Other nodes' records are not even read."""

    def __init__(self, client: Client, *, node: str = "", clock: Clock | None = None) -> None:
        self._objects = client.objects(LocalDisk)
        self._selection = Selection(fields=f"spec.nodeName={node}") if node else EVERYTHING
        self._clock = clock or SystemClock()

    async def get(self, name: str) -> LocalDisk | None:
        return await self._objects.find(name)

    async def list(self) -> Sequence[LocalDisk]:
        return (await self._objects.list(self._selection)).items

    async def create(self, disk: LocalDisk) -> LocalDisk:
        return await self._objects.create(msgspec.structs.replace(disk, status=LocalDiskStatus()))

    async def write_spec(self, disk: LocalDisk, spec: LocalDiskSpec) -> LocalDisk:
        return await self._write(disk, "spec", difference(disk.spec, spec))

    async def write_status(self, disk: LocalDisk, status: LocalDiskStatus, *, locked: bool = True) -> LocalDisk:
        patch = difference(disk.status, status)
        return await self._write(disk, "status", patch, subresource="status", locked=locked)

    async def delete(self, disk: LocalDisk) -> None:
        meta = disk.metadata
        with contextlib.suppress(errors.NotFound):
            await self._objects.delete(meta.name, uid=meta.uid, resource_version=meta.resource_version)

    async def watch(self) -> AsyncGenerator[Event, None]:
        feed = Feed()
        cache = Cache(self._objects, clock=self._clock, selection=self._selection)
        cache.on_change(feed.tell)
        async with aclosing(feed.events()) as events, _following(cache, feed):
            async for event in events:
                yield event

    async def _write(
        self, disk: LocalDisk, part: str, patch: dict[str, Any], *, subresource: str = "", locked: bool = True
    ) -> LocalDisk:
        if not patch:
            return disk
        name, version = disk.metadata.name, disk.metadata.resource_version
        for tries_left in reversed(range(1 if locked else UNLOCKED_TRIES)):
            body = {"metadata": {"resourceVersion": version}, part: patch}
            try:
                return await self._objects.patch(name, body, subresource=subresource)
            except errors.Conflict:
                if not tries_left:
                    raise
                # A status has no other guard against being written onto a successor with the same name.
                found = await self._objects.get(name)
                if found.metadata.uid != disk.metadata.uid:
                    raise
                version = found.metadata.resource_version
        raise AssertionError("the last try returns or raises")


@contextlib.asynccontextmanager
async def _following(cache: Cache[LocalDisk], feed: Feed) -> AsyncGenerator[None, None]:
    """Keep the cache running for the time of the with-block."""

    async def follow() -> None:
        try:
            await cache.run()
        except Exception as error:
            feed.fail(error)

    async def tell_synced() -> None:
        await cache.wait_synced()
        feed.synced(cache.resource_version)

    tasks = [asyncio.create_task(follow()), asyncio.create_task(tell_synced())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def difference(old: Part, new: Part) -> dict[str, Any]:
    """The merge patch that makes the one out of the other; empty when they are equal."""
    return merge_patch.diff(msgspec.to_builtins(old), msgspec.to_builtins(new))
