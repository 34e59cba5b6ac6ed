"""Writing a status: only when it differs, and only what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from localpv.api.kinds.meta import Kind
from localpv.engine.controllers.cached_objects import CachedObjects

K = TypeVar("K", bound=Kind)

Condition = Mapping[str, Any]


def stamp(moment: datetime) -> str:
    """A moment as the times of statuses are written: whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def counts(**values: int) -> dict[str, Any]:
    """Counters that are not there when they are 0."""
    return {name: value for name, value in values.items() if value}


def find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    return next((each for each in conditions if each.get("type") == kind), None)


def holds(conditions: Sequence[Condition], kind: str) -> bool:
    found = find(conditions, kind)
    return found is not None and found.get("status") == "True"


def without(conditions: Sequence[Condition], kind: str) -> list[Condition]:
    return [each for each in conditions if each.get("type") != kind]


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that makes the old status into the new one; empty when they are equal."""
    changed: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if key in old and before == value:
            continue
        # A merge patch joins maps, so what is to be gone inside one must be named too.
        changed[key] = difference(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return changed


async def write(
    obj: K, status: Mapping[str, Any], *, to: CachedObjects[K], annotations: Mapping[str, str] | None = None
) -> K:
    """Write a status if it differs from the one that the object has; annotations of the controller go with it.

    No version is named: one controller writes the status of a kind, from all it knows, and the newest look is right.
    The UID is: an object that was made anew under the same name has a history of its own.
    """
    patch: dict[str, Any] = {}
    if changed := difference(obj.status, status):  # type: ignore[attr-defined]
        patch["status"] = changed
    missing = {key: value for key, value in (annotations or {}).items() if obj.metadata.annotations.get(key) != value}
    if not patch and not missing:
        return obj
    patch["metadata"] = {"uid": obj.metadata.uid, **({"annotations": missing} if missing else {})}
    return await to.patch(obj, patch, subresource="status")
