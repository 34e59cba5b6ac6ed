"""Texts of custom kinds: the formats that Kubernetes checks, and patterns, run by RE2.

A format that is not here is never wrong. RE2 has Go's syntax, and takes time that grows with the text alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from datetime import date
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any, Final

Check = Callable[[str], bool]


def check_of(name: str) -> Check | None:
    """The check behind a format; dashes in its name do not matter."""
    return _CHECKS.get(name.replace("-", ""))


def _matches(pattern: str, flags: int = 0) -> Check:
    full = re.compile(pattern, flags | re.ASCII).fullmatch
    return lambda text: full(text) is not None


def _is_date(text: str) -> bool:
    if not _DATE_SHAPE(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    day, separator, clock = text.lower().partition("t")
    return bool(separator) and _is_date(day) and _CLOCK_SHAPE(clock)


_DATE_SHAPE = _matches(r"\d{4}-\d\d-\d\d")
_CLOCK_SHAPE = _matches(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(z|[+-]\d\d:\d\d)")


def _without_leading_zeros(text: str) -> str:
    return re.sub(r"(?<![0-9a-fA-F:])0+(?=\d)", "", text) if "." in text else text


def _is_ip(text: str) -> bool:
    if "%" in text:
        return False
    try:
        ip_address(_without_leading_zeros(text))
    except ValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    if not slash or not length.isascii() or not length.isdigit() or not _is_ip(address):
        return False
    try:
        ip_network(f"{_without_leading_zeros(address)}/{int(length)}", strict=False)
    except ValueError:
        return False
    return True


def _is_mac(text: str) -> bool:
    octets = len(re.findall(r"[0-9a-fA-F]{2}", text))
    return octets in (6, 8, 20) and _MAC_SHAPE(text)


_MAC_SHAPE = _matches(
    r"[0-9a-f]{2}(:[0-9a-f]{2})+|[0-9a-f]{2}(-[0-9a-f]{2})+|[0-9a-f]{4}(\.[0-9a-f]{4})+", re.IGNORECASE
)


def _in_name(letter: str) -> bool:
    return letter.isalnum() if letter.isascii() else unicodedata.category(letter)[0] in "LS"


def _is_hostname(text: str) -> bool:
    """One short label, or a domain name whose last label is made of letters."""
    labels = text.split(".")
    if len(text.encode()) > 255 or any(not label or len(label.encode()) > 63 for label in labels):
        return False
    if len(labels) == 1:
        # Kubernetes allows at most one dash here, as the second character.
        return _in_name(text[0]) and all(map(_in_name, text[1:].removeprefix("-")))
    *hosts, top = labels
    inner = all(
        _in_name(host[0]) and _in_name(host[-1]) and all(letter == "-" or _in_name(letter) for letter in host)
        for host in hosts
    )
    return inner and len(top) >= 2 and all(letter.isalpha() for letter in top)


def _is_uri(text: str) -> bool:
    """An absolute address, or an absolute path."""
    if not text or any(letter < " " or letter == "\x7f" for letter in text) or re.search(r"%(?![0-9a-fA-F]{2})", text):
        return False
    if text.startswith("/"):
        return True
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text)
    if not scheme:
        return False
    rest = text[scheme.end() :]
    authority = re.split(r"[/?]", rest[2:], maxsplit=1)[0] if rest.startswith("//") else ""
    return not re.search(r"[ <>\"\\^`{|}]", authority) and _PORT_SHAPE(authority)


_PORT_SHAPE = _matches(r"(?>.*@)?+(?:\[[^\]]*\]|[^:\[\]]*)(?::\d*)?")


def _is_duration(text: str) -> bool:
    """What Go reads as a duration, or anywhere in the text a number with a unit: `1h30m`, `22 ns`, `2 weeks`."""
    if _GO_DURATION(text):
        return True
    return any(unit.lower() in _UNITS or unit.lower().startswith(_UNIT_WORDS) for unit in _number_with_unit(text))


# Possessive (++): digits are given back to nobody, or a text of digits alone would take quadratic time.
_GO_DURATION = _matches(r"[+-]?(0|((\d++\.?+\d*+|\.\d++)(ns|us|µs|μs|ms|s|m|h))+)")
_number_with_unit = re.compile(r"(?<![0-9])[0-9]++\s*+([A-Za-zµ]+)").findall
_UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_UNIT_WORDS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]", "", text)
    if not _CARD_SHAPE(digits):
        return False
    doubled = [int(digit) * 2 - 9 * (digit > "4") for digit in digits[-2::-2]]
    return (sum(doubled) + sum(map(int, digits[-1::-2]))) % 10 == 0


_CARD_SHAPE = _matches(
    r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}"
)


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    return sum((10 - place) * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10 == 0


def _uuid(version: str, variant: str) -> Check:
    return _matches(rf"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}-?{variant}-?[0-9a-f]{{12}}", re.IGNORECASE)


_HEX4: Final = "[0-9a-f]{4}"
_ATOM: Final = r"[^\s()<>\[\]:;@\\,.\"]+"
_ADDRESS: Final = rf"(?:{_ATOM}(?:\.{_ATOM})*|\"[^\"\\]+\")@(?:{_ATOM}(?:\.{_ATOM})*|\[[^\]]+\])"
_NAME: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_OCTET: Final = r"\s*(?:25[0-5]|2[0-4]\d|1?\d?\d)\s*"
_email = _matches(rf"{_ADDRESS}|[^<>@]*<{_ADDRESS}>")
_short_name, _long_name = _matches(_NAME), _matches(rf"{_NAME}(?:\.{_NAME})*")

_CHECKS: Final[dict[str, Check]] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}"),
    "byte": _matches(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": lambda text: _email(text.strip(" \t\n\r\f\v")),
    "hexcolor": _matches(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": lambda text: "." in text and _is_ip(text),
    "ipv6": lambda text: ":" in text and _is_ip(text),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": lambda text: len(text) <= 253 and _long_name(text),
    "k8sshortname": lambda text: len(text) <= 63 and _short_name(text),
    "mac": _is_mac,
    "rgbcolor": _matches(rf"rgb\({_OCTET},{_OCTET},{_OCTET}\)"),
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _is_uri,
    "uuid": _uuid(_HEX4, _HEX4),
    "uuid3": _uuid("3[0-9a-f]{3}", _HEX4),
    "uuid4": _uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
    "uuid5": _uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
}


LARGEST_TOGETHER: Final = 600_000
"""Instructions to which all patterns of one schema may come: a quarter of a second to compile. Ordinary ones have 20 to
1,000; one with a repeated class of Unicode, such as \\pL{253}, has 300,000."""

_REFUSED: Final = 100_000
"""As what a pattern counts that was refused: finding out can take as long as compiling it."""


class UnusablePattern(ValueError):
    """RE2 refuses the expression, as Go would; the message is its own."""


def found(pattern: str, text: str) -> bool:
    """Whether the expression, which must be usable, is found in a text."""
    return _compiled(pattern).search(text) is not None


class Effort:
    """Checks the patterns of one schema, and bounds what compiling all of them costs."""

    def __init__(self) -> None:
        self._left = LARGEST_TOGETHER
        self._known: set[str] = set()

    def check(self, pattern: str) -> None:
        """UnusablePattern when it is, or when there was too much before it."""
        if pattern in self._known:
            return
        self._known.add(pattern)
        if self._left <= 0:
            raise UnusablePattern("the patterns of this schema are too large together")
        try:
            self._left -= _compiled(pattern).programsize
        except UnusablePattern:
            self._left -= _REFUSED
            raise


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    import re2  # 3.4 MB, for those who have definitions with patterns

    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        raise UnusablePattern(said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from None
