"""Volumes and snapshots of all pools, by the ids that callers know them by."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from localpv import errors
from localpv.agent.pools.pool import Pool, PoolState, VolumeState
from localpv.csi.codec import Message
from localpv.csi.status import Code, RpcError
from localpv.volume import pool_names

log = logging.getLogger(__name__)


class Pools(Protocol):
    """The pools of this node."""

    def get(self, name: str) -> Pool | None: ...

    def list(self) -> Sequence[Pool]: ...


@dataclass(frozen=True, slots=True)
class Known:
    """A volume or snapshot that is there."""

    pool: Pool
    state: VolumeState

    @property
    def id(self) -> str:
        return pool_names.handle(self.pool.name, self.state.name)

    @property
    def source_id(self) -> str:
        return pool_names.handle(self.pool.name, self.state.source) if self.state.source else ""


def locate(pools: Pools, volume_id: str) -> tuple[Pool, str] | None:
    """Pool and name that an id means; None when it can be none of ours."""
    parts = pool_names.read_handle(volume_id)
    pool = pools.get(parts[0]) if parts is not None else None
    return (pool, parts[1]) if parts is not None and pool is not None else None


async def find(pools: Pools, volume_id: str, *, snapshot: bool = False) -> Known | None:
    """What an id means, if it is there and not going."""
    located = locate(pools, volume_id)
    if located is None:
        return None
    pool, name = located
    state = (await pool.state()).volumes.get(name)
    return Known(pool, state) if state is not None and state.is_snapshot == snapshot and not state.going else None


async def must_find(pools: Pools, volume_id: str, *, snapshot: bool = False) -> Known:
    found = await find(pools, volume_id, snapshot=snapshot)
    if found is None:
        raise RpcError(Code.NOT_FOUND, f"there is no {'snapshot' if snapshot else 'volume'} {volume_id[:200]}")
    return found


async def every(pools: Pools, *, snapshots: bool, only_ready: bool = True) -> dict[str, Known]:
    """All that are there, by id, in order; those that are half made or broken when they are asked for."""
    found = {}
    for pool in pools.list():
        for state in (await pool.state()).volumes.values():
            if state.is_snapshot == snapshots and (state.ready or not only_ready):
                found[pool_names.handle(pool.name, state.name)] = Known(pool, state)
    return dict(sorted(found.items()))


async def states(pools: Sequence[Pool]) -> Mapping[str, PoolState]:
    """Of those that answer: one that hangs keeps nobody from the others."""
    found = {}
    for pool in pools:
        try:
            found[pool.name] = await pool.state()
        except errors.HostError as error:
            log.warning("pool does not answer name=%s error=%s", pool.name, error.message)
    return found


def volume_name(wanted: str) -> str:
    """The name in its pool of a volume that a caller wants to have. A caller may choose any text."""
    return _name(wanted, pool_names.VOLUME_PREFIX, "csi-volume-")


def snapshot_name(wanted: str) -> str:
    """The same of a snapshot; one of the name of a volume is something else."""
    return _name(wanted, pool_names.SNAPSHOT_PREFIX, "csi-snapshot-")


def _name(wanted: str, usual: str, prefix: str) -> str:
    if wanted.startswith(usual) and pool_names.is_volume(wanted):
        return wanted
    return prefix + hashlib.sha256(wanted.encode()).hexdigest()[:32]


def condition(abnormal: str) -> Message:
    """Whether a volume is well, in a sentence either way: as CSI 1.12 and before have it, and kubelets read it."""
    return {"abnormal": bool(abnormal), "message": abnormal or "healthy"}


def health(known: Known, abnormal: str) -> Message:
    """The same as CSI 1.13 has it."""
    status = "DEGRADED" if known.state.ready else "INACCESSIBLE"
    problems = [{"status": status, "reason": "Abnormal", "message": abnormal}] if abnormal else []
    return {"volume_id": known.id, "health_statuses": problems}
