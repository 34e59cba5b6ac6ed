"""Reading YAML that anybody may have written: every place that reads YAML reads it here.

A document is built from the events of the parser, one by one, and not by PyYAML's own loaders. They follow aliases
without a bound, so a few hundred bytes become gigabytes, and recurse in C, so a few thousand brackets end the process.
Here nesting and what aliases add are counted on the way, and a document that has too much is refused before it costs.

Single values mean what they mean to Kubernetes: `yes` and `on` are booleans, a date is a string, and there are no
numbers to the base of sixty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final

from localpv.api import yaml_scalars
from localpv.api.objects import DEEPEST

LARGEST: Final = 3 << 20
"""Bytes that a document may have once its aliases are written out; a body in JSON may not be larger either."""

MOST_DIRECTIVES: Final = 64
"""Lines that begin with %TAG; the parser compares each with all others."""

MOST_FINDINGS: Final = 100
"""Keys that a document has twice in one map and that are told of."""

LONGEST_KEY: Final = 128
"""Characters of such a key that are shown."""

SLICE: Final = 1_000
"""Events between two turns of others: a few milliseconds."""

_directive = re.compile("[\n\r\x85\u2028\u2029]%TAG")


def load(text: str | bytes) -> Any:
    """The one document in a text, as JSON values; nothing in it is shared. A YAMLError says what is wrong with it."""
    reader = _Values(text)
    for _ in reader.turns(most=1):
        pass
    return reader.documents[0] if reader.documents else None


def load_all(text: str | bytes) -> list[Any]:
    """All documents in a text."""
    reader = _Values(text)
    for _ in reader.turns():
        pass
    return reader.documents


def load_in_turns(text: str | bytes, *, most_values: int, repeated: list[str]) -> Iterator[list[Any]]:
    """As `load`, a slice at a time: the last thing it yields is a list of the document, or an empty one. Of a document
    that has more values, aliases aside, the rest is not read. Keys that a map has twice are told in `repeated`."""
    reader = _Values(text, most_values=most_values)
    yield from reader.turns(most=1)
    found = sorted(reader.repeated_keys, key=itemgetter(0))
    repeated += [f"line {line}: key {key} already set in map" for line, key in found]
    yield reader.documents


def compose(text: str) -> Any:
    """The nodes of the one document in a text, for those who look at how something is written; None for no document."""
    reader = _Nodes(text)
    for _ in reader.turns(most=1):
        pass
    return reader.documents[0] if reader.documents else None


def trouble(error: Exception, *, lines_before: int = 0) -> str:
    """`line 3: expected ',' or '}', but got the end of the file`: the parser's words, without its excerpt.

    `lines_before` are those of the file that the parser was not given.
    """
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    if mark is None or not problem:
        return " ".join(str(getattr(error, "strerror", None) or error).split())
    context = getattr(error, "context", None)
    words = f"{problem} ({context})" if context else problem
    return f"line {mark.line + 1 + lines_before}: {words}".replace("'<stream end>'", "the end of the file")


class _Frame:
    """A list or map that is being read."""

    __slots__ = ("height", "items", "lines", "size", "start")

    def __init__(self, start: Any, size: int) -> None:
        self.start = start
        self.items: list[Any] = []
        self.lines: list[int] = []
        """Where each of the items begins."""
        self.size = size
        """Size of the document before this began."""
        self.height = 0
        """Levels below this one."""


class _Reader:
    """Follows the events of a parser. What is made of them is up to `scalar`, `collected` and `repeated`."""

    def __init__(self, text: str | bytes, *, most_values: int = 0) -> None:
        import yaml

        self._most_values = most_values
        self._error = yaml.composer.ComposerError
        # Kubernetes takes UTF-8 only; the parser would take UTF-16 as well, in which nothing of the below is seen.
        self._text = text.decode() if isinstance(text, bytes) else text
        self._parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self.documents: list[Any] = []
        self.repeated_keys: list[tuple[int, str]] = []
        """The line of the value, and the key."""
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._open: set[str] = set()
        self._size = 0

    def scalar(self, event: Any) -> Any:
        raise NotImplementedError

    def collected(self, start: Any, items: list[Any], end: Any, lines: list[int]) -> Any:
        """A list or map of what it holds, and where that begins; of a map, keys and values take turns."""
        raise NotImplementedError

    def whole(self, made: Any) -> Any:
        """What a document is, once it is known to be one and no part of another."""
        return made

    def repeated(self, made: Any) -> Any:
        """What an alias stands for."""
        raise NotImplementedError

    def turns(self, most: int = 0) -> Iterator[list[Any]]:
        """Read it all, yielding nothing of interest now and then."""
        if len(_directive.findall(self._text)) > MOST_DIRECTIVES:
            raise self._error(problem=f"there are more than {MOST_DIRECTIVES} directives")
        parser = self._parser(self._text)
        try:
            yield from self._follow(parser, most)
        finally:
            parser.dispose()

    def _follow(self, parser: Any, most: int) -> Iterator[list[Any]]:
        from yaml import events

        starts = (events.SequenceStartEvent, events.MappingStartEvent)
        ends = (events.SequenceEndEvent, events.MappingEndEvent)
        frames: list[_Frame] = []
        budget, slices = SLICE, 0
        while True:
            budget -= 1
            if not budget:
                budget, slices = SLICE, slices + 1
                yield []
            event = parser.get_event()
            if slices * SLICE > 3 * self._most_values + SLICE and self._most_values:
                # A value has three at the most: its key, its beginning and its end.
                raise self._wrong(f"has more than {self._most_values} values", event)
            kind, begins = type(event), event
            if kind is events.ScalarEvent:
                self._size += len(event.value) + 4
                made = self.scalar(event)
                if event.anchor:
                    self._anchors[event.anchor] = made, len(event.value) + 4, 0
            elif kind in starts:
                if len(frames) >= DEEPEST:
                    raise self._wrong(f"is nested more than {DEEPEST} levels deep", event)
                if event.anchor:
                    self._anchors.pop(event.anchor, None)
                    self._open.add(event.anchor)
                self._size += 4
                frames.append(_Frame(event, self._size))
                continue
            elif kind in ends:
                frame = frames.pop()
                made = self.collected(frame.start, frame.items, event, frame.lines)
                begins = frame.start
                if anchor := frame.start.anchor:
                    self._open.discard(anchor)
                    self._anchors[anchor] = made, self._size - frame.size + 4, frame.height + 1
                if frames:
                    frames[-1].height = max(frames[-1].height, frame.height + 1)
            elif kind is events.AliasEvent:
                made = self._alias(event, frames)
            elif kind is events.DocumentStartEvent:
                if most and len(self.documents) == most:
                    raise self._wrong("there is more than one document", event)
                self._anchors, self._open, self._size = {}, set(), 0
                continue
            elif kind is events.StreamEndEvent or event is None:
                return
            else:
                continue
            if frames:
                frames[-1].items.append(made)
                frames[-1].lines.append(begins.start_mark.line)
            else:
                self.documents.append(self.whole(made))

    def _alias(self, event: Any, frames: list[_Frame]) -> Any:
        name = event.anchor
        if name in self._open:
            raise self._wrong(f"what the anchor {name} stands for contains itself", event)
        if name not in self._anchors:
            raise self._wrong(f"there is no anchor {name} before this alias", event)
        made, size, height = self._anchors[name]
        self._size += size
        if self._size > LARGEST:
            raise self._wrong(f"with its aliases written out the document has more than {LARGEST} bytes", event)
        if len(frames) + height > DEEPEST:
            raise self._wrong(f"with its aliases written out it is nested more than {DEEPEST} levels deep", event)
        if frames:
            frames[-1].height = max(frames[-1].height, height)
        return self.repeated(made)

    def _wrong(self, problem: str, event: Any) -> Exception:
        return self._error(problem=problem, problem_mark=event.start_mark)


class _Merge(str):
    """A plain `<<`: as a key of a map it takes in what other maps hold."""

    __slots__ = ()


class _Values(_Reader):
    """Makes JSON values."""

    _merging = False
    """Whether there was a plain `<<`: only a key is more than a string."""

    def scalar(self, event: Any) -> Any:
        text: str = event.value
        try:
            if event.implicit[0]:
                if text == "<<":
                    self._merging = True
                    return _Merge(text)
                return yaml_scalars.resolved(text)
            return text if event.tag is None or event.tag == "!" else yaml_scalars.tagged(event.tag, text)
        except ValueError as error:
            raise self._wrong(str(error), event) from None

    def collected(self, start: Any, items: list[Any], end: Any, lines: list[int]) -> Any:
        if self._merging:
            keys = type(end).__name__ == "MappingEndEvent"
            items = [each if keys and not place % 2 else self.whole(each) for place, each in enumerate(items)]
        if type(end).__name__ == "SequenceEndEvent":
            return items
        made: dict[str, Any] = {}
        merged: list[Any] = []
        merges = 0
        pairs = iter(items)
        for key in pairs:
            value = next(pairs)
            if type(key) is str:
                made[key] = value
            elif type(key) is _Merge:
                merges += 1
                merged += value if isinstance(value, list) else [value]
            else:
                made[self._key(key, start)] = value
        if len(made) + merges < len(items) // 2 and len(self.repeated_keys) < MOST_FINDINGS:
            self._tell_repeated(items[::2], lines[1::2], start)
        for source in merged:
            if not isinstance(source, dict):
                raise self._wrong("<< takes a map, or a list of maps", start)
            # What a map says itself counts, then what it takes in first.
            for name, value in source.items():
                made.setdefault(name, value)
        return made

    def whole(self, made: Any) -> Any:
        return str(made) if type(made) is _Merge else made

    def repeated(self, made: Any) -> Any:
        return _copied(made)

    def _tell_repeated(self, keys: list[Any], lines: list[int], start: Any) -> None:
        seen = set()
        for key, line in zip(keys, lines, strict=True):
            if type(key) is _Merge:
                continue
            name = self._key(key, start)
            if name in seen and len(self.repeated_keys) < MOST_FINDINGS:
                shown = name if type(key) is not str else json.dumps(name[:LONGEST_KEY], ensure_ascii=False)
                self.repeated_keys.append((line + 1, shown))
            seen.add(name)

    def _key(self, key: Any, start: Any) -> str:
        if type(key) is str:
            return key
        if key is None or isinstance(key, list | dict):
            raise self._wrong("a key of a map must be a string, a number or a boolean", start)
        return str(key).lower() if isinstance(key, bool) else f"{key:g}" if isinstance(key, float) else str(key)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


class _Nodes(_Reader):
    """Makes PyYAML's nodes, each with its tag and its place in the text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        import yaml

        self._nodes = yaml
        self._resolver: Any = yaml.resolver.Resolver()

    def scalar(self, event: Any) -> Any:
        kind = self._nodes.ScalarNode
        tag = self._tag(kind, event, event.value, event.implicit)
        return kind(tag, event.value, event.start_mark, event.end_mark, style=event.style)

    def collected(self, start: Any, items: list[Any], end: Any, lines: list[int]) -> Any:
        yaml = self._nodes
        if isinstance(end, yaml.MappingEndEvent):
            kind, value = yaml.MappingNode, list(zip(items[::2], items[1::2], strict=True))
        else:
            kind, value = yaml.SequenceNode, items
        tag = self._tag(kind, start, None, start.implicit)
        return kind(tag, value, start.start_mark, end.end_mark, flow_style=start.flow_style)

    def repeated(self, made: Any) -> Any:
        return made

    def _tag(self, kind: Any, event: Any, value: str | None, implicit: Any) -> Any:
        return self._resolver.resolve(kind, value, implicit) if event.tag in (None, "!") else event.tag
