"""What exists of one kind, own writes included at once.

A controller that has just made a pod must not make it again because the watch has not told of it yet. So what was
written stays in sight here until the cache has seen that version; what was deleted is out of sight until the cache has
lost it. Nothing has to wait, and nothing is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from localpv import errors
from localpv.api.kinds import Kind
from localpv.api.objects import Object
from localpv.client.cache import Cache, Handler, Index
from localpv.client.client import Client
from localpv.client.objects import Patch
from localpv.runtime.clock import Clock

K = TypeVar("K", bound=Kind)


class Known(Generic[K]):
    """The objects of one kind. Somebody must own the task of `run`."""

    def __init__(
        self, client: Client, kind: type[K], *, clock: Clock, indexes: Mapping[str, Index[K]] | None = None
    ) -> None:
        self.kind = kind.resource.kind
        self._kind = kind
        self._objects = client.objects(kind)
        self._untyped = client.untyped(kind.resource)
        self._indexes = dict(indexes or {})
        self._cache = Cache(self._objects, clock=clock, indexes=indexes)
        self._written: dict[str, K] = {}
        """By key: what we wrote and the cache has not seen."""

        self._deleted: set[str] = set()
        """UIDs of what we deleted and the cache still has."""

        self._cache.on_change(self._seen)
        self.run = self._cache.run
        self.wait_synced = self._cache.wait_synced

    def on_change(self, handler: Handler[K]) -> None:
        self._cache.on_change(handler)

    # Reading.

    def by_key(self, key: str) -> K | None:
        found = self._fresh().get(key) or self._cache.by_key(key)
        return None if found is None or found.metadata.uid in self._deleted else found

    def get(self, name: str, namespace: str) -> K | None:
        return self.by_key(f"{namespace}/{name}")

    def find(self, index: str, word: str) -> list[K]:
        """The objects that an index has under a word."""
        written = self._fresh()
        found = [each for each in self._cache.find(index, word) if each.key not in written]
        found += [each for each in written.values() if word in self._indexes[index](each)]
        return [each for each in found if each.metadata.uid not in self._deleted]

    def list(self) -> list[K]:
        written = self._fresh()
        found = [each for each in self._cache.list() if each.key not in written] + [*written.values()]
        return [each for each in found if each.metadata.uid not in self._deleted]

    # Writing.

    async def create(self, body: Object) -> K:
        """Create an object from all of its fields."""
        return self._wrote(msgspec.convert(await self._untyped.create(body), self._kind))

    async def patch(self, obj: K, patch: Mapping[str, Any], *, subresource: str = "", how: Patch = Patch.MERGE) -> K:
        meta = obj.metadata
        return self._wrote(
            await self._objects.patch(meta.name, patch, meta.namespace, how=how, subresource=subresource)
        )

    async def fetch(self, obj: K) -> K | None:
        """The object as the server has it now; None when it is gone, also when another one took its name."""
        found = await self._objects.find(obj.metadata.name, obj.metadata.namespace)
        return found if found is not None and found.metadata.uid == obj.metadata.uid else None

    async def delete(self, obj: K, *, propagation: str = "") -> bool:
        """Delete this very object; whether it was there to be deleted."""
        meta = obj.metadata
        try:
            left = await self._objects.delete(meta.name, meta.namespace, uid=meta.uid, propagation=propagation)
        except (errors.NotFound, errors.Conflict):
            left, found = None, False
        else:
            found = True
        if left is not None:
            self._wrote(left)
            return found
        self._written.pop(obj.key, None)
        if self._in_cache(meta.uid, obj.key):
            self._deleted.add(meta.uid)
        return found

    # Own writes.

    def _wrote(self, obj: K) -> K:
        if not self._cache_is_past(obj):
            self._written[obj.key] = obj
        return obj

    def _fresh(self) -> dict[str, K]:
        if self._written:
            for key in [key for key, obj in self._written.items() if self._cache_is_past(obj)]:
                del self._written[key]
        return self._written

    def _cache_is_past(self, obj: K) -> bool:
        """Whether the cache knows what became of a version.

        Versions of the engine are numbers that only grow.
        """
        seen = self._cache.resource_version
        if seen and int(seen) >= _version(obj):
            return True
        found = self._cache.by_key(obj.key)
        return found is not None and _version(found) >= _version(obj)

    def _in_cache(self, uid: str, key: str) -> bool:
        found = self._cache.by_key(key)
        return found is not None and found.metadata.uid == uid

    def _seen(self, old: K | None, new: K | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._deleted.discard(old.metadata.uid)
        present = new or old
        assert present is not None
        written = self._written.get(present.key)
        if written is None:
            return
        gone = new is None and written.metadata.uid == present.metadata.uid
        if gone or (new is not None and _version(new) >= _version(written)):
            del self._written[present.key]


def _version(obj: Kind) -> int:
    return int(obj.metadata.resource_version or 0)


def owner_words(obj: Kind) -> Iterator[str]:
    """Index of objects by the UID of their controller; those without one by their namespace."""
    owner = next((each for each in obj.metadata.owner_references if each.controller), None)
    yield owner.uid if owner is not None else f"orphans of {obj.metadata.namespace}"
