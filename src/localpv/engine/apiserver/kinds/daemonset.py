"""DaemonSets: one pod per node."""

from __future__ import annotations

from localpv.api import fields, selectors, well_known
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import pod_template
from localpv.engine.apiserver.kinds import workload_common as common

_COUNTS = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


class DaemonSet(common.Workload):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        update = spec.setdefault("updateStrategy", {})
        if not update.get("type"):
            update["type"] = "RollingUpdate"
        if update["type"] == "RollingUpdate":
            rolling = update.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        elif "rollingUpdate" in update:
            for key in ("maxUnavailable", "maxSurge"):
                update["rollingUpdate"].setdefault(key, 0)
        spec.setdefault("revisionHistoryLimit", 10)
        common.default_template(spec)

    def prepare_for_create(self, obj: Object) -> None:
        obj["status"] = dict.fromkeys(_COUNTS[:4], 0)
        _set_template_generation(obj, max(_template_generation(obj), 1))

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_update(obj, old)
        changed = obj["spec"]["template"] != old["spec"]["template"]
        _set_template_generation(obj, _template_generation(old) + changed)

    def validate(self, obj: Object) -> FieldErrors:
        spec = obj["spec"]
        template, selector = spec["template"], spec.get("selector")
        labels = template["metadata"].get("labels") or {}
        errors: FieldErrors = []
        if selector is not None:
            errors += selectors.validate(selector, "spec.selector")
        if common.selects(selector, labels) is False:
            errors.append(common.not_selected(labels))
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(fields.invalid("spec.selector", selector, "an empty selector would mean every pod"))
        errors += pod_template.validate_template(template, "spec.template")
        errors += common.wrong_restart(template, "DaemonSet")
        errors += common.nonnegative(spec, "spec", "minReadySeconds", "revisionHistoryLimit")
        return errors + _wrong_update_strategy(spec["updateStrategy"])

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        return common.unchanged(obj["spec"], old["spec"], "spec", "selector")

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        status = obj.get("status", {})
        errors = common.nonnegative(status, "status", *_COUNTS)
        return errors + common.wrong_collisions(status, old.get("status", {}))


def _template_generation(obj: Object) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(well_known.TEMPLATE_GENERATION, "")
    return selectors.whole_number(text) or 0


def _set_template_generation(obj: Object, number: int) -> None:
    obj["metadata"].setdefault("annotations", {})[well_known.TEMPLATE_GENERATION] = str(number)


def _wrong_update_strategy(update: Object) -> FieldErrors:
    match update["type"]:
        case "OnDelete":
            return []
        case "RollingUpdate":
            path, rolling = "spec.updateStrategy.rollingUpdate", update["rollingUpdate"]
            errors: FieldErrors = []
            for key in ("maxUnavailable", "maxSurge"):
                errors += common.wrong_share(rolling[key], f"{path}.{key}")
            some, surge = common.share(rolling["maxUnavailable"]), common.share(rolling["maxSurge"])
            if some and surge:
                why = "only one of maxSurge and maxUnavailable may be other than 0"
                errors.append(fields.invalid(f"{path}.maxSurge", rolling["maxSurge"], why))
            elif not some and not surge:
                errors.append(fields.required(f"{path}.maxUnavailable", "cannot be 0 as long as maxSurge is 0"))
            return errors
        case _:
            return [fields.not_supported("spec.updateStrategy", update, ("RollingUpdate", "OnDelete"))]
