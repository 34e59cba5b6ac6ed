"""Claims and volumes in use do not go: each carries a finalizer until nobody uses it any more.

The finalizers come with the object (see admission); here they are taken off, from a claim when no pod that
still runs names it, from a volume when it is bound to no claim.
"""

from __future__ import annotations

from localpv.api.objects import Object
from localpv.engine.apiserver.admission import PV_PROTECTION, PVC_PROTECTION
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.controllers.worker import Worker
from localpv.engine.apiserver.registry import Kinds
from localpv.engine.apiserver.storage import Storage, decode
from localpv.engine.apiserver.verbs.update import update_object
from localpv.engine.store.store import Store
from localpv.engine.store.table import Change, Event
from localpv.errors import NotFound

CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
PODS = "pods"
_LEAVING = b'"deletionTimestamp"'

Place = tuple[str, str]


class Protection:
    """Looks at claims and volumes that are being deleted, again whenever a pod or their own state changes."""

    def __init__(self, *, store: Store, kinds: Kinds, storage: Storage) -> None:
        self._store = store
        self._kinds = kinds
        self._storage = storage
        self._leaving: dict[str, None] = {}
        """Keys of claims that are being deleted: the only ones for which pods matter."""
        self.worker: Worker[Place] = Worker("protection", self._look)

    def load(self) -> None:
        for prefix in (CLAIMS, VOLUMES):
            for key, row in self._store.table(prefix).scan():
                if _LEAVING in row.value:
                    self._found(prefix, key)

    def changed(self, prefix: str, event: Event) -> None:
        if prefix in (CLAIMS, VOLUMES):
            if event.change is Change.DELETED:
                self._leaving.pop(event.key, None)
            elif _LEAVING in event.row.value:
                self._found(prefix, event.key)
        elif prefix == PODS and self._leaving and event.change is not Change.ADDED:
            for key in self._leaving:
                self.worker.add((CLAIMS, key))

    def _found(self, prefix: str, key: str) -> None:
        if prefix == CLAIMS:
            self._leaving[key] = None
        self.worker.add((prefix, key))

    async def _look(self, place: Place) -> bool:
        prefix, key = place
        row, kind = self._store.table(prefix).rows.get(key), self._kinds.stored_in(prefix)
        if row is None or kind is None:
            return False
        obj = decode(row.value)
        metadata = obj["metadata"]
        finalizer = PVC_PROTECTION if prefix == CLAIMS else PV_PROTECTION
        if not metadata.get("deletionTimestamp") or finalizer not in (metadata.get("finalizers") or ()):
            return False
        if self._in_use(prefix, obj):
            return False  # the pod's end, or the release of the volume, makes us look again

        def without(live: Object) -> Object:
            left = [entry for entry in live["metadata"].get("finalizers") or () if entry != finalizer]
            if left:
                live["metadata"]["finalizers"] = left
            else:
                live["metadata"].pop("finalizers", None)
            return live

        call = Call(kind=kind, namespace=metadata.get("namespace", ""), name=metadata["name"])
        try:
            await update_object(call, without, storage=self._storage)
        except NotFound:
            return False
        return False

    def _in_use(self, prefix: str, obj: Object) -> bool:
        if prefix == VOLUMES:
            return bool((obj.get("status") or {}).get("phase") == "Bound")
        metadata = obj["metadata"]
        needle = f'"{metadata["name"]}"'.encode()
        for _, row in self._store.table(PODS).scan(f"{metadata['namespace']}/"):
            if needle in row.value and _uses(decode(row.value), metadata["name"]):
                return True
        return False


def _uses(pod: Object, claim: str) -> bool:
    """Whether a pod that is not finished mounts the claim, by name or as its own ephemeral volume."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    for volume in pod["spec"].get("volumes") or ():
        if (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim:
            return True
        if "ephemeral" in volume and f"{pod['metadata']['name']}-{volume['name']}" == claim:
            return True
    return False
