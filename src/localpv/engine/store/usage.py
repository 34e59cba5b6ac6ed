"""How much the objects of the store take, in all and by namespace."""

from __future__ import annotations

from localpv.engine.store.table import Change, Event, Row

OBJECT_BYTES = 1 << 10
"""Bytes that each object counts beside its JSON: the key, the indexes and the ends that it has in memory."""


REFERENCE_BYTES = 320
"""Bytes that each UID in an object counts beside itself: the garbage collector knows owners by theirs, and one object
can name thousands that nobody has ever made."""

_UID = b'"uid":"'
"""No text of a client looks like this: in a JSON string the quotes have backslashes."""


def size(row: Row | None) -> int:
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
    return size(after) - size(event.before)
