"""Pods: one word for what their containers are doing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from localpv.api.objects import Object
from localpv.engine.apiserver.tables import layout
from localpv.engine.apiserver.tables.layout import AGE, NAME, NONE, Layout, column, wide

_NODE_LOST = "NodeLost"
_GATED = "SchedulingGated"
_TERMINAL = ("Succeeded", "Failed")


class _Restarts:
    """How often containers were started again, and when one last ended before that."""

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last = 0.0

    def add(self, container: Object) -> None:
        self.count += container.get("restartCount", 0)
        ended = (container.get("lastState") or {}).get("terminated") or {}
        if finished := ended.get("finishedAt"):
            self.last = max(self.last, layout.moment(finished))

    def cell(self, now: float) -> str:
        if self.count and self.last:
            return f"{self.count} ({layout.human(now - self.last)} ago)"
        return str(self.count)


def _pod(pod: Object, now: float) -> list[Any]:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    reason, ready, restarts = _progress(spec, status)
    if metadata.get("deletionTimestamp"):
        if status.get("reason") == _NODE_LOST:
            reason = "Unknown"
        elif status.get("phase") not in _TERMINAL:
            reason = "Terminating"
    addresses = status.get("podIPs")
    return [
        metadata["name"],
        f"{ready}/{len(spec['containers']) + len(_sidecars(spec))}",
        reason,
        restarts.cell(now),
        layout.age(pod, now),
        (addresses[0].get("ip") if addresses else "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec, status),
    ]


def _sidecars(spec: Object) -> set[str]:
    """Init containers that keep running beside the others."""
    return {each["name"] for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"}


def _progress(spec: Object, status: Object) -> tuple[str, int, _Restarts]:
    """What the pod is at, how many containers are ready, and the restarts that matter at this stage."""
    conditions = status.get("conditions") or ()
    reason: str = status.get("reason") or status.get("phase", "")
    if any(each.get("type") == "PodScheduled" and each.get("reason") == _GATED for each in conditions):
        reason = _GATED

    sidecars = _sidecars(spec)
    of_all, of_sidecars = _Restarts(), _Restarts()
    ready, initializing = 0, False
    for position, container in enumerate(status.get("initContainerStatuses") or ()):
        sidecar = container["name"] in sidecars
        of_all.add(container)
        if sidecar:
            of_sidecars.add(container)
        if _succeeded(container):
            continue
        if sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        stage = f"{position}/{len(spec.get('initContainers') or ())}"
        reason = f"Init:{_trouble(container) or stage}"
        initializing = True
        break

    if initializing and not _is_true(conditions, "Initialized"):
        return reason, ready, of_all
    containers = status.get("containerStatuses") or ()
    for container in containers:
        of_sidecars.add(container)
    running = sum(1 for each in containers if _is_running(each))
    return _doing(containers, reason, running > 0, _is_true(conditions, "Ready")), ready + running, of_sidecars


def _doing(containers: Sequence[Object], reason: str, running: bool, pod_ready: bool) -> str:
    """The first container that waits or has ended gives the pod its word, unless others still work."""
    failure = ""
    for container in reversed(containers):
        state = container.get("state") or {}
        if why := (state.get("waiting") or {}).get("reason"):
            reason = why
        elif (ended := state.get("terminated")) is not None:
            reason = _end(ended)
            if ended.get("exitCode", 0) != 0:
                failure = reason
    if reason != "Completed":
        return reason
    if running and pod_ready:
        return "Running"
    return failure or ("NotReady" if running else reason)


def _is_running(container: Object) -> bool:
    """Ready and at work; a container that waits or has ended counts as what it waits for or ended with."""
    state = container.get("state") or {}
    if (state.get("waiting") or {}).get("reason") or state.get("terminated") is not None:
        return False
    return bool(container.get("ready")) and state.get("running") is not None


def _succeeded(container: Object) -> bool:
    ended = (container.get("state") or {}).get("terminated")
    return ended is not None and ended.get("exitCode", 0) == 0


def _trouble(container: Object) -> str:
    """Why an init container is not simply running its course; empty if it is."""
    state = container.get("state") or {}
    if (ended := state.get("terminated")) is not None:
        return _end(ended)
    reason: str = (state.get("waiting") or {}).get("reason") or ""
    return "" if reason == "PodInitializing" else reason


def _end(ended: Object) -> str:
    if reason := ended.get("reason"):
        return str(reason)
    if signal := ended.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _is_true(conditions: Iterable[Object], kind: str) -> bool:
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)


def _gates(spec: Object, status: Object) -> str:
    gates = spec.get("readinessGates")
    if not gates:
        return NONE
    conditions = status.get("conditions") or ()
    return f"{sum(_is_true(conditions, gate['conditionType']) for gate in gates)}/{len(gates)}"


_SUCCEEDED = [
    {"type": "Completed", "status": "True", "reason": "Succeeded", "message": "All containers ended well"},
]
_FAILED = [
    {"type": "Completed", "status": "True", "reason": "Failed", "message": "At least one container failed"},
]


def conditions(pod: Object) -> list[Object]:
    """What a row says about a pod that will not run again."""
    match (pod.get("status") or {}).get("phase"):
        case "Succeeded":
            return _SUCCEEDED
        case "Failed":
            return _FAILED
    return []


LAYOUTS = {
    ("", "Pod"): Layout(
        [
            NAME,
            column("Ready", "Ready containers of all containers"),
            column("Status", "What the containers are doing, or why they do not"),
            column("Restarts", "How often containers were started again, and when one last was"),
            AGE,
            wide("IP", "First address of the pod"),
            wide("Node", "Node that runs the pod"),
            wide("Nominated Node", "Node on which room is being made for the pod"),
            wide("Readiness Gates", "Conditions that hold of those the pod must meet to be ready"),
        ],
        _pod,
    ),
}
