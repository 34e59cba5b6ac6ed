"""Any JSON value as the text of a cell."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

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
