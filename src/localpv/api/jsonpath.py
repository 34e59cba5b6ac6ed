"""The small JSONPath of Kubernetes: printer columns, selectable fields and scale paths of custom kinds.

`.spec.size`, `.metadata.labels['a.b']`, `.items[0]`, `[-1]`, `[1:3]`, `[*]`, `.*`, `..name`,
`.status.conditions[?(@.type=="Ready")].status`. What does not fit the object finds nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

MAX_FILTERS = 20
"""Filters may stand inside filters; this many is far beyond any column, and not too deep to read."""

MOST_VALUES = 100_000
"""Values that one look at an object may pass through: `..` and `[0,0]`, one after the other, would multiply them."""


_field = re.compile(r"\.((?:\\.|[^\\ \t\r\n.,\[\]$@{}'\"()])+)").match
_quoted = re.compile(r"'((?:\\.|[^\\'])*)'|\"((?:\\.|[^\\\"])*)\"")
_slice = re.compile(r"(-?[0-9]{1,9})?(:)?(-?[0-9]{1,9})?(?::([0-9]{1,9})?)?").fullmatch
_sign = re.compile(r"==|!=|<=|>=|[<>]|(?P<half>[!=])").search
_number = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?").fullmatch
_simple = re.compile(r"(?:\.[A-Za-z_$][A-Za-z0-9_$-]*)+").fullmatch

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class _DoesNotFit(Exception):
    """The path asks for something that this object cannot have, such as an index of a string, or for too much."""


class _Budget:
    """Values that may still be passed through."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_VALUES

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise _DoesNotFit


Step = Callable[[list[Any], _Budget], list[Any]]


class Path:
    """A path that was read once."""

    __slots__ = ("_fields", "_steps", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = _Reader(text).steps()
        # Nearly all columns are plain fields below each other.
        self._fields = tuple(text[1:].split(".")) if _simple(text) else None

    def find(self, obj: Any) -> list[Any]:
        """All values that the path leads to, in order; null counts as nothing."""
        try:
            return self.find_within(obj, _Budget())
        except _DoesNotFit:
            return []

    def find_within(self, obj: Any, budget: _Budget) -> list[Any]:
        """The same as part of a larger search."""
        budget.spend(1)
        if self._fields is not None:
            for field in self._fields:
                obj = obj.get(field) if isinstance(obj, dict) else None
            return [] if obj is None else [obj]
        try:
            return self._found(obj, budget)
        except _DoesNotFit:
            if budget.left < 0:
                raise
            return []

    def _found(self, obj: Any, budget: _Budget) -> list[Any]:
        values = [obj]
        for step in self._steps:
            values = step(values, budget)
            budget.spend(len(values) + 1)
        return [value for value in values if value is not None]

    def first(self, obj: Any) -> Any:
        """The first value, or None: what a printer column shows."""
        found = self.find(obj)
        return found[0] if found else None

    def __repr__(self) -> str:
        return f"Path({self.text!r})"


@lru_cache(maxsize=512)
def compile(text: str) -> Path:
    """The path; ValueError says what is wrong with it."""
    if text.count("[?(") > MAX_FILTERS:
        raise ValueError(
            f'"{text[:40]}…" is not a JSON path that can be handled: it has more than {MAX_FILTERS} filters'
        )
    return Path(text)


def fields(text: str) -> tuple[str, ...]:
    """The fields of a path that is nothing but fields, such as `.spec.replicas`; ValueError otherwise."""
    if not _simple(text):
        raise ValueError(f'"{text}" must be field names only, each with a dot in front, such as .spec.replicas')
    return tuple(text[1:].split("."))


class _Reader:
    """Walks over the text of a path."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def wrong(self, why: str) -> ValueError:
        return ValueError(f'"{self.text}" is not a JSON path: {why}')

    def steps(self) -> list[Step]:
        if not self.text:
            raise self.wrong("it is empty")
        if self.text[0] in "$@":
            self.at = 1
        elif self.text[0] not in ".[":
            raise self.wrong("it must start with a dot")
        steps: list[Step] = []
        while self.at < len(self.text):
            steps.extend(self.step())
        return steps

    def step(self) -> list[Step]:
        rest = self.text[self.at : self.at + 4]
        if rest.startswith("[?("):
            return [self.filter()]
        if rest.startswith("["):
            return self.brackets()
        if rest.startswith(".."):
            # The second dot begins the field, unless brackets follow.
            self.at += 1 if not rest.startswith("..[") else 2
            if rest == ".." or rest.startswith("..."):
                raise self.wrong("there is no field after '..'")
            return [_descend]
        if rest.startswith(".["):
            self.at += 1
            return []
        if self.text == ".":
            self.at += 1
            return []
        match = _field(self.text, self.at)
        if match is None:
            raise self.wrong(f"there is no field name at position {self.at}")
        self.at = match.end()
        return [_wildcard] if match[1] == "*" else [_named(re.sub(r"\\(.)", r"\1", match[1]))]

    def brackets(self) -> list[Step]:
        end = self.closing("]", self.at + 1)
        inside = self.text[self.at + 1 : end].strip()
        self.at = end + 1
        parts = [part.strip() for part in _outside_quotes(inside, ",")]
        steps = [self.element(part) for part in parts]
        return [_union(steps)] if len(steps) > 1 else steps

    def element(self, text: str) -> Step:
        if text == "*":
            return _sliced(None, None, 1)
        if quoted := _quoted.fullmatch(text):
            return _quoted_key(quoted[1] if quoted[1] is not None else quoted[2])
        numbers = _slice(text) if text else None
        if numbers is None:
            raise self.wrong(f"'{text}' in brackets is no index, no range and no quoted name")
        start, colon, stop, step = numbers.groups()
        if colon is None:
            if start is None or stop is not None:
                raise self.wrong(f"'{text}' in brackets is no index")
            return _indexed(int(start))
        if step is not None and int(step) == 0:
            raise self.wrong("the step of a range must not be 0")
        return _sliced(int(start) if start else None, int(stop) if stop else None, int(step or 1))

    def filter(self) -> Step:
        end = self.closing(")", self.at + 3)
        inside = self.text[self.at + 3 : end]
        if self.text[end + 1 : end + 2] != "]":
            raise self.wrong("a filter must end with )]")
        self.at = end + 2
        sign = _sign(inside)
        left, right = (inside[: sign.start()].strip(), inside[sign.end() :].strip()) if sign else ("", "")
        if sign is None or sign["half"] or not left.startswith(("@", "$")) or not right:
            inside = inside.strip()
            if not inside.startswith("@") or any(sign in inside for sign in "!<>="):
                raise self.wrong(f"the filter '{inside}' must be like @.type==\"Ready\" or @.type")
            return _filtered(Path(inside), None, None)
        return _filtered(Path(left), _COMPARE[sign[0]], self.operand(right))

    def operand(self, text: str) -> Path | str | int | float | bool:
        if quoted := _quoted.fullmatch(text):
            return re.sub(r"\\(.)", r"\1", quoted[1] if quoted[1] is not None else quoted[2])
        if text in ("true", "false"):
            return text == "true"
        if number := _number(text):
            return float(text) if number[1] else int(text)
        if text[0] in "@$":
            return Path(text)
        raise self.wrong(f"'{text}' is no text in quotes, no number, no true or false, and no path")

    def closing(self, bracket: str, start: int) -> int:
        """Where the bracket is that closes; those in quotes do not count."""
        depth = 0
        opening = {"]": "[", ")": "("}[bracket]
        at = start
        while at < len(self.text):
            if quoted := _quoted.match(self.text, at):
                at = quoted.end()
                continue
            char = self.text[at]
            if char in "'\"":
                raise self.wrong("a quote is not closed")
            if char == opening:
                depth += 1
            elif char == bracket:
                if depth == 0:
                    return at
                depth -= 1
            at += 1
        raise self.wrong(f"a '{bracket}' is missing")


def _outside_quotes(text: str, separator: str) -> list[str]:
    parts, start, at = [], 0, 0
    while at < len(text):
        if quoted := _quoted.match(text, at):
            at = quoted.end()
            continue
        if text[at] == separator:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [*parts, text[start:]]


def _named(name: str) -> Step:
    return lambda values, _: [
        value[name] for value in values if isinstance(value, dict) and value.get(name) is not None
    ]


def _quoted_key(text: str) -> Step:
    """A name in quotes. Kubernetes also takes its dots, unless escaped, for steps: whichever is there is found."""
    whole = re.sub(r"\\(.)", r"\1", text)
    parts = [re.sub(r"\\(.)", r"\1", part) for part in re.split(r"(?<!\\)\.", text)]
    found_whole = _named(whole)
    if len(parts) == 1:
        return found_whole
    steps = [_named(part) for part in parts]

    def find(values: list[Any], budget: _Budget) -> list[Any]:
        found = found_whole(values, budget)
        if not found:
            found = values
            for step in steps:
                found = step(found, budget)
        return found

    return find


def _wildcard(values: list[Any], budget: _Budget) -> list[Any]:
    found: list[Any] = []
    for value in values:
        budget.spend(len(value) if isinstance(value, dict | list) else 0)
        if isinstance(value, dict):
            found.extend(value.values())
        elif isinstance(value, list):
            found.extend(value)
    return found


def _descend(values: list[Any], budget: _Budget) -> list[Any]:
    """Every object and list at any depth, the outer ones first."""
    found: list[Any] = []
    pending = list(reversed(values))
    while pending:
        value = pending.pop()
        below = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        if below:
            budget.spend(len(below))
            found.append(value)
            pending.extend(reversed(below))
    return found


def _lists(values: list[Any]) -> list[list[Any]]:
    for value in values:
        if value is not None and not isinstance(value, list):
            raise _DoesNotFit
    return [value for value in values if value is not None]


def _indexed(index: int) -> Step:
    def find(values: list[Any], _: _Budget) -> list[Any]:
        found = []
        for each in _lists(values):
            if not -len(each) <= index < len(each):
                raise _DoesNotFit
            found.append(each[index])
        return found

    return find


def _sliced(start: int | None, stop: int | None, step: int) -> Step:
    def find(values: list[Any], budget: _Budget) -> list[Any]:
        found: list[Any] = []
        for each in _lists(values):
            part = each[start:stop:step]
            budget.spend(len(part))
            found.extend(part)
        return found

    return find


def _union(steps: list[Step]) -> Step:
    def find(values: list[Any], budget: _Budget) -> list[Any]:
        found: list[Any] = []
        for step in steps:
            budget.spend(len(values))
            found.extend(step(values, budget))
        return found

    return find


def _filtered(left: Path, compare: Callable[[Any, Any], bool] | None, right: Any) -> Step:
    def passes(element: Any, budget: _Budget) -> bool:
        found = left.find_within(element, budget)
        if compare is None:
            return bool(found)
        wanted = right.find_within(element, budget) if isinstance(right, Path) else [right]
        if not found or not wanted:
            return False
        if len(found) > 1 or len(wanted) > 1 or _sort(found[0]) is not _sort(wanted[0]):
            raise _DoesNotFit
        return compare(found[0], wanted[0])

    def find(values: list[Any], budget: _Budget) -> list[Any]:
        return [element for each in _lists(values) for element in each if passes(element, budget)]

    return find


def _sort(value: Any) -> type:
    """Values of one sort can be compared."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return type(value)
    return str if isinstance(value, str) else float
