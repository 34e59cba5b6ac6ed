"""What Kubernetes' admission plugins add to every pod: a service account, a priority, patience with sick nodes."""

from __future__ import annotations

from localpv import errors
from localpv.api import status, well_known
from localpv.api.objects import Object

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""On pods that only show what a node runs by itself."""

PATIENCE_SECONDS = 300
_SICK = (well_known.NOT_READY, well_known.UNREACHABLE)

PRIORITIES = {"": 0, "system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The priority classes that every cluster has. Others are only stored, and none can be named."""

PREEMPTION = "PreemptLowerPriority"


def add_tolerations(spec: Object) -> None:
    """A pod outlives five minutes of a node that is not ready or not reachable, unless it says otherwise."""
    tolerations = spec.get("tolerations") or []
    missing = [key for key in _SICK if not any(_tolerates(toleration, key) for toleration in tolerations)]
    if missing:
        spec["tolerations"] = tolerations + [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE_SECONDS}
            for key in missing
        ]


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def add_service_account(pod: Object) -> None:
    spec = pod["spec"]
    if MIRROR_ANNOTATION not in (pod["metadata"].get("annotations") or {}) and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"


def refuse_unknown_classes(pod: Object) -> None:
    """Classes that the pod names and the engine does not have, and values that only a class may give.

    In Kubernetes these are answers of admission, so they are Forbidden and come before any validation.
    """
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    if name not in PRIORITIES:
        raise _refused(
            pod, f"no PriorityClass with name {name} was found: pods can name {' and '.join(list(PRIORITIES)[1:])}"
        )
    if spec.get("priority", PRIORITIES[name]) != PRIORITIES[name]:
        raise _refused(pod, f"priority follows from priorityClassName and is {PRIORITIES[name]}: leave it out")
    if spec.get("preemptionPolicy", PREEMPTION) != PREEMPTION:
        raise _refused(pod, f"preemptionPolicy follows from priorityClassName and is {PREEMPTION}: leave it out")
    if spec.get("runtimeClassName"):
        raise _refused(
            pod, f"RuntimeClass {spec['runtimeClassName']} not found: the engine has one runtime, so leave it out"
        )
    if spec.get("overhead"):
        raise _refused(pod, "overhead follows from a RuntimeClass: leave it out")


def _refused(pod: Object, why: str) -> errors.Forbidden:
    return status.forbidden("pods", "", pod["metadata"].get("name", ""), why)


def add_priority(spec: Object) -> None:
    spec["priority"] = PRIORITIES[spec.get("priorityClassName", "")]
    spec["preemptionPolicy"] = PREEMPTION


def keep_priority(spec: Object, old: Object) -> None:
    for name in ("priority", "preemptionPolicy"):
        if name in old:
            spec.setdefault(name, old[name])
