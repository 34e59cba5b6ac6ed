"""LocalPools: what this node's pools have, written when it changes and not each time it is looked at."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from localpv import errors
from localpv.agent.pools.pool import Pool, PoolState
from localpv.agent.pools.pools import Pools
from localpv.agent.pools.reconciler import LONGEST_MESSAGE, Listers
from localpv.api.kinds.localdisk import size_text
from localpv.api.kinds.localpool import LocalPool, LocalPoolSpec, LocalPoolStatus, PoolCondition
from localpv.api.kinds.meta import ObjectMeta
from localpv.client.client import Client
from localpv.client.informer import Informer
from localpv.disk import labels
from localpv.disk.records.api import difference
from localpv.runtime.clock import Clock
from localpv.volume import pool_names

log = logging.getLogger(__name__)

LOOK_SECONDS = 60.0
"""How often a pool is looked at although nobody of us changed it: somebody may have, by hand."""

GATHER_SECONDS = 0.2
"""How long further changes are waited for before a pool is looked at: a burst of volumes is one look."""

FREE_STEP = 64
"""What is free, for people, is written when it differs by so small a part of the capacity; other figures at once."""

OnLook = Callable[[str, PoolState], None]


class Reporter:
    """Keeps the LocalPools of one node true. `run` it for as long as there are pools."""

    def __init__(
        self,
        *,
        node: str,
        pools: Pools,
        listers: Listers,
        local_pools: Informer[LocalPool],
        client: Client,
        clock: Clock,
        on_look: OnLook,
    ) -> None:
        self._node, self._pools, self._listers, self._clock = node, pools, listers, clock
        self._local_pools, self._objects, self._on_look = local_pools, client.objects(LocalPool), on_look
        self._due: set[str] = set()
        self._woken = asyncio.Event()

    def changed(self, pool: str) -> None:
        """Look at a pool soon."""
        self._due.add(pool)
        self._woken.set()

    def configured(self) -> None:
        """Look at all pools soon, and at those that are gone."""
        for pool in self._pools.list():
            self.changed(pool.name)
        for known in self._local_pools.list():
            self.changed(known.spec.pool_name)

    async def run(self) -> None:
        await self._local_pools.wait_synced()
        await self._listers.volumes.wait_synced()
        await self._listers.snapshots.wait_synced()
        self.configured()
        while True:
            timer = self._clock.call_later(LOOK_SECONDS, self.configured)
            try:
                await self._woken.wait()
                await self._clock.sleep(GATHER_SECONDS)
            finally:
                timer.cancel()
            self._woken.clear()
            due, self._due = self._due, set()
            # Each for itself: one that hangs must not keep the others from being told.
            await asyncio.gather(*(self._report(name) for name in sorted(due)))

    async def _report(self, name: str) -> None:
        try:
            pool = self._pools.get(name)
            if pool is None:
                await self._withdraw(name)
            else:
                await self._write(pool, await self._look(pool))
        except errors.LocalpvError as error:
            log.warning("pool not reported pool=%s reason=%s", name, error)
            self._clock.call_later(LOOK_SECONDS / 10, lambda: self.changed(name))

    async def _look(self, pool: Pool) -> LocalPoolStatus:
        ours = self._listers.names(pool.name)
        try:
            state = await pool.state()
        except (errors.HostError, OSError) as error:
            known = self._known(pool.name)
            before = known.status if known is not None else LocalPoolStatus()
            return msgspec.structs.replace(before, error=str(error)[:LONGEST_MESSAGE])
        self._on_look(pool.name, state)
        # One that came or went while it was looked has its PoolVolume at one of both moments.
        ours = {*ours, *self._listers.names(pool.name)}
        unknown = sum(volume.promised_bytes for name, volume in state.volumes.items() if name not in ours)
        return LocalPoolStatus(
            capacity_bytes=state.capacity_bytes,
            foreign_bytes=state.foreign_bytes + unknown,
            extent_bytes=state.extent_bytes,
            minimum_bytes=state.extent_bytes,
            free_bytes=state.free_bytes,
            size=size_text(state.capacity_bytes),
            free=size_text(state.free_bytes),
            data_percent=round(state.data_percent or 0),
            metadata_percent=round(state.metadata_percent or 0),
            snapshots=pool.snapshots,
            error=state.error[:LONGEST_MESSAGE],
            conditions=_conditions(state),
        )

    async def _write(self, pool: Pool, status: LocalPoolStatus) -> None:
        spec = LocalPoolSpec(
            node_name=self._node,
            pool_name=pool.name,
            kind=pool.kind,
            class_names=self._pools.classes_of(pool.name),
        )
        known = self._known(pool.name)
        if known is None:
            name = pool_names.local_pool_name(self._node, pool.name)
            meta = ObjectMeta(name=name, labels={labels.NODE: labels.node_label(self._node)})
            known = self._local_pools.wrote(await self._objects.create(LocalPool(metadata=meta, spec=spec)))
        elif known.spec != spec:
            patch = difference(known.spec, spec)
            known = self._local_pools.wrote(await self._objects.patch(known.metadata.name, {"spec": patch}))
        if not _differs(known.status, status):
            return
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        status = msgspec.structs.replace(status, observed_at=now)
        body = {"status": difference(known.status, status)}
        self._local_pools.wrote(await self._objects.patch(known.metadata.name, body, subresource="status"))

    async def _withdraw(self, name: str) -> None:
        """A pool that no class names offers nothing; its object goes with the last volume."""
        known = self._known(name)
        if known is None:
            return
        if not self._listers.names(name):
            if await self._objects.delete(known.metadata.name, uid=known.metadata.uid) is None:
                self._local_pools.deleted(known)
            return
        error = "no class of this node names the pool any more"
        if known.status.error != error:
            body = {"status": {"error": error}}
            self._local_pools.wrote(await self._objects.patch(known.metadata.name, body, subresource="status"))

    def _known(self, pool: str) -> LocalPool | None:
        found = self._local_pools.get(pool_names.local_pool_name(self._node, pool))
        return found if found is not None and found.spec.node_name == self._node else None


def _conditions(state: PoolState) -> tuple[PoolCondition, ...]:
    if not state.warning:
        return ()
    message = state.warning[:LONGEST_MESSAGE]
    return (PoolCondition(type="Complete", status="False", reason="DeviceMissing", message=message),)


def _differs(old: LocalPoolStatus, new: LocalPoolStatus) -> bool:
    if old.observed_at is None:
        return True
    same = msgspec.structs.replace(new, observed_at=old.observed_at, free_bytes=old.free_bytes, free=old.free)
    return same != old or abs(new.free_bytes - old.free_bytes) * FREE_STEP > new.capacity_bytes
