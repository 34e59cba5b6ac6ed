"""Pod: containers that run together on one node and share its volumes."""

from __future__ import annotations

from collections.abc import Iterator

from localpv import errors
from localpv.api import fields, objects, status, well_known
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import (
    pod_containers,
    pod_resources,
    pod_scheduling,
    pod_spec,
    pod_update,
    pod_volumes,
    pod_warnings,
)
from localpv.engine.apiserver.kinds.base import StatusStrategy

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
    if well_known.MIRROR not in (pod["metadata"].get("annotations") or {}) and not spec.get("serviceAccountName"):
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


Errors = Iterator[FieldError]


class Pod(StatusStrategy):
    returns_deleted = True

    def raw_errors(self, body: Object) -> FieldErrors:
        spec = body.get("spec")
        return pod_volumes.raw_errors(spec.get("volumes"), "spec.volumes") if isinstance(spec, dict) else []

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        spec, phase = obj["spec"], obj.get("status", {}).get("phase")
        if not spec.get("nodeName") or phase in ("Failed", "Succeeded"):
            # Nobody runs it, so nobody would wind it up.
            return 0
        seconds: int = spec.get("terminationGracePeriodSeconds", 0) if asked is None else asked
        return seconds if seconds >= 0 else 1

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        pod_spec.default_spec(spec)
        if spec["terminationGracePeriodSeconds"] < 0:
            spec["terminationGracePeriodSeconds"] = 1
        pod_spec.default_pod(obj)
        pod_resources.default_pod(spec)
        pod_update.default_status(obj.setdefault("status", {}))

    def prepare_for_create(self, obj: Object) -> None:
        spec = obj["spec"]
        refuse_unknown_classes(obj)
        add_service_account(obj)
        add_priority(spec)
        add_tolerations(spec)
        pod_scheduling.merge_label_keys(obj)
        obj["status"] = {"phase": "Pending", "qosClass": pod_resources.quality_of_service(spec)}
        if spec.get("schedulingGates"):
            gated = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "lastTransitionTime": objects.now(),
                "message": "no node is looked for while there are scheduling gates",
            }
            obj["status"]["conditions"] = [gated]

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_update(obj, old)
        keep_priority(obj["spec"], old["spec"])
        add_tolerations(obj["spec"])

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_status_update(obj, old)
        pod_update.carry_over_status(obj.setdefault("status", {}), old.get("status") or {})

    def validate(self, obj: Object) -> FieldErrors:
        return list(_errors(obj))

    def validate_create(self, obj: Object) -> FieldErrors:
        return list(_new_errors(obj["spec"]))

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        return list(pod_update.errors(obj, old))

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        return list(pod_update.status_errors(obj, old))

    def selectable(self, obj: Object) -> dict[str, str]:
        spec, status = obj["spec"], obj.get("status") or {}
        return {
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.restartPolicy": spec.get("restartPolicy", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase", ""),
            "status.podIP": status.get("podIP", ""),
            # Known to Kubernetes and always empty there.
            "status.podIPs": "",
            "status.nominatedNodeName": status.get("nominatedNodeName", ""),
        }

    def warnings(self, obj: Object) -> list[str]:
        return list(pod_warnings.of_pod(obj))


def _errors(obj: Object) -> Errors:
    spec, metadata = obj["spec"], obj["metadata"]
    annotations = metadata.get("annotations")
    if annotations:
        yield from _annotations(annotations, spec)
    yield from pod_spec.errors(spec, "spec", pod_name=metadata.get("name", ""), is_pod=True)
    yield from pod_containers.image_errors(spec, "spec")
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for place, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if "serviceAccountToken" in source:
                    where = f"spec.volumes[{index}].projected.sources[{place}].serviceAccountToken"
                    yield fields.forbidden(where, "there is no service account to make a token for")


def _annotations(annotations: dict[str, str], spec: Object) -> Errors:
    if well_known.MIRROR in annotations and not spec.get("nodeName"):
        where = f"metadata.annotations[{well_known.MIRROR}]"
        yield fields.invalid(where, annotations[well_known.MIRROR], "a mirror pod has a spec.nodeName")
    cost = annotations.get(well_known.POD_DELETION_COST)
    if cost is not None and not _is_cost(cost):
        yield fields.invalid(
            f"metadata.annotations[{well_known.POD_DELETION_COST}]", cost, "must be a whole number of 32 bits"
        )


def _is_cost(text: str) -> bool:
    digits = text.removeprefix("-")
    return (
        len(text) < 12
        and digits.isascii()
        and digits.isdigit()
        and -(2**31) <= int(text) < 2**31
        and (digits == "0" or digits[0] != "0")
    )


def _new_errors(spec: Object) -> Errors:
    if spec.get("ephemeralContainers"):
        yield fields.forbidden("spec.ephemeralContainers", "they are added to pods that run")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield fields.forbidden("spec.nodeName", "cannot be set while there are scheduling gates")
