"""Owner references: what becomes of dependents when their owner goes.

background   the owner goes at once, then its dependents
foreground   the owner stays, with the finalizer foregroundDeletion, until those dependents are gone that block it
orphan       the owner stays, with the finalizer orphan, until no dependent names it any more

Objects that own each other in a circle would wait for each other for ever. Whoever closes such a circle in the
foreground stops to block its owners, and then they go one after the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from localpv.api.objects import Object
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.controllers.worker import Worker
from localpv.engine.apiserver.registry import Kind, Kinds
from localpv.engine.apiserver.storage import Storage, decode
from localpv.engine.apiserver.verbs.delete import Deletion, delete_object
from localpv.engine.apiserver.verbs.update import update_object
from localpv.engine.store.store import Store
from localpv.engine.store.table import Change, Event
from localpv.errors import Conflict, NotFound
from localpv.runtime.turns import Turn

FOREGROUND = "foregroundDeletion"

Place = tuple[str, str]
"""storage prefix and key"""


class Graph:
    """Dependents by the UID of their owner. Owners that nobody has created yet may be among them."""

    def __init__(self) -> None:
        self._owners: dict[Place, tuple[str, ...]] = {}
        self._dependents: dict[str, dict[Place, bool]] = {}
        """UID of an owner -> its dependents -> whether it has to wait for that one (blockOwnerDeletion)."""
        self._blocking: dict[str, int] = {}
        """How many dependents an owner waits for: one with thousands of them is looked at each time that one goes."""
        self._waiting: dict[Place, str] = {}
        """Objects that are deleted in the foreground, with their UIDs."""
        self._waiting_places: dict[str, Place] = {}

    def __contains__(self, place: Place) -> bool:
        return place in self._owners or place in self._waiting

    def learn(self, place: Place, obj: Object) -> tuple[bool, list[Place]]:
        """(whether the object must be looked at for circles, owners that no longer have to wait for anybody)."""
        metadata = obj["metadata"]
        after: dict[str, bool] = {}
        for reference in metadata.get("ownerReferences") or ():
            uid = reference["uid"]
            after[uid] = after.get(uid, False) or bool(reference.get("blockOwnerDeletion"))
        before = self._owners.get(place, ())
        news = after.keys() != set(before) or any(self._dependents[uid][place] != after[uid] for uid in before)
        free = self._set_owners(place, after) if news else []
        began = False
        if in_foreground(obj):
            began = place not in self._waiting
            self._waiting[place] = metadata["uid"]
            self._waiting_places[metadata["uid"]] = place
        else:
            self._wait_no_more(place)
        return began or (news and place in self._waiting), free

    def forget(self, place: Place) -> list[Place]:
        """The object is gone; the owners that no longer have to wait for anybody."""
        self._wait_no_more(place)
        return self._set_owners(place, {})

    def dependents(self, uid: str) -> Sequence[Place]:
        return list(self._dependents.get(uid, ()))

    def is_blocked(self, uid: str) -> bool:
        return uid in self._blocking

    def waits(self, place: Place) -> bool:
        return place in self._waiting

    def waited_for(self, place: Place) -> Iterable[Place]:
        """The dependents that hold up an object which waits, as far as they wait for others in their turn."""
        for dependent, blocking in list(self._dependents.get(self._waiting.get(place, ""), {}).items()):
            if blocking and dependent in self._waiting:
                yield dependent

    def _set_owners(self, place: Place, after: dict[str, bool]) -> list[Place]:
        free = []
        for uid in self._owners.pop(place, ()):
            dependents = self._dependents[uid]
            if dependents.pop(place):
                self._blocking[uid] -= 1
                if not self._blocking[uid]:
                    del self._blocking[uid]
                    if uid in self._waiting_places and not after.get(uid):
                        free.append(self._waiting_places[uid])
            if not dependents:
                del self._dependents[uid]
        for uid, blocking in after.items():
            self._dependents.setdefault(uid, {})[place] = blocking
            if blocking:
                self._blocking[uid] = self._blocking.get(uid, 0) + 1
        if after:
            self._owners[place] = tuple(after)
        return free

    def _wait_no_more(self, place: Place) -> None:
        uid = self._waiting.pop(place, None)
        if uid is not None:
            del self._waiting_places[uid]


def in_foreground(obj: Object) -> bool:
    """Whether an object is being deleted and stays until its dependents are gone."""
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (metadata.get("finalizers") or ())


ORPHAN = "orphan"
_OWNED = b'"ownerReferences":[{'
_FINALIZERS = (b'"foregroundDeletion"', b'"orphan"')


class GarbageCollector:
    """Looks at every object that has owners or that waits for its dependents."""

    def __init__(self, *, store: Store, kinds: Kinds, storage: Storage) -> None:
        self._store = store
        self._kinds = kinds
        self._storage = storage
        self._graph = Graph()
        self._news: set[Place] = set()
        """Objects that wait, and whose dependents have not been looked at since they began to."""
        self._strangers: set[Place] = set()
        """Dependents of a kind of owner that is not served: nobody can tell whether that owner is there."""
        self.worker: Worker[Place] = Worker("garbage", self._look)
        kinds.on_change(self._kinds_changed)

    def load(self) -> None:
        """Learn what is in the store; a deletion that a crash interrupted goes on from here."""
        for prefix in self._store.prefixes():
            for key, row in self._store.table(prefix).scan():
                if _matters(row.value):
                    self._learn((prefix, key), decode(row.value))

    def changed(self, prefix: str, event: Event) -> None:
        place, value = (prefix, event.key), event.row.value
        if event.change is Change.DELETED:
            self._news.discard(place)
            self._strangers.discard(place)
            for owner in self._graph.forget(place):
                self.worker.add(owner)
            for dependent in self._graph.dependents(decode(value)["metadata"]["uid"]):
                self.worker.add(dependent)
        elif _matters(value) or place in self._graph:
            self._learn(place, decode(value))

    def _learn(self, place: Place, obj: Object) -> None:
        news, free = self._graph.learn(place, obj)
        if news:
            self._news.add(place)
        for known in (place, *free):
            self.worker.add(known)

    def _kinds_changed(self) -> None:
        for place in self._strangers:
            self.worker.add(place)
        self._strangers.clear()

    # -- one object ------------------------------------------------------------------------------------------------

    async def _look(self, place: Place) -> bool:
        prefix, key = place
        kind, row = self._kinds.stored_in(prefix), self._store.table(prefix).rows.get(key)
        if kind is None or row is None:
            return False
        obj = decode(row.value)
        metadata = obj["metadata"]
        try:
            if metadata.get("deletionTimestamp"):
                finalizers = metadata.get("finalizers") or ()
                if ORPHAN in finalizers:
                    await self._orphan(kind, obj)
                elif FOREGROUND in finalizers:
                    await self._foreground(kind, place, obj)
            elif metadata.get("ownerReferences"):
                await self._check_owners(kind, place, obj)
        except NotFound:
            return False
        except Conflict:
            return True
        return False

    async def _check_owners(self, kind: Kind, place: Place, obj: Object) -> None:
        metadata = obj["metadata"]
        solid, gone, waiting = False, set(), False
        for reference in metadata["ownerReferences"]:
            owner_kind = self._kinds.by_kind(reference["apiVersion"], reference["kind"])
            if owner_kind is None:
                self._strangers.add(place)
                return
            if owner_kind.resource.namespaced and not kind.resource.namespaced:
                return  # no such owner can exist: a mistake, and no reason to delete anything
            owner = self._owner(owner_kind, reference, metadata.get("namespace", ""))
            if owner is None or in_foreground(owner):
                gone.add(reference["uid"])
                waiting = waiting or owner is not None
            else:
                solid = True
        if solid:
            if gone:
                await self._drop_references(kind, obj, gone)
        elif waiting and self._graph.dependents(metadata["uid"]):
            await self._delete(kind, obj, "Foreground")
        else:
            finalizers = metadata.get("finalizers") or ()
            kept = {ORPHAN: "Orphan", FOREGROUND: "Foreground"}
            await self._delete(kind, obj, next((kept[name] for name in kept if name in finalizers), "Background"))

    def _owner(self, kind: Kind, reference: Object, namespace: str) -> Object | None:
        row = self._store.head(kind.resource.storage_prefix, kind.key(namespace, reference["name"]))
        if row is None:
            return None
        owner: Object = decode(row.value)
        return owner if owner["metadata"]["uid"] == reference["uid"] else None

    async def _foreground(self, kind: Kind, place: Place, obj: Object) -> None:
        if not self._graph.is_blocked(obj["metadata"]["uid"]):
            await self._remove_finalizer(kind, obj, FOREGROUND)
        elif place in self._news:
            for dependent in self._graph.dependents(obj["metadata"]["uid"]):
                if not self._graph.waits(dependent):
                    self.worker.add(dependent)
            if await self._in_circle(place):
                await self._unblock_owners(kind, obj)
            self._news.discard(place)

    async def _in_circle(self, place: Place) -> bool:
        """Whether those that hold it up are, at the end of some chain, held up by itself.

        Only who begins to wait, or gets another owner meanwhile, can close a circle. So nobody else is checked.
        """
        turn, seen, rest = Turn(), {place}, [place]
        while rest:
            for dependent in self._graph.waited_for(rest.pop()):
                if dependent == place:
                    return True
                if dependent not in seen:
                    seen.add(dependent)
                    rest.append(dependent)
                await turn.over()
        return False

    async def _orphan(self, kind: Kind, obj: Object) -> None:
        uid, turn = obj["metadata"]["uid"], Turn()
        for place in self._graph.dependents(uid):
            dependent_kind, row = self._kinds.stored_in(place[0]), self._store.table(place[0]).rows.get(place[1])
            if dependent_kind is not None and row is not None:
                await self._drop_references(dependent_kind, decode(row.value), {uid})
            await turn.over()
        await self._remove_finalizer(kind, obj, ORPHAN)

    # -- writes ----------------------------------------------------------------------------------------------------

    async def _delete(self, kind: Kind, obj: Object, policy: str) -> None:
        uid, version = obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
        # The version too: owners may have been added since we looked.
        await delete_object(
            _call(kind, obj), Deletion(uid=uid, resource_version=version, propagation=policy), storage=self._storage
        )

    async def _drop_references(self, kind: Kind, obj: Object, uids: set[str]) -> None:
        with contextlib.suppress(NotFound):  # gone in the meantime: nobody is left to be orphaned
            await self._change(
                kind,
                obj,
                "ownerReferences",
                lambda references: [entry for entry in references if entry["uid"] not in uids],
            )

    async def _unblock_owners(self, kind: Kind, obj: Object) -> None:
        await self._change(
            kind,
            obj,
            "ownerReferences",
            lambda references: [{**entry, "blockOwnerDeletion": False} for entry in references],
        )

    async def _remove_finalizer(self, kind: Kind, obj: Object, name: str) -> None:
        await self._change(kind, obj, "finalizers", lambda finalizers: [entry for entry in finalizers if entry != name])

    async def _change(self, kind: Kind, obj: Object, field: str, change: Callable[[list[Any]], list[Any]]) -> None:
        """Change a list of the metadata of an object, if it is still the same one."""

        def transform(live: Object) -> Object:
            metadata = live["metadata"]
            if metadata["uid"] == obj["metadata"]["uid"]:
                metadata[field] = change(metadata.get(field) or [])
                if not metadata[field]:
                    del metadata[field]
            return live

        await update_object(_call(kind, obj), transform, storage=self._storage)


def _call(kind: Kind, obj: Object) -> Call:
    metadata = obj["metadata"]
    return Call(kind=kind, namespace=metadata.get("namespace", ""), name=metadata["name"], manager="localpv-gc")


def _matters(value: bytes) -> bool:
    return _OWNED in value or any(name in value for name in _FINALIZERS)
