"""Namespaces, nodes, services and the small kinds around them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from localpv.api.objects import Object
from localpv.engine.apiserver.tables import durations
from localpv.engine.apiserver.tables.layout import AGE, NAME, NONE, Layout, column, labels, wide

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE = "kubernetes.io/role"


def _namespace(namespace: Object, now: float) -> list[Any]:
    phase = (namespace.get("status") or {}).get("phase", "")
    return [namespace["metadata"]["name"], phase, durations.age(namespace, now)]


def _node(node: Object, now: float) -> list[Any]:
    metadata, status = node["metadata"], node.get("status") or {}
    info, addresses = status.get("nodeInfo") or {}, status.get("addresses") or ()
    return [
        metadata["name"],
        _node_state(node.get("spec") or {}, status),
        _roles(metadata.get("labels") or {}),
        durations.age(node, now),
        info.get("kubeletVersion", ""),
        _first_address(addresses, "InternalIP"),
        _first_address(addresses, "ExternalIP"),
        info.get("osImage") or durations.UNKNOWN,
        info.get("kernelVersion") or durations.UNKNOWN,
        info.get("containerRuntimeVersion") or durations.UNKNOWN,
    ]


def _node_state(spec: Object, status: Object) -> str:
    state = "Unknown"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready":
            state = "Ready" if condition.get("status") == "True" else "NotReady"
    return f"{state},SchedulingDisabled" if spec.get("unschedulable") else state


def _roles(node_labels: dict[str, str]) -> str:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in node_labels if key.startswith(_ROLE_PREFIX)}
    roles.add(node_labels.get(_ROLE, ""))
    return ",".join(sorted(filter(None, roles))) or NONE


def _first_address(addresses: Iterable[Object], kind: str) -> str:
    return next((each["address"] for each in addresses if each.get("type") == kind), NONE)


def _service(service: Object, now: float) -> list[Any]:
    spec = service["spec"]
    addresses = spec.get("clusterIPs")
    return [
        service["metadata"]["name"],
        spec.get("type", ""),
        addresses[0] if addresses else NONE,
        _external(spec, service.get("status") or {}),
        ",".join(map(_port, spec.get("ports") or ())) or NONE,
        durations.age(service, now),
        labels(spec.get("selector")),
    ]


def _external(spec: Object, status: Object) -> str:
    own: list[str] = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or NONE
        case "LoadBalancer":
            points = (status.get("loadBalancer") or {}).get("ingress") or ()
            given = {point.get("ip") or point.get("hostname") for point in points}
            return ",".join([*sorted(filter(None, given)), *own]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return durations.UNKNOWN


def _port(port: Object) -> str:
    node_port = port.get("nodePort", 0)
    number = f"{port['port']}:{node_port}" if node_port else port["port"]
    return f"{number}/{port.get('protocol', 'TCP')}"


def _config_map(config: Object, now: float) -> list[Any]:
    entries = len(config.get("data") or ()) + len(config.get("binaryData") or ())
    return [config["metadata"]["name"], entries, durations.age(config, now)]


def _secret(secret: Object, now: float) -> list[Any]:
    entries = len(secret.get("data") or ())
    return [secret["metadata"]["name"], secret.get("type", ""), entries, durations.age(secret, now)]


def _service_account(account: Object, now: float) -> list[Any]:
    return [account["metadata"]["name"], durations.age(account, now)]


def _lease(lease: Object, now: float) -> list[Any]:
    holder = (lease.get("spec") or {}).get("holderIdentity", "")
    return [lease["metadata"]["name"], holder, durations.age(lease, now)]


LAYOUTS = {
    ("", "Namespace"): Layout([NAME, column("Status", "Whether the namespace is in use or going"), AGE], _namespace),
    ("", "Node"): Layout(
        [
            NAME,
            column("Status", "Whether the node is ready and takes new pods"),
            column("Roles", "What the node is there for"),
            AGE,
            column("Version", "Version of the node's kubelet"),
            wide("Internal-IP", "Address of the node inside the cluster"),
            wide("External-IP", "Address of the node for the outside"),
            wide("OS-Image", "Operating system of the node"),
            wide("Kernel-Version", "Kernel of the node"),
            wide("Container-Runtime", "Container runtime of the node and its version"),
        ],
        _node,
    ),
    ("", "Service"): Layout(
        [
            NAME,
            column("Type", "How the service is offered"),
            column("Cluster-IP", "Address of the service inside the cluster"),
            column("External-IP", "Addresses of the service for the outside"),
            column("Port(s)", "Ports that the service listens on"),
            AGE,
            wide("Selector", "Labels of the pods behind the service"),
        ],
        _service,
    ),
    ("", "ConfigMap"): Layout([NAME, column("Data", "How many entries it has"), AGE], _config_map),
    ("", "Secret"): Layout(
        [NAME, column("Type", "What the secret is for"), column("Data", "How many entries it has"), AGE],
        _secret,
    ),
    ("", "ServiceAccount"): Layout([NAME, AGE], _service_account),
    ("coordination.k8s.io", "Lease"): Layout([NAME, column("Holder", "Who holds the lease"), AGE], _lease),
}
