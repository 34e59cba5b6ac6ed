"""What a table is made of: columns, and the function that fills one row of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
