"""Who controls what: a controller takes in what its selector means and nobody controls, and lets go of what it no
longer means."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from localpv import errors
from localpv.api.kinds.meta import Kind, OwnerReference
from localpv.api.selectors import LabelSelector
from localpv.engine.controllers.cached_objects import CachedObjects

K = TypeVar("K", bound=Kind)


def reference(owner: Kind) -> dict[str, Any]:
    """The owner reference of what a controller makes."""
    return {
        "apiVersion": owner.resource.api_version,
        "kind": owner.resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: Kind) -> OwnerReference | None:
    return next((each for each in obj.metadata.owner_references if each.controller), None)


def controls(owner: Kind, obj: Kind) -> bool:
    controller = controller_of(obj)
    return controller is not None and controller.uid == owner.metadata.uid


def orphans(namespace: str) -> str:
    """The word under which `known.owner_words` keeps objects without a controller."""
    return f"orphans of {namespace}"


async def gather(
    owner: Kind,
    among: CachedObjects[K],
    selector: LabelSelector,
    *,
    still_there: Callable[[], Awaitable[Kind | None]],
    wanted: Callable[[K], bool] = lambda _: True,
) -> list[K]:
    """What belongs to an owner, after taking in and letting go.

    Before anything is taken in the owner is read from the server, not from a cache: one that was deleted a moment ago
    must not take in what its deletion has just set free.
    """
    mine = [each for each in among.find("owner", owner.metadata.uid) if wanted(each)]
    kept = [each for each in mine if selector.matches(each.metadata.labels)]
    if owner.metadata.deleting:
        return kept
    for each in mine:
        if not selector.matches(each.metadata.labels):
            await _release(owner, each, among)
    free = [
        each
        for each in among.find("owner", orphans(owner.metadata.namespace))
        if wanted(each) and not each.metadata.deleting and selector.matches(each.metadata.labels)
    ]
    if free:
        present = await still_there()
        if present is None or present.metadata.deleting:
            return kept
        taken = [await _adopt(owner, each, among) for each in free]
        kept += [each for each in taken if each is not None]
    return kept


async def _adopt(owner: Kind, obj: K, among: CachedObjects[K]) -> K | None:
    references = [*written(obj.metadata.owner_references), reference(owner)]
    return await _change(obj, references, among)


async def _release(owner: Kind, obj: K, among: CachedObjects[K]) -> None:
    rest = [each for each in obj.metadata.owner_references if each.uid != owner.metadata.uid]
    await _change(obj, written(rest), among)


async def _change(obj: K, references: list[dict[str, Any]], among: CachedObjects[K]) -> K | None:
    meta = obj.metadata
    patch = {"uid": meta.uid, "resourceVersion": meta.resource_version, "ownerReferences": references or None}
    try:
        return await among.patch(obj, {"metadata": patch})
    except (errors.NotFound, errors.Conflict):
        return None  # it changed meanwhile, and the next look sees how


def written(references: Iterable[OwnerReference]) -> list[dict[str, Any]]:
    """Owner references as they are sent."""
    return [
        {
            "apiVersion": each.api_version,
            "kind": each.kind,
            "name": each.name,
            "uid": each.uid,
            "controller": each.controller,
            "blockOwnerDeletion": each.block_owner_deletion,
        }
        for each in references
    ]
