"""The objects of a selection, kept up to date: list once, then watch. One serves all readers of a process.

It resumes where it was after a disconnect, and loads everything again when the server no longer remembers that point
(410 Gone); what changed meanwhile is told as ordinary changes, so a handler never misses the end state. It holds the
objects as its codec reads them, and nothing else of what came over the wire.

What this process writes itself is told to it (`wrote`, `deleted`) and is there at once, told to handlers once: the
answer to a write is newer than what the watch has brought so far, and who decides on less makes again what it has made,
or is refused by the server a moment later. client-go calls that a mutation cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Generic, Protocol, TypeVar

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


class Informer(Protocol[T]):
    """What a part of a program sees of one resource: all of it, or what is selected of it."""

    @property
    def has_synced(self) -> bool:
        """Whether everything that existed at the start is here."""

    async def wait_synced(self) -> None:
        """Wait until everything that existed at the start is here."""

    def add_event_handler(self, handler: Handler[T]) -> None:
        """Call the handler for every change from now on, and at once for what is there."""

    def add_indexers(self, indexes: Mapping[str, Index[T]]) -> None:
        """Let objects be found by the words of these indexes too; one that is there already must be the same."""

    def get(self, name: str, namespace: str = "") -> T | None: ...

    def by_key(self, key: str) -> T | None:
        """The object with the key `NAMESPACE/NAME` or `NAME`."""

    def list(self) -> Sequence[T]: ...

    def find(self, index: str, word: str) -> Sequence[T]:
        """The objects that an index has under a word."""

    def wrote(self, obj: T) -> T:
        """The server has answered a write with this object: it is here at once."""

    def deleted(self, obj: T) -> None:
        """The server has answered that this very object is gone: it is not here any more."""


class SharedInformer(Generic[T]):
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
        self._index_functions: dict[str, Index[T]] = {}
        self._indexes: dict[str, dict[str, dict[str, T]]] = {}
        self._handlers: list[Handler[T]] = []
        self.resource_version = ""
        """How far the watch has come; empty before it has seen anything, and when it starts over."""

        self._furthest = 0
        self._written: dict[str, int] = {}
        """By key, the versions that were written here and that the watch has not come to: what it brings of before is
        old."""

        self._deleted: set[str] = set()
        """UIDs of objects that are gone, which the watch has not told yet."""

        self._synced = asyncio.Event()
        self._failed: asyncio.Future[None] | None = None
        """While `run` runs: what a handler raised at a write of our own. Who wrote has nothing to do with it, and the
        handler has missed a change that nobody tells again."""

        self._followers = 0
        self._following: asyncio.Task[None] | None = None
        self.trouble: errors.LocalpvError | None = None
        """Why the informer may be behind; None while the watch works."""

        self.add_indexers(indexes or {})

    def add_event_handler(self, handler: Handler[T]) -> None:
        """Call the handler for every change from now on, and at once for what is there."""
        self._handlers.append(handler)
        for obj in [*self._items.values()]:
            handler(None, obj)

    def remove_event_handler(self, handler: Handler[T]) -> None:
        self._handlers.remove(handler)

    def add_indexers(self, indexes: Mapping[str, Index[T]]) -> None:
        """Let objects be found by the words of these indexes too; one that is there already must be the same."""
        for name, words_of in indexes.items():
            if name in self._index_functions:
                assert self._index_functions[name] == words_of, f"two indexes are called {name}"
                continue
            self._index_functions[name] = words_of
            index: dict[str, dict[str, T]] = {}
            for key, obj in self._items.items():
                for word in words_of(obj):
                    index.setdefault(word, {})[key] = obj
            self._indexes[name] = index

    async def wait_synced(self) -> None:
        """Wait until everything that existed at the start is here."""
        await self._synced.wait()

    @property
    def has_synced(self) -> bool:
        return self._synced.is_set()

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

    @asynccontextmanager
    async def following(self) -> AsyncIterator[asyncio.Task[None]]:
        """Keep up to date for the time of the with-block, or longer if others want it; the task ends only with an
        error of ours."""
        if self._following is None:
            self._following = asyncio.create_task(self.run(), name=f"informer of {self._objects.resource.plural}")
        task, self._followers = self._following, self._followers + 1
        try:
            yield task
        finally:
            self._followers -= 1
            if not self._followers:
                self._following = None
                task.cancel()
                await asyncio.wait({task})

    async def run(self) -> None:
        """Follow the server until cancelled. Trouble with it is logged and waited out; a handler that fails ends it."""
        following = asyncio.create_task(self._run(), name=f"watch of {self._objects.resource.plural}")
        self._failed = asyncio.get_running_loop().create_future()
        try:
            done, _ = await asyncio.wait({following, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            self._failed.cancel()
            self._failed = None
            following.cancel()
            await asyncio.wait({following})

    async def _run(self) -> None:
        while True:
            began = self._clock.monotonic()
            known = self.resource_version
            try:
                heard = await self._follow()
                if not heard and self._lasted(began, WATCH_SECONDS * 0.9):
                    # Not even a bookmark: the server may wait for a version that a restored backup has taken back.
                    self.resource_version = ""
                if self.resource_version != known or self._lasted(began):
                    continue
                trouble: errors.LocalpvError = errors.ConnectionLost("the server ended a watch that had just begun")
            except (errors.Gone, errors.GatewayTimeout) as error:
                # Also a version from the future: the server was restored from a backup.
                log.info("informer starts over resource=%s reason=%s", self._objects.resource.qualified, error)
                self.resource_version = ""
                if known or self._lasted(began):
                    continue
                trouble = error
            except (errors.Invalid, errors.BadRequest) as error:
                if self._stream and not self.resource_version:
                    self._stream = False
                    continue
                trouble = error
            except errors.LocalpvError as error:
                trouble = error
            self.trouble = trouble
            wait = self._backoff.next()
            log.warning(
                "informer waits resource=%s seconds=%.1f reason=%s", self._objects.resource.qualified, wait, trouble
            )
            await self._clock.sleep(wait)

    def _lasted(self, began: float, seconds: float = SHORT_WATCH_SECONDS) -> bool:
        return self._clock.monotonic() - began >= seconds

    async def _follow(self) -> bool:
        """One watch, from what is known already or from nothing, to its end; whether it told anything."""
        heard = False
        arriving: dict[str, T] | None = None
        if self.resource_version:
            watch = self._objects.watch(self._selection, resource_version=self.resource_version)
        elif self._stream:
            arriving = {}
            watch = self._objects.watch(self._selection, initial_events=True)
        else:
            listed = await self._objects.list(self._selection)
            self._replace({self._key(obj): obj for obj in listed.items}, listed.resource_version)
            watch = self._objects.watch(self._selection, resource_version=self.resource_version)
        async with aclosing(watch):
            async for event in watch:
                heard = True
                match event:
                    case Changed(obj) if arriving is not None:
                        arriving[self._key(obj)] = obj
                    case Deleted(obj) if arriving is not None:
                        arriving.pop(self._key(obj), None)
                    case Changed(obj):
                        self._changed(obj)
                    case Deleted(obj):
                        self._gone(obj)
                    case Synced(version) if arriving is not None:
                        self._replace(arriving, version)
                        arriving = None
                    case Bookmark(version) | Synced(version) if arriving is None:
                        self._passed(version)
        return heard

    def _seen(self, version: str) -> None:
        self.resource_version = version
        self._furthest = max(self._furthest, _number(version))
        self.trouble = None
        self._backoff.reset()

    # Own writes.

    def wrote(self, obj: T) -> T:
        """The server has answered a write with this object: it is here at once."""
        meta = self._objects.codec.meta
        key, version = meta(obj).key, _number(meta(obj).resource_version)
        if version <= self._furthest or meta(obj).uid in self._deleted:
            return obj  # the watch has been there already: it may even have seen the object go
        known = self._items.get(key)
        if self._written.get(key, 0) >= version or (known is None and not self._selection.matches(obj, meta(obj))):
            return obj
        self._written[key] = version
        with self._failing():
            if self._selection.matches(obj, meta(obj)):
                self._put(key, obj)
            else:
                self._remove(key)
        return obj

    def deleted(self, obj: T) -> None:
        """The server has answered that this very object is gone: it is not here any more."""
        meta = self._objects.codec.meta(obj)
        known = self._items.get(meta.key)
        if known is not None and self._objects.codec.meta(known).uid == meta.uid:
            self._written.pop(meta.key, None)
            self._deleted.add(meta.uid)
            with self._failing():
                self._remove(meta.key)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._failed is None:
                raise
            if not self._failed.done():
                self._failed.set_exception(error)

    # What the server tells.

    def _changed(self, obj: T) -> None:
        meta = self._objects.codec.meta(obj)
        if not self._is_old(meta.key, meta.resource_version) and meta.uid not in self._deleted:
            self._put(meta.key, obj)
        self._seen(meta.resource_version)

    def _gone(self, obj: T) -> None:
        meta = self._objects.codec.meta(obj)
        self._deleted.discard(meta.uid)
        if not self._is_old(meta.key, meta.resource_version):
            self._remove(meta.key)
        self._seen(meta.resource_version)

    def _is_old(self, key: str, version: str) -> bool:
        """Whether something newer was written here."""
        written = self._written.get(key)
        if written is None:
            return False
        if _number(version) < written:
            return True
        del self._written[key]
        return False

    def _passed(self, version: str) -> None:
        """What was written here up to this version, and was not told, is not in the selection any more."""
        if self.resource_version and _number(version) < _number(self.resource_version):
            raise errors.Gone("the server has gone back: it was restored from a backup")
        for key in [key for key, written in self._written.items() if written <= _number(version)]:
            del self._written[key]
            self._remove(key)
        self._seen(version)

    def _replace(self, items: dict[str, T], version: str) -> None:
        meta = self._objects.codec.meta
        reached = _number(version)
        if reached < self._furthest:
            # The server was restored from a backup: what was written before is not to come any more.
            self._furthest = 0
            self._written.clear()
            self._deleted.clear()
        self._written = {key: written for key, written in self._written.items() if written > reached}
        self._deleted &= {meta(obj).uid for obj in items.values()} if self._deleted else set()
        for key in [key for key in self._items if key not in items and key not in self._written]:
            self._remove(key)
        for key, obj in items.items():
            if key not in self._written and meta(obj).uid not in self._deleted:
                self._put(key, obj)
        self._seen(version)
        self._synced.set()

    def _put(self, key: str, obj: T) -> None:
        old = self._items.get(key)
        meta = self._objects.codec.meta
        # Of a server that was restored from a backup the same version can be another object.
        if old is not None and meta(old).resource_version == meta(obj).resource_version and old == obj:
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
        for handler in [*self._handlers]:
            handler(old, new)

    def _key(self, obj: T) -> str:
        return self._objects.codec.meta(obj).key


def _number(version: str) -> int:
    # Versions of one resource can be compared as numbers: on our engine always, on Kubernetes by its promise.
    return int(version) if version.isdigit() else 0
