"""Strings, numbers and the like: read as Go would read them, and written as Go would write them again."""

from __future__ import annotations

import binascii
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from localpv.api import quantity
from localpv.api.schema.catalogue import MICRO_TIME
from localpv.api.schema.node import Node, Type

TYPE_NAMES: Final = {
    Type.STRUCT: "object",
    Type.MAP: "object",
    Type.LIST: "array",
    Type.STRING: "string",
    Type.INTEGER: "integer",
    Type.NUMBER: "number",
    Type.BOOLEAN: "boolean",
    Type.INT_OR_STRING: "integer,string",
    Type.QUANTITY: "string",
    Type.ANY: "any",
}
"""What a type is called in messages."""

_JSON_TYPES: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}

_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)

_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,](?P<fraction>\d+))?(?:Z|[+-]\d\d:\d\d)", re.ASCII
).fullmatch


class Misread(ValueError):
    """The value is not of the type that the field has; says what it must be."""


def json_type(value: Any) -> str:
    return _JSON_TYPES[type(value)]


def shown(value: Any) -> Any:
    """What a message repeats of a wrong value: short texts and numbers, and only the type of everything else."""
    if isinstance(value, (dict, list)) or (isinstance(value, str) and len(value) > 100):
        return json_type(value)
    return value


def read(value: Any, node: Node) -> Any:
    """The value of a built-in kind's field as it will be stored, or Misread."""
    kind, given = node.type, type(value)
    if kind is Type.STRING:
        if given is not str:
            raise Misread(f"must be of type string, not {json_type(value)}")
        if node.format == "date-time":
            return _micro_time(value) if node.name == MICRO_TIME else _time(value)
        return _base64(value) if node.format == "byte" else value
    if kind is Type.INTEGER:
        return _integer(value, _INT32 if node.format == "int32" else _INT64)
    if kind is Type.BOOLEAN:
        if given is bool:
            return value
        raise Misread(f"must be of type boolean, not {json_type(value)}")
    if kind is Type.QUANTITY:
        if given is str or given is int or given is float:
            return _quantity(value)
        raise Misread(f"must be a quantity such as 10Gi, not a value of type {json_type(value)}")
    if kind is Type.INT_OR_STRING:
        return value if given is str else _integer(value, _INT32)
    if given is int or given is float:
        return value
    raise Misread(f"must be of type number, not {json_type(value)}")


def zero(node: Node) -> Any:
    """What null becomes as an element of a list or a value of a map. Bytes stay null: Go knows bytes that are not."""
    match node.type:
        case Type.STRUCT:
            return {}
        case Type.STRING:
            return None if node.format in ("byte", "date-time") else ""
        case Type.INTEGER | Type.NUMBER | Type.INT_OR_STRING:
            return 0
        case Type.BOOLEAN:
            return False
        case Type.QUANTITY:
            return "0"
        case _:
            return None


def custom_fits(value: Any, kind: Type) -> bool:
    """Whether a value of a custom kind has the JSON type of its schema, for types that are more than one class here."""
    given = type(value)
    if kind is Type.BOOLEAN:
        return given is bool
    if kind is Type.NUMBER:
        return given is int or given is float
    if kind is Type.INT_OR_STRING and given is str:
        return True
    if given is float:
        return bool(value.is_integer()) and int(value) in _INT64
    return given is int and value in _INT64


def _integer(value: Any, allowed: range) -> int:
    if type(value) is not int:
        # Not even 5.0: Go does not read it into an integer, and neither do we.
        raise Misread(f"must be of type integer, not {json_type(value)}")
    if value not in allowed:
        raise Misread(f"must be an integer from {allowed[0]} to {allowed[-1]}")
    return value


@lru_cache(maxsize=512)
def _time(value: str) -> str:
    if not _RFC3339(value):
        raise Misread("must be a time in RFC 3339 format, such as 2006-01-02T15:04:05Z")
    return _utc(value).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def _micro_time(value: str) -> str:
    match = _RFC3339(value)
    if not match or len(match["fraction"] or "") != 6:
        raise Misread("must be a time in RFC 3339 format with microseconds, such as 2006-01-02T15:04:05.000000Z")
    return _utc(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _utc(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value.replace(",", ".")).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Misread("is not a time that exists") from error


def _base64(value: str) -> str:
    try:
        decoded = binascii.a2b_base64(value.replace("\n", "").replace("\r", "").encode("ascii"), strict_mode=True)
    except ValueError as error:
        raise Misread("must be base64-encoded") from error
    return binascii.b2a_base64(decoded, newline=False).decode("ascii")


def _quantity(value: str | float) -> str:
    try:
        return quantity.canonical(value)
    except ValueError as error:
        raise Misread(str(error)) from error
