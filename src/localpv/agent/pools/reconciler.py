"""What PoolVolumes and PoolSnapshots of this node ask for is made, grown and removed.

Each step reads the object and the pool as they are now. Two things must never be taken for each other:

- a volume that is not there because it has not been made, which is made;
- a volume that was Ready and is not there, because its disk is missing or somebody removed it, which is told and never
  made anew: the pod would find an empty volume where its data was.

So Ready is written only when the volume is there, and Deleting before anything of it goes. That a volume is being made
needs no status before: the pool itself remembers it, and whoever looks for one of that name finds it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec

from localpv import errors
from localpv.agent.pools import codes
from localpv.agent.pools.pool import Pool, VolumeState
from localpv.agent.pools.pools import Pools
from localpv.api.kinds.localpool import PoolPhase, PoolSnapshot, PoolSnapshotStatus, PoolVolume, PoolVolumeStatus
from localpv.api.kinds.localpool import Progress as ToldProgress
from localpv.client.client import Client
from localpv.client.informer import Informer
from localpv.csi.status import Code
from localpv.disk import labels
from localpv.disk.records.api import difference
from localpv.host.model import methods
from localpv.host.model.methods import Method, Progress
from localpv.host.workers import Report
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome

log = logging.getLogger(__name__)

T = TypeVar("T")

PROGRESS_SECONDS = 2.0
"""How often progress of a copy or a wipe is written."""

BUSY_SECONDS = 1.0
"""How soon what is still in use is looked at again: the kubelet has just unmounted it, or is about to."""

FINAL_SECONDS = 30.0
"""How soon what cannot be made is tried again: somebody may make its source, or move away what is in its place."""

NO_POOL_SECONDS = 60.0
LONGEST_MESSAGE = 1024


class Sort(StrEnum):
    VOLUME = "volume"
    SNAPSHOT = "snapshot"


class Key(NamedTuple):
    sort: Sort
    name: str


Item = PoolVolume | PoolSnapshot
Status = PoolVolumeStatus | PoolSnapshotStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Listers:
    """The objects of this node."""

    volumes: Informer[PoolVolume]
    snapshots: Informer[PoolSnapshot]

    def get(self, key: Key) -> Item | None:
        return self.volumes.get(key.name) if key.sort is Sort.VOLUME else self.snapshots.get(key.name)

    def names(self, pool: str) -> set[str]:
        """Names of all volumes and snapshots that a pool has or is to have."""
        items: list[Item] = [*self.volumes.list(), *self.snapshots.list()]
        return {item.metadata.name for item in items if item.spec.pool_name == pool}


class Reconciler:
    """Takes one PoolVolume or PoolSnapshot a step further."""

    def __init__(
        self,
        *,
        node: str,
        pools: Pools,
        listers: Listers,
        client: Client,
        clock: Clock,
        changed: Callable[[str], None],
    ) -> None:
        """`changed` is told the name of a pool that was written to."""
        self._node, self._pools, self._listers, self._clock, self._changed = node, pools, listers, clock, changed
        self._volumes, self._snapshots = client.objects(PoolVolume), client.objects(PoolSnapshot)

    async def step(self, key: Key) -> Outcome:
        item = self._listers.get(key)
        if item is None or item.spec.node_name != self._node:
            return Done()
        if item.metadata.deleting and labels.POOL_VOLUME not in item.metadata.finalizers:
            return Done()
        if item.metadata.deleting and labels.PROTECTED in item.metadata.finalizers:
            return Done()  # whoever has deleted it: as long as the manager needs the bytes, nothing of them goes
        pool = self._pools.get(item.spec.pool_name)
        if pool is None:
            why = f"no class of this node has a pool {item.spec.pool_name}"
            await self._say(item, code=Code.UNAVAILABLE, message=why)
            return LookAgain(after=NO_POOL_SECONDS)
        try:
            if item.metadata.deleting:
                return await self._remove(item, pool)
            if item.status.phase == PoolPhase.READY or item.status.code == Code.DATA_LOSS.name:
                return await self._keep(item, pool)
            if item.status.code == Code.RESOURCE_EXHAUSTED.name and _is_observed(item):
                return Done()  # whoever asked must ask elsewhere
            return await self._make(item, pool)
        except errors.HostError as error:
            return await self._failed(key, error)

    async def _make(self, item: Item, pool: Pool) -> Outcome:
        name = item.metadata.name
        if isinstance(item, PoolSnapshot):
            made = await pool.snapshot(name, item.spec.source_volume)
        else:
            source = item.spec.source
            origin = (source.volume or source.snapshot) if source is not None else ""
            if origin:
                item = await self._write(item, phase=PoolPhase.PENDING)

            async def create(report: Report) -> VolumeState:
                return await pool.create(name, item.spec.size_bytes, source=origin, progress=report)

            try:
                made = await self._told(item, create)
            except errors.AlreadyThere:
                # One that was made smaller, and is to be larger since before that was told.
                found = (await pool.state()).volumes.get(name)
                if found is None or not found.ready or found.is_snapshot or found.source != origin:
                    raise
                made = await pool.expand(name, item.spec.size_bytes)
        await self._made(item, made)
        self._changed(pool.name)
        return Done()

    async def _keep(self, item: Item, pool: Pool) -> Outcome:
        """A volume that was Ready: it is there, as large as is asked for now, or it is said that it is not."""
        if isinstance(item, PoolVolume) and item.spec.size_bytes > item.status.size_bytes:
            if item.status.code == Code.RESOURCE_EXHAUSTED.name and _is_observed(item):
                return Done()
            await self._made(item, await pool.expand(item.metadata.name, item.spec.size_bytes))
            self._changed(pool.name)
            return Done()
        found = (await pool.state()).volumes.get(item.metadata.name)
        if found is None or not found.ready:
            why = f"it is not in pool {pool.name} any more: its disk is missing, or somebody removed it"
            said = found.abnormal if found is not None and found.abnormal else why
            await self._write(item, phase=PoolPhase.FAILED, code=Code.DATA_LOSS, message=said)
        else:
            await self._made(item, found)
        return Done()

    async def _made(self, item: Item, found: VolumeState) -> None:
        if isinstance(item, PoolSnapshot):
            await self._write(
                item,
                phase=PoolPhase.READY,
                message=found.abnormal,
                size_bytes=found.promised_bytes,
                restore_bytes=found.size_bytes,
                created_at=found.created or None,
            )
        else:
            await self._write(item, phase=PoolPhase.READY, message=found.abnormal, size_bytes=found.size_bytes)

    async def _remove(self, item: Item, pool: Pool) -> Outcome:
        name = item.metadata.name
        if item.status.phase != PoolPhase.DELETING:
            item = await self._write(item, phase=PoolPhase.DELETING)

        async def remove(report: Report) -> None:
            await pool.remove(name, method=wipe_method(item.spec.wipe_method), progress=report)

        await self._told(item, remove)
        await self._let_go(Key(_sort(item), name))
        self._changed(pool.name)
        log.info("removed from pool pool=%s volume=%s", pool.name, name)
        return Done()

    async def _let_go(self, key: Key) -> None:
        """Take the finalizer off an object whose bytes are gone."""
        item = self._listers.get(key)
        if item is None:
            return
        left = [each for each in item.metadata.finalizers if each != labels.POOL_VOLUME]
        body = {"metadata": {"resourceVersion": item.metadata.resource_version, "finalizers": left}}
        with contextlib.suppress(errors.NotFound):
            if isinstance(item, PoolVolume):
                volume = await self._volumes.patch(key.name, body)
                (self._listers.volumes.deleted if not left else self._listers.volumes.wrote)(volume)
            else:
                snapshot = await self._snapshots.patch(key.name, body)
                (self._listers.snapshots.deleted if not left else self._listers.snapshots.wrote)(snapshot)

    async def _failed(self, key: Key, error: errors.HostError) -> Outcome:
        item = self._listers.get(key)
        if item is None:
            return Done()
        code = codes.code_of(error)
        final = code in codes.FINAL and not item.metadata.deleting
        was_ready = item.status.phase == PoolPhase.READY
        phase = PoolPhase.FAILED if final and not was_ready else item.status.phase or PoolPhase.PENDING
        await self._write(item, phase=phase, code=code, message=str(error))
        if final:
            self._changed(item.spec.pool_name)
            return Done() if code is Code.RESOURCE_EXHAUSTED else LookAgain(after=FINAL_SECONDS)
        if isinstance(error, errors.DeviceBusy):
            return LookAgain(after=BUSY_SECONDS)
        raise error  # tried again, later each time

    async def _told(self, item: Item, act: Callable[[Report], Awaitable[T]]) -> T:
        """Do something that can take long, and write now and then how far it is."""
        latest: list[Progress] = []

        async def run() -> T:
            return await act(latest.append)

        acting = asyncio.ensure_future(run())
        try:
            while True:
                tick = asyncio.ensure_future(self._clock.sleep(PROGRESS_SECONDS))
                await asyncio.wait({acting, tick}, return_when=asyncio.FIRST_COMPLETED)
                tick.cancel()
                if acting.done():
                    return acting.result()
                if latest:
                    now, latest[:] = latest[-1], []
                    # For people: a server that is away must not stop the act.
                    with contextlib.suppress(errors.LocalpvError):
                        item = await self._write(
                            self._listers.get(Key(_sort(item), item.metadata.name)) or item,
                            progress=ToldProgress(bytes_done=now.done, bytes_total=now.total),
                        )
        finally:
            if not acting.done():
                acting.cancel()
                await asyncio.wait({acting})

    async def _say(self, item: Item, *, code: Code, message: str) -> None:
        if item.status.message != message:
            await self._write(item, phase=item.status.phase or PoolPhase.PENDING, code=code, message=message)

    async def _write(
        self,
        item: Item,
        *,
        phase: str | None = None,
        code: Code | None = None,
        message: str = "",
        progress: ToldProgress | None = None,
        **fields: int | str | None,
    ) -> Item:
        """Write the status; what is not said of code, message and progress is as if it had never been."""
        status = msgspec.structs.replace(
            item.status,
            phase=item.status.phase if phase is None else str(phase),
            code=code.name if code is not None else "",
            message=message[:LONGEST_MESSAGE],
            progress=progress,
            observed_generation=item.metadata.generation,
            **fields,
        )
        patch = difference(item.status, status)
        if not patch:
            return item
        body = {"metadata": {"resourceVersion": item.metadata.resource_version}, "status": patch}
        if isinstance(item, PoolVolume):
            volume = await self._volumes.patch(item.metadata.name, body, subresource="status")
            return self._listers.volumes.wrote(volume)
        snapshot = await self._snapshots.patch(item.metadata.name, body, subresource="status")
        return self._listers.snapshots.wrote(snapshot)


def wipe_method(words: tuple[str, ...]) -> Method:
    """How a volume is wiped: what its class says, if after that all of it is zero; else the quickest way to that.

    Free space of a pool is given to others as it is, raw or not, so a method that leaves old bytes is none here; and
    who may write PoolVolumes is not by that allowed to run commands as root.
    """
    try:
        found = methods.parse(_SAME.get(words[0], words[0]).split() + list(words[1:])) if words else methods.ZeroOut()
    except ValueError:
        return methods.ZeroOut()
    return found if isinstance(found, methods.Zero | methods.Shred | methods.Discard) else methods.ZeroOut()


_SAME = {"dd-zero": "zero", "blkdiscard": "discard"}


def _sort(item: Item) -> Sort:
    return Sort.VOLUME if isinstance(item, PoolVolume) else Sort.SNAPSHOT


def _is_observed(item: Item) -> bool:
    return item.status.observed_generation == item.metadata.generation
