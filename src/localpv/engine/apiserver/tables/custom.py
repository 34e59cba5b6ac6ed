"""Custom kinds: the columns that their definition asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from localpv.api import jsonpath
from localpv.api.objects import Object
from localpv.engine.apiserver.tables.layout import INVALID, NAME, UNKNOWN, Layout, column, human, text

_AGE = column("Age", "How long ago the object was made", type="date")
_DEFAULT = [{**_AGE, "jsonPath": ".metadata.creationTimestamp"}]
_is_time = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII).fullmatch

_NO_TIME = ("", "null", "0001-01-01T00:00:00Z")
_SMALLEST = -(2**63)
_EXPONENT_FROM = 1e21

_Show = Callable[[Any, float], Any]


def layout(version: Object) -> Layout:
    """The table of one version of a custom kind, by its entry in the definition."""
    columns = [NAME]
    sources: list[tuple[jsonpath.Path, _Show]] = []
    for wanted in version.get("additionalPrinterColumns") or _DEFAULT:
        try:
            path = jsonpath.compile(wanted["jsonPath"])
        except ValueError:
            # A definition is not refused for a path that cannot be read; what stands before it is still shown.
            break
        columns.append(
            {
                "name": wanted["name"],
                "type": wanted["type"],
                "format": wanted.get("format", ""),
                "description": wanted.get("description") or f"Value at {wanted['jsonPath']}",
                "priority": wanted.get("priority", 0),
            }
        )
        sources.append((path, _SHOWN_AS.get(wanted["type"], _nothing)))

    def cells(obj: Object, now: float) -> list[Any]:
        row = [obj["metadata"]["name"]]
        for path, show in sources:
            found = path.first(obj)
            row.append(None if found is None else show(found, now))
        return row

    return Layout(columns, cells)


def _text(value: Any, now: float) -> str:
    return text(value)


def _integer(value: Any, now: float) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    whole = int(value)
    # What does not fit in 64 bits is shown as what the processors of most servers make of it.
    return whole if _SMALLEST <= whole < -_SMALLEST else _SMALLEST


def _number(value: Any, now: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Whole numbers are written without a fraction.
    return int(value) if abs(value) < _EXPONENT_FROM and value == int(value) else float(value)


def _boolean(value: Any, now: float) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: float) -> str | None:
    """The age of something, in spite of the type's name."""
    if not isinstance(value, str):
        return None
    if value in _NO_TIME:
        return UNKNOWN
    if not _is_time(value):
        return INVALID
    try:
        return human(now - datetime.fromisoformat(value).timestamp())
    except ValueError:
        return INVALID


def _nothing(value: Any, now: float) -> None:
    return None


_SHOWN_AS: dict[str, _Show] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
