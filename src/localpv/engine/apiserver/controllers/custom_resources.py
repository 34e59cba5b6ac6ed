"""CustomResourceDefinitions: each is served as soon as it is stored, and takes its objects along when it goes."""

from __future__ import annotations

from localpv.api.objects import Object, now
from localpv.engine.apiserver import registry
from localpv.engine.apiserver.admission import CUSTOM_OBJECTS
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.controllers.worker import Worker
from localpv.engine.apiserver.kinds.custom import established
from localpv.engine.apiserver.registry import Kinds
from localpv.engine.apiserver.storage import Storage, decode
from localpv.engine.apiserver.verbs.delete import Deletion, delete_object
from localpv.engine.apiserver.verbs.update import update_object
from localpv.engine.store.store import Store
from localpv.engine.store.table import Change, Event
from localpv.errors import Conflict, NotFound
from localpv.runtime.turns import Turn

PREFIX = "customresourcedefinitions.apiextensions.k8s.io"


class DefinitionKeeper:
    """Keeps the served kinds in step with the definitions."""

    def __init__(self, *, store: Store, kinds: Kinds, storage: Storage) -> None:
        self._store = store
        self._kinds = kinds
        self._storage = storage
        self._leaving: dict[str, str] = {}
        """Storage prefix of the objects of a definition that is being deleted -> its name."""
        self._in_force: dict[str, tuple[list[Object], int]] = {}
        """The versions of each definition, with the revision since which they are what they are; after a start that of
        the last change of the definition, whatever it was about."""
        self.worker: Worker[str] = Worker("definitions", self._look)

    def load(self) -> None:
        for key, row in self._store.table(PREFIX).scan():
            self._serve(decode(row.value))
            self.worker.add(key)

    def changed(self, prefix: str, event: Event) -> None:
        if prefix == PREFIX:
            if event.change is Change.DELETED:
                self._leaving.pop(event.key, None)
                self._in_force.pop(event.key, None)
                self._kinds.set_custom(event.key, [])
            else:
                self._serve(decode(event.row.value))
                self.worker.add(event.key)
        elif event.change is Change.DELETED and prefix in self._leaving:
            self.worker.add(self._leaving[prefix])

    def _serve(self, definition: Object) -> None:
        name, versions = definition["metadata"]["name"], definition["spec"]["versions"]
        known, since = self._in_force.get(name, (None, 0))
        if known != versions:
            since = int(definition["metadata"]["resourceVersion"])
            self._in_force[name] = versions, since
        self._kinds.set_custom(name, registry.custom_kinds(definition, since))

    def _others(self, name: str) -> list[Object]:
        return [decode(row.value) for key, row in self._store.table(PREFIX).scan() if key != name]

    async def _look(self, name: str) -> bool:
        row = self._store.table(PREFIX).rows.get(name)
        if row is None:
            return False
        definition = decode(row.value)
        kind = self._kinds.stored_in(PREFIX)
        assert kind is not None
        if definition["metadata"].get("deletionTimestamp"):
            return await self._wind_up(name, definition)
        others = self._others(name)

        def with_status(live: Object) -> Object:
            live["status"] = established(live, others=others, now=now())
            return live

        try:
            await update_object(Call(kind=kind, name=name, subresource="status"), with_status, storage=self._storage)
        except NotFound:
            return False
        except Conflict:
            return True
        return False

    async def _wind_up(self, name: str, definition: Object) -> bool:
        """Delete the objects of a definition, then let it go."""
        kind = self._kinds.stored_in(PREFIX)
        assert kind is not None
        prefix = name  # plural.group, as the rules for its name demand
        self._leaving[prefix] = name
        custom = self._kinds.stored_in(prefix)
        table = self._store.table(prefix)
        if custom is not None and custom.resource.custom:
            turn = Turn()
            for key, row in list(table.scan()):
                await turn.over()
                if decode(row.value)["metadata"].get("deletionTimestamp"):
                    continue
                namespace, _, object_name = key.rpartition("/")
                try:
                    await delete_object(
                        Call(kind=custom, namespace=namespace, name=object_name), Deletion(), storage=self._storage
                    )
                except (NotFound, Conflict):
                    continue
            if table.rows:
                return False  # finalizers hold some: the last one to go makes us look again

        def without_finalizer(live: Object) -> Object:
            finalizers = [entry for entry in live["metadata"].get("finalizers") or () if entry != CUSTOM_OBJECTS]
            if finalizers:
                live["metadata"]["finalizers"] = finalizers
            else:
                live["metadata"].pop("finalizers", None)
            return live

        try:
            await update_object(Call(kind=kind, name=name), without_finalizer, storage=self._storage)
        except NotFound:
            return False
        except Conflict:
            return True
        return False
