"""What is there from the first start on: namespaces, the node, service accounts, roles and their bindings.

Later starts create only what is missing, so what an administrator has changed stays changed.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable

from localpv.api import well_known
from localpv.api.objects import Object
from localpv.api.resources import BUILT_IN
from localpv.engine.apiserver.auth import default_roles
from localpv.engine.apiserver.auth.lookup import Objects

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
    components = (default_roles.AGENT, default_roles.MANAGER)
    found += [_service_account(default_roles.SYSTEM, name) for name in components]
    return [*found, *default_roles.cluster_roles(), *default_roles.cluster_role_bindings()]


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
