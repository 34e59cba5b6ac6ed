"""Puts the kinds together: each resource with its rules and its schema."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from localpv.api.objects import Object
from localpv.api.resources import BUILT_IN, REVIEWS, Resource
from localpv.api.schema.catalogue import Catalogue
from localpv.api.stored_resources import STORED
from localpv.engine.apiserver.auth.lookup import Objects
from localpv.engine.apiserver.kinds import (
    admissionpolicy,
    configmap,
    controllerrevision,
    csi,
    custom,
    customresourcedefinition,
    daemonset,
    deployment,
    event,
    job,
    lease,
    namespace,
    node,
    persistentvolume,
    persistentvolumeclaim,
    pod,
    rbac,
    replicaset,
    replicationcontroller,
    secret,
    service,
    service_addresses,
    serviceaccount,
    statefulset,
    storageclass,
    stored,
    volumeattachment,
    webhookconfiguration,
    workload_common,
)
from localpv.engine.apiserver.kinds.base import Gates, Strategy
from localpv.engine.apiserver.openapi.documents import Documents
from localpv.engine.apiserver.registry import Kind, Kinds


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
            scale=replicationcontroller.SCALE if resource.kind == "ReplicationController" else workload_common.BUILT_IN,
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
        ("", "ConfigMap"): configmap.ConfigMap,
        ("", "Secret"): secret.Secret,
        ("", "ServiceAccount"): serviceaccount.ServiceAccount,
        ("", "Event"): event.CoreEvent,
        ("", "Service"): partial(
            service.Service,
            allocate=lambda: service_addresses.free_address(_used_addresses(objects)),
            allocate_port=lambda: service_addresses.free_port(_used_ports(objects)),
        ),
        ("", "ReplicationController"): replicationcontroller.ReplicationController,
        ("", "PodTemplate"): replicationcontroller.PodTemplate,
        ("events.k8s.io", "Event"): event.GroupEvent,
        (storage, "StorageClass"): storageclass.StorageClass,
        (storage, "CSIDriver"): csi.CSIDriver,
        (storage, "CSINode"): csi.CSINode,
        (storage, "CSIStorageCapacity"): csi.CSIStorageCapacity,
        (storage, "VolumeAttachment"): volumeattachment.VolumeAttachment,
        (apps, "StatefulSet"): statefulset.StatefulSet,
        (apps, "Deployment"): deployment.Deployment,
        (apps, "ReplicaSet"): replicaset.ReplicaSet,
        (apps, "DaemonSet"): daemonset.DaemonSet,
        ("batch", "Job"): job.Job,
        ("apps", "ControllerRevision"): controllerrevision.ControllerRevision,
        ("coordination.k8s.io", "Lease"): lease.Lease,
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
        ): customresourcedefinition.CustomResourceDefinition,
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
    stored = customresourcedefinition.storage_version(definition)
    several = len(definition["spec"]["versions"]) > 1
    up_to_date = custom.BroughtUpToDate(definition["spec"]["versions"], stored)
    found = []
    for resource in customresourcedefinition.resources_of(definition):
        version = customresourcedefinition.version_of(definition, resource.version)
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
