"""ReplicaSets: so many pods of one kind."""

from __future__ import annotations

from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import workload_common as common

_COUNTS = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas", "terminatingReplicas")


class ReplicaSet(common.Workload):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        common.default_template(spec)

    def prepare_for_create(self, obj: Object) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, obj: Object) -> FieldErrors:
        spec = obj["spec"]
        errors = common.nonnegative(spec, "spec", "replicas", "minReadySeconds")
        errors += common.wrong_selector(spec)
        return errors + common.wrong_template(spec, spec["template"], "ReplicaSet")

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        return common.unchanged(obj["spec"], old["spec"], "spec", "selector")

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        return common.wrong_counts(obj.get("status", {}), among=_COUNTS)

    def selectable(self, obj: Object) -> dict[str, str]:
        return {"status.replicas": str(obj.get("status", {}).get("replicas", 0))}

    def warnings(self, obj: Object) -> list[str]:
        return common.name_warnings(obj)
