"""Path elements: the names by which a set of fields knows a field, a map key or a list element.

f:NAME      a field of a struct, a key of a map
k:{...}     the list element with these keys
v:VALUE     the list element with this value
i:NUMBER    the list element at this place (read for completeness, never written)
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from localpv.api.managed.shape import Shape

SELF: Final = "."
"""Stands beside the path elements below an element, when that element is in the set itself."""

_ESCAPED: Final = re.compile(r'["\\<>&\x00-\x1f\u2028\u2029]')


class NotAnElement(ValueError):
    """This is not how a path element is written."""


def quoted(text: str) -> str:
    """A JSON string as it stands inside a path element: as Go writes it, safe for HTML."""
    if _ESCAPED.search(text) is None:
        return f'"{text}"'
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    return short or f"\\u{ord(char):04x}"


def _json(value: Any) -> str:
    if type(value) is str:
        return quoted(value)
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        value = int(value)
    return json.dumps(value, separators=(",", ":"))


def by_value(value: Any) -> str:
    """The path element of an element of a set."""
    return "v:" + _json(value)


def by_keys(element: dict[str, Any], shape: Shape) -> str:
    """The path element of an element of a keyed list; empty when it has none of its keys."""
    keys = shape.keys
    if len(keys) == 1:
        key = keys[0]
        value = element.get(key)
        if type(value) is str and _ESCAPED.search(value) is None:
            return f'k:{{"{key}":"{value}"}}'
    defaults = shape.key_defaults
    parts = []
    for key in keys:
        value = element.get(key, defaults.get(key))
        if value is not None:
            parts.append(f'"{key}":{_json(value)}')
    return "k:{" + ",".join(parts) + "}" if parts else ""


_RANK: Final = {"v": 2, "i": 3}


def _order_of_value(value: Any) -> tuple[int, Any]:
    # Numbers before strings before booleans, as in Kubernetes; what else JSON has is compared as text.
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 1, value
    return 3, json.dumps(value, sort_keys=True)


def order(element: str) -> tuple[Any, ...]:
    """Sort key of a path element."""
    if element.startswith("f:"):
        return 0, element
    if element == SELF:
        return (-1,)
    kind, text = element[0], element[2:]
    value = json.loads(text)
    if kind == "k":
        return 1, [(name, *_order_of_value(value[name])) for name in sorted(value)]
    return _RANK[kind], _order_of_value(value)


def canonical(name: str) -> str | None:
    """A path element as we write it; None for a kind of element that we do not know."""
    if len(name) < 2 or name[1] != ":":
        raise NotAnElement(f"{name[:100]!r} is not a path element")
    if name[0] == "f":
        return name
    if name[0] not in "kvi":
        return None
    try:
        value = json.loads(name[2:])
    except (ValueError, RecursionError) as error:
        raise NotAnElement(f"{name[:100]!r} is not a path element") from error
    match name[0], value:
        case "k", dict():
            return "k:{" + ",".join(f"{_json(key)}:{_json(value[key])}" for key in sorted(value)) + "}"
        case "v", _:
            return by_value(value)
        case "i", int():
            return f"i:{value}"
    raise NotAnElement(f"{name[:100]!r} is not a path element")


def shown(element: str) -> str:
    kind, text = element[0], element[2:]
    if kind == "f":
        return "." + text
    value = json.loads(text)
    if kind == "k":
        return "[" + ",".join(f"{key}={_shown_value(value[key])}" for key in sorted(value)) + "]"
    return f"[={_shown_value(value)}]" if kind == "v" else f"[{text}]"


def _shown_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
