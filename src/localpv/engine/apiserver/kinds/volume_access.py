"""Rules that volumes and claims share: access modes, volume modes, amounts of storage."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from localpv.api import fields
from localpv.api.fields import FieldError
from localpv.api.quantity import NANO, Quantity

Errors = Iterator[FieldError]

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")


@lru_cache(maxsize=1024)
def read_amount(value: str | int) -> Quantity:
    """A quantity read; the same few are read over and over."""
    return Quantity.parse(value)


def access_modes(modes: list[str], path: str) -> Errors:
    known = [mode for mode in modes if mode in ACCESS_MODES]
    for mode in modes:
        if mode not in known:
            yield fields.not_supported(path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in known and len(set(known)) > 1:
        yield fields.forbidden(path, "ReadWriteOncePod excludes every other access mode")


def volume_mode(mode: str | None, path: str) -> Errors:
    if mode is not None and mode not in VOLUME_MODES:
        yield fields.not_supported(path, mode, VOLUME_MODES)


def round_up(amounts: dict[str, str]) -> None:
    """Amounts finer than a thousandth, which the API has promised never to show, become the next thousandth."""
    for name, given in amounts.items():
        if given[-1:] in ("n", "u") or "." in given or "e" in given:
            exact = read_amount(given)
            if exact.nanos % _MILLI:
                amounts[name] = str(Quantity(exact.milli_value * _MILLI, exact.format))


def positive(given: str | int, path: str) -> Errors:
    if read_amount(given) <= ZERO:
        yield fields.invalid(path, given, "must be greater than zero")


_MILLI = NANO // 1000
ZERO = Quantity(0)
