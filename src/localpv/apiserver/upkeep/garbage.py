"""Owner references: what becomes of dependents when their owner goes.

background   the owner goes at once, then its dependents
foreground   the owner stays, with the finalizer foregroundDeletion, until those dependents are gone that block it
orphan       the owner stays, with the finalizer orphan, until no dependent names it any more
"""

from __future__ import annotations

import contextlib

from localpv.api.objects import Object
from localpv.apiserver.call import Call
from localpv.apiserver.registry import Kind, Kinds
from localpv.apiserver.upkeep.worker import Worker
from localpv.apiserver.writing import Deletion, Writer, decode
from localpv.errors import Conflict, NotFound
from localpv.store.store import Store
from localpv.store.table import Change, Event

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_OWNED = b'"ownerReferences":[{'
_FINALIZERS = (b'"foregroundDeletion"', b'"orphan"')

Place = tuple[str, str]
"""storage prefix and key"""


class GarbageCollector:
    """Knows the dependents of every owner by the owner's UID."""

    def __init__(self, *, store: Store, kinds: Kinds, writer: Writer) -> None:
        self._store = store
        self._kinds = kinds
        self._writer = writer
        self._dependents: dict[str, dict[Place, None]] = {}
        self._owners: dict[Place, tuple[str, ...]] = {}
        self.worker: Worker[Place] = Worker("garbage", self._look)

    def load(self) -> None:
        """Learn what is in the store; a deletion that a crash interrupted goes on from here."""
        for prefix in self._store.prefixes():
            for key, row in self._store.table(prefix).scan():
                if _OWNED in row.value or any(name in row.value for name in _FINALIZERS):
                    self._learn((prefix, key), decode(row.value))
                    self.worker.add((prefix, key))

    def changed(self, prefix: str, event: Event) -> None:
        place = (prefix, event.key)
        value = event.row.value
        if event.change is Change.DELETED:
            obj = decode(value)
            for owner in self._owners.get(place, ()):
                self._look_at_owner(owner, obj)
            self._forget(place)
            for dependent in self._dependents.get(obj["metadata"]["uid"], ()):
                self.worker.add(dependent)
            return
        if _OWNED in value or place in self._owners:
            self._learn(place, decode(value))
            self.worker.add(place)
        elif any(name in value for name in _FINALIZERS):
            self.worker.add(place)

    def _learn(self, place: Place, obj: Object) -> None:
        self._forget(place)
        owners = tuple(reference["uid"] for reference in obj["metadata"].get("ownerReferences") or ())
        if owners:
            self._owners[place] = owners
            for uid in owners:
                self._dependents.setdefault(uid, {})[place] = None

    def _forget(self, place: Place) -> None:
        for uid in self._owners.pop(place, ()):
            places = self._dependents.get(uid)
            if places is not None:
                places.pop(place, None)
                if not places:
                    del self._dependents[uid]

    def _look_at_owner(self, uid: str, dependent: Object) -> None:
        """A dependent went: an owner that waits for it in the foreground may be able to go now."""
        for reference in dependent["metadata"].get("ownerReferences") or ():
            if reference["uid"] == uid:
                kind = self._kinds.by_kind(reference["apiVersion"], reference["kind"])
                if kind is not None:
                    key = kind.key(dependent["metadata"].get("namespace", ""), reference["name"])
                    self.worker.add((kind.resource.storage_prefix, key))

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
                    return await self._orphan(kind, obj)
                if FOREGROUND in finalizers:
                    return await self._foreground(kind, obj)
                return False
            if metadata.get("ownerReferences"):
                await self._check_owners(kind, obj)
        except NotFound:
            return False
        except Conflict:
            return True
        return False

    async def _check_owners(self, kind: Kind, obj: Object) -> None:
        metadata = obj["metadata"]
        references = metadata["ownerReferences"]
        solid, dangling, waiting = [], [], []
        for reference in references:
            owner = self._owner(reference, metadata.get("namespace", ""))
            if owner is None:
                dangling.append(reference)
            elif _in_foreground(owner):
                waiting.append(reference)
            else:
                solid.append(reference)
        if solid:
            gone = {reference["uid"] for reference in [*dangling, *waiting]}
            if gone:
                await self._drop_references(kind, obj, gone)
            return
        if waiting and not dangling and len(waiting) != len(references):
            return
        if waiting and self._has_dependents_that_wait(metadata["uid"]):
            policy = "Foreground"
        else:
            policy = "Background"
        if ORPHAN in (metadata.get("finalizers") or ()):
            policy = "Orphan"
        await self._delete(kind, obj, policy)

    def _owner(self, reference: Object, namespace: str) -> Object | None:
        """The owner; None when it is surely not there. An owner of an unknown kind is taken to be there."""
        kind = self._kinds.by_kind(reference["apiVersion"], reference["kind"])
        if kind is None:
            return {"metadata": {}}
        row = self._store.head(kind.resource.storage_prefix, kind.key(namespace, reference["name"]))
        if row is None:
            return None
        owner: Object = decode(row.value)
        return owner if owner["metadata"]["uid"] == reference["uid"] else None

    def _has_dependents_that_wait(self, uid: str) -> bool:
        return bool(self._dependents.get(uid))

    async def _foreground(self, kind: Kind, obj: Object) -> bool:
        uid = obj["metadata"]["uid"]
        blocked = False
        for place in list(self._dependents.get(uid, ())):
            dependent_kind, row = self._kinds.stored_in(place[0]), self._store.table(place[0]).rows.get(place[1])
            if dependent_kind is None or row is None:
                continue
            dependent = decode(row.value)
            blocked |= any(
                reference["uid"] == uid and reference.get("blockOwnerDeletion")
                for reference in dependent["metadata"].get("ownerReferences") or ()
            )
            self.worker.add(place)
        if not blocked:
            await self._remove_finalizer(kind, obj, FOREGROUND)
        return False

    async def _orphan(self, kind: Kind, obj: Object) -> bool:
        uid = obj["metadata"]["uid"]
        for place in list(self._dependents.get(uid, ())):
            dependent_kind, row = self._kinds.stored_in(place[0]), self._store.table(place[0]).rows.get(place[1])
            if dependent_kind is not None and row is not None:
                await self._drop_references(dependent_kind, decode(row.value), {uid})
        await self._remove_finalizer(kind, obj, ORPHAN)
        return False

    # -- writes ----------------------------------------------------------------------------------------------------

    def _call(self, kind: Kind, obj: Object) -> Call:
        metadata = obj["metadata"]
        return Call(kind=kind, namespace=metadata.get("namespace", ""), name=metadata["name"], manager="localpv-gc")

    async def _delete(self, kind: Kind, obj: Object, policy: str) -> None:
        uid, version = obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
        # The version too: owners may have been added since we looked.
        await self._writer.delete(
            self._call(kind, obj), Deletion(uid=uid, resource_version=version, propagation=policy)
        )

    async def _drop_references(self, kind: Kind, obj: Object, uids: set[str]) -> None:
        def without(live: Object) -> Object:
            references = [entry for entry in live["metadata"].get("ownerReferences") or () if entry["uid"] not in uids]
            _set_or_drop(live["metadata"], "ownerReferences", references)
            return live

        with contextlib.suppress(NotFound):  # gone in the meantime: nobody is left to be orphaned
            await self._writer.update(self._call(kind, obj), without)

    async def _remove_finalizer(self, kind: Kind, obj: Object, name: str) -> None:
        def without(live: Object) -> Object:
            finalizers = [entry for entry in live["metadata"].get("finalizers") or () if entry != name]
            _set_or_drop(live["metadata"], "finalizers", finalizers)
            return live

        await self._writer.update(self._call(kind, obj), without)


def _set_or_drop(metadata: Object, field: str, value: list[object]) -> None:
    if value:
        metadata[field] = value
    else:
        metadata.pop(field, None)


def _in_foreground(owner: Object) -> bool:
    metadata = owner["metadata"]
    return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (metadata.get("finalizers") or ())
