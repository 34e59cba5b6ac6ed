"""What is there from the first start on: namespaces, the node, service accounts, roles and their bindings.

Later starts create only what is missing, so what an administrator has changed stays changed.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence

from localpv.api.objects import Object
from localpv.api.resources import BUILT_IN
from localpv.apiserver.auth import aggregation, identity, node_rule
from localpv.apiserver.auth.lookup import Objects

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

SYSTEM = "kube-system"
"""Where the components have their service accounts."""

AGENT = node_rule.AGENT_ROLE
MANAGER = "localpv-manager"

ROOT_CA = "kube-root-ca.crt"
"""ConfigMap in each namespace with the certificate that pods need in order to trust the server."""

_RBAC = "rbac.authorization.k8s.io"
_STORAGE = "storage.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_EVENTS = ("", "events.k8s.io")
_OPERATOR = "local.storage.openshift.com"

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}

_PREFIXES = {(resource.api_version, resource.kind): resource.storage_prefix for resource in BUILT_IN}


def objects(node_name: str) -> list[Object]:
    """All of them, in an order in which they can be created. Without a node name there is no node among them."""
    found = [_namespace(name) for name in NAMESPACES]
    if node_name:
        found.append(_node(node_name))
    for name in NAMESPACES:
        found += service_account_defaults(name)
    found += [_service_account(SYSTEM, name) for name in (AGENT, MANAGER)]
    roles = _cluster_roles()
    summed = {role["metadata"]["name"]: role for role in aggregation.outdated(roles)}
    found += [summed.get(role["metadata"]["name"], role) for role in roles]
    return found + _bindings()


def service_account_defaults(namespace: str, ca: str = "") -> list[Object]:
    """What each namespace should have. Without the certificate (PEM) of the authority, only the account."""
    found = [_service_account(namespace, "default")]
    if ca:
        note = "the certificate authority of this cluster's API server, for clients in this namespace"
        metadata = {"name": ROOT_CA, "namespace": namespace, "annotations": {"kubernetes.io/description": note}}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": ca}})
    return found


def missing(wanted: Iterable[Object], present: Objects) -> list[Object]:
    """Those of the wanted objects that the store does not have."""
    return [
        obj
        for obj in wanted
        if present.get(
            _PREFIXES[obj["apiVersion"], obj["kind"]],
            obj["metadata"].get("namespace", ""),
            obj["metadata"]["name"],
        )
        is None
    ]


def _namespace(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _node(name: str) -> Object:
    machine = platform.machine()
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _ARCHITECTURES.get(machine, machine),
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}}


def _service_account(namespace: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def _rule(verbs: Sequence[str], groups: str | Sequence[str], *resources: str) -> Object:
    listed = [groups] if isinstance(groups, str) else list(groups)
    return {"verbs": list(verbs), "apiGroups": listed, "resources": list(resources)}


def _paths(*paths: str) -> Object:
    return {"verbs": ["get"], "nonResourceURLs": list(paths)}


def _role(name: str, *rules: Object, aggregate_to: str = "") -> Object:
    labels = dict(_LABELS)
    if aggregate_to:
        labels[_AGGREGATE + aggregate_to] = "true"
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "rules": list(rules),
    }


def _sum_role(name: str, *, aggregate_to: str = "") -> Object:
    """A role for people in a namespace: the sum of all roles with the label for it, so that CRDs can add theirs."""
    role = _role(name, aggregate_to=aggregate_to)
    role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {_AGGREGATE + name: "true"}}]}
    return role


def _cluster_roles() -> list[Object]:
    public = ("/healthz", "/livez", "/readyz", "/version", "/version/")
    discovery = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *public)
    everything: Object = {"verbs": ["*"], "nonResourceURLs": ["*"]}
    return [
        _role("cluster-admin", _rule(["*"], "*", "*"), everything),
        _sum_role("admin"),
        _sum_role("edit", aggregate_to="admin"),
        _sum_role("view", aggregate_to="edit"),
        _role("system:aggregate-to-admin", *_admin_rules(), aggregate_to="admin"),
        _role("system:aggregate-to-edit", *_edit_rules(), aggregate_to="edit"),
        _role("system:aggregate-to-view", *_view_rules(), aggregate_to="view"),
        _role("system:public-info-viewer", _paths(*public)),
        _role("system:discovery", _paths(*discovery)),
        _role(
            "system:basic-user",
            _rule(["create"], _AUTHORIZATION, "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
            _rule(["create"], _AUTHENTICATION, "selfsubjectreviews"),
        ),
        _role(
            "system:auth-delegator",
            _rule(["create"], _AUTHENTICATION, "tokenreviews"),
            _rule(["create"], _AUTHORIZATION, "subjectaccessreviews"),
        ),
        _role(
            "system:monitoring",
            _paths("/metrics", "/livez", "/livez/*", "/readyz", "/readyz/*", "/healthz", "/healthz/*"),
        ),
        _role("system:node", *_node_rules()),
        _role(
            "system:persistent-volume-provisioner",
            _rule([*_READ, "create", "delete"], "", "persistentvolumes"),
            _rule([*_READ, "update"], "", "persistentvolumeclaims"),
            _rule(_READ, _STORAGE, "storageclasses"),
            _rule(["watch"], "", "events"),
            _rule(["create", "patch", "update"], _EVENTS, "events"),
        ),
        _role(AGENT, *_agent_rules()),
        _role(MANAGER, *_manager_rules()),
    ]


def _view_rules() -> list[Object]:
    """Secrets are left out: who reads them can act as the service accounts whose tokens they hold."""
    return [
        _rule(
            _READ,
            "",
            *("configmaps", "namespaces", "persistentvolumeclaims", "persistentvolumeclaims/status", "pods"),
            *("pods/log", "pods/status", "serviceaccounts", "services", "services/status"),
        ),
        _rule(_READ, _EVENTS, "events"),
        _rule(
            _READ,
            "apps",
            *("daemonsets", "daemonsets/status"),
            *("deployments", "deployments/scale", "deployments/status"),
            *("replicasets", "replicasets/scale", "replicasets/status"),
            *("statefulsets", "statefulsets/scale", "statefulsets/status"),
        ),
        _rule(_READ, "batch", "jobs", "jobs/status"),
        _rule(_READ, _STORAGE, "csistoragecapacities"),
    ]


def _edit_rules() -> list[Object]:
    return [
        _rule(_READ, "", "secrets"),
        _rule(["impersonate"], "", "serviceaccounts"),
        _rule(_WRITE, "", "configmaps", "persistentvolumeclaims", "pods", "secrets", "serviceaccounts", "services"),
        _rule(["create"], "", "pods/eviction", "serviceaccounts/token"),
        _rule(_WRITE, _EVENTS, "events"),
        _rule(
            _WRITE,
            "apps",
            *("daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale"),
            *("statefulsets", "statefulsets/scale"),
        ),
        _rule(_WRITE, "batch", "jobs"),
        _rule([*_READ, *_WRITE], "coordination.k8s.io", "leases"),
    ]


def _admin_rules() -> list[Object]:
    return [
        _rule(["create"], _AUTHORIZATION, "localsubjectaccessreviews"),
        _rule([*_READ, *_WRITE], _RBAC, "rolebindings", "roles"),
    ]


def _node_rules() -> list[Object]:
    """For what runs pods on a node."""
    return [
        _rule(["create"], _AUTHENTICATION, "tokenreviews"),
        _rule(["create"], _AUTHORIZATION, "localsubjectaccessreviews", "subjectaccessreviews"),
        _rule([*_READ, "create", "patch", "update"], "", "nodes"),
        _rule(["patch", "update"], "", "nodes/status"),
        _rule([*_READ, "create", "delete"], "", "pods"),
        _rule(["patch", "update"], "", "pods/status"),
        _rule(["create"], "", "pods/eviction", "serviceaccounts/token"),
        _rule(_READ, "", "configmaps", "secrets", "services"),
        _rule(["get"], "", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts"),
        _rule(["get", "patch", "update"], "", "persistentvolumeclaims/status"),
        _rule(["create", "patch", "update"], _EVENTS, "events"),
        _rule(["create", "delete", "get", "patch", "update"], "coordination.k8s.io", "leases"),
        _rule(["create", "delete", "get", "patch", "update"], _STORAGE, "csinodes"),
        _rule(_READ, _STORAGE, "csidrivers"),
        _rule(["get"], _STORAGE, "volumeattachments"),
    ]


def _agent_rules() -> list[Object]:
    """No PersistentVolumes. Which of the LocalDisks and Nodes are meant is said by `auth/node_rule.py`."""
    return [
        _rule([*_READ, "create", "delete", "patch", "update"], node_rule.GROUP, node_rule.LOCAL_DISKS),
        _rule(["get", "patch", "update"], node_rule.GROUP, f"{node_rule.LOCAL_DISKS}/status"),
        _rule(_READ, "", "nodes"),
        _rule(_READ, _STORAGE, "storageclasses"),
        _rule(["create", "patch"], _EVENTS, "events"),
    ]


def _manager_rules() -> list[Object]:
    """The only writer of PersistentVolumes."""
    return [
        _rule([*_READ, "create", "delete", "patch", "update"], "", "persistentvolumes"),
        _rule(["patch", "update"], "", "persistentvolumes/status"),
        _rule([*_READ, "patch", "update"], "", "persistentvolumeclaims"),
        _rule(["patch", "update"], "", "persistentvolumeclaims/status"),
        _rule([*_READ, *_WRITE], node_rule.GROUP, node_rule.LOCAL_DISKS),
        _rule(["get", "patch", "update"], node_rule.GROUP, f"{node_rule.LOCAL_DISKS}/status"),
        _rule([*_READ, "patch", "update"], _OPERATOR, "localstorages"),
        _rule(["get", "patch", "update"], _OPERATOR, "localstorages/status"),
        _rule(["update"], _OPERATOR, "localstorages/finalizers"),
        _rule([*_READ, "create", "delete", "patch", "update"], _STORAGE, "storageclasses"),
        _rule(_READ, _STORAGE, "csidrivers", "csinodes", "csistoragecapacities", "volumeattachments"),
        _rule([*_READ, "create", "delete", "patch", "update"], "apps", "daemonsets"),
        _rule([*_READ, "create", "delete", "patch", "update"], "", "configmaps"),
        _rule(_READ, "", "namespaces", "nodes", "pods"),
        _rule([*_READ, "create", "patch", "update"], _EVENTS, "events"),
        _rule([*_READ, "create", "patch", "update"], "coordination.k8s.io", "leases"),
    ]


def _bindings() -> list[Object]:
    return [
        _binding("cluster-admin", _group(identity.MASTERS)),
        _binding("system:discovery", _group(identity.AUTHENTICATED)),
        _binding("system:basic-user", _group(identity.AUTHENTICATED)),
        _binding("system:public-info-viewer", _group(identity.AUTHENTICATED), _group(identity.UNAUTHENTICATED)),
        _binding("system:monitoring", _group("system:monitoring")),
        _binding("system:node", _group(identity.NODES)),
        _binding(AGENT, _account(AGENT), _group(node_rule.AGENTS)),
        _binding(MANAGER, _account(MANAGER)),
    ]


def _binding(role: str, *subjects: Object) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role, "labels": dict(_LABELS)},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": list(subjects),
    }


def _group(name: str) -> Object:
    return {"apiGroup": _RBAC, "kind": "Group", "name": name}


def _account(name: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": SYSTEM}
