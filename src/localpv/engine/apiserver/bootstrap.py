"""What is there from the first start on: namespaces, the node, service accounts, roles and their bindings.

Later starts create only what is missing, so what an administrator has changed stays changed.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable

from localpv.api import roles as our_roles
from localpv.api import well_known
from localpv.api.objects import Object
from localpv.api.resources import BUILT_IN
from localpv.engine.apiserver.auth import identity, node_rule
from localpv.engine.apiserver.auth.lookup import Objects
from localpv.engine.apiserver.auth.rules import outdated

SYSTEM = "kube-system"
"""Where the components have their service accounts."""

AGENT = our_roles.AGENT
MANAGER = our_roles.MANAGER

_AUTHORIZATION = "authorization.k8s.io"
_EVENTS = ("", "events.k8s.io")

_rule = our_roles.rule
_READ = our_roles.READ
_WRITE = ("create", "delete", "deletecollection", "patch", "update")

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def cluster_roles() -> list[Object]:
    roles = _cluster_roles()
    summed = {role["metadata"]["name"]: role for role in outdated(roles)}
    return [summed.get(role["metadata"]["name"], role) for role in roles]


def _paths(*paths: str) -> Object:
    return {"verbs": ["get"], "nonResourceURLs": list(paths)}


def _role(name: str, *rules: Object, aggregate_to: str = "") -> Object:
    labels = dict(_LABELS)
    if aggregate_to:
        labels[_AGGREGATE + aggregate_to] = "true"
    return {
        "apiVersion": f"{well_known.RBAC_GROUP}/v1",
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
            _rule(["create"], well_known.AUTHENTICATION_GROUP, "selfsubjectreviews"),
        ),
        _role(
            "system:auth-delegator",
            _rule(["create"], well_known.AUTHENTICATION_GROUP, "tokenreviews"),
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
            _rule(_READ, well_known.STORAGE_GROUP, "storageclasses"),
            _rule(["watch"], "", "events"),
            _rule(["create", "patch", "update"], _EVENTS, "events"),
        ),
        _role(AGENT, *our_roles.agent()),
        _role(our_roles.DISCOVERER, *our_roles.discoverer()),
        _role(MANAGER, *_manager_rules()),
    ]


def _view_rules() -> list[Object]:
    """Secrets are left out: who reads them can act as the service accounts whose tokens they hold."""
    return [
        _rule(
            _READ,
            "",
            *("configmaps", "endpoints", "limitranges", "namespaces", "persistentvolumeclaims"),
            *("persistentvolumeclaims/status", "pods", "pods/log", "pods/status", "replicationcontrollers"),
            *("replicationcontrollers/scale", "replicationcontrollers/status", "resourcequotas"),
            *("resourcequotas/status", "serviceaccounts", "services", "services/status"),
        ),
        _rule(_READ, _EVENTS, "events"),
        _rule(
            _READ,
            "apps",
            *("controllerrevisions", "daemonsets", "daemonsets/status"),
            *("deployments", "deployments/scale", "deployments/status"),
            *("replicasets", "replicasets/scale", "replicasets/status"),
            *("statefulsets", "statefulsets/scale", "statefulsets/status"),
        ),
        _rule(_READ, "autoscaling", "horizontalpodautoscalers", "horizontalpodautoscalers/status"),
        _rule(_READ, "batch", "cronjobs", "cronjobs/status", "jobs", "jobs/status"),
        _rule(_READ, "discovery.k8s.io", "endpointslices"),
        _rule(_READ, "networking.k8s.io", "ingresses", "ingresses/status", "networkpolicies"),
        _rule(_READ, "policy", "poddisruptionbudgets", "poddisruptionbudgets/status"),
        _rule(_READ, "resource.k8s.io", "resourceclaims", "resourceclaims/status", "resourceclaimtemplates"),
        _rule(_READ, well_known.STORAGE_GROUP, "csistoragecapacities"),
    ]


def _edit_rules() -> list[Object]:
    return [
        _rule(_READ, "", "secrets"),
        _rule(["impersonate"], "", "serviceaccounts"),
        _rule(
            _WRITE,
            "",
            *("configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "replicationcontrollers/scale"),
            *("secrets", "serviceaccounts", "services"),
        ),
        _rule(["create"], "", "pods/eviction", "serviceaccounts/token"),
        _rule(_WRITE, _EVENTS, "events"),
        _rule(
            _WRITE,
            "apps",
            *("daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale"),
            *("statefulsets", "statefulsets/scale"),
        ),
        _rule(_WRITE, "autoscaling", "horizontalpodautoscalers"),
        _rule(_WRITE, "batch", "cronjobs", "jobs"),
        _rule(_WRITE, "networking.k8s.io", "ingresses", "networkpolicies"),
        _rule(_WRITE, "policy", "poddisruptionbudgets"),
        _rule(_WRITE, "resource.k8s.io", "resourceclaims", "resourceclaimtemplates"),
        _rule([*_READ, *_WRITE], "coordination.k8s.io", "leases"),
    ]


def _admin_rules() -> list[Object]:
    return [
        _rule(["create"], _AUTHORIZATION, "localsubjectaccessreviews"),
        _rule([*_READ, *_WRITE], well_known.RBAC_GROUP, "rolebindings", "roles"),
    ]


def _node_rules() -> list[Object]:
    """For what runs pods on a node."""
    return [
        _rule(["create"], well_known.AUTHENTICATION_GROUP, "tokenreviews"),
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
        _rule(["create", "delete", "get", "patch", "update"], well_known.STORAGE_GROUP, "csinodes"),
        _rule(_READ, well_known.STORAGE_GROUP, "csidrivers"),
        _rule(["get"], well_known.STORAGE_GROUP, "volumeattachments"),
    ]


def _manager_rules() -> list[Object]:
    """What the manager does on Kubernetes, and here also binding and the operator."""
    return [
        *our_roles.manager(),
        *our_roles.manager_in_own_namespace(),
        *our_roles.operator(),
        *our_roles.operator_in_own_namespace(),
        _rule(["patch", "update"], "", "persistentvolumes/status"),
        _rule(["patch", "update"], "", "persistentvolumeclaims"),
        _rule(["patch", "update"], "", "persistentvolumeclaims/status"),
        _rule(["deletecollection"], our_roles.DISKS_GROUP, our_roles.DISKS),
        _rule(_READ, well_known.STORAGE_GROUP, "csidrivers", "csinodes", "csistoragecapacities", "volumeattachments"),
        _rule(_READ, "", "namespaces", "pods"),
        _rule([*_READ, "update"], _EVENTS, "events"),
        _rule(["list", "watch"], "coordination.k8s.io", "leases"),
    ]


def cluster_role_bindings() -> list[Object]:
    return [
        _binding("cluster-admin", _group(identity.MASTERS)),
        _binding("system:discovery", _group(identity.AUTHENTICATED)),
        _binding("system:basic-user", _group(identity.AUTHENTICATED)),
        _binding("system:public-info-viewer", _group(identity.AUTHENTICATED), _group(identity.UNAUTHENTICATED)),
        _binding("system:monitoring", _group("system:monitoring")),
        # Whoever runs pods must be given this on purpose, as on Kubernetes.
        _binding("system:node"),
        _binding(AGENT, _account(AGENT), _group(node_rule.AGENTS)),
        _binding(our_roles.DISCOVERER, _account(our_roles.DISCOVERER)),
        _binding(MANAGER, _account(MANAGER)),
    ]


def _binding(role: str, *subjects: Object) -> Object:
    return {
        "apiVersion": f"{well_known.RBAC_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role, "labels": dict(_LABELS)},
        "roleRef": {"apiGroup": well_known.RBAC_GROUP, "kind": "ClusterRole", "name": role},
        **({"subjects": list(subjects)} if subjects else {}),
    }


def _group(name: str) -> Object:
    return {"apiGroup": well_known.RBAC_GROUP, "kind": "Group", "name": name}


def _account(name: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": SYSTEM}


NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

ROOT_CA = "kube-root-ca.crt"
"""ConfigMap in each namespace with the certificate that pods need in order to trust the server."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}

_PREFIXES = {(resource.api_version, resource.kind): resource.storage_prefix for resource in BUILT_IN}


def objects(node_name: str, ca: str = "") -> list[Object]:
    """All of them, in an order in which they can be created.

    Without a node name there is no node among them; `ca` is as in `service_account_defaults`.
    """
    found = [_namespace(name) for name in NAMESPACES]
    if node_name:
        found.append(_node(node_name))
    for name in NAMESPACES:
        found += service_account_defaults(name, ca)
    components = (AGENT, MANAGER)
    found += [_service_account(SYSTEM, name) for name in components]
    return [*found, *cluster_roles(), *cluster_role_bindings()]


def service_account_defaults(namespace: str, ca: str = "") -> list[Object]:
    """What each namespace should have. Without the certificate (PEM) of the authority, only the account."""
    found = [_service_account(namespace, "default")]
    if ca:
        note = "the certificate authority of this cluster's API server, for clients in this namespace"
        metadata = {"name": ROOT_CA, "namespace": namespace, "annotations": {well_known.DESCRIPTION: note}}
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
        "metadata": {"name": name, "labels": {well_known.NAMESPACE_NAME: name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _node(name: str) -> Object:
    machine = platform.machine()
    labels = {
        well_known.HOSTNAME: name,
        well_known.OS: "linux",
        well_known.ARCHITECTURE: _ARCHITECTURES.get(machine, machine),
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}}


def _service_account(namespace: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
