"""A cache that also knows what this process has written itself.

The answer to a write is newer than what the watch has brought so far. Without it a loop decides on what it has changed
already, and is refused by the server a moment later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from localpv.api.kinds import Kind
from localpv.client.cache import Cache, Handler

K = TypeVar("K", bound=Kind)


class Newest(Generic[K]):
    """The objects of a cache, or what was written here if that is newer. Somebody must own the task of `cache.run`."""

    def __init__(self, cache: Cache[K]) -> None:
        self.cache = cache
        self._written: dict[str, K] = {}
        """What the watch has not brought yet."""

        self.own = False
        """While handlers are told: whether this process made the change."""

        self._handlers: list[Handler[K]] = []
        cache.on_change(self._seen)

    def on_change(self, handler: Handler[K]) -> None:
        """Call the handler for every change from now on, once for each, whoever made it."""
        self._handlers.append(handler)
        for obj in self:
            handler(None, obj)

    def get(self, key: str) -> K | None:
        """The object with the key `NAMESPACE/NAME` or `NAME`."""
        return self._written.get(key) or self.cache.by_key(key)

    def __iter__(self) -> Iterator[K]:
        for obj in self.cache.list():
            yield self._written.get(obj.key, obj)

    def wrote(self, obj: K) -> K:
        """The server has answered a write with this object."""
        seen = self.cache.resource_version
        if not seen or _version(seen) < _version(obj.metadata.resource_version):
            before = self.get(obj.key)
            self._written[obj.key] = obj
            self.own = True
            try:
                self._tell(before, obj)
            finally:
                self.own = False
        # Otherwise the watch has been there already: it may even have seen the object go.
        return obj

    def _seen(self, old: K | None, new: K | None) -> None:
        if new is None:
            assert old is not None
            self._tell(self._written.pop(old.key, old), None)
            return
        mine = self._written.get(new.key)
        if mine is not None:
            behind = _version(new.metadata.resource_version) - _version(mine.metadata.resource_version)
            if behind < 0:
                return
            del self._written[new.key]
            if behind == 0:
                return  # told when it was written
        self._tell(mine or old, new)

    def _tell(self, old: K | None, new: K | None) -> None:
        for handler in self._handlers:
            handler(old, new)


def _version(text: str) -> int:
    # Versions of one resource can be compared as numbers: on our engine always, on Kubernetes by its promise.
    return int(text) if text.isdigit() else 0
