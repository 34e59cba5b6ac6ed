"""The class of claims that name none."""

from __future__ import annotations

from collections.abc import Iterable

from localpv.api import well_known
from localpv.api.kinds.volumes import StorageClass

IS_DEFAULT = (well_known.IS_DEFAULT_CLASS, well_known.BETA_IS_DEFAULT_CLASS)


def default_class(classes: Iterable[StorageClass]) -> str:
    """The name of the default class, of several the youngest; empty when there is none."""
    best: StorageClass | None = None
    for one in sorted(classes, key=lambda one: one.key):
        if not any(one.metadata.annotations.get(mark) == "true" for mark in IS_DEFAULT):
            continue
        if best is None or (one.metadata.creation_timestamp or "") > (best.metadata.creation_timestamp or ""):
            best = one
    return best.key if best is not None else ""
