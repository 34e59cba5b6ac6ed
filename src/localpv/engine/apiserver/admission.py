"""What is checked or filled in from other objects: the namespace, the default class, the rule for agents."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from localpv.api import status, well_known
from localpv.api.objects import Object
from localpv.api.quantity import Quantity
from localpv.engine.apiserver.auth import node_rule, rbac
from localpv.engine.apiserver.auth.identity import Attributes
from localpv.engine.apiserver.auth.rbac import Authorizer
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.kinds import persistentvolumeclaim
from localpv.engine.apiserver.kinds.checks import read_amount
from localpv.engine.store.store import Store

_decode = msgspec.json.Decoder().decode

CUSTOM_OBJECTS = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a CustomResourceDefinition until its objects are gone."""
PV_PROTECTION = "kubernetes.io/pv-protection"
PVC_PROTECTION = "kubernetes.io/pvc-protection"
IMMORTAL = ("default", "kube-system", "kube-public")
"""Namespaces that cannot be deleted."""


def _protect(obj: Object, finalizer: str) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


class StoredObjects:
    """Newest objects by storage prefix, decoded; what authentication, RBAC and admission look things up in."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, prefix: str, namespace: str, name: str) -> Object | None:
        row = self._store.head(prefix, f"{namespace}/{name}" if namespace else name)
        return None if row is None else _decode(row.value)

    def list(self, prefix: str, namespace: str | None = None) -> Iterable[Object]:
        scope = f"{namespace}/" if namespace else ""
        return [_decode(row.value) for _, row in self._store.table(prefix).scan(scope)]


class Admission:
    """Runs inside the same step as the write it guards, so what it saw is still true when the write is decided."""

    def __init__(self, *, objects: StoredObjects, authorizer: Authorizer) -> None:
        self._objects = objects
        self._authorizer = authorizer

    def namespace(self, call: Call) -> None:
        """Objects are made only in a namespace that exists and is not on its way out."""
        if not call.kind.resource.namespaced:
            return
        namespace = self._objects.get("namespaces", "", call.namespace)
        if namespace is None:
            raise status.not_found("namespaces", "", call.namespace)
        if namespace["metadata"].get("deletionTimestamp"):
            resource = call.kind.resource
            why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
            refusal = status.forbidden(resource.plural, resource.group, call.name, why)
            refusal.details["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {call.namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise refusal

    def creation(self, call: Call) -> None:
        """A PUT or an apply that makes the object takes the right to create it too, not only to change it."""
        resource = call.kind.resource
        attributes = Attributes(
            verb="create",
            group=resource.group,
            resource=resource.plural,
            namespace=call.namespace,
            name=call.name,
        )
        self._authorizer.require(call.user, attributes)

    def mutate_create(self, call: Call, obj: Object) -> None:
        resource = call.kind.resource
        if resource.kind == "CustomResourceDefinition":
            _protect(obj, CUSTOM_OBJECTS)
        if resource.group:
            return
        if resource.plural == "persistentvolumeclaims":
            self._default_class(obj)
            _protect(obj, PVC_PROTECTION)
        elif resource.plural == "persistentvolumes":
            _protect(obj, PV_PROTECTION)

    def validate(self, call: Call, obj: Object | None, old: Object | None) -> None:
        """Last word before a write; `obj` is None for a deletion, `old` for a creation."""
        resource = call.kind.resource
        if obj is None and resource.plural == "namespaces" and call.name in IMMORTAL:
            raise status.forbidden("namespaces", "", call.name, "this namespace may not be deleted")
        if obj is not None and old is not None and resource.kind == "PersistentVolumeClaim" and not call.subresource:
            self._only_growth_that_its_class_allows(call, obj, old)
        if call.user.is_master:
            return
        if obj is not None:
            rbac.check_escalation(call.user, resource, obj, old, self._authorizer)
        if node_rule.covers(resource):
            self._only_own_records(call, obj, old)

    def _only_own_records(self, call: Call, obj: Object | None, old: Object | None) -> None:
        if not node_rule.applies(call.user, self._authorizer.cluster_roles(call.user)):
            return
        reason = node_rule.check_object(call.user, obj, old)
        if reason:
            name = call.name or (obj or old or {})["metadata"].get("name", "")
            raise status.forbidden(call.kind.resource.plural, call.kind.resource.group, name, reason)

    def _only_growth_that_its_class_allows(self, call: Call, claim: Object, old: Object) -> None:
        if _asked(claim) <= _asked(old):
            return
        if old.get("status", {}).get("phase") != "Bound":
            why = "only bound persistent volume claims can be expanded"
            raise status.forbidden("persistentvolumeclaims", "", call.name, why)
        name = _class_of(claim)
        found = self._objects.get("storageclasses.storage.k8s.io", "", name) if name == _class_of(old) else None
        if found is None or not found.get("allowVolumeExpansion"):
            why = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must"
                " support resize"
            )
            raise status.forbidden("persistentvolumeclaims", "", call.name, why)

    def _default_class(self, claim: Object) -> None:
        """A claim that names no class gets the default one: of several, the newest, then the first by name."""
        spec = claim.setdefault("spec", {})
        annotations = claim["metadata"].get("annotations") or {}
        if spec.get("storageClassName") is not None or well_known.BETA_STORAGE_CLASS in annotations:
            return
        defaults = [
            entry
            for entry in self._objects.list("storageclasses.storage.k8s.io")
            if (entry["metadata"].get("annotations") or {}).get(well_known.IS_DEFAULT_CLASS) == "true"
        ]
        if defaults:
            defaults.sort(key=lambda entry: str(entry["metadata"]["name"]))
            defaults.sort(key=lambda entry: str(entry["metadata"]["creationTimestamp"]), reverse=True)
            spec["storageClassName"] = defaults[0]["metadata"]["name"]


def _asked(claim: Object) -> Quantity:
    return read_amount(persistentvolumeclaim.requests(claim["spec"]).get("storage", "0"))


def _class_of(claim: Object) -> str:
    annotations = claim["metadata"].get("annotations") or {}
    return str(annotations.get(well_known.BETA_STORAGE_CLASS) or claim["spec"].get("storageClassName") or "")
