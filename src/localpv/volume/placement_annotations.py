"""What claims ask for beyond their spec, in annotations: a group stays together on one node, a spread apart.

Claims with such a wish are given their volumes by the part that looks after groups (`manager/groups`), which reserves
them; binder and scheduler must not choose for them, only finish what names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from localpv.api import names, well_known
from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.disk import labels
from localpv.errors import ConfigurationError

MOST_CLAIMS = 100
"""Volumes that one node can be asked for at once: far beyond the disks of a machine, and it keeps a slip of the pen
from waiting for ever."""


@dataclass(frozen=True, slots=True)
class Group:
    """So many claims of one namespace that get volumes on one node, or none at all."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Claims of one namespace whose volumes are on nodes with different values of a label."""

    name: str
    key: str = well_known.HOSTNAME


def has_wish(claim: PersistentVolumeClaim) -> bool:
    """Whether somebody else than binder and scheduler chooses the claim's volume; also if the wish is badly written."""
    annotations = claim.metadata.annotations
    return well_known.VOLUME_GROUP in annotations or labels.SPREAD in annotations


def group_of(claim: PersistentVolumeClaim) -> Group | None:
    """The group that a claim belongs to; ConfigurationError says what is wrong with the annotation."""
    text = claim.metadata.annotations.get(well_known.VOLUME_GROUP)
    return None if text is None else _read_group(text)


def spread_of(claim: PersistentVolumeClaim) -> Spread | None:
    """The claims that a claim keeps its distance from; ConfigurationError says what is wrong with the annotation."""
    text = claim.metadata.annotations.get(labels.SPREAD)
    return None if text is None else _read_spread(text)


@lru_cache(maxsize=1024)
def _read_group(text: str) -> Group:
    found = _read(well_known.VOLUME_GROUP, text, known=("name", "count"), hint='write {"name": "group1", "count": 2}')
    count = found.get("count")
    # In the annotation's first description the count is a string.
    if isinstance(count, str) and count.isascii() and count.isdigit():
        count = int(count)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_CLAIMS:
        raise _bad(
            well_known.VOLUME_GROUP,
            f"count must be a whole number from 1 to {MOST_CLAIMS}",
            'write "count": 2 for two claims',
        )
    return Group(found["name"], count)


@lru_cache(maxsize=1024)
def _read_spread(text: str) -> Spread:
    hint = f'write {{"name": "copies", "key": "{well_known.HOSTNAME}"}}'
    found = _read(labels.SPREAD, text, known=("name", "key"), hint=hint)
    key = found.get("key", well_known.HOSTNAME)
    if not isinstance(key, str) or names.qualified_name(key):
        raise _bad(labels.SPREAD, "key must be the name of a label of nodes", hint)
    return Spread(found["name"], key)


def _read(annotation: str, text: str, *, known: tuple[str, ...], hint: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise _bad(annotation, "is no JSON", hint) from error
    if not isinstance(found, dict):
        raise _bad(annotation, "must be a JSON object", hint)
    if unknown := sorted(found.keys() - set(known)):
        raise _bad(annotation, f"has no field {unknown[0]}", hint)
    if not isinstance(found.get("name"), str) or not found["name"]:
        raise _bad(annotation, "name must be a text that is not empty", hint)
    return found


def _bad(annotation: str, what: str, hint: str) -> ConfigurationError:
    return ConfigurationError(f"metadata.annotations[{annotation}]: {what}", hint=hint)
