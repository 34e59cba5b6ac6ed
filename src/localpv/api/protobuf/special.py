"""Messages that JSON shows as something other than an object: times, quantities, raw JSON and the like."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from localpv.api.protobuf import wire

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_TIME: Final = datetime(1, 1, 1, tzinfo=UTC)
"""What Go takes for no time at all."""

_decode_json = msgspec.json.Decoder().decode


def scalars(raw: bytes, at: int, end: int) -> dict[int, Any]:
    """The last value of each field: numbers as they are on the wire, everything else as the bytes it is."""
    found: dict[int, Any] = {}
    while at < end:
        number, wire_type, at = wire.tag(raw, at, end)
        if wire_type == wire.VARINT:
            found[number], at = wire.varint(raw, at, end)
        elif wire_type == wire.LENGTH:
            start, at = wire.length(raw, at, end)
            found[number] = raw[start:at]
        else:
            at = wire.skip(raw, at, end, wire_type)
    return found


def _number(found: dict[int, Any], number: int) -> int:
    value = found.get(number, 0)
    if type(value) is not int:
        raise wire.Malformed(f"field {number} must be a number")
    return wire.int64(value)


def _bytes(found: dict[int, Any], number: int) -> bytes:
    value = found.get(number, b"")
    if type(value) is not bytes:
        raise wire.Malformed(f"field {number} must not be a number")
    return value


def _text(found: dict[int, Any], number: int) -> str:
    value = _bytes(found, number)
    return wire.text(value, 0, len(value))


def _read_int_or_string(raw: bytes, at: int, end: int) -> int | str:
    found = scalars(raw, at, end)
    if _number(found, 1):
        return _text(found, 3)
    return wire.int32(_number(found, 2))


def _read_quantity(raw: bytes, at: int, end: int) -> str:
    return _text(scalars(raw, at, end), 1) or "0"


def _read_json(raw: bytes, at: int, end: int) -> Any:
    held = _bytes(scalars(raw, at, end), 1)
    return read_json(held) if held else None


def read_json(held: bytes) -> Any:
    try:
        return _decode_json(held)
    except (ValueError, RecursionError) as error:
        raise wire.Malformed(f"it holds JSON that is not valid: {error}") from None


def _read_time(raw: bytes, at: int, end: int) -> str | None:
    if at == end:
        return None
    moment = _moment(_number(scalars(raw, at, end), 1), 0)
    return None if moment == _ZERO_TIME else f"{moment.replace(tzinfo=None).isoformat()}Z"


def _read_micro_time(raw: bytes, at: int, end: int) -> str | None:
    if at == end:
        return None
    found = scalars(raw, at, end)
    moment = _moment(_number(found, 1), wire.int32(_number(found, 2)))
    return None if moment == _ZERO_TIME else f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _moment(seconds: int, nanoseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    except OverflowError:
        raise wire.Malformed("a time in it is in no year from 1 to 9999") from None


def _read_strings(raw: bytes, at: int, end: int) -> list[str]:
    found = []
    while at < end:
        number, wire_type, at = wire.tag(raw, at, end)
        if number == 1 and wire_type == wire.LENGTH:
            start, at = wire.length(raw, at, end)
            found.append(wire.text(raw, start, at))
        else:
            at = wire.skip(raw, at, end, wire_type)
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
    return (
        wire.write_number(1, isinstance(value, str)) + wire.write_number(2, number) + wire.write_bytes(3, text.encode())
    )


def _write_quantity(value: str | float | None) -> bytes:
    return wire.write_bytes(1, str(value or "0").encode())


def _write_json(value: Any) -> bytes:
    return b"" if value is None else wire.write_bytes(1, msgspec.json.encode(value))


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
    return wire.write_number(1, seconds) + wire.write_number(2, microseconds * 1000)


def _write_strings(value: list[str] | None) -> bytes:
    return b"".join(wire.write_bytes(1, item.encode()) for item in value or ())


WRITERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "int-or-string": _write_int_or_string,
    "json": _write_json,
    "micro-time": _write_micro_time,
    "quantity": _write_quantity,
    "strings": _write_strings,
    "time": _write_time,
}
