"""Which pool a volume is carved out of: of the node that the scheduler chose, or of the one with most room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localdisk import size_text
from localpv.api.kinds.localpool import LocalPool
from localpv.api.kinds.volumes import StorageClass
from localpv.manager.provision.assume_cache import AssumeCache
from localpv.volume import fit, pool_ledger
from localpv.volume.pool_ledger import PoolLedger

MOST_NAMED = 5
"""Nodes that an event names with what they lack."""


@dataclass(frozen=True, slots=True)
class NoPlace:
    """There is no pool with room, and why, for people."""

    why: str


def choose(
    storage_class: StorageClass,
    size_bytes: int,
    *,
    ledger: PoolLedger,
    node_of: Callable[[str], Node | None],
    selected: str = "",
    assumed: AssumeCache,
    pool_name: str = "",
    only: LocalPool | None = None,
) -> LocalPool | NoPlace:
    """The pool; with `selected` of that node, with `only` none but that one. `assumed` are bytes on their way."""
    if selected and node_of(selected) is None:
        return NoPlace(f"node {selected} does not exist")
    pools = [pool for pool in ledger.of_class(storage_class.key) if pool_name in ("", pool.spec.pool_name)]
    if selected:
        pools = [pool for pool in pools if pool.spec.node_name == selected]
        if not pools:
            return NoPlace(f"node {selected} has no pool of class {storage_class.key}")
    else:
        pools = [pool for pool in pools if _allowed(storage_class, node_of(pool.spec.node_name))]
    if only is not None:
        pools = [pool for pool in pools if pool.key == only.key]
        if not pools:
            return NoPlace(
                f"what it is filled from is in pool {only.spec.pool_name} of node {only.spec.node_name}, and a copy can"
                " be made only there"
            )
    if not pools:
        return NoPlace(f"no node that the class allows has a pool of class {storage_class.key}")
    lacking: list[str] = []
    found: list[tuple[int, str, LocalPool]] = []
    for pool in pools:
        on_its_way = assumed.in_pool(pool_ledger.key_of(pool))
        if why := ledger.lacking(pool, size_bytes, also=on_its_way):
            lacking.append(f"node {pool.spec.node_name}: {why}")
        else:
            found.append((ledger.free(pool) - on_its_way, pool.key, pool))
    if not found:
        return NoPlace(f"no room for a volume of {size_text(size_bytes)}: {_listed(lacking)}")
    return max(found)[2]


def _allowed(storage_class: StorageClass, node: Node | None) -> bool:
    """A node that is not there has no pods either."""
    return node is not None and fit.class_allows(storage_class, node)


def _listed(lacking: list[str]) -> str:
    more = f"; and {len(lacking) - MOST_NAMED} more nodes" if len(lacking) > MOST_NAMED else ""
    return "; ".join(lacking[:MOST_NAMED]) + more
