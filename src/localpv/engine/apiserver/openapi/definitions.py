"""Which definitions a document needs: those its operations name, and all that these refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from localpv.engine.apiserver.openapi.operations import Path

Schema = dict[str, Any]
Find = Callable[[str], Schema]
"""A definition by its name, in the form of one OpenAPI version. The caller may change what it gets."""


class Catalogue(Protocol):
    """The built-in definitions, as `localpv.api.schema.catalogue` has them."""

    def openapi(self, name: str) -> Schema: ...


def named_by(paths: Iterable[Path]) -> set[str]:
    """Definitions that operations take or return."""
    found = {name for path in paths for operation in path.operations for name in (operation.body, operation.returns)}
    return found - {""}


def closure(roots: Iterable[str], find: Find) -> Iterator[tuple[str, Schema]]:
    """The roots and everything they refer to, sorted by name."""
    found: dict[str, Schema] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = schema = find(name)
            waiting.extend(_references(schema))
    for name in sorted(found):
        yield name, found.pop(name)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        target = value.get("$ref")
        # The schema of schemas has a property of this name, which is no reference.
        if isinstance(target, str):
            yield target.rpartition("/")[2]
        for child in value.values():
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)
