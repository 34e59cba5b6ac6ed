"""An applied configuration laid over the live object. Nothing of the result is shared with either of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from localpv.api.managed import elements
from localpv.api.managed.shape import Kind, Shape


def merge(live: Any, applied: Any, shape: Shape) -> Any:
    """The live value with what was applied on top: applied leaves win, and nothing is removed.

    A null in the applied configuration stays as None, so that the caller can tell it from a field nobody mentioned.
    """
    match shape.kind:
        case Kind.STRUCT | Kind.MAP | Kind.ANY if _mergeable(dict, live, applied):
            return _fields(live or {}, applied or {}, shape)
        case Kind.KEYED if _mergeable(list, live, applied):
            return _list(live or [], applied or [], lambda value: elements.by_keys(value, shape), shape.item)
        case Kind.SET if _mergeable(list, live, applied):
            return _list(live or [], applied or [], elements.by_value, None)
    return copy.deepcopy(applied)


def _mergeable(kind: type, live: Any, applied: Any) -> bool:
    """Whether both are of this kind or null, and at least one holds something: two empty values are a leaf."""
    return bool(
        (live or applied)
        and (live is None or isinstance(live, kind))
        and (applied is None or isinstance(applied, kind))
    )


def _fields(live: dict[str, Any], applied: dict[str, Any], shape: Shape) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for key, value in live.items():
        if key in applied:
            merged[key] = merge(value, applied[key], shape.fields[key])
        else:
            merged[key] = copy.deepcopy(value)
    for key, value in applied.items():
        if key not in live:
            merged[key] = copy.deepcopy(value)
    return merged


def _list(live: list[Any], applied: list[Any], name: Callable[[Any], str], item: Shape | None) -> list[Any]:
    """Elements that both have stand in the order of the applied list; those only in the live list keep their place
    between their neighbours, and new ones come right before the next element that both have.
    """
    mine = {name(value): value for value in applied}
    theirs: dict[str, Any] = {}
    for value in live:
        element = name(value)
        # Live elements with the same name cannot be merged with: the applied one takes their place.
        theirs[element] = None if element in theirs else value
    shared = [element for element in mine if element in theirs]
    waiting = iter(live)
    merged: list[Any] = []

    def pass_by(until: str | None) -> None:
        for value in waiting:
            element = name(value)
            if element == until:
                return
            if element not in mine:
                merged.append(copy.deepcopy(value))

    reached = 0
    at: str | None = None
    for element, value in mine.items():
        if at is None and reached < len(shared):
            at = shared[reached]
            pass_by(at)
        elif at is None:
            pass_by(None)
        both = item is not None and theirs.get(element) is not None
        merged.append(merge(theirs[element], value, item) if both and item is not None else copy.deepcopy(value))
        if element == at:
            at = None
            reached += 1
    pass_by(None)
    return merged
