"""The YAML of one key, read by the type that is expected there.

Values are read from the nodes of the document and not from what YAML makes of them: a label `1.10` stays `1.10`, `yes`
is true only where a boolean is expected, and duplicate keys are seen. Whatever does not fit is noted with its
place, and reading goes on, so that one look shows everything that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from localpv.api import yamls

T = TypeVar("T")

DEEPEST = 30
"""Nothing that is configured is nested this deep; a document that is refers to itself."""

_TRUE = frozenset({"true", "yes", "on", "y"})
_FALSE = frozenset({"false", "no", "off", "n"})
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_UNIT_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_duration_part = re.compile(r"([0-9]++\.?+[0-9]*+|\.[0-9]++)(h|ms|m|s|us|µs|μs|ns)")


class Node(Protocol):
    """A piece of a YAML document: its id is scalar, sequence or mapping, and the value as written or its parts."""

    @property
    def id(self) -> str: ...

    @property
    def tag(self) -> str: ...

    @property
    def value(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the configuration that is wrong."""

    place: str
    """Where: `storageClassMap.fast.volumMode`."""

    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(slots=True)
class Notes:
    """The problems found so far."""

    problems: list[Problem] = field(default_factory=list)

    def note(self, place: str, message: str) -> None:
        self.problems.append(Problem(place, message))


@dataclass(frozen=True, slots=True)
class Value:
    """What stands at one place; each reader notes what does not fit and returns None for it."""

    node: Node
    place: str
    notes: Notes
    depth: int = 0

    @property
    def absent(self) -> bool:
        """A key without a value counts as a key that is not there."""
        return self.node.tag == _NULL

    def wrong(self, message: str) -> None:
        self.notes.note(self.place, message)

    def text(self) -> str | None:
        """A string; numbers and booleans are taken as they are written."""
        if self.node.id == "scalar":
            return str(self.node.value)
        self.wrong(f"must be a string, but is a {_kind(self.node)}")
        return None

    def boolean(self) -> bool | None:
        word = self.node.value.strip().lower() if self.node.id == "scalar" else None
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        self.wrong(f"must be true or false, but is {self._shown()}")
        return None

    def whole_number(self) -> int | None:
        text = self.node.value if self.node.id == "scalar" else ""
        if re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII):
            return int(text)
        self.wrong(f"must be a whole number, but is {self._shown()}")
        return None

    def seconds(self) -> float | None:
        """A duration such as 5m or 1h30m."""
        text = self.node.value.strip() if self.node.id == "scalar" else ""
        seconds = duration(text)
        if seconds is None:
            self.wrong(f"must be a duration such as 5m, 90s or 1h30m, but is {self._shown()}")
        return seconds

    def choice(self, words: Collection[str]) -> str | None:
        text = self.text()
        if text is None or text in words:
            return text
        self.wrong(f'"{text}" is not known; {suggestion(text, words)}')
        return None

    def elements(self) -> list[Value] | None:
        if self.node.id != "sequence":
            self.wrong(f"must be a list, but is a {_kind(self.node)}")
            return None
        if self._too_deep():
            return None
        return [
            Value(node, f"{self.place}[{index}]", self.notes, self.depth + 1)
            for index, node in enumerate(self.node.value)
        ]

    def texts(self) -> tuple[str, ...] | None:
        found = self.elements()
        if found is None:
            return None
        read = [element.text() for element in found]
        return tuple(text for text in read if text is not None) if None not in read else None

    def entries(self) -> dict[str, Value] | None:
        """The values of a map by their keys, without those that have none."""
        if self.node.id != "mapping":
            self.wrong(f"must be a map, but is a {_kind(self.node)}")
            return None
        if self._too_deep():
            return None
        found: dict[str, Value] = {}
        for key, node in _pairs(self.node):
            value = Value(node, f"{self.place}.{key}" if self.place else key, self.notes, self.depth + 1)
            if key in found:
                value.wrong("duplicate key")
            found[key] = value
        return found

    def struct(self, known: Collection[str]) -> dict[str, Value] | None:
        """The values of a map whose keys are known; others are noted."""
        found = self.entries()
        if found is None:
            return None
        for key in [key for key in found if key not in known]:
            found.pop(key).wrong(unknown_key(key, known))
        return {key: value for key, value in found.items() if not value.absent}

    def plain(self) -> Any:
        """The value as lists, maps and strings."""
        if self.node.id == "sequence":
            return [element.plain() for element in self.elements() or ()]
        if self.node.id == "mapping":
            return {key: value.plain() for key, value in (self.entries() or {}).items() if not value.absent}
        return str(self.node.value)

    def each(self, read: Callable[[Value], T | None]) -> tuple[T, ...]:
        """Every element of a list that can be read."""
        return tuple(made for element in self.elements() or () if (made := read(element)) is not None)

    def _shown(self) -> str:
        return f'"{self.node.value}"' if self.node.id == "scalar" else f"a {_kind(self.node)}"

    def _too_deep(self) -> bool:
        if self.depth < DEEPEST:
            return False
        self.wrong("is nested too deeply")
        return True


def parse(key: str, text: str, notes: Notes) -> Value | None:
    """What a key of the ConfigMap holds; None when that is nothing, or no YAML."""
    import yaml

    try:
        node: Any = yamls.compose(text)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        notes.note(key, f"{line}cannot be read as YAML: {error.problem}")
        return None
    except yaml.YAMLError as error:
        notes.note(key, f"cannot be read as YAML: {error}")
        return None
    if node is None:
        return None
    value = Value(node, key, notes)
    return None if value.absent else value


def duration(text: str) -> float | None:
    """Seconds of a duration as Go writes it: 1h30m, 5m0s, 250ms, 0; None when it is none, or negative."""
    if text.lstrip("+") == "0":
        return 0.0
    text, seconds, at = text.removeprefix("+"), 0.0, 0
    while found := _duration_part.match(text, at):
        seconds += float(found[1]) * _UNIT_SECONDS[found[2]]
        at = found.end()
        if at == len(text):
            return seconds
    return None


def unknown_key(key: str, known: Collection[str]) -> str:
    return f"unknown key; {suggestion(key, known)}"


def suggestion(word: str, known: Collection[str]) -> str:
    """What may have been meant."""
    by_small = {each.lower(): each for each in known}
    import difflib  # only who makes a mistake pays for it

    close = difflib.get_close_matches(word.lower(), by_small, n=1, cutoff=0.6)
    return f"did you mean {by_small[close[0]]}?" if close else f"there are {', '.join(known)}"


def _kind(node: Node) -> str:
    return {"sequence": "list", "mapping": "map"}.get(node.id, "single value")


def _pairs(node: Node, depth: int = 0) -> Iterator[tuple[str, Node]]:
    """Keys and values of a map; what it merges in (`<<`) comes first and only where it says nothing itself."""
    own = [(str(key.value), value) for key, value in node.value if key.tag != _MERGE]
    known = {name for name, _ in own}
    for key, value in node.value:
        if key.tag == _MERGE and depth < DEEPEST:
            for source in value.value if value.id == "sequence" else [value]:
                for name, each in _pairs(source, depth + 1) if source.id == "mapping" else ():
                    if name not in known:
                        known.add(name)
                        yield name, each
    yield from own
