"""Deployments: ReplicaSets that replace each other."""

from __future__ import annotations

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import workload_common as common

_COUNTS = ("updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "terminatingReplicas")


class Deployment(common.Workload):
    generation_counts_annotations = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        update = spec.setdefault("strategy", {})
        if not update.get("type"):
            update["type"] = "RollingUpdate"
        if update["type"] == "RollingUpdate":
            rolling = update.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        common.default_template(spec)

    def prepare_for_create(self, obj: Object) -> None:
        obj["status"] = {}

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_status_update(obj, old)
        obj["metadata"].pop("labels", None)
        if "labels" in old["metadata"]:
            obj["metadata"]["labels"] = old["metadata"]["labels"]

    def validate(self, obj: Object) -> FieldErrors:
        spec = obj["spec"]
        errors = common.nonnegative(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit")
        errors += common.wrong_selector(spec)
        errors += common.wrong_template(spec, spec["template"], "Deployment")
        errors += _wrong_strategy(spec["strategy"])
        errors += common.nonnegative(spec, "spec", "progressDeadlineSeconds")
        deadline = spec["progressDeadlineSeconds"]
        if deadline <= spec.get("minReadySeconds", 0):
            errors.append(fields.invalid("spec.progressDeadlineSeconds", deadline, "must be more than minReadySeconds"))
        return errors

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        return common.unchanged(obj["spec"], old["spec"], "spec", "selector")

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        status = obj.get("status", {})
        errors = common.wrong_counts(status, among=_COUNTS)
        return errors + common.wrong_collisions(status, old.get("status", {}))

    def warnings(self, obj: Object) -> list[str]:
        return common.name_warnings(obj)


def _wrong_strategy(update: Object) -> FieldErrors:
    rolling = update.get("rollingUpdate")
    match update["type"]:
        case "Recreate":
            if rolling is None:
                return []
            return [fields.forbidden("spec.strategy.rollingUpdate", "does not belong to type Recreate")]
        case "RollingUpdate":
            path = "spec.strategy.rollingUpdate"
            most, surge = update["rollingUpdate"]["maxUnavailable"], update["rollingUpdate"]["maxSurge"]
            errors = common.wrong_share(most, f"{path}.maxUnavailable")
            errors += common.wrong_share(surge, f"{path}.maxSurge", at_most_all=False)
            if common.share(most) == 0 and common.share(surge) == 0:
                errors.append(fields.invalid(f"{path}.maxUnavailable", most, "cannot be 0 as long as maxSurge is 0"))
            return errors
        case _:
            return [fields.not_supported("spec.strategy", update, ("Recreate", "RollingUpdate"))]
