"""Namespaces: what each new one is given, and that one is empty before it goes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from localpv.api.objects import Object, now
from localpv.apiserver.call import Call
from localpv.apiserver.registry import Kind, Kinds
from localpv.apiserver.upkeep.worker import Worker
from localpv.apiserver.writing import Deletion, Writer, decode
from localpv.errors import AlreadyExists, Conflict, Forbidden, NotFound
from localpv.store.store import Store
from localpv.store.table import Change, Event
from localpv.turns import Turn

PREFIX = "namespaces"
FINALIZER = "kubernetes"


class NamespaceKeeper:
    """Looks at a namespace whenever it, or something in one that is on its way out, changes."""

    def __init__(
        self, *, store: Store, kinds: Kinds, writer: Writer, furnishing: Callable[[str], list[Object]]
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._writer = writer
        self._furnishing = furnishing
        self._leaving: set[str] = set()
        self.worker: Worker[str] = Worker("namespaces", self._look)

    def load(self) -> None:
        for key, _ in self._store.table(PREFIX).scan():
            self.worker.add(key)

    def changed(self, prefix: str, event: Event) -> None:
        if prefix == PREFIX:
            if event.change is Change.DELETED:
                self._leaving.discard(event.key)
            elif event.change is Change.ADDED or b'"deletionTimestamp"' in event.row.value:
                self.worker.add(event.key)
            return
        if event.change is Change.DELETED:
            namespace, _, name = event.key.partition("/")
            if name and (namespace in self._leaving or prefix in ("serviceaccounts", "configmaps")):
                # The last one out lets the namespace go; an account that others rely on is made again.
                self.worker.add(namespace)

    async def _look(self, name: str) -> bool:
        row = self._store.table(PREFIX).rows.get(name)
        if row is None:
            return False
        namespace = decode(row.value)
        if not namespace["metadata"].get("deletionTimestamp"):
            await self._furnish(name)
            return False
        self._leaving.add(name)
        left = await self._empty(name)
        if left:
            await self._tell(name, left)
            return False  # the next thing that goes makes us look again
        finalizers = [entry for entry in namespace.get("spec", {}).get("finalizers", ()) if entry != FINALIZER]

        def finalized(live: Object) -> Object:
            live.setdefault("spec", {}).pop("finalizers", None)
            if finalizers:
                live["spec"]["finalizers"] = finalizers
            return live

        with contextlib.suppress(NotFound):
            await self._writer.update(Call(kind=self._kind(), name=name, subresource="finalize"), finalized)
        return False

    def _kind(self) -> Kind:
        kind = self._kinds.stored_in(PREFIX)
        assert kind is not None
        return kind

    async def _furnish(self, name: str) -> None:
        for obj in self._furnishing(name):
            kind = self._kinds.by_kind(obj["apiVersion"], obj["kind"])
            assert kind is not None
            key = kind.key(name, obj["metadata"]["name"])
            if self._store.head(kind.resource.storage_prefix, key) is not None:
                continue
            try:
                await self._writer.create(Call(kind=kind, namespace=name), obj)
            except (AlreadyExists, Forbidden, NotFound):
                continue  # somebody was quicker, or the namespace is going: then it needs nothing

    async def _empty(self, name: str) -> dict[str, int]:
        """Delete what is in the namespace; how much of which resource is still there afterwards."""
        scope, turn = f"{name}/", Turn()
        for kind in self._kinds.stored():
            if not kind.resource.namespaced:
                continue
            for key, row in list(self._store.table(kind.resource.storage_prefix).scan(scope)):
                await turn.over()
                if b'"deletionTimestamp"' in row.value and decode(row.value)["metadata"].get("deletionTimestamp"):
                    continue
                call = Call(kind=kind, namespace=name, name=key[len(scope) :], manager="localpv-namespaces")
                try:
                    await self._writer.delete(call, Deletion(propagation="Background"))
                except (NotFound, Conflict):
                    continue
        return {
            kind.resource.qualified: count
            for kind in self._kinds.stored()
            if kind.resource.namespaced
            and (count := sum(1 for _ in self._store.table(kind.resource.storage_prefix).scan(scope)))
        }

    async def _tell(self, name: str, left: dict[str, int]) -> None:
        """Say in the namespace's status what it waits for."""
        content = ", ".join(f"{resource} has {count} resource instances" for resource, count in sorted(left.items()))
        held = await self._held_by(name)
        holders = ", ".join(f"{finalizer} in {count} resource instances" for finalizer, count in held)

        def with_conditions(live: Object) -> Object:
            conditions = live.setdefault("status", {}).setdefault("conditions", [])
            _set_condition(
                conditions,
                "NamespaceContentRemaining",
                "SomeResourcesRemain",
                f"Some resources are remaining: {content}",
            )
            if holders:
                _set_condition(
                    conditions,
                    "NamespaceFinalizersRemaining",
                    "SomeFinalizersRemain",
                    f"Some content in the namespace has finalizers remaining: {holders}",
                )
            return live

        with contextlib.suppress(NotFound, Conflict):
            await self._writer.update(Call(kind=self._kind(), name=name, subresource="status"), with_conditions)

    async def _held_by(self, name: str) -> list[tuple[str, int]]:
        """Finalizers of what is left in the namespace, with how many objects each of them holds."""
        counts: dict[str, int] = {}
        turn = Turn()
        for kind in self._kinds.stored():
            if kind.resource.namespaced:
                for _, row in list(self._store.table(kind.resource.storage_prefix).scan(f"{name}/")):
                    await turn.over()
                    for finalizer in decode(row.value)["metadata"].get("finalizers") or ():
                        counts[finalizer] = counts.get(finalizer, 0) + 1
        return sorted(counts.items())


def _set_condition(conditions: list[Object], kind: str, reason: str, message: str) -> None:
    present = next((entry for entry in conditions if entry["type"] == kind), None)
    if present is None:
        present = {"type": kind, "status": "True", "lastTransitionTime": now()}
        conditions.append(present)
    present["reason"], present["message"] = reason, message
