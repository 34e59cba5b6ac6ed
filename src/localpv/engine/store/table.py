"""The objects of one resource in memory, with the recent changes that watchers and old lists are served from, and how
much all of them take.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


class Change(IntEnum):
    """What a revision did. The numbers are what the database holds."""

    ADDED = 0
    MODIFIED = 1
    DELETED = 2


@dataclass(slots=True, frozen=True, eq=False)
class Row:
    """An object as it is stored: its JSON text, resourceVersion included."""

    revision: int
    value: bytes


@dataclass(slots=True, frozen=True, eq=False)
class Event:
    """One change of one object."""

    change: Change
    key: str
    row: Row
    """The object after the change; for DELETED its last state, at the revision of the deletion."""
    before: Row | None
    """The object before the change: selectors need both to tell who came into sight and who left it."""

    @property
    def revision(self) -> int:
        return self.row.revision


HISTORY_EVENTS = 10_000
"""Changes kept per resource. A watcher that falls further behind is told 410 Gone and lists again."""

HISTORY_BYTES = 8 << 20
"""Bytes of superseded object versions kept per resource, so that a few huge objects that change often stay cheap."""


class Table:
    """Rows of one resource by key (`name` or `namespace/name`), ordered by key, and their recent history."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.rows: dict[str, Row] = {}
        self.keys: list[str] = []
        self.events: list[Event] = []
        self.dropped = 0
        """How many events have left the history: the absolute number of events[0]."""
        self.forgotten = 0
        """Revision of the newest event that has left the history."""
        self._superseded_bytes = 0
        self._waiting: set[asyncio.Future[None]] = set()

    # -- changes ---------------------------------------------------------------------------------------------------

    def apply(self, event: Event, *, remember: bool = True) -> None:
        """Make a committed change visible to readers and watchers."""
        if event.change is Change.DELETED:
            if self.rows.pop(event.key, None) is not None:
                del self.keys[bisect_left(self.keys, event.key)]
        else:
            if event.key not in self.rows:
                insort(self.keys, event.key)
            self.rows[event.key] = event.row
        if remember:
            self.events.append(event)
            if event.before is not None:
                self._superseded_bytes += len(event.before.value)
            if len(self.events) > HISTORY_EVENTS + 1000 or self._superseded_bytes > HISTORY_BYTES:
                self._forget_oldest()
            self.wake()

    def wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    def _forget_oldest(self) -> None:
        # A thousand at a time: cutting the front of a list costs as much as its length.
        count = max(1, min(1000, len(self.events) // 2))
        self._cut(count)

    def forget_until(self, revision: int) -> None:
        """Drop history up to and including a revision."""
        self._cut(bisect_right(self.events, revision, key=lambda event: event.revision))

    def _cut(self, count: int) -> None:
        if count <= 0:
            return
        self.forgotten = self.events[count - 1].revision
        for event in self.events[:count]:
            if event.before is not None:
                self._superseded_bytes -= len(event.before.value)
        del self.events[:count]
        self.dropped += count

    # -- reading ---------------------------------------------------------------------------------------------------

    def position_after(self, revision: int) -> int:
        """Absolute number of the first event newer than a revision."""
        return self.dropped + bisect_right(self.events, revision, key=lambda event: event.revision)

    def scan(self, scope: str = "", start_key: str = "") -> Iterator[tuple[str, Row]]:
        """Rows in key order, those of one namespace (`scope` is `namespace/`) or all, from a key on if one is given.

        The key can come from a client: it narrows the scope and never widens it.
        """
        keys, rows = self.keys, self.rows
        start = bisect_left(keys, max(scope, start_key))
        stop = bisect_left(keys, scope[:-1] + "0") if scope else len(keys)  # "0" follows "/" in ASCII
        if start == 0 and stop == len(keys):
            for key in keys:
                yield key, rows[key]
            return
        for index in range(start, stop):
            key = keys[index]
            yield key, rows[key]

    def at(self, revision: int) -> Table:
        """This table as it was at a revision that the history still reaches back to."""
        if not self.events or self.events[-1].revision <= revision:
            return self
        past = Table(self.prefix)
        past.rows = dict(self.rows)
        for event in reversed(self.events):
            if event.revision <= revision:
                break
            if event.before is None:
                past.rows.pop(event.key, None)
            else:
                past.rows[event.key] = event.before
        past.keys = sorted(past.rows)
        return past

    def changed(self) -> asyncio.Future[None]:
        """Completes at the next change."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        return future

    def no_longer_waiting(self, future: asyncio.Future[None]) -> None:
        self._waiting.discard(future)


OBJECT_BYTES = 1 << 10
"""Bytes that each object counts beside its JSON: the key, the indexes and the ends that it has in memory."""


REFERENCE_BYTES = 320
"""Bytes that each UID in an object counts beside itself: the garbage collector knows owners by theirs, and one object
can name thousands that nobody has ever made."""

_UID = b'"uid":"'
"""No text of a client looks like this: in a JSON string the quotes have backslashes."""


def counted_size(row: Row | None) -> int:
    """What an object takes. The digits of its revision are not counted, so that a write of the same never grows it."""
    if row is None:
        return 0
    return OBJECT_BYTES + REFERENCE_BYTES * row.value.count(_UID) + len(row.value) - len(str(row.revision))


def namespace_of(key: str) -> str:
    """The namespace that a key is in; empty for what belongs to the whole cluster."""
    namespace, separator, _ = key.partition("/")
    return namespace if separator else ""


class Usage:
    """Sums over the newest state of each object, those included that are on their way to the disk."""

    def __init__(self) -> None:
        self.total = 0
        self._namespaces: dict[str, int] = {}

    def of(self, namespace: str) -> int:
        return self._namespaces.get(namespace, 0)

    def add(self, event: Event) -> None:
        """A write was decided, or found in the log."""
        self._change(event.key, _growth(event))

    def take_back(self, event: Event) -> None:
        """A write that was decided did not reach the disk."""
        self._change(event.key, -_growth(event))

    def _change(self, key: str, growth: int) -> None:
        namespace = namespace_of(key)
        self.total += growth
        left = self._namespaces.get(namespace, 0) + growth
        if left:
            self._namespaces[namespace] = left
        else:
            self._namespaces.pop(namespace, None)


def _growth(event: Event) -> int:
    after = None if event.change is Change.DELETED else event.row
    return counted_size(after) - counted_size(event.before)
