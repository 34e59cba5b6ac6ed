"""How udev reads a file of rules, written down from its manual page and its behaviour: what a line means to udev, and
not what we meant by it.

Lines end at line breaks; leading blanks go; a line that begins with # is a comment; a backslash at the end joins it
with the next line that is no comment. In a line, blanks and commas separate tokens. A key goes up to blanks, `=`, `{`,
or an operator; what is in braces is its attribute; the value is in double quotes, in which a backslash before a quote
makes it part of the value, and may have e or i in front.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_LINE = 16 * 1024

_BLANKS = " \t\n\r"
_QUOTED = re.compile(r'"((?:\\"|[^"])*)"')
_OPERATORS = ("==", "!=", "+=", "-=", ":=", "=")


class NotRead(Exception):
    """udev would say that the line is invalid."""


@dataclass(frozen=True)
class Seen:
    key: str
    attribute: str | None
    operator: str
    value: str


def read(text: str) -> list[list[Seen]]:
    """The lines of a file that are rules, token by token."""
    rules, continued = [], ""
    for line in re.split(r"\n|\r\n?|\x00", text):
        if len(line) >= LONGEST_LINE:
            raise NotRead("line too long")
        line = line.lstrip(_BLANKS)
        if line.startswith("#"):
            continue
        line = continued + line
        if line.endswith("\\"):
            continued = line[:-1]
            continue
        continued = ""
        if line:
            rules.append(_tokens(line))
    if continued:
        raise NotRead("continued after the end")
    return rules


def _tokens(line: str) -> list[Seen]:
    found, at = [], 0
    while True:
        while at < len(line) and line[at] in _BLANKS + ",":
            at += 1
        if at == len(line):
            return found
        token, at = _token(line, at)
        found.append(token)


def _token(line: str, begin: int) -> tuple[Seen, int]:
    at = begin
    while True:
        if at == len(line):
            raise NotRead("a key without end")
        if line[at] in _BLANKS + "={" or (line[at] in "+-!:" and line[at + 1 : at + 2] == "="):
            break
        at += 1
    key, attribute = line[begin:at], None
    if line[at] == "{":
        end = line.find("}", at)
        if end < 0:
            raise NotRead("a brace without end")
        attribute, at = line[at + 1 : end], end + 1
    at = _skip(line, at)
    operator = next((each for each in _OPERATORS if line.startswith(each, at)), None)
    if operator is None:
        raise NotRead("no operator")
    at = _skip(line, at + len(operator))
    while line[at : at + 1] in ("e", "i"):
        at += 1
    if line[at : at + 1] != '"':
        raise NotRead("no quotes")
    quoted = _QUOTED.match(line, at)
    if quoted is None:
        raise NotRead("quotes without end")
    return Seen(key, attribute, operator, quoted[1].replace('\\"', '"')), quoted.end()


def _skip(line: str, at: int) -> int:
    while at < len(line) and line[at] in _BLANKS:
        at += 1
    return at
