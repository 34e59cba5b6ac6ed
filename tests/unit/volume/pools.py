"""Pools, and what is carved out of them, as tests want them."""

from __future__ import annotations

from localpv.api.kinds.localpool import (
    LocalPool,
    LocalPoolSpec,
    LocalPoolStatus,
    PoolClaim,
    PoolSnapshot,
    PoolSnapshotSpec,
    PoolSnapshotStatus,
    PoolVolume,
    PoolVolumeSpec,
    PoolVolumeStatus,
)
from localpv.api.kinds.meta import ObjectMeta
from localpv.volume import pool_names

MI = 1 << 20
GI = 1 << 30
NOW = "2030-01-01T00:00:00Z"
CLAIM = PoolClaim(namespace="shop", name="data", uid="7e57")


def pool(
    node: str = "node-1", name: str = "fast", *, classes: tuple[str, ...] = ("fast",), **status: object
) -> LocalPool:
    measured = {"capacity_bytes": 100 * GI, "extent_bytes": MI, "minimum_bytes": MI, "observed_at": NOW} | status
    return LocalPool(
        metadata=ObjectMeta(name=pool_names.local_pool_name(node, name)),
        spec=LocalPoolSpec(node_name=node, pool_name=name, kind="file", class_names=classes),
        status=LocalPoolStatus(**measured),  # type: ignore[arg-type]
    )


def volume(
    name: str, size: int, *, node: str = "node-1", pool_name: str = "fast", phase: str = "", real: int = 0
) -> PoolVolume:
    return PoolVolume(
        metadata=ObjectMeta(name=name),
        spec=PoolVolumeSpec(node_name=node, pool_name=pool_name, class_name="fast", size_bytes=size, claim=CLAIM),
        status=PoolVolumeStatus(phase=phase, size_bytes=real),
    )


def snapshot(name: str, size: int, *, node: str = "node-1", pool_name: str = "fast", real: int = 0) -> PoolSnapshot:
    return PoolSnapshot(
        metadata=ObjectMeta(name=name),
        spec=PoolSnapshotSpec(
            node_name=node, pool_name=pool_name, source_volume="pvc-1", size_bytes=size, snapshot=CLAIM
        ),
        status=PoolSnapshotStatus(size_bytes=real),
    )
