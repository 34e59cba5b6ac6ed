"""Rules that volumes and claims share: access modes, volume modes, amounts of storage."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, quantity
from localpv.api.fields import FieldError

Errors = Iterator[FieldError]

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")

STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""Where the class of a volume or claim was written before Kubernetes 1.6."""


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
    for name, amount in amounts.items():
        if amount[-1:] in ("n", "u") or "." in amount or "e" in amount:
            exact = quantity.Quantity.parse(amount)
            if exact.nanos % _MILLI:
                amounts[name] = str(quantity.Quantity(exact.milli_value * _MILLI, exact.format))


def positive(amount: str | int, path: str) -> Errors:
    if quantity.Quantity.parse(amount) <= ZERO:
        yield fields.invalid(path, amount, "must be greater than zero")


_MILLI = quantity.NANO // 1000
ZERO = quantity.Quantity.parse("0")
