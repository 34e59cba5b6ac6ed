"""Regular expressions of custom kinds: written for Go, run by Python."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final


class UnusablePattern(ValueError):
    """Go would refuse the expression, or Python has no way to say it."""


_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}

_TOKEN: Final = re.compile(
    r"""
      \\Q(?P<literal>.*?)(?:\\E|\Z)
    | \\x\{(?P<code>[0-9A-Fa-f]+)\}
    | \\(?P<escape>.)
    | \[:(?P<negated>\^?)(?P<posix>[a-z]+):\]
    | \(\?P?<(?P<name>\w+)>
    | (?P<refused>\(\?(?:[=!>]|<[=!]|P=|P>|\(|\#))
    | (?P<possessive>(?:[*+?]|\{\d+(?:,\d*)?\})\+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """The expression for `search`, with the meaning that it has in Go, or UnusablePattern."""
    try:
        return re.compile(_translated(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnusablePattern(str(error)) from error


def _translated(pattern: str) -> str:
    out: list[str] = []
    opened = 0  # length of `out` when the character class that we are in began; 0 outside of one
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "literal":
                out.append(re.escape(token["literal"]))
            case "code":
                out.append(_character(token["code"]))
            case "escape":
                out.append(_escape(token["escape"]))
            case "posix" if opened:
                out.append(_posix_class(token))
            case "name" if not opened:
                out.append(f"(?P<{token['name']}>")
            case "refused" | "possessive" if not opened:
                raise UnusablePattern(f"{token[0]} is not part of Go's regular expressions")
            case _:
                for letter in token[0]:
                    if not opened:
                        # Python's $ also matches before a line break at the end, Go's does not.
                        out.append(r"\Z" if letter == "$" else letter)
                        opened = len(out) if letter == "[" else 0
                    elif letter == "]" and "".join(out[opened:]) not in ("", "^"):
                        out.append(letter)
                        opened = 0
                    else:
                        # What Python may one day read as operations on sets; a first bracket is a member, too.
                        out.append("\\" + letter if letter in "[]&~|" else letter)
    return "".join(out)


def _character(code: str) -> str:
    try:
        return re.escape(chr(int(code, 16)))
    except ValueError as error:
        raise UnusablePattern(f"\\x{{{code}}} is not a character") from error


def _escape(letter: str) -> str:
    if letter == "z":
        return r"\Z"
    if letter in "pPC":
        raise UnusablePattern(
            f"\\{letter} is not supported by this engine: write the characters as a class such as [a-z]"
        )
    if letter in "123456789Z":
        raise UnusablePattern(f"\\{letter} is not part of Go's regular expressions")
    return "\\" + letter


def _posix_class(token: re.Match[str]) -> str:
    members = _POSIX.get(token["posix"])
    if members is None or token["negated"]:
        raise UnusablePattern(f"{token[0]} is not supported by this engine: write out the characters")
    return members
