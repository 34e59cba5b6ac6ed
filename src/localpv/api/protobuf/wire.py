"""The alphabet of protobuf: numbers of variable length, tags, and how to step over what one does not know.

Messages that JSON shows as something other than an object are here too: times, quantities, raw JSON and the like.

Everything is read in place, between two positions of one `bytes`, so that deep messages are not copied level by level.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
START_GROUP: Final = 3
END_GROUP: Final = 4
FIXED32: Final = 5

DOUBLE: Final = struct.Struct("<d")

_MAX_NUMBER: Final = (1 << 29) - 1


class Malformed(ValueError):
    """These bytes are not the message that they should be; says why in half a sentence."""


def varint(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """A number from 0 to 2**64 - 1, and the position after it."""
    value = shift = 0
    while at < end:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise Malformed("a number is longer than 64 bits")
    raise Malformed("it ends in the middle of a number")


def tag(raw: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Number and wire type of the next field, and the position after them."""
    value, at = varint(raw, at, end)
    number = value >> 3
    if not 0 < number <= _MAX_NUMBER:
        raise Malformed(f"there is no field {number}")
    return number, value & 7, at


def length(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """Where a value of stated length begins, and where it ends."""
    size, at = varint(raw, at, end)
    if size > end - at:
        raise Malformed("a value is longer than the message that it is in")
    return at, at + size


def skip(raw: bytes, at: int, end: int, wire_type: int) -> int:
    """The position after a value that nobody asked for."""
    groups = 0
    while True:
        if wire_type == VARINT:
            _, at = varint(raw, at, end)
        elif wire_type == LENGTH:
            _, at = length(raw, at, end)
        elif wire_type in (FIXED64, FIXED32):
            at += 8 if wire_type == FIXED64 else 4
        elif wire_type == START_GROUP:
            groups += 1
        elif wire_type == END_GROUP and groups:
            groups -= 1
        else:
            raise Malformed(f"there is no wire type {wire_type} here")
        if at > end:
            raise Malformed("it ends in the middle of a number")
        if not groups:
            return at
        _, wire_type, at = tag(raw, at, end)


def text(raw: bytes, at: int, end: int) -> str:
    try:
        return raw[at:end].decode()
    except UnicodeDecodeError:
        raise Malformed("a text in it is not UTF-8") from None


def int32(value: int) -> int:
    """A varint as a signed number. What is too large is cut off, as Go does it."""
    value &= 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def int64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def double(raw: bytes, at: int, end: int) -> tuple[float, int]:
    if end - at < 8:
        raise Malformed("it ends in the middle of a number")
    value: float = DOUBLE.unpack_from(raw, at)[0]
    if value - value != 0:
        raise Malformed("a number in it is infinite or none, which JSON has no words for")
    return value, at + 8


def write_varint(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    if value < 0x80:
        return bytes((value,))
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def write_number(number: int, value: int) -> bytes:
    """A field that holds a whole number or a truth value."""
    return write_varint(number << 3 | VARINT) + write_varint(value)


def write_bytes(number: int, value: bytes) -> bytes:
    """A field that holds a text, bytes or a message."""
    return write_varint(number << 3 | LENGTH) + write_varint(len(value)) + value


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_TIME: Final = datetime(1, 1, 1, tzinfo=UTC)
"""What Go takes for no time at all."""

_decode_json = msgspec.json.Decoder().decode


def scalars(raw: bytes, at: int, end: int) -> dict[int, Any]:
    """The last value of each field: numbers as they are on the wire, everything else as the bytes it is."""
    found: dict[int, Any] = {}
    while at < end:
        number, wire_type, at = tag(raw, at, end)
        if wire_type == VARINT:
            found[number], at = varint(raw, at, end)
        elif wire_type == LENGTH:
            start, at = length(raw, at, end)
            found[number] = raw[start:at]
        else:
            at = skip(raw, at, end, wire_type)
    return found


def _number(found: dict[int, Any], number: int) -> int:
    value = found.get(number, 0)
    if type(value) is not int:
        raise Malformed(f"field {number} must be a number")
    return int64(value)


def _bytes(found: dict[int, Any], number: int) -> bytes:
    value = found.get(number, b"")
    if type(value) is not bytes:
        raise Malformed(f"field {number} must not be a number")
    return value


def _text(found: dict[int, Any], number: int) -> str:
    value = _bytes(found, number)
    return text(value, 0, len(value))


def _read_int_or_string(raw: bytes, at: int, end: int) -> int | str:
    found = scalars(raw, at, end)
    if _number(found, 1):
        return _text(found, 3)
    return int32(_number(found, 2))


def _read_quantity(raw: bytes, at: int, end: int) -> str:
    return _text(scalars(raw, at, end), 1) or "0"


def _read_json(raw: bytes, at: int, end: int) -> Any:
    held = _bytes(scalars(raw, at, end), 1)
    return read_json(held) if held else None


def read_json(held: bytes) -> Any:
    try:
        return _decode_json(held)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it holds JSON that is not valid: {error}") from None


def _read_time(raw: bytes, at: int, end: int) -> str | None:
    if at == end:
        return None
    moment = _moment(_number(scalars(raw, at, end), 1), 0)
    return None if moment == _ZERO_TIME else f"{moment.replace(tzinfo=None).isoformat()}Z"


def _read_micro_time(raw: bytes, at: int, end: int) -> str | None:
    if at == end:
        return None
    found = scalars(raw, at, end)
    moment = _moment(_number(found, 1), int32(_number(found, 2)))
    return None if moment == _ZERO_TIME else f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _moment(seconds: int, nanoseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    except OverflowError:
        raise Malformed("a time in it is in no year from 1 to 9999") from None


def _read_strings(raw: bytes, at: int, end: int) -> list[str]:
    found = []
    while at < end:
        number, wire_type, at = tag(raw, at, end)
        if number == 1 and wire_type == LENGTH:
            start, at = length(raw, at, end)
            found.append(text(raw, start, at))
        else:
            at = skip(raw, at, end, wire_type)
    return found


READERS: Final[dict[str, Callable[[bytes, int, int], Any]]] = {
    "int-or-string": _read_int_or_string,
    "json": _read_json,
    "micro-time": _read_micro_time,
    "quantity": _read_quantity,
    "strings": _read_strings,
    "time": _read_time,
}


def _write_int_or_string(value: int | str | None) -> bytes:
    text = value if isinstance(value, str) else ""
    number = value if isinstance(value, int) else 0
    return write_number(1, isinstance(value, str)) + write_number(2, number) + write_bytes(3, text.encode())


def _write_quantity(value: str | float | None) -> bytes:
    return write_bytes(1, str(value or "0").encode())


def _write_json(value: Any) -> bytes:
    return b"" if value is None else write_bytes(1, msgspec.json.encode(value))


def _write_time(value: str | None) -> bytes:
    return _write_moment(value, fraction=False)


def _write_micro_time(value: str | None) -> bytes:
    return _write_moment(value, fraction=True)


def _write_moment(value: str | None, *, fraction: bool) -> bytes:
    if value is None:
        return b""
    since = datetime.fromisoformat(value) - _EPOCH
    seconds = since // timedelta(seconds=1)
    microseconds = since.microseconds if fraction else 0
    return write_number(1, seconds) + write_number(2, microseconds * 1000)


def _write_strings(value: list[str] | None) -> bytes:
    return b"".join(write_bytes(1, item.encode()) for item in value or ())


WRITERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "int-or-string": _write_int_or_string,
    "json": _write_json,
    "micro-time": _write_micro_time,
    "quantity": _write_quantity,
    "strings": _write_strings,
    "time": _write_time,
}
