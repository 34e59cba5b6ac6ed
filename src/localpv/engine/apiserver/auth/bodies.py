"""Reading the few fields of a review or a token request; a field of the wrong type is a bad request."""

from __future__ import annotations

from typing import Any

from localpv.api.objects import Object
from localpv.errors import BadRequest


def mapping(obj: Object, key: str) -> Object | None:
    """The object under a key; None when it is not there."""
    value = obj.get(key)
    if value is not None and not isinstance(value, dict):
        raise _wrong(key, "an object")
    return value


def text(obj: Object, key: str) -> str:
    value = obj.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(key, "a string")
    return value


def texts(obj: Object, key: str) -> list[str]:
    value = obj.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(key, "a list of strings")
    return value


def integer(obj: Object, key: str, default: int) -> int:
    value = obj.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(key, "an integer")
    return value


def extra(obj: Object, key: str) -> dict[str, tuple[str, ...]]:
    values: dict[str, Any] = mapping(obj, key) or {}
    return {name: tuple(texts(values, name)) for name in values}


def _wrong(key: str, wanted: str) -> BadRequest:
    return BadRequest(f"{key} must be {wanted}")
