"""Pod: containers that run together on one node and share its volumes."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, objects, well_known
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import (
    pod_admission,
    pod_containers,
    pod_defaults,
    pod_resources,
    pod_scheduling,
    pod_spec,
    pod_status,
    pod_update,
    pod_volumes,
    pod_warnings,
)
from localpv.engine.apiserver.kinds.base import StatusStrategy

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
        pod_defaults.default_spec(spec)
        if spec["terminationGracePeriodSeconds"] < 0:
            spec["terminationGracePeriodSeconds"] = 1
        pod_defaults.default_pod(obj)
        pod_resources.default_pod(spec)
        pod_status.default(obj.setdefault("status", {}))

    def prepare_for_create(self, obj: Object) -> None:
        spec = obj["spec"]
        pod_admission.refuse_unknown_classes(obj)
        pod_admission.add_service_account(obj)
        pod_admission.add_priority(spec)
        pod_admission.add_tolerations(spec)
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
        pod_admission.keep_priority(obj["spec"], old["spec"])
        pod_admission.add_tolerations(obj["spec"])

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_status_update(obj, old)
        pod_status.carry_over(obj.setdefault("status", {}), old.get("status") or {})

    def validate(self, obj: Object) -> FieldErrors:
        return list(_errors(obj))

    def validate_create(self, obj: Object) -> FieldErrors:
        return list(_new_errors(obj["spec"]))

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        return list(pod_update.errors(obj, old))

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        return list(pod_status.errors(obj, old))

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
    if pod_admission.MIRROR_ANNOTATION in annotations and not spec.get("nodeName"):
        where = f"metadata.annotations[{pod_admission.MIRROR_ANNOTATION}]"
        yield fields.invalid(where, annotations[pod_admission.MIRROR_ANNOTATION], "a mirror pod has a spec.nodeName")
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
