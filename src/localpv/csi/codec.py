"""Messages of CSI between dictionaries and the binary form.

A message is a dictionary by the names of its fields. Whole numbers are int, values of an enumeration are their names
(or an int that has none), and what is absent or zero is not there; only of fields that exclude each other the one that
was sent is there even when empty. Bytes are written as Go writes them: fields by number, those that exclude each other
last, keys of maps in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from localpv.api.protobuf import wire

Message: TypeAlias = dict[str, Any]

MAX_VALUES: Final = 100_000
"""Fields, elements and keys in one message, those of messages in it too. Two bytes can be an element that takes up a
hundred in memory, so the length alone bounds too little."""

_SCALARS: Final = frozenset({"bool", "bytes", "int32", "int64", "string"})


class Malformed(ValueError):
    """These bytes are no such message, or this dictionary is none; says why in half a sentence."""


class _Field:
    __slots__ = ("enum", "excludes", "is_message", "mapped", "name", "number", "repeated", "type")

    def __init__(self, number: int, name: str, kind: str, marks: str = "") -> None:
        self.number = number
        self.name = name
        self.type = kind
        self.mapped = marks == "m"
        self.repeated = marks == "r"
        self.excludes = marks[1:] if marks.startswith("o") else ""
        """The name of the choice that this field is one of."""
        self.enum = kind not in _SCALARS and kind in _facts().enums
        self.is_message = kind not in _SCALARS and not self.enum


class _Facts(msgspec.Struct):
    methods: dict[str, tuple[str, str]]
    messages: dict[str, msgspec.Raw]
    enums: dict[str, msgspec.Raw]


@cache
def _facts() -> _Facts:
    return msgspec.json.decode(Path(__file__).with_name("messages.json").read_bytes(), type=_Facts)


@cache
def _fields(name: str) -> dict[int, _Field]:
    facts = msgspec.json.decode(_facts().messages[name], type=dict[int, list[str]])
    fields = [_Field(number, *field) for number, field in facts.items()]
    fields.sort(key=lambda field: (bool(field.excludes), field.number))  # as Go writes them
    return {field.number: field for field in fields}


@cache
def _enum_names(name: str) -> dict[int, str]:
    return msgspec.json.decode(_facts().enums[name], type=dict[int, str])


@cache
def _enum_numbers(name: str) -> dict[str, int]:
    return {value: number for number, value in _enum_names(name).items()}


def method(path: str) -> tuple[str, str] | None:
    """The names of the messages that a method takes and gives."""
    return _facts().methods.get(path)


def decode(name: str, raw: bytes) -> Message:
    """The message in these bytes. Fields that it does not have are stepped over."""
    into: Message = {}
    try:
        _read(raw, 0, len(raw), name, into, _Count())
    except wire.Malformed as reason:
        raise Malformed(str(reason)) from None
    return into


class _Count:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_VALUES

    def one(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Malformed(f"there are more than {MAX_VALUES} values in it")


def _read(raw: bytes, at: int, end: int, name: str, into: Message, count: _Count) -> None:
    known = _fields(name)
    while at < end:
        count.one()
        number, wire_type, at = wire.tag(raw, at, end)
        if wire_type in (wire.START_GROUP, wire.END_GROUP):
            raise Malformed("there are groups in it")
        field = known.get(number)
        if field is None:
            at = wire.skip(raw, at, end, wire_type)
        elif wire_type == wire.LENGTH:
            start, at = wire.length(raw, at, end)
            _read_length(raw, start, at, field, name, into, count)
        elif wire_type == wire.VARINT and field.type not in ("string", "bytes") and not field.is_message:
            number, at = wire.varint(raw, at, end)
            _store(into, field, _number(number, field), name)
        else:
            raise Malformed(f"wire type {wire_type} does not fit the field {field.name}")


def _read_length(raw: bytes, at: int, end: int, field: _Field, name: str, into: Message, count: _Count) -> None:
    if field.mapped:
        key, value = _entry(raw, at, end, count)
        into.setdefault(field.name, {})[key] = value
    elif field.is_message:
        # One that comes twice is merged.
        inner = {} if field.repeated else into.get(field.name, {})
        _read(raw, at, end, field.type, inner, count)
        _store(into, field, inner, name)
    elif field.type == "string":
        _store(into, field, wire.text(raw, at, end), name)
    elif field.type == "bytes":
        _store(into, field, raw[at:end], name)
    elif field.repeated:
        while at < end:
            count.one()
            number, at = wire.varint(raw, at, end)
            _store(into, field, _number(number, field), name)
    else:
        raise Malformed(f"wire type {wire.LENGTH} does not fit the field {field.name}")


def _entry(raw: bytes, at: int, end: int, count: _Count) -> tuple[str, str]:
    texts = ["", "", ""]
    while at < end:
        count.one()
        number, wire_type, at = wire.tag(raw, at, end)
        if wire_type in (wire.START_GROUP, wire.END_GROUP):
            raise Malformed("there are groups in it")
        if number > 2:
            at = wire.skip(raw, at, end, wire_type)
        elif wire_type == wire.LENGTH:
            start, at = wire.length(raw, at, end)
            texts[number] = wire.text(raw, start, at)
        else:
            raise Malformed(f"wire type {wire_type} does not fit an entry of a map")
    return texts[1], texts[2]


def _number(value: int, field: _Field) -> Any:
    match field.type:
        case "bool":
            return value != 0
        case "int64":
            return wire.int64(value)
        case "int32":
            return wire.int32(value)
    number = wire.int32(value)
    return _enum_names(field.type).get(number, number) if number else 0


def _store(into: Message, field: _Field, value: Any, name: str) -> None:
    if field.repeated:
        if field.enum and not value:
            value = _enum_names(field.type).get(0, 0)
        into.setdefault(field.name, []).append(value)
        return
    if field.excludes:
        for other in _fields(name).values():
            if other.excludes == field.excludes and other is not field:
                into.pop(other.name, None)
    elif not value and not field.is_message:
        into.pop(field.name, None)  # zero is the same as absent
        return
    into[field.name] = value


def encode(name: str, message: Mapping[str, Any]) -> bytes:
    """The bytes of a message; Malformed when it has a field or a value that there is none of."""
    return b"".join(_written(name, message))


def _written(name: str, message: Mapping[str, Any]) -> Iterator[bytes]:
    known = _fields(name)
    names = {field.name for field in known.values()}
    if unknown := next((key for key in message if key not in names), None):
        raise Malformed(f"{name} has no field {unknown}")
    for number, field in known.items():
        value = message.get(field.name)
        if value is None:
            continue
        if field.mapped:
            for key, item in sorted(value.items()):
                yield wire.write_bytes(number, wire.write_bytes(1, _utf8(key)) + wire.write_bytes(2, _utf8(item)))
        elif field.repeated and not field.is_message and field.type not in ("string", "bytes"):
            if value:
                yield wire.write_bytes(number, b"".join(wire.write_varint(_as_number(item, field)) for item in value))
        elif field.repeated:
            for item in value:
                yield _one(number, item, field)
        elif value or field.is_message or field.excludes:
            yield _one(number, value, field)


def _one(number: int, value: Any, field: _Field) -> bytes:
    if field.is_message:
        return wire.write_bytes(number, encode(field.type, value))
    if field.type == "string":
        return wire.write_bytes(number, _utf8(value))
    if field.type == "bytes":
        return wire.write_bytes(number, value)
    as_number = _as_number(value, field)
    return wire.write_number(number, as_number) if as_number or field.excludes else b""


def _utf8(value: str) -> bytes:
    return value.encode("utf-8", errors="replace")  # a path of the kernel may hold bytes that are none


def _as_number(value: Any, field: _Field) -> int:
    if field.enum and isinstance(value, str):
        try:
            return _enum_numbers(field.type)[value]
        except KeyError:
            raise Malformed(f"{field.type} has no value {value}") from None
    return int(value)
