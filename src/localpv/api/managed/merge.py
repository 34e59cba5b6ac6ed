"""An applied configuration: whether it fits the schema, laid over the live object, and taken out where it ended."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final

from localpv.api import fields
from localpv.api.managed import fieldset
from localpv.api.managed.fieldset import SELF, FieldSet
from localpv.api.managed.shape import Kind, Shape
from localpv.api.objects import Object
from localpv.api.schema.node import Node, Type, below

_LONGEST_NAME: Final = 330
"""Characters of an element's name that are told: each value in it tells it again."""

_SCALARS: Final[dict[Type, tuple[str, tuple[type, ...]]]] = {
    Type.STRING: ("string", (str,)),
    Type.INTEGER: ("numeric (int or float)", (int, float)),
    Type.NUMBER: ("numeric (int or float)", (int, float)),
    Type.BOOLEAN: ("boolean", (bool,)),
    Type.INT_OR_STRING: ("any scalar", (str, int, float, bool)),
    Type.QUANTITY: ("any scalar", (str, int, float, bool)),
}


def problems(value: Any, shape: Shape, path: str = "", *, kept: bool = False) -> Iterator[str]:
    """What is in the way, each as `PATH: reason`.

    `kept` says that unknown fields are preserved further up in a custom kind, and so here too: they are pruned later.
    """
    match shape.kind:
        case Kind.STRUCT | Kind.MAP:
            yield from _map(value, shape, path, kept)
        case Kind.KEYED | Kind.SET:
            yield from _list_problems(value, shape, path, kept)
        case Kind.LEAF:
            yield from _leaf(value, shape.node, path, kept)


def _map(value: Any, shape: Shape, path: str, kept: bool) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield f"{path}: expected map, got {fields.shown(value)}"
        return
    kept = _keeps(shape.node, kept)
    for key, child in value.items():
        if shape.kind is Kind.MAP or key in shape.named:
            yield from problems(child, shape.fields[key], below(path, key), kept=kept)
        elif not kept and shape.node.items is None:
            yield f"{below(path, key)}: field not declared in schema"


def _list_problems(value: Any, shape: Shape, path: str, kept: bool) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, list):
        yield f"{path}: expected list, got {fields.shown(value)}"
        return
    seen: set[str] = set()
    for place, child in enumerate(value):
        reason = _misfit(child, shape)
        if reason:
            yield f"{path}: element {place}: {reason}"
            return
        element = fieldset.by_value(child) if shape.kind is Kind.SET else fieldset.by_keys(child, shape)
        name = fieldset.element_shown(element)[:_LONGEST_NAME]
        if element in seen:
            yield f"{path}: duplicate entries for key {name}"
        seen.add(element)
        if shape.kind is Kind.KEYED:
            yield from problems(child, shape.item, path + name, kept=kept)
        elif shape.node.items is not None:
            yield from _leaf(child, shape.node.items, path + name, kept)


def _misfit(value: Any, shape: Shape) -> str:
    """Why an element of a set or of a keyed list cannot be told from the others."""
    if shape.kind is Kind.SET:
        return "an element of a set is a single value" if value is None or isinstance(value, dict | list) else ""
    if not isinstance(value, dict):
        return "an element of a list with keys is an object"
    if not fieldset.by_keys(value, shape):
        return f"none of the key fields is set: {', '.join(shape.node.list_keys)}"
    return ""


def _keeps(node: Node, kept: bool) -> bool:
    return node.custom and (kept or node.preserve_unknown)


def _leaf(value: Any, node: Node, path: str, kept: bool) -> Iterator[str]:
    """Scalars, and everything inside atomic values: those are owned as a whole, and still have to fit."""
    if value is None:
        return
    kept = _keeps(node, kept)
    match node.type:
        case Type.STRUCT:
            if not isinstance(value, dict):
                yield f"{path}: expected map, got {fields.shown(value)}"
                return
            for key, child in value.items():
                if key in node.fields:
                    yield from _leaf(child, node.fields[key], below(path, key), kept)
                elif node.fields and not kept:
                    yield f"{below(path, key)}: field not declared in schema"
        case Type.MAP:
            if not isinstance(value, dict):
                yield f"{path}: expected map, got {fields.shown(value)}"
            elif node.items is not None:
                for key, child in value.items():
                    yield from _leaf(child, node.items, below(path, key), kept)
        case Type.LIST:
            if not isinstance(value, list):
                yield f"{path}: expected list, got {fields.shown(value)}"
            elif node.items is not None:
                for place, child in enumerate(value):
                    yield from _leaf(child, node.items, f"{path}[{place}]", kept)
        case Type.ANY:
            pass
        case kind:
            word, fitting = _SCALARS[kind]
            if not isinstance(value, fitting) or (isinstance(value, bool) and bool not in fitting):
                yield f"{path}: expected {word}, got {fields.shown(value)}"


def merge(live: Any, applied: Any, shape: Shape) -> Any:
    """The live value with what was applied on top: applied leaves win, and nothing is removed.

    A null in the applied configuration stays as None, so that the caller can tell it from a field nobody mentioned.
    """
    match shape.kind:
        case Kind.STRUCT | Kind.MAP | Kind.ANY if _mergeable(dict, live, applied):
            return _fields(live or {}, applied or {}, shape)
        case Kind.KEYED if _mergeable(list, live, applied):
            return _list(live or [], applied or [], lambda value: fieldset.by_keys(value, shape), shape.item)
        case Kind.SET if _mergeable(list, live, applied):
            return _list(live or [], applied or [], fieldset.by_value, None)
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


def abandoned(obj: Object, shape: Shape, *, last: FieldSet, owned: FieldSet) -> None:
    """Remove from `obj` what is in `last` (applied last time) and not in `owned` (what anybody owns now).

    A field that goes takes everything below it along, also what nobody owns, such as the defaults inside a list
    element. A container that others own something in stays, and so does everything in it that is not in `last`.
    """
    _abandoned_fields(obj, shape, last, owned, given_up=False, doomed=False)


def _abandoned_fields(
    value: dict[str, Any], shape: Shape, last: FieldSet, owned: FieldSet, *, given_up: bool, doomed: bool
) -> None:
    for key in list(value):
        element = "f:" + key
        was, now = last.get(element), owned.get(element)
        if was is None:
            continue
        named = key in shape.named
        stays, given, dead = _fate(was, now, named=named, given_up=given_up, doomed=doomed)
        if not stays and not (shape.fields[key].kind in (Kind.KEYED, Kind.SET) and value[key] == []):
            del value[key]
        elif was:
            value[key] = _inside(value[key], shape.fields[key], was, now or {}, given_up=given, doomed=dead)


def _fate(was: FieldSet, now: FieldSet | None, *, named: bool, given_up: bool, doomed: bool) -> tuple[bool, bool, bool]:
    """Whether an element stays, whether it or something above it was applied before, and whether it is unowned since.

    A declared field counts as applied, or owned, as soon as anything below it is.
    """
    applied = named or not was or SELF in was
    owned = now is not None and (named or not now or SELF in now)
    given_up = given_up or applied
    doomed = doomed or (given_up and not owned)
    return not (applied and doomed), given_up, doomed


def _inside(value: Any, shape: Shape, last: FieldSet, owned: FieldSet, *, given_up: bool, doomed: bool) -> Any:
    match shape.kind:
        case Kind.STRUCT | Kind.MAP | Kind.ANY if isinstance(value, dict) and value:
            _abandoned_fields(value, shape, last, owned, given_up=given_up, doomed=doomed)
            # What has lost everything is null, not empty: an empty struct would still say something.
            return value if len(value) else None
        case Kind.KEYED | Kind.SET if isinstance(value, list) and value:
            left = []
            for item in value:
                element = fieldset.by_value(item) if shape.kind is Kind.SET else fieldset.by_keys(item, shape)
                was, now = last.get(element), owned.get(element)
                if was is None:
                    left.append(item)
                    continue
                stays, given, dead = _fate(was, now, named=False, given_up=given_up, doomed=doomed)
                if not stays:
                    continue
                if was and shape.kind is Kind.KEYED:
                    item = _inside(item, shape.item, was, now or {}, given_up=given, doomed=dead)
                left.append(item)
            return left or None
    return value
