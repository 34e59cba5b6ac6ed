"""Tables for people: the columns that kubectl shows for each kind."""

from __future__ import annotations

from typing import Any

from localpv.api.objects import Object
from localpv.apiserver.registry import Kind

_NAME = {"name": "Name", "type": "string", "format": "name", "description": "Name of the object", "priority": 0}
_CREATED = {
    "name": "Created At",
    "type": "date",
    "format": "",
    "description": "When the object was made",
    "priority": 0,
}


def columns(kind: Kind) -> list[Object]:
    """Column definitions of a kind."""
    return [_NAME, _CREATED]


def cells(kind: Kind, obj: Object) -> list[Any]:
    """The values of one row, one for each column."""
    metadata = obj["metadata"]
    return [metadata.get("name", ""), metadata.get("creationTimestamp")]
