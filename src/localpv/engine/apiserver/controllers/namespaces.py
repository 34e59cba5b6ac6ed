"""Namespaces: what each new one is given, and that one is empty before it goes."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from localpv.api import well_known
from localpv.api.objects import Object, now
from localpv.engine.apiserver.bootstrap import ROOT_CA
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.controllers.worker import Worker
from localpv.engine.apiserver.registry import Kind, Kinds
from localpv.engine.apiserver.storage import Storage, decode
from localpv.engine.apiserver.verbs.create import create_object
from localpv.engine.apiserver.verbs.delete import Deletion, delete_object
from localpv.engine.apiserver.verbs.update import update_object
from localpv.engine.store.store import Store
from localpv.engine.store.table import Change, Event, Row
from localpv.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from localpv.runtime.turns import Turn

log = logging.getLogger(__name__)

PREFIX = "namespaces"
PODS = "pods"

MOST_FAILURES: Final = 10
"""Reasons that are told why something could not be deleted."""

MOST_TOLD: Final = 50
"""Resources, or finalizers, that are told to be left; what is in a namespace may have tens of thousands."""

LONGEST_TOLD: Final = 330
"""Characters of a finalizer or a reason that are told."""


class NamespaceKeeper:
    """Looks at a namespace whenever it, or something in one that is on its way out, changes."""

    def __init__(
        self, *, store: Store, kinds: Kinds, storage: Storage, furnishing: Callable[[str], list[Object]]
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._storage = storage
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
        namespace, _, name = event.key.partition("/")
        if event.change is Change.DELETED:
            if name and (namespace in self._leaving or prefix in ("serviceaccounts", "configmaps")):
                # The last one out lets the namespace go; an account that others rely on is made again.
                self.worker.add(namespace)
        elif prefix == "configmaps" and name == ROOT_CA and event.change is Change.MODIFIED:
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
        told = await self._tell(name, left)
        if left.failures:
            return True
        if left.counts:
            return not told  # the next thing that goes makes us look again
        finalizers = [
            entry
            for entry in namespace.get("spec", {}).get("finalizers", ())
            if entry != well_known.NAMESPACE_FINALIZER
        ]

        def finalized(live: Object) -> Object:
            live.setdefault("spec", {}).pop("finalizers", None)
            if finalizers:
                live["spec"]["finalizers"] = finalizers
            return live

        with contextlib.suppress(NotFound):
            await update_object(
                Call(kind=self._kind(), name=name, subresource="finalize"), finalized, storage=self._storage
            )
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
            if (row := self._store.head(kind.resource.storage_prefix, key)) is not None:
                await self._put_right(kind, obj, row)
                continue
            try:
                await create_object(Call(kind=kind, namespace=name), obj, storage=self._storage)
            except (AlreadyExists, Forbidden, NotFound):
                continue  # somebody was quicker, or the namespace is going: then it needs nothing

    async def _put_right(self, kind: Kind, wanted: Object, row: Row) -> None:
        """Give an object that others rely on its content back."""
        if "data" not in wanted or decode(row.value).get("data") == wanted["data"]:
            return
        metadata = wanted["metadata"]
        call = Call(kind=kind, namespace=metadata["namespace"], name=metadata["name"], manager="localpv-namespaces")
        with contextlib.suppress(NotFound, Invalid):  # gone meanwhile, or made immutable by somebody who is to blame
            await update_object(call, lambda live: {**live, "data": wanted["data"]}, storage=self._storage)

    async def _empty(self, name: str) -> _Left:
        """Delete what is in the namespace, and tell what is still there: the pods first, the rest when they are gone,
        since they may need it until then."""
        left, pods = _Left(), self._kinds.stored_in(PODS)
        assert pods is not None
        await self._empty_of(pods, name, left)
        if left.counts:
            return left
        for kind in self._kinds.stored():
            if kind.resource.namespaced and kind is not pods:
                await self._empty_of(kind, name, left)
        return left

    async def _empty_of(self, kind: Kind, name: str, left: _Left) -> None:
        scope, turn = f"{name}/", Turn()
        table = self._store.table(kind.resource.storage_prefix)
        failures = set()
        for key, row in list(table.scan(scope)):
            await turn.over()
            if b'"deletionTimestamp"' in row.value and decode(row.value)["metadata"].get("deletionTimestamp"):
                continue
            call = Call(kind=kind, namespace=name, name=key[len(scope) :], manager="localpv-namespaces")
            try:
                await delete_object(call, Deletion(propagation="Background"), storage=self._storage)
            except (NotFound, Conflict):
                continue
            except ApiError as error:
                failures.add(error.message)
        left.failures += sorted(failures)
        count = 0
        for _, row in list(table.scan(scope)):
            await turn.over()
            count += 1
            for finalizer in decode(row.value)["metadata"].get("finalizers") or ():
                left.finalizers[finalizer] += 1
        if count:
            left.counts[f"{kind.resource.plural}.{kind.resource.group}"] = count

    async def _tell(self, name: str, left: _Left) -> bool:
        """Say in the namespace's status what it waits for, and return whether that worked. It is no reason to keep a
        namespace that waits for nothing: its status is the tenant's to write, and may be such that all is refused."""

        def with_conditions(live: Object) -> Object:
            conditions = live.setdefault("status", {}).setdefault("conditions", [])
            for kind, (reason, message) in _AS_WISHED.items():
                trouble = left.trouble(kind)
                _set_condition(conditions, kind, "True" if trouble else "False", *(trouble or (reason, message)))
            return live

        try:
            await update_object(
                Call(kind=self._kind(), name=name, subresource="status"), with_conditions, storage=self._storage
            )
        except (NotFound, Conflict):
            pass  # gone, or about to be looked at again
        except ApiError as error:
            log.warning("cannot tell what a namespace waits for namespace=%s reason=%s", name, error.message)
            return False
        return True


_AS_WISHED: Final = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""Every condition of a namespace on its way out, with reason and message for when nothing is in its way. The first two
are always so here: the server knows its own kinds."""


@dataclass(slots=True)
class _Left:
    """What keeps a namespace from going."""

    counts: dict[str, int] = field(default_factory=dict)
    """Objects by resource."""
    finalizers: Counter[str] = field(default_factory=Counter)
    """Objects that each finalizer holds."""
    failures: list[str] = field(default_factory=list)

    def trouble(self, condition: str) -> tuple[str, str] | None:
        """Reason and message of a condition that is not as wished."""
        match condition:
            case "NamespaceDeletionContentFailure" if self.failures:
                told = ", ".join(failure[:LONGEST_TOLD] for failure in self.failures[:MOST_FAILURES])
                listed = f"{len(self.failures)} remaining: {told}"
                return "ContentDeletionFailed", f"Failed to delete all resource types, {listed}"
            case "NamespaceContentRemaining" if self.counts:
                listed = _listed(f"{what} has {count} resource instances" for what, count in self.counts.items())
                return "SomeResourcesRemain", f"Some resources are remaining: {listed}"
            case "NamespaceFinalizersRemaining" if self.finalizers:
                listed = _listed(
                    f"{name[:LONGEST_TOLD]} in {count} resource instances" for name, count in self.finalizers.items()
                )
                return "SomeFinalizersRemain", f"Some content in the namespace has finalizers remaining: {listed}"
        return None


def _listed(entries: Iterable[str]) -> str:
    """In order; of very many the first. The message is kept in the namespace, and written anew with each that goes."""
    found = sorted(entries)
    more = [f"and {len(found) - MOST_TOLD} more"] if len(found) > MOST_TOLD else []
    return ", ".join(found[:MOST_TOLD] + more)


def _set_condition(conditions: list[Object], kind: str, status: str, reason: str, message: str) -> None:
    present = next((entry for entry in conditions if entry.get("type") == kind), None)
    if present is None:
        present = {"type": kind}
        conditions.append(present)
    if present.get("status") != status:
        present["status"], present["lastTransitionTime"] = status, now()
    present["reason"], present["message"] = reason, message
