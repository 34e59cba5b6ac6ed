"""The objects of one kind as controllers have them: read from their informer, and seen there at once when written.

A controller that has just made a pod must not make it again because the watch has not told of it yet. Of many like
things few are done at first: what fails at all fails before there are many of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from localpv import errors
from localpv.api.kinds.meta import Kind
from localpv.api.objects import Object
from localpv.client.client import Client
from localpv.client.informer import Index, Informer
from localpv.client.objects import Patch

K = TypeVar("K", bound=Kind)

R = TypeVar("R")


class CachedObjects(Generic[K]):
    """The objects of one kind. Somebody else owns the informer."""

    def __init__(
        self, client: Client, kind: type[K], informer: Informer[K], *, indexes: Mapping[str, Index[K]] | None = None
    ) -> None:
        self._objects = client.objects(kind)
        self._informer = informer
        informer.add_indexers(indexes or {})
        self.wait_synced, self.add_event_handler = informer.wait_synced, informer.add_event_handler
        self.by_key, self.get, self.find, self.list = informer.by_key, informer.get, informer.find, informer.list

    async def create(self, body: Object) -> K:
        """Create an object from all of its fields."""
        return self._informer.wrote(await self._objects.create_from(body))

    async def patch(self, obj: K, patch: Mapping[str, Any], *, subresource: str = "", how: Patch = Patch.MERGE) -> K:
        meta = obj.metadata
        return self._informer.wrote(
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
            self._informer.wrote(left)
        else:
            self._informer.deleted(obj)
        return found


def owner_words(obj: Kind) -> Iterator[str]:
    """Index of objects by the UID of their controller; those without one by their namespace."""
    owner = next((each for each in obj.metadata.owner_references if each.controller), None)
    yield owner.uid if owner is not None else f"orphans of {obj.metadata.namespace}"


async def in_growing_batches(tasks: Sequence[Callable[[], Awaitable[R]]]) -> list[R]:
    """Do first one, then two, then four at a time: what fails at all fails before there are many of it.

    The first error ends it, after the batch that it happened in.
    """
    done: list[R] = []
    size = 1
    while len(done) < len(tasks):
        batch = [task() for task in tasks[len(done) : len(done) + size]]
        results = await asyncio.gather(*batch, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
            done.append(result)
        size *= 2
    return done


def namespace_ends(error: errors.ApiError) -> bool:
    """Whether a refusal says that the namespace is on its way out: nothing will ever be made in it again."""
    causes = error.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
