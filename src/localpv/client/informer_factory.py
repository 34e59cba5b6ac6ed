"""The informers of a program: made once, handed to whoever reads, so that each kind is watched once.

A program makes one factory, puts its `run` into its group before everything that reads, and hands it to its parts; each
part asks for the informers of its kinds. A handler must not wait, so a slow reader holds nobody else: it has a queue of
keys, each at most once, and looks at the present state when it comes to one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Generic, TypeVar

from localpv.api.kinds.meta import Kind
from localpv.client.client import Client
from localpv.client.informer import Handler, Informer, SharedInformer
from localpv.client.objects import EVERYTHING, Selection
from localpv.runtime.clock import Clock

K = TypeVar("K", bound=Kind)


class InformerFactory:
    """One informer for each kind and selection. Somebody must own the task of `run`.

    Kinds in `whole` some part of the program reads as a whole: what others select of them is taken from that.
    """

    def __init__(self, client: Client, *, clock: Clock, whole: Collection[type[Kind]] = ()) -> None:
        self.client = client
        self._clock = clock
        self._whole = frozenset(whole)
        self._informers: dict[tuple[type[Kind], Selection], SharedInformer[Any]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def informer(self, kind: type[K], selection: Selection = EVERYTHING) -> Informer[K]:
        """The informer of a kind; from the first question for it on the server is followed."""
        if selection != EVERYTHING and kind in self._whole:
            return SelectedInformer(self._shared(kind, EVERYTHING), selection)
        return self._shared(kind, selection)

    async def run(self) -> None:
        """Follow the server until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for informer in self._informers.values():
                tasks.create_task(informer.run())
            await asyncio.get_running_loop().create_future()

    async def wait_synced(self) -> None:
        """Wait until everything is here that existed when it was first asked for."""
        for informer in [*self._informers.values()]:
            await informer.wait_synced()

    def _shared(self, kind: type[K], selection: Selection) -> SharedInformer[K]:
        found = self._informers.get((kind, selection))
        if found is None:
            found = SharedInformer(self.client.objects(kind), clock=self._clock, selection=selection)
            self._informers[kind, selection] = found
            if self._tasks is not None:
                self._tasks.create_task(found.run())
        return found


class SelectedInformer(Generic[K]):
    """What a selection leaves of the objects that another informer has."""

    def __init__(self, whole: SharedInformer[K], selection: Selection) -> None:
        self._whole = whole
        self._selection = selection
        self.wait_synced = whole.wait_synced
        self.add_indexers = whole.add_indexers
        self.wrote, self.deleted = whole.wrote, whole.deleted

    @property
    def has_synced(self) -> bool:
        return self._whole.has_synced

    def add_event_handler(self, handler: Handler[K]) -> None:
        def changed(old: K | None, new: K | None) -> None:
            old, new = self._selected(old), self._selected(new)
            if old is not None or new is not None:
                handler(old, new)

        self._whole.add_event_handler(changed)

    def get(self, name: str, namespace: str = "") -> K | None:
        return self._selected(self._whole.get(name, namespace))

    def by_key(self, key: str) -> K | None:
        return self._selected(self._whole.by_key(key))

    def list(self) -> Sequence[K]:
        return [obj for obj in self._whole.list() if self._selected(obj) is not None]

    def find(self, index: str, word: str) -> Sequence[K]:
        return [obj for obj in self._whole.find(index, word) if self._selected(obj) is not None]

    def _selected(self, obj: K | None) -> K | None:
        return obj if obj is not None and self._selection.matches(obj, obj.metadata) else None
