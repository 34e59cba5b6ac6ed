"""What a single value of a YAML document means, as Kubernetes reads it."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

_TAGS: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_BEYOND_JSON: Final = frozenset(
    sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN")
)
_NUMERIC: Final = frozenset("0123456789+-.")
_BASES: Final = {"x": 16, "X": 16, "o": 8, "O": 8, "b": 2, "B": 2}
_integer = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)", re.ASCII).fullmatch
_float = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII).fullmatch

LONGEST_NUMBER: Final = 128
"""Characters; what is longer and looks like a number is a string, and never converted."""


def resolved(text: str) -> Any:
    """The value of a scalar without quotes and without a tag."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC or len(text) > LONGEST_NUMBER:
        return text
    return _number(text)


def tagged(tag: str, text: str) -> Any:
    """The value of a scalar with a tag; ValueError when it is not of that type. Unknown tags mean nothing."""
    match tag.removeprefix(_TAGS) if tag.startswith(_TAGS) else "":
        case "null" | "bool" | "int" | "float" as wanted:
            value = resolved(text)
            fits = {"null": value is None, "bool": isinstance(value, bool)}.get(wanted)
            if fits is None:
                fits = isinstance(value, int | float if wanted == "float" else int) and not isinstance(value, bool)
            if not fits:
                raise ValueError(f"this is not of the type !!{wanted}")
            return float(value) if wanted == "float" else value
        case "binary":
            try:
                return base64.b64decode("".join(text.split()), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                raise ValueError("!!binary holds no text in base64") from None
    return text


def _number(text: str) -> Any:
    plain = text.replace("_", "")
    if _integer(plain):
        digits = plain.lstrip("+-")
        leading = digits[0] == "0" and len(digits) > 1
        base = _BASES.get(digits[1], 8) if leading else 10
        number = int(digits[2:] if leading and digits[1] in _BASES else digits, base)
        number = -number if plain[0] == "-" else number
        if -(2**63) <= number < 2**64:
            return number
    if _float(plain):
        value = float(plain)
        return text if value in (float("inf"), float("-inf")) else value
    if text in _BEYOND_JSON:
        raise ValueError(f"{text} is a number that JSON does not know")
    return text
