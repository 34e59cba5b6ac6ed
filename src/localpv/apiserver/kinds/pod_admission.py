"""What Kubernetes' admission plugins add to every pod: a service account, a priority, patience with sick nodes."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields
from localpv.api.fields import FieldError
from localpv.api.objects import Object

Errors = Iterator[FieldError]

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""On pods that only show what a node runs by itself."""

PATIENCE_SECONDS = 300
_SICK = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

PRIORITIES = {"": 0, "system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The priority classes that every cluster has; the engine has no others."""


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


def add_priority(spec: Object) -> None:
    priority = PRIORITIES.get(spec.get("priorityClassName", ""))
    if priority is not None:
        spec.setdefault("priority", priority)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def keep_priority(spec: Object, old: Object) -> None:
    for name in ("priority", "preemptionPolicy"):
        if name in old:
            spec.setdefault(name, old[name])


def priority_errors(spec: Object) -> Errors:
    name = spec.get("priorityClassName", "")
    if name not in PRIORITIES:
        yield fields.not_found("spec.priorityClassName", name)
    elif spec.get("priority") != PRIORITIES[name]:
        why = f"follows from priorityClassName and is {PRIORITIES[name]}: leave it out"
        yield fields.forbidden("spec.priority", why)
