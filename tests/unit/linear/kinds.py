"""Built-in kinds without a server, and objects of them that are large in one place."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from localpv.api.schema.node import Node, Type
from localpv.engine.apiserver import registry
from localpv.engine.apiserver.kinds.base import Gates
from localpv.engine.apiserver.registry import Kind, Kinds

Path = tuple[tuple[str, Node], ...]
_BULK = (Type.LIST, Type.MAP)


class _Empty:
    """A store without objects."""

    def get(self, resource: str, namespace: str, name: str) -> None:
        return None

    def list(self, *_: Any) -> list[Any]:
        return []

    def all(self, *_: Any) -> Iterator[Any]:
        return iter(())


@functools.cache
def served() -> Kinds:
    return registry.kinds(gates=Gates(), objects=_Empty())[0]  # type: ignore[arg-type]


def find(plural: str) -> Kind:
    return next(kind for kind in served().all() if kind.resource.plural == plural and kind.to_stored is None)


def places(node: Node, path: Path = (), above: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Where an object of this schema has a list or a map; inside of schemas that hold themselves, once."""
    for name, child in node.fields.items():
        here = (*path, (name, child))
        inner = child
        if child.type in _BULK:
            yield here
            assert child.items is not None
            inner = child.items
        if inner.type is Type.STRUCT and inner.name not in above:
            yield from places(inner, here, above | {inner.name})


def obj(kind: Kind, path: Path, size: int, *, same: bool, depth: int = 2) -> dict[str, Any]:
    """An object with that many elements at one place, all the same or all different, and filled to that depth."""
    made: dict[str, Any] = {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {"name": "a", **({"namespace": "d"} if kind.resource.namespaced else {})},
    }
    at = made
    for place, (name, node) in enumerate(path):
        if node.type is Type.STRUCT:
            at = at.setdefault(name, {})
            continue
        assert node.items is not None
        last = place == len(path) - 1
        filled = depth if last else 2
        elements = [_filled(node.items, 0 if same else number, depth=filled) for number in range(size if last else 1)]
        at[name] = elements if node.type is Type.LIST else {f"k{number}": each for number, each in enumerate(elements)}
        if not last:
            at = elements[0]
    return made


def _filled(node: Node, number: int, *, depth: int) -> Any:
    match node.type:
        case Type.STRING:
            return {"date-time": "2026-01-01T00:00:00Z", "byte": "YQ=="}.get(node.format, f"n{number}")
        case Type.INTEGER | Type.NUMBER | Type.INT_OR_STRING:
            return number % 30_000 + 1
        case Type.BOOLEAN:
            return True
        case Type.QUANTITY:
            return str(number + 1)
        case Type.STRUCT if depth:
            return {
                name: _filled(child, number, depth=depth - 1)
                for name, child in node.fields.items()
                if child.type not in (*_BULK, Type.ANY) and (child.type is not Type.STRUCT or depth > 1)
            }
        case Type.LIST:
            return []
        case _:
            return {}
