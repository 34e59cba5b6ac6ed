"""From the binary form to JSON: the object that a Go program would have sent as JSON, so nothing after it can tell.

Go writes zero where it has no pointer, and its JSON leaves most of those out again; so do we, field by field.
"""

from __future__ import annotations

import binascii
from typing import Any, Final

from localpv.api.objects import Object
from localpv.api.protobuf import messages, special, wire
from localpv.api.protobuf.messages import JSON_SCHEMA, MAGIC, Field, Message
from localpv.errors import BadRequest

MAX_DEPTH: Final = 200
"""Messages in messages. Only the schema of a CustomResourceDefinition can nest without end."""


def decode(raw: bytes) -> Object:
    """The object in a binary body, as JSON; BadRequest when there is none in it."""
    try:
        return _envelope(raw)
    except wire.Malformed as reason:
        raise BadRequest(f"the body of the request is not valid protobuf: {reason}") from None
    except RecursionError:
        raise BadRequest("the body of the request is nested too deeply") from None


def _envelope(raw: bytes) -> Object:
    if not raw.startswith(MAGIC):
        raise wire.Malformed("it does not begin as Kubernetes begins it")
    parts: dict[int, tuple[int, int]] = {}
    at, end = len(MAGIC), len(raw)
    while at < end:
        number, wire_type, at = wire.tag(raw, at, end)
        start, at = wire.length(raw, at, end) if wire_type == wire.LENGTH else (at, wire.skip(raw, at, end, wire_type))
        parts[number] = start, at
    nothing = (end, end)
    names = special.scalars(raw, *parts.get(1, nothing))
    api_version, kind = (wire.text(value, 0, len(value)) for value in (_text(names, 1), _text(names, 2)))
    if wire.text(raw, *parts.get(3, nothing)):
        raise wire.Malformed("the object in it is compressed, which this server does not read")

    start, end = parts.get(2, nothing)
    if wire.text(raw, *parts.get(4, nothing)) == "application/json":
        value = special.read_json(raw[start:end])
        if not isinstance(value, dict):
            raise wire.Malformed("the JSON in it is not an object")
        return {"apiVersion": api_version, "kind": kind, **value}
    if not (api_version and kind):
        raise BadRequest(f"the object in the body has no {'kind' if api_version else 'apiVersion'}")
    obj: Object = {"apiVersion": api_version, "kind": kind}
    _message(raw, start, end, messages.message(messages.name_of(api_version, kind)), obj, MAX_DEPTH)
    return obj


def _text(found: dict[int, Any], number: int) -> bytes:
    value = found.get(number, b"")
    if type(value) is not bytes:
        raise wire.Malformed(f"field {number} must be a text")
    return value


def _message(raw: bytes, at: int, end: int, known: Message, into: Object, depth: int) -> None:
    """Fill an object with the fields of a message. One that comes twice is merged, or the last one counts."""
    if not depth:
        raise wire.Malformed(f"messages in it are nested more than {MAX_DEPTH} deep")
    while at < end:
        number, wire_type, at = wire.tag(raw, at, end)
        field = known.get(number)
        if field is None:
            at = wire.skip(raw, at, end, wire_type)
        elif wire_type == wire.LENGTH:
            start, at = wire.length(raw, at, end)
            if field.mapped:
                _entry(raw, start, at, field, into, depth)
            elif field.is_message and not field.repeated:
                inner = into if field.inline else into.setdefault(field.name, {})
                _message(raw, start, at, messages.message(field.type), inner, depth - 1)
            elif field.repeated and field.type in _NUMBERS:
                while start < at:
                    value, start = _NUMBERS[field.type](raw, start, at)
                    _store(into, field, value)
            else:
                _store(into, field, _value(raw, start, at, field, depth))
        elif field.type in _NUMBERS and wire_type == _WIRE_TYPES[field.type] and not field.mapped:
            value, at = _NUMBERS[field.type](raw, at, end)
            _store(into, field, value)
        else:
            raise _unexpected(field, wire_type)


def _store(into: Object, field: Field, value: Any) -> None:
    if field.repeated:
        into.setdefault(field.name, []).append(value)
    elif value is None or (field.drops_zero and not value):
        into.pop(field.name, None)
    else:
        into[field.name] = value


def _entry(raw: bytes, at: int, end: int, field: Field, into: Object, depth: int) -> None:
    """One key of a map with its value. Go writes both, but a zero may be left out."""
    key, value = "", _ABSENT
    while at < end:
        number, wire_type, at = wire.tag(raw, at, end)
        if number > 2:
            at = wire.skip(raw, at, end, wire_type)
        elif wire_type == wire.LENGTH:
            start, at = wire.length(raw, at, end)
            if number == 1:
                key = wire.text(raw, start, at)
            else:
                value = _value(raw, start, at, field, depth)
        elif number == 2 and field.type in _NUMBERS and wire_type == _WIRE_TYPES[field.type]:
            value, at = _NUMBERS[field.type](raw, at, end)
        else:
            raise _unexpected(field, wire_type)
    if value is _ABSENT:
        value = 0 if field.type in _NUMBERS else _value(b"", 0, 0, field, depth)
    into.setdefault(field.name, {})[key] = value


def _value(raw: bytes, at: int, end: int, field: Field, depth: int) -> Any:
    """A value of stated length, alone or as an element."""
    kind = field.type
    if kind == "string":
        return wire.text(raw, at, end)
    if field.is_message:
        inner: Object = {}
        _message(raw, at, end, messages.message(kind), inner, depth - 1)
        return inner
    if kind == "bytes":
        return binascii.b2a_base64(raw[at:end], newline=False).decode("ascii")
    read = special.READERS.get(kind)
    if read is not None:
        return read(raw, at, end)
    if kind in _SCHEMA_OR:
        return _schema_or(raw, at, end, kind, depth)
    raise _unexpected(field, wire.LENGTH)


def _schema_or(raw: bytes, at: int, end: int, kind: str, depth: int) -> Any:
    """A schema, or what else may stand in its place: a truth value, a list of schemas or a list of texts."""
    found: Object = {}
    _message(raw, at, end, _SCHEMA_OR[kind], found, depth - 1)
    if kind == "schema-or-bool":
        return found.get("schema", found.get("else", False))
    return found.get("else", found.get("schema"))


def _unexpected(field: Field, wire_type: int) -> wire.Malformed:
    return wire.Malformed(f"wire type {wire_type} does not fit the field {field.name}, which is of type {field.type}")


def _int32(raw: bytes, at: int, end: int) -> tuple[int, int]:
    value, at = wire.varint(raw, at, end)
    return wire.int32(value), at


def _int64(raw: bytes, at: int, end: int) -> tuple[int, int]:
    value, at = wire.varint(raw, at, end)
    return wire.int64(value), at


def _bool(raw: bytes, at: int, end: int) -> tuple[bool, int]:
    value, at = wire.varint(raw, at, end)
    return value != 0, at


_ABSENT: Final[Any] = object()
_NUMBERS: Final[dict[str, Any]] = {"bool": _bool, "double": wire.double, "int32": _int32, "int64": _int64}
_WIRE_TYPES: Final = {"bool": wire.VARINT, "double": wire.FIXED64, "int32": wire.VARINT, "int64": wire.VARINT}

_SCHEMA_OR: Final[dict[str, Message]] = {
    "schema-or-array": {
        1: Field("", "schema", JSON_SCHEMA, "p"),
        2: Field("", "else", JSON_SCHEMA, "r"),
    },
    "schema-or-bool": {
        1: Field("", "else", "bool"),
        2: Field("", "schema", JSON_SCHEMA, "p"),
    },
    "schema-or-strings": {
        1: Field("", "schema", JSON_SCHEMA, "p"),
        2: Field("", "else", "string", "r"),
    },
}
