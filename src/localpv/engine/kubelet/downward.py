"""What a pod can tell its own containers in their environment: what it tells in volumes, and where it runs."""

from __future__ import annotations

from localpv import errors
from localpv.api import kinds
from localpv.engine.kubelet.volumes import downward
from localpv.engine.kubelet.waiting_reasons import BadConfig


def field(pod: kinds.Pod, path: str, *, host_ip: str = "") -> str:
    """The value of a fieldRef."""
    pod_ip = host_ip if pod.spec.host_network else ""
    here = {
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
    }
    if path in here:
        return here[path]
    if path in ("metadata.labels", "metadata.annotations"):  # a file can hold many lines, a variable is one value
        raise BadConfig(f"unsupported fieldPath: {path}")
    try:
        return downward.field(pod, path)
    except errors.BadRequest as error:
        raise BadConfig(error.message) from error


def resource(
    pod: kinds.Pod, container: kinds.Container, selector: kinds.ResourceFieldSelector, *, machine: dict[str, str]
) -> str:
    """The value of a resourceFieldRef; a limit that is not set is what the machine has."""
    try:
        return downward.resource(pod, selector, allocatable=machine, container=container.name)
    except errors.BadRequest as error:
        raise BadConfig(error.message) from error
