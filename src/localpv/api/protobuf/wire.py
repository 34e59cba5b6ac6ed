"""The alphabet of protobuf: numbers of variable length, tags, and how to step over what one does not know.

Everything is read in place, between two positions of one `bytes`, so that deep messages are not copied level by level.
"""

from __future__ import annotations

import struct
from typing import Final

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
