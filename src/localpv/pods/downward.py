"""What a pod can tell its own containers: fields of the pod, requests and limits of a container."""

from __future__ import annotations

import re

from localpv.api import kinds
from localpv.api.quantity import Quantity
from localpv.pods.problems import BadConfig

_KEY = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]").fullmatch


def field(pod: kinds.Pod, path: str, *, host_ip: str = "") -> str:
    """The value of a fieldRef."""
    meta, spec = pod.metadata, pod.spec
    if found := _KEY(path):
        values = meta.labels if found[1] == "labels" else meta.annotations
        return values.get(found[2], "")
    pod_ip = host_ip if spec.host_network else ""
    plain = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": spec.node_name,
        "spec.serviceAccountName": spec.service_account_name,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
    }
    if path not in plain:
        raise BadConfig(f"unsupported fieldPath: {path}")
    return plain[path]


def resource(
    pod: kinds.Pod, container: kinds.Container, selector: kinds.ResourceFieldSelector, *, machine: dict[str, str]
) -> str:
    """The value of a resourceFieldRef; a limit that is not set is what the machine has."""
    if selector.container_name and selector.container_name != container.name:
        others = (*pod.spec.containers, *pod.spec.init_containers)
        named = next((one for one in others if one.name == selector.container_name), None)
        if named is None:
            raise BadConfig(f"container {selector.container_name} not found")
        container = named
    which, _, name = selector.resource.partition(".")
    amounts = container.resources.limits if which == "limits" else container.resources.requests
    text = amounts.get(name) or (machine.get(name, "0") if which == "limits" else "0")
    amount, divisor = Quantity.parse(text).nanos, Quantity.parse(selector.divisor or "1").nanos or 10**9
    return str(-(-amount // divisor))
