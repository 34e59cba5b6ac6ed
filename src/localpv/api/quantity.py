"""Resource quantities: `10Gi`, `500m`, `1.5`, `2e9`. Exact, without floating point.

The smallest amount that the API can tell from zero is a billionth, so every quantity is a whole number of billionths.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

NANO = 10**9
MAX_BINARY = 2**63 - 1
"""Quantities with a binary suffix are cut to this; decimal ones are not."""

MAX_EXPONENT = 1000
"""Far beyond any use, and small enough that no request makes the server count digits for minutes."""
MAX_LENGTH = 1000

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIX = ("", *_BINARY)

_parts = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?").fullmatch
_number = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)").match
_surely_canonical = re.compile(r"[1-9][0-9]{0,2}(?:[mkMGTP]|[KMGTP]i)?").fullmatch


class Format(Enum):
    """How a quantity was written, and so how it is shown again."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An amount and the way to write it. Two quantities are equal when their amounts are."""

    nanos: int
    """The amount in billionths, rounded away from zero when it was written more finely."""

    format: Format = Format.DECIMAL

    @classmethod
    def parse(cls, value: str | int | float) -> Quantity:
        """The quantity that a string or a JSON number means; ValueError says what is wrong with it."""
        if isinstance(value, str):
            return _read(value.strip())[0]
        if isinstance(value, bool) or not math.isfinite(value):
            raise ValueError(f"{value} is not a quantity: write a number or a string such as 10Gi")
        # The shortest decimal form is what stood in the JSON; the float itself would bring its binary rounding along.
        return _read(str(value) if isinstance(value, int) else repr(value))[0]

    @property
    def value(self) -> int:
        """Whole units; a fraction counts as one more."""
        return _divide_up(self.nanos, NANO)

    @property
    def milli_value(self) -> int:
        """Thousandths; a fraction counts as one more."""
        return _divide_up(self.nanos, NANO // 1000)

    def __str__(self) -> str:
        nanos = self.nanos
        if nanos == 0:
            return "0"
        if self.format is Format.BINARY:
            units, fraction = divmod(nanos, NANO)
            # Small or broken numbers read better, and stay exact, without a binary suffix.
            if fraction == 0 and abs(units) >= 1024:
                power = 0
                while units % 1024 == 0 and power < 6:
                    units //= 1024
                    power += 1
                return f"{units}{_BINARY_SUFFIX[power]}"
        exponent = -9
        while nanos % 1000 == 0:
            nanos //= 1000
            exponent += 3
        # There is no suffix beyond E, so larger numbers are written with an exponent.
        if self.format is not Format.EXPONENT and exponent in _DECIMAL_SUFFIX:
            return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"
        return f"{nanos}e{exponent}" if exponent else str(nanos)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Quantity) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Quantity) -> bool:
        return self.nanos >= other.nanos


def canonical(value: str | int | float) -> str:
    """The form in which the server stores a quantity: `1024Mi` becomes `1Gi`, 0.5 becomes `500m`.

    Some unusual ways to write a number, such as `1.500` or `+3`, are stored as they came, as Kubernetes does.
    """
    if isinstance(value, str):
        return value if _surely_canonical(value) else _canonical_text(value.strip())
    return str(Quantity.parse(value))


@lru_cache(maxsize=1024)
def _canonical_text(text: str) -> str:
    quantity, keep = _read(text)
    return text if keep else str(quantity)


def _read(text: str) -> tuple[Quantity, bool]:
    """The quantity, and whether its text counts as canonical already."""
    match = _parts(text) if 0 < len(text) <= MAX_LENGTH else None
    if match is None or not (match[2] or match[3]):
        raise ValueError(_what_is_wrong(text))
    sign, whole, fraction, suffix, exponent_text = match.groups()
    whole = whole.lstrip("0") or "0"
    fraction = fraction or ""
    suffix = suffix or ""
    digits = whole + fraction
    number = int(digits)

    if suffix in _BINARY:
        nanos = _divide_up(number * NANO << _BINARY[suffix], 10 ** len(fraction))
        nanos = min(nanos, MAX_BINARY * NANO)
        kept = not fraction and number % 8 != 0 and 14 - len(whole) - _BINARY[suffix] * 3 // 10 >= 0
        return Quantity(-nanos if sign == "-" else nanos, Format.BINARY), kept

    exponent = _exponent(text, exponent_text) if exponent_text else _DECIMAL[suffix]
    scale = exponent - len(fraction)
    if scale >= -9:
        nanos = number * 10 ** (scale + 9)
    elif -9 - scale > len(digits):
        nanos = 1 if number else 0
    else:
        nanos = _divide_up(number, 10 ** (-9 - scale))
    kept = scale >= -9 and scale % 3 == 0 and len(digits) <= 18 and digits[0] != "0" and not digits.endswith("000")
    form = Format.EXPONENT if exponent_text else Format.DECIMAL
    return Quantity(-nanos if sign == "-" else nanos, form), kept


def _exponent(text: str, exponent: str) -> int:
    if len(exponent) > 8 or int(exponent) > MAX_EXPONENT:
        raise ValueError(f'"{text[:40]}" is not a quantity that can be handled: its exponent is out of range')
    return int(exponent)


def _divide_up(number: int, by: int) -> int:
    """Division that rounds away from zero: who asks for a little gets a little, not nothing."""
    return -(-number // by) if number >= 0 else number // by


def _what_is_wrong(text: str) -> str:
    if not text:
        return "an empty string is not a quantity: write a number with an optional suffix, such as 500m or 10Gi"
    if len(text) > MAX_LENGTH:
        return f'"{text[:40]}…" is not a quantity: it has more than {MAX_LENGTH} characters'
    number = _number(text)
    if number is None:
        return f'"{text}" is not a quantity: it must start with a number, as 500m, 1.5 or 10Gi do'
    suffixes = " ".join(suffix for suffix in (*_DECIMAL, *_BINARY) if suffix)
    return (
        f'"{text}" is not a quantity: "{text[number.end() :]}" is no suffix; '
        f"there are {suffixes} (capitals matter) and exponents such as e3"
    )
