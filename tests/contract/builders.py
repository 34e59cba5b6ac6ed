"""Objects that the API server accepts, as small as they may be; a test changes the one thing it is about."""

from __future__ import annotations

import secrets
from typing import Any

Object = dict[str, Any]


def unique(prefix: str) -> str:
    """A name that no other test uses."""
    return f"{prefix}-{secrets.token_hex(4)}"


def metadata(name: str | None = None, **more: Any) -> Object:
    return {"name": name or unique("contract"), **more}


def config_map(name: str | None = None, *, data: dict[str, str] | None = None, **meta: Any) -> Object:
    made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name, **meta)}
    return made | {"data": data} if data is not None else made


def secret(
    name: str | None = None,
    *,
    labels: dict[str, str] | None = None,
    finalizers: list[str] | None = None,
    **fields: Any,
) -> Object:
    """A Secret: the plainest kind that no controller adds to a namespace, so lists hold what the test put in."""
    meta = metadata(name)
    if labels is not None:
        meta["labels"] = labels
    if finalizers is not None:
        meta["finalizers"] = finalizers
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, **fields}


def namespace(name: str | None = None) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name)}


def service_account(name: str | None = None) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name)}


def node(name: str | None = None) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata(name)}


def pod(name: str | None = None, *, spec: Object | None = None, **meta: Any) -> Object:
    containers = [{"name": "main", "image": "registry.invalid/app:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, **meta),
        "spec": {"containers": containers, **(spec or {})},
    }


def service(name: str | None = None) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name),
        "spec": {"selector": {"app": "demo"}, "ports": [{"port": 80}]},
    }


def node_affinity(*hosts: str) -> Object:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(hosts) or ["node-1"]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def local_volume(name: str | None = None, **spec: Any) -> Object:
    """A PersistentVolume on a disk of node-1; a spec field given as None is left out."""
    whole: Object = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "contract",
        "local": {"path": "/mnt/disks/ssd1"},
        "nodeAffinity": node_affinity(),
    } | spec
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata(name),
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def claim(name: str | None = None, **spec: Any) -> Object:
    """A PersistentVolumeClaim of 1Gi; a spec field given as None is left out."""
    whole: Object = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "contract",
        "resources": {"requests": {"storage": "1Gi"}},
    } | spec
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(name),
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def storage_class(name: str | None = None, **fields: Any) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata(name),
        "provisioner": "kubernetes.io/no-provisioner",
    } | fields


def deployment(name: str | None = None, *, replicas: int = 1) -> Object:
    return _workload("Deployment", name, replicas=replicas)


def stateful_set(name: str | None = None, *, replicas: int = 1, **spec: Any) -> Object:
    return _workload("StatefulSet", name, replicas=replicas, serviceName="demo", **spec)


def _workload(kind: str, name: str | None, **spec: Any) -> Object:
    labels = {"app": "demo"}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": metadata(name),
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def job(name: str | None = None) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(name),
        "spec": {"template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}},
    }


def lease(name: str | None = None) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata(name),
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15},
    }


def core_event(space: str, name: str | None = None, **fields: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata(name, namespace=space),
        "involvedObject": {"kind": "ConfigMap", "namespace": space, "name": "some", "apiVersion": "v1"},
        "reason": "Tested",
        "message": "a test was here",
        "type": "Normal",
        "source": {"component": "contract"},
    } | fields


def role(name: str | None = None, *rules: Object) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(name),
        "rules": list(rules),
    }


def rule(verbs: str, resources: str, *, group: str = "", names: list[str] | None = None) -> Object:
    """A policy rule from words, for example rule("get list", "configmaps")."""
    made: Object = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return made | {"resourceNames": names} if names else made


def role_binding(role_name: str, *subjects: Object, kind: str = "Role") -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata(),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role_name},
        "subjects": list(subjects),
    }
