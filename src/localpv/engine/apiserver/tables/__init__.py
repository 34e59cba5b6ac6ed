"""Tables for people: the columns that kubectl shows for each kind, and what stands in them."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

from localpv.api.objects import Object
from localpv.engine.apiserver.registry import Kind
from localpv.engine.apiserver.tables import cluster, custom, pods, volumes, workloads
from localpv.engine.apiserver.tables.layout import PLAIN, Layout

LAYOUTS: dict[tuple[str, str], Layout] = {
    **cluster.LAYOUTS,
    **pods.LAYOUTS,
    **volumes.LAYOUTS,
    **workloads.LAYOUTS,
}
"""Tables of the built-in kinds, by group and kind."""


def columns(kind: Kind) -> list[Object]:
    """Column definitions of a kind."""
    return _layout(kind).columns


def cells(kind: Kind, obj: Object, *, now: float | None = None) -> list[Any]:
    """The values of one row, one for each column; ages are those at `now`, in seconds since the epoch."""
    return _layout(kind).cells(obj, time.time() if now is None else now)


def conditions(kind: Kind, obj: Object) -> list[Object]:
    """What a row says about the state of its object beyond the cells; for most kinds nothing."""
    return pods.conditions(obj) if kind.resource.kind == "Pod" and not kind.resource.group else []


def _layout(kind: Kind) -> Layout:
    if kind.version_spec is not None:
        return _custom(kind)
    found = LAYOUTS.get((kind.resource.group, kind.resource.kind))
    return _stored(kind.resource.kind) if found is None else found


def _stored(kind: str) -> Layout:
    from localpv.engine.apiserver.tables import stored

    return stored.LAYOUTS.get(kind, PLAIN)


@lru_cache(maxsize=64)
def _custom(kind: Kind) -> Layout:
    # A changed definition makes new kinds, so the kind itself is the key; a few old ones stay until pushed out.
    return custom.layout(kind.version_spec or {})
