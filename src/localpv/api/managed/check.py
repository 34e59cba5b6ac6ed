"""Whether an applied configuration fits the schema well enough to be merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from localpv.api import fields
from localpv.api.managed import elements
from localpv.api.managed.shape import Kind, Shape
from localpv.api.schema.node import Node, Type
from localpv.api.schema.places import below

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
        case Kind.STRUCT:
            yield from _struct(value, shape, path, kept)
        case Kind.MAP:
            yield from _map(value, shape, path, kept)
        case Kind.KEYED | Kind.SET:
            yield from _list(value, shape, path, kept)
        case Kind.LEAF:
            yield from _leaf(value, shape.node, path, kept)


def _struct(value: Any, shape: Shape, path: str, kept: bool) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield f"{path}: expected map, got {fields.shown(value)}"
        return
    kept = _keeps(shape.node, kept)
    for key, child in value.items():
        if key in shape.named:
            yield from problems(child, shape.fields[key], below(path, key), kept=kept)
        elif not kept and shape.node.items is None:
            yield f"{below(path, key)}: field not declared in schema"


def _map(value: Any, shape: Shape, path: str, kept: bool) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield f"{path}: expected map, got {fields.shown(value)}"
        return
    kept = _keeps(shape.node, kept)
    for key, child in value.items():
        yield from problems(child, shape.fields[key], below(path, key), kept=kept)


def _list(value: Any, shape: Shape, path: str, kept: bool) -> Iterator[str]:
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
        element = elements.by_value(child) if shape.kind is Kind.SET else elements.by_keys(child, shape)
        name = elements.shown(element)[:_LONGEST_NAME]
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
    if not elements.by_keys(value, shape):
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
