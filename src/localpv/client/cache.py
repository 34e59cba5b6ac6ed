"""The objects of a selection, kept up to date: list once, then watch.

The cache resumes where it was after a disconnect, and loads everything again when the server no longer remembers that
point (410 Gone); what changed meanwhile is told as ordinary changes, so a handler never misses the end state. It holds
the objects as its codec reads them, and nothing else of what came over the wire.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Generic, TypeVar

from localpv import errors
from localpv.client.objects import EVERYTHING, WATCH_SECONDS, Objects, Selection
from localpv.client.watching import Bookmark, Changed, Deleted, Synced
from localpv.runtime.backoff import Backoff
from localpv.runtime.clock import Clock

T = TypeVar("T")
Handler = Callable[[T | None, T | None], None]
"""Told the object before and after; None before it came or after it went. Must not wait: put a key into a queue."""

Index = Callable[[T], Iterable[str]]
"""The words under which an object can be found."""

SHORT_WATCH_SECONDS = 1.0
"""A watch that ends sooner without a word is a server in trouble, not one that keeps to the agreed time."""

log = logging.getLogger(__name__)


class Cache(Generic[T]):
    """What exists of one resource, as far as a selection goes. Somebody must own the task of `run`."""

    def __init__(
        self,
        objects: Objects[T],
        *,
        clock: Clock,
        selection: Selection = EVERYTHING,
        indexes: Mapping[str, Index[T]] | None = None,
        backoff: Backoff | None = None,
        stream: bool = True,
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._selection = selection
        self._backoff = backoff or Backoff()
        self._stream = stream
        """Whether to ask for the first objects as events; given up when the server does not know how."""

        self._items: dict[str, T] = {}
        self._index_functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[str, T]]] = {name: {} for name in self._index_functions}
        self._handlers: list[Handler[T]] = []
        self._version = ""
        self._synced = asyncio.Event()
        self.trouble: errors.LocalpvError | None = None
        """Why the cache may be behind; None while the watch works."""

    def on_change(self, handler: Handler[T]) -> None:
        """Call the handler for every change from now on, and at once for what is there."""
        self._handlers.append(handler)
        for obj in self._items.values():
            handler(None, obj)

    async def wait_synced(self) -> None:
        """Wait until everything that existed at the start is here."""
        await self._synced.wait()

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    @property
    def resource_version(self) -> str:
        """How far the cache has seen; empty before it has seen anything."""
        return self._version

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._items.get(f"{namespace}/{name}" if namespace else name)

    def by_key(self, key: str) -> T | None:
        """The object with the key `NAMESPACE/NAME` or `NAME`."""
        return self._items.get(key)

    def list(self) -> Sequence[T]:
        return [*self._items.values()]

    def find(self, index: str, word: str) -> Sequence[T]:
        """The objects that an index has under a word."""
        return [*self._indexes[index].get(word, {}).values()]

    def __len__(self) -> int:
        return len(self._items)

    async def run(self) -> None:
        """Follow the server until cancelled. Trouble with it is logged and waited out."""
        while True:
            began = self._clock.monotonic()
            known = self._version
            try:
                heard = await self._follow()
                if not heard and self._lasted(began, WATCH_SECONDS * 0.9):
                    # Not even a bookmark: the server may wait for a version that a restored backup has taken back.
                    self._version = ""
                if self._version != known or self._lasted(began):
                    continue
                trouble: errors.LocalpvError = errors.ConnectionLost("the server ended a watch that had just begun")
            except (errors.Gone, errors.GatewayTimeout) as error:
                # Also a version from the future: the server was restored from a backup.
                log.info("cache starts over resource=%s reason=%s", self._objects.resource.qualified, error)
                self._version = ""
                if known or self._lasted(began):
                    continue
                trouble = error
            except (errors.Invalid, errors.BadRequest) as error:
                if self._stream and not self._version:
                    self._stream = False
                    continue
                trouble = error
            except errors.LocalpvError as error:
                trouble = error
            self.trouble = trouble
            wait = self._backoff.next()
            log.warning(
                "cache waits resource=%s seconds=%.1f reason=%s", self._objects.resource.qualified, wait, trouble
            )
            await self._clock.sleep(wait)

    def _lasted(self, began: float, seconds: float = SHORT_WATCH_SECONDS) -> bool:
        return self._clock.monotonic() - began >= seconds

    async def _follow(self) -> bool:
        """One watch, from what is known already or from nothing, to its end; whether it told anything."""
        heard = False
        arriving: dict[str, T] | None = None
        if self._version:
            watch = self._objects.watch(self._selection, resource_version=self._version)
        elif self._stream:
            arriving = {}
            watch = self._objects.watch(self._selection, initial_events=True)
        else:
            listed = await self._objects.list(self._selection)
            self._replace({self._key(obj): obj for obj in listed.items}, listed.resource_version)
            watch = self._objects.watch(self._selection, resource_version=self._version)
        async with aclosing(watch):
            async for event in watch:
                heard = True
                match event:
                    case Changed(obj) if arriving is not None:
                        arriving[self._key(obj)] = obj
                    case Deleted(obj) if arriving is not None:
                        arriving.pop(self._key(obj), None)
                    case Changed(obj):
                        self._put(self._key(obj), obj)
                        self._seen(self._objects.codec.meta(obj).resource_version)
                    case Deleted(obj):
                        self._remove(self._key(obj))
                        self._seen(self._objects.codec.meta(obj).resource_version)
                    case Synced(version) if arriving is not None:
                        self._replace(arriving, version)
                        arriving = None
                    case Bookmark(version) | Synced(version) if arriving is None:
                        self._seen(version)
        return heard

    def _seen(self, version: str) -> None:
        self._version = version
        self.trouble = None
        self._backoff.reset()

    def _replace(self, items: dict[str, T], version: str) -> None:
        for key in [key for key in self._items if key not in items]:
            self._remove(key)
        for key, obj in items.items():
            self._put(key, obj)
        self._seen(version)
        self._synced.set()

    def _put(self, key: str, obj: T) -> None:
        old = self._items.get(key)
        meta = self._objects.codec.meta
        if old is not None and meta(old).resource_version == meta(obj).resource_version:
            return
        self._items[key] = obj
        self._reindex(key, old, obj)
        self._tell(old, obj)

    def _remove(self, key: str) -> None:
        old = self._items.pop(key, None)
        if old is not None:
            self._reindex(key, old, None)
            self._tell(old, None)

    def _reindex(self, key: str, old: T | None, new: T | None) -> None:
        for name, words_of in self._index_functions.items():
            index = self._indexes[name]
            if old is not None:
                for word in words_of(old):
                    if (entry := index.get(word)) is not None:
                        entry.pop(key, None)
                        if not entry:
                            del index[word]
            if new is not None:
                for word in words_of(new):
                    index.setdefault(word, {})[key] = new

    def _tell(self, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            handler(old, new)

    def _key(self, obj: T) -> str:
        return self._objects.codec.meta(obj).key
