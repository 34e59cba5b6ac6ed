"""The kinds that the server serves, each with its rules and its schema: the built-in ones, and those that
CustomResourceDefinitions add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from localpv.api.objects import Object
from localpv.api.resources import BUILT_IN, REVIEWS, Resource
from localpv.api.schema.catalogue import Catalogue
from localpv.api.schema.node import Node
from localpv.api.stored_resources import STORED
from localpv.engine.apiserver.auth.lookup import Objects
from localpv.engine.apiserver.kinds import (
    admissionpolicy,
    configuration,
    csi,
    custom,
    event,
    job,
    namespace,
    node,
    persistentvolume,
    persistentvolumeclaim,
    pod,
    rbac,
    service,
    service_addresses,
    storageclass,
    stored,
    webhookconfiguration,
    workload_common,
    workloads,
)
from localpv.engine.apiserver.kinds.base import Gates, Strategy
from localpv.engine.apiserver.kinds.workload_common import BUILT_IN as SCALE
from localpv.engine.apiserver.kinds.workload_common import ScalePaths
from localpv.engine.apiserver.openapi.documents import Documents
from localpv.engine.store.table import Row

_decode: Callable[[bytes], Object] = msgspec.json.Decoder().decode


@dataclass(slots=True, kw_only=True, eq=False)
class Kind:
    """A resource with all that is needed to serve it."""

    resource: Resource
    strategy: Strategy
    load_node: Callable[[], Node]
    """Schemas are built when first needed: most kinds are never used on a given machine."""

    to_stored: Callable[[Object], Object] | None = None
    """This version's form to the stored one, where they differ (events, kinds with several versions)."""
    from_stored: Callable[[Object], Object] | None = None

    in_force_since: int = 0
    """For custom kinds: the revision at which their schema became what it is. What was stored before is read through
    `brought_up_to_date`: defaults and unknown fields are those of the schema of now."""
    brought_up_to_date: Callable[[Object], Object] | None = None

    version_spec: Object | None = None
    """For custom kinds: the entry of spec.versions in the CustomResourceDefinition."""

    deprecation: str = ""
    """Told with every answer about a version that its definition calls deprecated."""

    scale: ScalePaths = SCALE
    """Where the scale subresource, if there is one, finds its numbers."""

    _node: Node | None = None

    @property
    def node(self) -> Node:
        if self._node is None:
            self._node = self.load_node()
        return self._node

    def is_served_as_stored(self, row: Row) -> bool:
        """Whether clients of this version get the stored text as it is."""
        return self.from_stored is None and (self.brought_up_to_date is None or row.revision >= self.in_force_since)

    def read(self, row: Row) -> Object:
        """A fresh copy of a stored object as clients of this version see it."""
        obj = _decode(row.value)
        if self.brought_up_to_date is not None and row.revision < self.in_force_since:
            obj = self.brought_up_to_date(obj)
        return obj if self.from_stored is None else self.from_stored(obj)

    def key(self, namespace: str, name: str) -> str:
        return f"{namespace}/{name}" if self.resource.namespaced else name

    def scope(self, namespace: str) -> str:
        """What the keys of one namespace start with; empty for all of them."""
        return f"{namespace}/" if self.resource.namespaced and namespace else ""


class Kinds:
    """Kinds by their address."""

    def __init__(self, built_in: Iterable[Kind]) -> None:
        self._built_in = list(built_in)
        self._custom: dict[str, list[Kind]] = {}
        self._by_address: dict[tuple[str, str, str], Kind] = {}
        self._by_prefix: dict[str, Kind] = {}
        self._changed: list[Callable[[], None]] = []
        self._rebuild()

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_address.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> Kind | None:
        """For owner references and the like, which name kinds and not addresses."""
        for candidate in self.all():
            if candidate.resource.kind == kind and candidate.resource.api_version == api_version:
                return candidate
        return None

    def stored_in(self, prefix: str) -> Kind | None:
        """The kind in whose form the objects behind a storage prefix are kept."""
        return self._by_prefix.get(prefix)

    def all(self) -> list[Kind]:
        return list(self._by_address.values())

    def stored(self) -> list[Kind]:
        """One kind for each storage prefix."""
        return list(self._by_prefix.values())

    def resources(self) -> Sequence[Resource]:
        return [kind.resource for kind in self._by_address.values()]

    def set_custom(self, definition_name: str, kinds: list[Kind]) -> None:
        """Serve these versions for a CustomResourceDefinition, the stored one first; none of them removes it."""
        if kinds:
            self._custom[definition_name] = kinds
        else:
            self._custom.pop(definition_name, None)
        self._rebuild()
        for listener in self._changed:
            listener()

    def on_change(self, listener: Callable[[], None]) -> None:
        self._changed.append(listener)

    def _rebuild(self) -> None:
        custom = [kind for group in self._custom.values() for kind in group]
        kinds = [*self._built_in, *custom]
        self._by_address = {}
        for kind in kinds:  # a definition of a kind that the server has itself takes nothing from it
            address = (kind.resource.group, kind.resource.version, kind.resource.plural)
            self._by_address.setdefault(address, kind)
        self._by_prefix = {}
        for kind in kinds:
            if kind.to_stored is None and kind.resource not in REVIEWS:
                self._by_prefix.setdefault(kind.resource.storage_prefix, kind)


def kinds(*, gates: Gates, objects: Objects) -> tuple[Kinds, Catalogue]:
    """All built-in kinds, and the catalogue their schemas come from."""
    catalogue = Catalogue()
    rules = _rules(gates, objects)
    built_in = [
        Kind(
            resource=resource,
            strategy=rules[resource.group, resource.kind]() if resource not in REVIEWS else Strategy(),
            load_node=partial(catalogue.node, resource.schema),
            to_stored=event.to_core if resource.group == "events.k8s.io" else None,
            from_stored=event.from_core if resource.group == "events.k8s.io" else None,
            scale=workloads.REPLICATION_SCALE if resource.kind == "ReplicationController" else workload_common.BUILT_IN,
        )
        for resource in (*BUILT_IN, *REVIEWS)
    ]
    for resource in STORED:
        load_node = partial(catalogue.node, resource.schema)
        built_in.append(Kind(resource=resource, strategy=stored.Stored(resource, load_node), load_node=load_node))
    return Kinds(built_in), catalogue


def _rules(gates: Gates, objects: Objects) -> dict[tuple[str, str], Callable[[], Strategy]]:
    storage, apps, access = "storage.k8s.io", "apps", "rbac.authorization.k8s.io"
    admission = "admissionregistration.k8s.io"
    return {
        ("", "Namespace"): namespace.Namespace,
        ("", "Node"): node.Node,
        ("", "Pod"): pod.Pod,
        ("", "PersistentVolume"): partial(persistentvolume.PersistentVolume, gates=gates),
        ("", "PersistentVolumeClaim"): persistentvolumeclaim.PersistentVolumeClaim,
        ("", "ConfigMap"): configuration.ConfigMap,
        ("", "Secret"): configuration.Secret,
        ("", "ServiceAccount"): rbac.ServiceAccount,
        ("", "Event"): event.CoreEvent,
        ("", "Service"): partial(
            service.Service,
            allocate=lambda: service_addresses.free_address(_used_addresses(objects)),
            allocate_port=lambda: service_addresses.free_port(_used_ports(objects)),
        ),
        ("", "ReplicationController"): workloads.ReplicationController,
        ("", "PodTemplate"): workloads.PodTemplate,
        ("events.k8s.io", "Event"): event.GroupEvent,
        (storage, "StorageClass"): storageclass.StorageClass,
        (storage, "CSIDriver"): csi.CSIDriver,
        (storage, "CSINode"): csi.CSINode,
        (storage, "CSIStorageCapacity"): csi.CSIStorageCapacity,
        (storage, "VolumeAttachment"): csi.VolumeAttachment,
        (apps, "StatefulSet"): workloads.StatefulSet,
        (apps, "Deployment"): workloads.Deployment,
        (apps, "ReplicaSet"): workloads.ReplicaSet,
        (apps, "DaemonSet"): workloads.DaemonSet,
        ("batch", "Job"): job.Job,
        ("apps", "ControllerRevision"): workloads.ControllerRevision,
        ("coordination.k8s.io", "Lease"): node.Lease,
        (access, "Role"): rbac.Role,
        (access, "RoleBinding"): rbac.RoleBinding,
        (access, "ClusterRole"): rbac.ClusterRole,
        (access, "ClusterRoleBinding"): rbac.ClusterRoleBinding,
        (admission, "ValidatingAdmissionPolicy"): admissionpolicy.ValidatingAdmissionPolicy,
        (admission, "ValidatingAdmissionPolicyBinding"): admissionpolicy.ValidatingAdmissionPolicyBinding,
        (admission, "ValidatingWebhookConfiguration"): webhookconfiguration.ValidatingWebhookConfiguration,
        (admission, "MutatingWebhookConfiguration"): webhookconfiguration.MutatingWebhookConfiguration,
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
        ): custom.CustomResourceDefinition,
    }


def _used_addresses(objects: Objects) -> set[str]:
    return {address for entry in objects.list("services") for address in entry["spec"].get("clusterIPs") or ()}


def _used_ports(objects: Objects) -> set[int]:
    return {
        port["nodePort"]
        for entry in objects.list("services")
        for port in entry["spec"].get("ports") or ()
        if port.get("nodePort")
    }


def custom_kinds(definition: Object, in_force_since: int) -> list[Kind]:
    """The kinds that an established CustomResourceDefinition adds; its schemas are what they are since a revision."""
    stored = custom.storage_version(definition)
    several = len(definition["spec"]["versions"]) > 1
    up_to_date = custom.BroughtUpToDate(definition["spec"]["versions"], stored)
    found = []
    for resource in custom.resources_of(definition):
        version = custom.version_of(definition, resource.version)
        assert version is not None
        strategy = custom.CustomStrategy(resource, version)
        found.append(
            Kind(
                resource=resource,
                strategy=strategy,
                load_node=partial(getattr, strategy, "node"),
                to_stored=None
                if resource.version == stored
                else partial(_with_api_version, f"{resource.group}/{stored}"),
                from_stored=partial(_with_api_version, resource.api_version) if several else None,
                in_force_since=in_force_since,
                brought_up_to_date=up_to_date,
                version_spec=version,
                deprecation=_deprecation(resource, version),
                scale=strategy.scale or workload_common.BUILT_IN,
            )
        )
    return found


def _deprecation(resource: Resource, version: Object) -> str:
    if not version.get("deprecated"):
        return ""
    return version.get("deprecationWarning") or f"{resource.api_version} {resource.kind} is deprecated"


def _with_api_version(api_version: str, obj: Object) -> Object:
    obj["apiVersion"] = api_version
    return obj


def documents(kinds: Kinds, catalogue: Catalogue) -> Documents:
    """OpenAPI for what is served now."""

    def schema_of(resource: Resource) -> Object | None:
        kind = kinds.find(resource.group, resource.version, resource.plural)
        if kind is None or kind.version_spec is None:
            return None
        return (kind.version_spec.get("schema") or {}).get("openAPIV3Schema")

    return Documents(kinds.resources, catalogue, schema_of)
