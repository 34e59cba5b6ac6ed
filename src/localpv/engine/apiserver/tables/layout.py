"""What a table is made of: columns, the function that fills one row of them, and texts of cells.

How long something lasted or is ago has few characters, as kubectl shows it: `45s`, `5m3s`, `3h2m`, `2d4h`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from localpv.api.objects import Object

Cells = Callable[[Object, float], list[Any]]
"""The cells of an object at a moment, in seconds since the epoch."""

NONE = "<none>"
UNSET = "<unset>"


@dataclass(frozen=True, slots=True)
class Layout:
    """The table of one kind."""

    columns: list[Object]
    cells: Cells


def column(name: str, description: str, *, type: str = "string", format: str = "") -> Object:
    """A column that is always shown."""
    return {"name": name, "type": type, "format": format, "description": description, "priority": 0}


def wide(name: str, description: str, *, format: str = "") -> Object:
    """A column that only `kubectl get -o wide` shows."""
    return {**column(name, description, format=format), "priority": 1}


NAME = column("Name", "Name of the object", format="name")
AGE = column("Age", "How long ago the object was made")
CREATED = column("Created At", "When the object was made", type="date")


def _name_and_creation(obj: Object, now: float) -> list[Any]:
    metadata = obj["metadata"]
    return [metadata["name"], metadata.get("creationTimestamp")]


PLAIN = Layout([NAME, CREATED], _name_and_creation)
"""For kinds about which there is nothing more to say in a line."""


def labels(wanted: Mapping[str, str] | None) -> str:
    """Labels on one line, in the order of their keys."""
    return ",".join(f"{key}={wanted[key]}" for key in sorted(wanted)) if wanted else NONE


UNKNOWN = "<unknown>"
"""The age of something that carries no time."""

INVALID = "<invalid>"
"""A time in the future, or one that cannot be read."""

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY
_MOST_YEARS = 292
"""Kubernetes counts nanoseconds in 64 bits, which hold no more."""


def human(seconds: float) -> str:
    """A duration with the two units that matter; the smaller one goes when it is zero or hardly matters."""
    whole = int(seconds)
    if whole < 120:
        if whole >= 0:
            return f"{whole}s"
        # Clocks of two machines differ a little: what seems to start in a second starts now.
        return "0s" if whole == -1 else INVALID
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{min(whole // _YEAR, _MOST_YEARS)}y"


def _two(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    first, rest = divmod(seconds, large)
    second = rest // small
    return f"{first}{large_unit}{second}{small_unit}" if second else f"{first}{large_unit}"


def moment(timestamp: str) -> float:
    """A timestamp of the API as seconds since the epoch."""
    return datetime.fromisoformat(timestamp).timestamp()


def since(timestamp: str | None, now: float) -> str:
    """How long ago a timestamp of the API was."""
    return human(now - moment(timestamp)) if timestamp else UNKNOWN


def age(obj: dict[str, dict[str, str]], now: float) -> str:
    """How long ago an object was made."""
    return since(obj["metadata"].get("creationTimestamp"), now)


_ESCAPED = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"},
)

_FITS = 2**63
"""Whole numbers from here on lose digits, as they do in clients that know only 64 bits."""


def text(value: Any) -> str:
    """Strings as they are, lists and objects as JSON."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() if abs(value) < _FITS:
            return str(value)
        case int() | float():
            return _decimal(float(value), largest=6, smallest=-4, digits=2)
        case dict() | list():
            return _json(value).translate(_ESCAPED)
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def _json(value: Any) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{_json(key)}:{_json(value[key])}" for key in sorted(value)) + "}"
        case list():
            return "[" + ",".join(map(_json, value)) + "]"
        case float():
            return _decimal(value, largest=21, smallest=-6, digits=1)
    return json.dumps(value, ensure_ascii=False)


def _decimal(value: float, *, largest: int, smallest: int, digits: int) -> str:
    """The fewest digits that mean this number, with an exponent outside of the limits."""
    number = Decimal(repr(value)).normalize()
    exponent = number.adjusted()
    if smallest <= exponent < largest:
        return f"{number:f}"
    mantissa = number.scaleb(-exponent)
    return f"{mantissa:f}e{'-' if exponent < 0 else '+'}{abs(exponent):0{digits}}"
