"""LocalDisks at an API server.

Agent and manager each come with a client of their own, whose name stands in managedFields beside the fields it wrote.
All that follow the records of one `ApiRecords` share a watch, and see at once what any of them has written through it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from localpv import errors
from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec, LocalDiskStatus
from localpv.api.kinds.meta import Part
from localpv.api.patch import merge_patch
from localpv.client.client import Client
from localpv.client.informer import Handler, SharedInformer
from localpv.client.objects import EVERYTHING, Selection
from localpv.runtime.clock import Clock, SystemClock

UNLOCKED_TRIES = 5
"""How often a write that needs no lock goes round others; a record has only two writers."""


class ApiRecords:
    """The LocalDisks of one node, or, without a node, of all. Other nodes' records are not even read."""

    def __init__(self, client: Client, *, node: str = "", clock: Clock | None = None) -> None:
        self._objects = client.objects(LocalDisk)
        self._selection = Selection(fields=f"spec.nodeName={node}") if node else EVERYTHING
        self._informer = SharedInformer(self._objects, clock=clock or SystemClock(), selection=self._selection)

    async def get(self, name: str) -> LocalDisk | None:
        return await self._objects.find(name)

    async def list(self) -> Sequence[LocalDisk]:
        return (await self._objects.list(self._selection)).items

    async def create(self, disk: LocalDisk) -> LocalDisk:
        bare = msgspec.structs.replace(disk, status=LocalDiskStatus())
        return self._informer.wrote(await self._objects.create(bare))

    async def write_spec(self, disk: LocalDisk, spec: LocalDiskSpec) -> LocalDisk:
        return await self._write(disk, "spec", difference(disk.spec, spec))

    async def write_status(self, disk: LocalDisk, status: LocalDiskStatus, *, locked: bool = True) -> LocalDisk:
        patch = difference(disk.status, status)
        return await self._write(disk, "status", patch, subresource="status", locked=locked)

    async def delete(self, disk: LocalDisk) -> None:
        meta = disk.metadata
        left = None
        with contextlib.suppress(errors.NotFound):
            left = await self._objects.delete(meta.name, uid=meta.uid, resource_version=meta.resource_version)
        if left is None:
            self._informer.deleted(disk)
        else:
            self._informer.wrote(left)

    async def follow(self, handler: Handler[LocalDisk], *, synced: Callable[[], None]) -> None:
        async with self._informer.following() as running:
            self._informer.add_event_handler(handler)
            try:
                await _first(running, self._informer.wait_synced())
                synced()
                await asyncio.shield(running)
            finally:
                self._informer.remove_event_handler(handler)

    async def _write(
        self, disk: LocalDisk, part: str, patch: dict[str, Any], *, subresource: str = "", locked: bool = True
    ) -> LocalDisk:
        if not patch:
            return disk
        name, version = disk.metadata.name, disk.metadata.resource_version
        for tries_left in reversed(range(1 if locked else UNLOCKED_TRIES)):
            body = {"metadata": {"resourceVersion": version}, part: patch}
            try:
                return self._informer.wrote(await self._objects.patch(name, body, subresource=subresource))
            except errors.Conflict:
                if not tries_left:
                    raise
                # A status has no other guard against being written onto a successor with the same name.
                found = await self._objects.get(name)
                if found.metadata.uid != disk.metadata.uid:
                    raise
                version = found.metadata.resource_version
        raise AssertionError("the last try returns or raises")


async def _first(running: asyncio.Task[None], wanted: Coroutine[Any, Any, None]) -> None:
    """Wait for something while a task runs; if that fails first, so does this."""
    waiting = asyncio.ensure_future(wanted)
    try:
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        waiting.cancel()


def difference(old: Part, new: Part) -> dict[str, Any]:
    """The merge patch that makes the one out of the other; empty when they are equal."""
    return merge_patch.diff(msgspec.to_builtins(old), msgspec.to_builtins(new))
