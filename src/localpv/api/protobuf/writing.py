"""From JSON to the binary form, byte for byte as Go writes it.

So fields go by number, the keys of maps in order, and zero is written where Go has no pointer. Fields that a kind does
not have are left out.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import Any

from localpv.api.objects import Object
from localpv.api.protobuf import messages, special, wire
from localpv.api.protobuf.messages import JSON_SCHEMA, MAGIC, Field


def encode(obj: Object) -> bytes:
    """An object that fits its kind as the body of a request. Only built-in kinds have this form."""
    api_version, kind = obj["apiVersion"], obj["kind"]
    return b"".join(
        (
            MAGIC,
            wire.write_bytes(1, wire.write_bytes(1, api_version.encode()) + wire.write_bytes(2, kind.encode())),
            wire.write_bytes(2, _message(obj, messages.name_of(api_version, kind))),
            wire.write_bytes(3, b""),  # not compressed
            wire.write_bytes(4, b""),  # not JSON
        )
    )


def _message(obj: Object, name: str) -> bytes:
    return b"".join(_fields(obj, name))


def _fields(obj: Object, name: str) -> Iterator[bytes]:
    for number, field in messages.message(name).items():
        if field.inline:
            yield wire.write_bytes(number, _message(obj, field.type))
            continue
        value = obj.get(field.name)
        if field.repeated:
            for item in value or ():
                yield _field(number, item, field)
        elif field.mapped:
            for key, item in sorted((value or {}).items()):
                yield wire.write_bytes(number, wire.write_bytes(1, key.encode()) + _field(2, item, field))
        elif value is not None or not (field.pointer or field.type == "bytes"):
            yield _field(number, value, field)


def _field(number: int, value: Any, field: Field) -> bytes:
    kind = field.type
    if kind == "string":
        return wire.write_bytes(number, (value or "").encode())
    if field.is_message:
        return wire.write_bytes(number, _message(value or {}, kind))
    if kind in ("int32", "int64", "bool"):
        return wire.write_number(number, value or 0)
    if kind == "double":
        return wire.write_varint(number << 3 | wire.FIXED64) + wire.DOUBLE.pack(value or 0)
    if kind == "bytes":
        return wire.write_bytes(number, binascii.a2b_base64(value or ""))
    if kind in special.WRITERS:
        return wire.write_bytes(number, special.WRITERS[kind](value))
    return wire.write_bytes(number, _schema_or(value, kind))


def _schema_or(value: Any, kind: str) -> bytes:
    is_schema = isinstance(value, dict)
    schema = _message(value, JSON_SCHEMA) if is_schema else b""
    if kind == "schema-or-bool":
        allows = wire.write_number(1, is_schema or value)
        return allows + (wire.write_bytes(2, schema) if is_schema else b"")
    if is_schema:
        return wire.write_bytes(1, schema)
    items = (item.encode() if isinstance(item, str) else _message(item, JSON_SCHEMA) for item in value)
    return b"".join(wire.write_bytes(2, item) for item in items)
