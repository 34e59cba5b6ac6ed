"""Fields that a JSON body has twice. Decoders keep the last one in silence; Kubernetes tells the client."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Final

from localpv.api.schema.node import Node, Place, Type, spelled

MOST_FINDINGS: Final = 100
"""Fields that are told of; Kubernetes has the same limit."""


class _Repeated(Exception):
    """At least one object in the body has a field twice."""


class _Pairs(list[tuple[str, Any]]):
    """An object with all of its fields in order, the repeated ones too."""


def duplicate_fields(body: bytes) -> list[str]:
    """Paths of the fields that occur more than once, each path once. A body that is not JSON has none."""
    try:
        _QUICK(body.decode())
        return []
    except _Repeated:
        pass
    except (ValueError, RecursionError):
        return []
    found: dict[str, None] = {}
    with contextlib.suppress(RecursionError):
        _search(json.loads(body, object_pairs_hook=_Pairs), None, found)
    return list(found)


def findings(body: bytes, node: Node) -> list[str]:
    """What a strict reader of a built-in kind says of a body that repeats fields: the unknown and the repeated ones, in
    the order of the body, each once. What is in an unknown field is not looked at."""
    found: dict[str, None] = {}
    with contextlib.suppress(ValueError, RecursionError):
        _compare(json.loads(body, object_pairs_hook=_Pairs), node, None, found)
    return list(found)


def _count(pairs: list[tuple[str, Any]]) -> None:
    # Nearly no body repeats a field, so the common case only counts and builds nothing.
    if len(pairs) > 1 and len(dict(pairs)) != len(pairs):
        raise _Repeated


_QUICK = json.JSONDecoder(object_pairs_hook=_count).decode


def _search(value: Any, place: Place, found: dict[str, None]) -> None:
    if len(found) >= MOST_FINDINGS:
        return
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, child in value:
            if key in seen and len(found) < MOST_FINDINGS:
                found[spelled((place, key))] = None
            seen.add(key)
            _search(child, (place, key), found)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _search(child, (place, index), found)


def _compare(value: Any, node: Node | None, place: Place, found: dict[str, None]) -> None:
    if node is None or len(found) >= MOST_FINDINGS:
        return
    if isinstance(value, _Pairs) and node.type in (Type.STRUCT, Type.MAP):
        seen: set[str] = set()
        for key, child in value:
            known = node.fields.get(key) if node.type is Type.STRUCT else node.items
            if known is None or key in seen:
                what = "unknown" if known is None else "duplicate"
                if len(found) < MOST_FINDINGS:
                    found[f'{what} field "{spelled((place, key))}"'] = None
            seen.add(key)
            _compare(child, known, (place, key), found)
    elif isinstance(value, list) and node.type is Type.LIST:
        for index, child in enumerate(value):
            _compare(child, node.items, (place, index), found)
