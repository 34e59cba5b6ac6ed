"""The capacity that a volume is published with."""

from __future__ import annotations

from localpv.api.quantity import NANO, Format, Quantity

MIB = 1 << 20
GIB = 1 << 30
ROUNDED_FROM = 10
"""Of ten units on, less than a unit is left out: a tenth at most is lost, and equal disks look equal."""


def round_down(size_bytes: int) -> int:
    """To whole GiB from 10 GiB on, to whole MiB from 10 MiB on, exact below: as the classic provisioner does."""
    for unit in (GIB, MIB):
        if size_bytes >= ROUNDED_FROM * unit:
            return size_bytes - size_bytes % unit
    return size_bytes


def quantity(size_bytes: int) -> str:
    """The capacity of a disk of this size, such as `931Gi`."""
    return str(Quantity(round_down(size_bytes) * NANO, Format.BINARY))
