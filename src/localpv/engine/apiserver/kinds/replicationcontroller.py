"""ReplicationControllers and PodTemplates: stored and checked; nothing here makes pods from them."""

from __future__ import annotations

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import pod_template
from localpv.engine.apiserver.kinds import workload_common as common
from localpv.engine.apiserver.kinds.base import Strategy

_COUNTS = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")

SCALE = common.ScalePaths(plain_selector=True)


class ReplicationController(common.Workload):
    propagation = "Orphan"

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        if spec.get("template") is None:
            return
        common.default_template(spec)
        if labels := spec["template"]["metadata"].get("labels"):
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)

    def prepare_for_create(self, obj: Object) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, obj: Object) -> FieldErrors:
        spec = obj["spec"]
        errors = common.nonnegative(spec, "spec", "replicas", "minReadySeconds")
        if not spec.get("selector"):
            errors.append(fields.required("spec.selector"))
        template = spec.get("template")
        if template is None:
            return [*errors, fields.required("spec.template")]
        labels = template.get("metadata", {}).get("labels") or {}
        if any(labels.get(key) != value for key, value in (spec.get("selector") or {}).items()):
            errors.append(common.not_selected(labels))
        errors += pod_template.validate_template(template, "spec.template")
        return errors + common.wrong_restart(template, "ReplicationController")

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        return common.wrong_counts(obj.get("status", {}), among=_COUNTS)

    def selectable(self, obj: Object) -> dict[str, str]:
        return {"status.replicas": str(obj.get("status", {}).get("replicas", 0))}

    def warnings(self, obj: Object) -> list[str]:
        told = "no pods are made for a ReplicationController here: it is only stored; use a Deployment"
        return [told, *common.name_warnings(obj)]


class PodTemplate(Strategy):
    def raw_errors(self, body: Object) -> FieldErrors:
        return pod_template.raw_template_errors(body.get("template"), "template")

    def default(self, obj: Object) -> None:
        pod_template.default_template(obj.setdefault("template", {}))

    def validate(self, obj: Object) -> FieldErrors:
        return pod_template.validate_template(obj["template"], "template")
