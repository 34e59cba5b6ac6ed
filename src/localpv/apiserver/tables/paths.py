"""JSON paths as printer columns of custom kinds use them: `.status.conditions[?(@.type=="Ready")].status`.

A path is read once into steps. Each step takes all values found so far and gives those it leads to, so a path can
find none, one or many. A step that makes no sense for what it meets, such as an index out of range, is a `NoValue`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

Values = list[Any]
Step = Callable[[Values], Values]


class NoValue(Exception):
    """The path does not fit the object."""


class BadPath(ValueError):
    """The text is no path."""


_token = re.compile(
    r"""
      (?P<blank>[\ @$])
    | (?P<filter>\[\?\()
    | (?P<array>\[(?P<inside>[^\]\n]*)\])
    | (?P<recursive>\.\.)
    | (?P<field>\.(?P<name>(?:\\.|[^\\\s.,\[\]$@{}])*))
    | (?P<quoted>"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>(?:\\.|[^'\\])*)')
    | (?P<number>[+-]?[0-9.]+)
    | (?P<word>[A-Za-z_]\w*)
    """,
    re.VERBOSE,
).match
_condition = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL).fullmatch
_slice = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?").fullmatch
_key = re.compile(r"'([^']*)'").fullmatch
_escape = re.compile(r"\\(.)").sub
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def read(text: str) -> Step:
    """What finds the values at a path; BadPath says why there is no such path."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        token = _token(text, at)
        if token is None:
            raise BadPath(f"{text[at:]!r} is no part of a path")
        at = token.end()
        match token.lastgroup:
            case "filter":
                condition, at = _until_closed(text, at)
                steps.append(_filter(condition))
            case "array":
                steps.append(_array(token["inside"]))
            case "recursive":
                steps.append(_descend)
                if at < len(text) and (text[at].isalnum() or text[at] == "_"):
                    text, at = "." + text[at:], 0
            case "field":
                steps.append(_each if token["name"] == "*" else _field(token["name"].replace("\\", "")))
            case "quoted":
                steps.append(_constant(_escape(r"\1", token["double"] or token["single"] or "")))
            case "number":
                steps.append(_constant(_number(token["number"]), for_each=True))
            case "word":
                word = token["word"]
                steps.append(_constant(word == "true", for_each=True) if word in ("true", "false") else _unknown)
    return _chain(steps)


def _until_closed(text: str, start: int) -> tuple[str, int]:
    """The condition of a filter and where the path goes on; parentheses inside quotes do not count."""
    quote = ""
    for at in range(start, len(text)):
        sign = text[at]
        if quote:
            if sign == quote and text[at - 1] != "\\":
                quote = ""
        elif sign in "\"'":
            quote = sign
        elif text.startswith(")]", at):
            return text[start:at], at + 2
    raise BadPath("a filter is not closed by )]")


def _number(text: str) -> int | float:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise BadPath(f"{text} is no number") from None


def _chain(steps: list[Step]) -> Step:
    if len(steps) == 1:
        return steps[0]

    def walk(values: Values) -> Values:
        for step in steps:
            values = step(values)
        return values

    return walk


def _constant(value: Any, *, for_each: bool = False) -> Step:
    return lambda values: [value] * len(values) if for_each else [value]


def _unknown(values: Values) -> Values:
    raise NoValue("such words mean nothing in a column")


def _field(name: str) -> Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _each(values: Values) -> Values:
    return [inner for value in values for inner in _inside(value)]


def _descend(values: Values) -> Values:
    """The values and all that is inside them, except the innermost, which have no fields to ask for."""
    found: Values = []
    for value in values:
        if inner := list(_inside(value)):
            found.append(value)
            found += _descend(inner)
    return found


def _array(text: str) -> Step:
    if "," in text:
        parts = [_array(part.strip(" ")) for part in text.split(",")]
        return lambda values: [found for part in parts for found in part(values)]
    if key := _key(text):
        return read("." + key[1])
    bounds = _slice("::" if text == "*" else text)
    if bounds is None or text == "-":
        raise BadPath(f"[{text}] is no index")
    first, last, stride = (None if not part or part == ":" else _bound(part) for part in bounds.groups())
    start = first or 0
    if bounds[2] is None:
        last, step = start + 1 or None, 1
    else:
        step = 1 if stride is None else stride
    return lambda values: [item for value in values if value is not None for item in _cut(value, start, last, step)]


def _bound(text: str) -> int:
    try:
        return int(text.lstrip(":"))
    except ValueError:
        raise BadPath(f"{text} is no index") from None


def _cut(value: Any, start: int, end: int | None, step: int) -> Values:
    if not isinstance(value, list):
        raise NoValue("only lists have an index")
    size = len(value)
    start = start + size if start < 0 else start
    end = size if end is None else end + size if end < 0 else end
    if start == end:
        return []
    if not 0 <= start < end <= size or step < 1:
        raise NoValue("the index is out of range")
    return value[start:end:step]


def _filter(text: str) -> Step:
    condition = _condition(text)
    if condition is None:
        there = read(text)
        return lambda values: [item for item in _items(values) if there([item])]
    left, right = read(condition[1]), read(condition[3])
    compare = _COMPARE.get(condition[2])
    if compare is None:
        raise BadPath(f"{condition[2]} compares nothing")

    def holds(item: Any) -> bool:
        ours, theirs = left([item]), right([item])
        if not ours or not theirs:
            return False
        if len(ours) > 1 or len(theirs) > 1 or not _comparable(ours[0], theirs[0]):
            raise NoValue("only single values of one type can be compared")
        return compare(ours[0], theirs[0])

    return lambda values: [item for item in _items(values) if holds(item)]


def _items(values: Values) -> Values:
    if not all(isinstance(value, list) for value in values):
        raise NoValue("only lists can be filtered")
    return [item for value in values for item in value]


def _comparable(one: Any, other: Any) -> bool:
    return type(one) is type(other) and isinstance(one, (str, int, float))
