"""Whole objects between JSON and the binary form.

Which fields a message has are generated facts, read when the first binary body comes and decoded message by message.
Go writes zero where it has no pointer, and its JSON leaves most of those out again; so do we, field by field. What is
written is byte for byte what Go writes: fields go by number, the keys of maps in order, and fields that a kind does
not have are left out.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from localpv.api.objects import Object
from localpv.api.protobuf import wire
from localpv.errors import BadRequest, UnsupportedMediaType

MAGIC: Final = b"k8s\x00"
"""The first bytes of every body in this form."""

JSON_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"

SCALARS: Final = frozenset({"bool", "bytes", "double", "int32", "int64", "string"})

_NAMES: Final = "io.k8s."


class Field:
    """One field of a message. `type` is a scalar, a form that `special` knows, or the name of a message."""

    __slots__ = ("drops_zero", "inline", "is_message", "mapped", "name", "pointer", "repeated", "type")

    def __init__(self, home: str, name: str, kind: str, marks: str = "") -> None:
        self.name = name
        # A capital without dots is a message of the same package.
        self.type = home + kind if kind[0].isupper() else kind
        self.is_message = self.type.startswith(_NAMES)
        self.mapped = "m" in marks
        self.repeated = "r" in marks

        self.inline = "i" in marks
        """JSON shows the fields of this message among those of the message around it."""

        self.pointer = "p" in marks
        """Go knows absent from zero here. Elsewhere it sends zero too, and cannot tell them apart."""

        self.drops_zero = "o" in marks and not self.pointer and not self.repeated and self.type in SCALARS
        """Zero means the same as absent, and JSON leaves it out."""


Message = dict[int, Field]
"""The fields of a message by number, in ascending order."""


class _Facts(msgspec.Struct):
    kinds: dict[str, str]
    messages: dict[str, msgspec.Raw]


def name_of(api_version: str, kind: str) -> str:
    """The message that a kind is, or why there is none."""
    kinds = _facts().kinds
    name = kinds.get(f"{api_version} {kind}") or kinds.get(f"* {kind}")
    if name is not None:
        return name
    if any(known.startswith(f"{api_version} ") for known in kinds):
        raise BadRequest(f'no kind "{kind}" is registered for version "{api_version}"')
    raise UnsupportedMediaType(
        f"only built-in kinds have a binary form, and {kind} in {api_version} is none that this server knows: "
        "send application/json"
    )


@cache
def message(name: str) -> Message:
    facts = msgspec.json.decode(_facts().messages[name], type=dict[int, list[str]])
    home = name.rpartition(".")[0] + "."
    return {number: Field(home, *field) for number, field in facts.items()}


@cache
def _facts() -> _Facts:
    return msgspec.json.decode(Path(__file__).with_name("messages.json").read_bytes(), type=_Facts)


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
    names = wire.scalars(raw, *parts.get(1, nothing))
    api_version, kind = (wire.text(value, 0, len(value)) for value in (_text(names, 1), _text(names, 2)))
    if wire.text(raw, *parts.get(3, nothing)):
        raise wire.Malformed("the object in it is compressed, which this server does not read")

    start, end = parts.get(2, nothing)
    if wire.text(raw, *parts.get(4, nothing)) == "application/json":
        value = wire.read_json(raw[start:end])
        if not isinstance(value, dict):
            raise wire.Malformed("the JSON in it is not an object")
        return {"apiVersion": api_version, "kind": kind, **value}
    if not (api_version and kind):
        raise BadRequest(f"the object in the body has no {'kind' if api_version else 'apiVersion'}")
    obj: Object = {"apiVersion": api_version, "kind": kind}
    _read_message(raw, start, end, message(name_of(api_version, kind)), obj, MAX_DEPTH)
    return obj


def _text(found: dict[int, Any], number: int) -> bytes:
    value = found.get(number, b"")
    if type(value) is not bytes:
        raise wire.Malformed(f"field {number} must be a text")
    return value


def _read_message(raw: bytes, at: int, end: int, known: Message, into: Object, depth: int) -> None:
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
                _read_message(raw, start, at, message(field.type), inner, depth - 1)
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
        _read_message(raw, at, end, message(kind), inner, depth - 1)
        return inner
    if kind == "bytes":
        return binascii.b2a_base64(raw[at:end], newline=False).decode("ascii")
    read = wire.READERS.get(kind)
    if read is not None:
        return read(raw, at, end)
    if kind in _SCHEMA_OR:
        return _schema_read(raw, at, end, kind, depth)
    raise _unexpected(field, wire.LENGTH)


def _schema_read(raw: bytes, at: int, end: int, kind: str, depth: int) -> Any:
    """A schema, or what else may stand in its place: a truth value, a list of schemas or a list of texts."""
    found: Object = {}
    _read_message(raw, at, end, _SCHEMA_OR[kind], found, depth - 1)
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


def encode(obj: Object) -> bytes:
    """An object that fits its kind as the body of a request. Only built-in kinds have this form."""
    api_version, kind = obj["apiVersion"], obj["kind"]
    return b"".join(
        (
            MAGIC,
            wire.write_bytes(1, wire.write_bytes(1, api_version.encode()) + wire.write_bytes(2, kind.encode())),
            wire.write_bytes(2, _write_message(obj, name_of(api_version, kind))),
            wire.write_bytes(3, b""),  # not compressed
            wire.write_bytes(4, b""),  # not JSON
        )
    )


def _write_message(obj: Object, name: str) -> bytes:
    return b"".join(_fields(obj, name))


def _fields(obj: Object, name: str) -> Iterator[bytes]:
    for number, field in message(name).items():
        if field.inline:
            yield wire.write_bytes(number, _write_message(obj, field.type))
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
        return wire.write_bytes(number, _write_message(value or {}, kind))
    if kind in ("int32", "int64", "bool"):
        return wire.write_number(number, value or 0)
    if kind == "double":
        return wire.write_varint(number << 3 | wire.FIXED64) + wire.DOUBLE.pack(value or 0)
    if kind == "bytes":
        return wire.write_bytes(number, binascii.a2b_base64(value or ""))
    if kind in wire.WRITERS:
        return wire.write_bytes(number, wire.WRITERS[kind](value))
    return wire.write_bytes(number, _schema_or(value, kind))


def _schema_or(value: Any, kind: str) -> bytes:
    is_schema = isinstance(value, dict)
    schema = _write_message(value, JSON_SCHEMA) if is_schema else b""
    if kind == "schema-or-bool":
        allows = wire.write_number(1, is_schema or value)
        return allows + (wire.write_bytes(2, schema) if is_schema else b"")
    if is_schema:
        return wire.write_bytes(1, schema)
    items = (item.encode() if isinstance(item, str) else _write_message(item, JSON_SCHEMA) for item in value)
    return b"".join(wire.write_bytes(2, item) for item in items)
