"""Kinds that make pods from a template: ReplicaSets, Deployments that replace them, DaemonSets, StatefulSets.

ReplicationControllers and PodTemplates are stored and checked; nothing here makes pods from them.
"""

from __future__ import annotations

from types import MappingProxyType

from localpv.api import fields, names, selectors, well_known
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import persistentvolumeclaim, pod_spec
from localpv.engine.apiserver.kinds import workload_common as common
from localpv.engine.apiserver.kinds.base import Strategy


class _Replicas(common.Workload):
    """So many pods of one kind."""

    initial_status = MappingProxyType({"replicas": 0})

    def selectable(self, obj: Object) -> dict[str, str]:
        return {"status.replicas": str(obj.get("status", {}).get("replicas", 0))}

    def warnings(self, obj: Object) -> list[str]:
        return common.name_warnings(obj)


class ReplicaSet(_Replicas):
    counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas", "terminatingReplicas")

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        common.default_template(spec)

    def validate(self, obj: Object) -> FieldErrors:
        spec = obj["spec"]
        errors = common.nonnegative(spec, "spec", "replicas", "minReadySeconds")
        errors += common.wrong_selector(spec)
        return errors + common.wrong_template(spec, spec["template"], "ReplicaSet")


REPLICATION_SCALE = common.ScalePaths(plain_selector=True)


class ReplicationController(_Replicas):
    propagation = "Orphan"
    fixed = ()
    counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")

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
        errors += pod_spec.validate_template(template, "spec.template")
        return errors + common.wrong_restart(template, "ReplicationController")

    def warnings(self, obj: Object) -> list[str]:
        told = "no pods are made for a ReplicationController here: it is only stored; use a Deployment"
        return [told, *super().warnings(obj)]


class PodTemplate(Strategy):
    def raw_errors(self, body: Object) -> FieldErrors:
        return pod_spec.raw_template_errors(body.get("template"), "template")

    def default(self, obj: Object) -> None:
        pod_spec.default_template(obj.setdefault("template", {}))

    def validate(self, obj: Object) -> FieldErrors:
        return pod_spec.validate_template(obj["template"], "template")


class Deployment(common.Workload):
    generation_counts_annotations = True
    counts = ("updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "terminatingReplicas")

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
        errors += _wrong_deployment_strategy(spec["strategy"])
        errors += common.nonnegative(spec, "spec", "progressDeadlineSeconds")
        deadline = spec["progressDeadlineSeconds"]
        if deadline <= spec.get("minReadySeconds", 0):
            errors.append(fields.invalid("spec.progressDeadlineSeconds", deadline, "must be more than minReadySeconds"))
        return errors

    def warnings(self, obj: Object) -> list[str]:
        return common.name_warnings(obj)


def _wrong_deployment_strategy(update: Object) -> FieldErrors:
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


class DaemonSet(common.Workload):
    initial_status = MappingProxyType(
        dict.fromkeys(("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0)
    )
    counts = (
        *initial_status,
        *("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"),
    )

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
        super().prepare_for_create(obj)
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
        errors += pod_spec.validate_template(template, "spec.template")
        errors += common.wrong_restart(template, "DaemonSet")
        errors += common.nonnegative(spec, "spec", "minReadySeconds", "revisionHistoryLimit")
        return errors + _wrong_daemon_strategy(spec["updateStrategy"])

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        status = obj.get("status", {})
        errors = common.nonnegative(status, "status", *self.counts)
        return errors + common.wrong_collisions(status, old.get("status", {}))


def _template_generation(obj: Object) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(well_known.TEMPLATE_GENERATION, "")
    return selectors.whole_number(text) or 0


def _set_template_generation(obj: Object, number: int) -> None:
    obj["metadata"].setdefault("annotations", {})[well_known.TEMPLATE_GENERATION] = str(number)


def _wrong_daemon_strategy(update: Object) -> FieldErrors:
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


_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


class StatefulSet(common.Workload):
    initial_status = MappingProxyType({"replicas": 0, "availableReplicas": 0})
    counts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("serviceName", "")
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        update = spec.setdefault("updateStrategy", {})
        if not update.get("type"):
            update["type"] = "RollingUpdate"
            update.setdefault("rollingUpdate", {})
        if update["type"] == "RollingUpdate" and "rollingUpdate" in update:
            update["rollingUpdate"].setdefault("partition", 0)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for key in ("whenDeleted", "whenScaled"):
            if not retention.get(key):
                retention[key] = "Retain"
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        if "ordinals" in spec:
            spec["ordinals"].setdefault("start", 0)
        common.default_template(spec)
        for claim in spec.get("volumeClaimTemplates", ()):
            _default_claim(claim)

    def prepare_for_create(self, obj: Object) -> None:
        super().prepare_for_create(obj)
        _drop_max_unavailable(obj, {})

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_update(obj, old)
        _drop_max_unavailable(obj, old)

    def validate(self, obj: Object) -> FieldErrors:
        spec = obj["spec"]
        errors: FieldErrors = []
        policy = spec["podManagementPolicy"]
        if policy not in ("OrderedReady", "Parallel"):
            errors.append(fields.invalid("spec.podManagementPolicy", policy, "must be OrderedReady or Parallel"))
        errors += _wrong_stateful_strategy(spec["updateStrategy"])
        for key, value in spec["persistentVolumeClaimRetentionPolicy"].items():
            if value not in ("Retain", "Delete"):
                path = f"spec.persistentVolumeClaimRetentionPolicy.{key}"
                errors.append(fields.not_supported(path, value, ("Retain", "Delete")))
        errors += common.nonnegative(spec, "spec", "replicas", "minReadySeconds")
        errors += common.nonnegative(spec.get("ordinals", {}), "spec.ordinals", "start")
        errors += common.wrong_selector(spec)
        return errors + common.wrong_template(spec, _template_with_claims(spec), "StatefulSet")

    def validate_create(self, obj: Object) -> FieldErrors:
        spec = obj["spec"]
        service = spec["serviceName"]
        errors = fields.malformed("spec.serviceName", service, names.dns_label(service) if service else ())
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
            errors += persistentvolumeclaim.validate_spec(claim["spec"], f"spec.volumeClaimTemplates[{index}].spec")
        return errors

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        new_rest = {key: value for key, value in obj["spec"].items() if key not in _CHANGEABLE}
        old_rest = {key: value for key, value in old["spec"].items() if key not in _CHANGEABLE}
        if new_rest == old_rest:
            return []
        return [fields.forbidden("spec", f"only these can be changed after creation: {', '.join(_CHANGEABLE)}")]

    def validate_name(self, name: str) -> list[str]:
        return names.dns_label(name)

    def warnings(self, obj: Object) -> list[str]:
        found: list[str] = []
        for index, claim in enumerate(obj["spec"].get("volumeClaimTemplates", ())):
            found += persistentvolumeclaim.spec_warnings(claim["spec"], f"spec.volumeClaimTemplates[{index}]")
        if obj["spec"].get("revisionHistoryLimit", 0) < 0:
            found.append("spec.revisionHistoryLimit: below 0 every old revision is kept for ever; 0 or more is better")
        return found


def _default_claim(claim: Object) -> None:
    claim.setdefault("kind", "PersistentVolumeClaim")
    claim.setdefault("apiVersion", "v1")
    claim.setdefault("metadata", {})
    status = claim.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Pending"
    persistentvolumeclaim.default_spec(claim.setdefault("spec", {}))


def _drop_max_unavailable(obj: Object, old: Object) -> None:
    # The field is behind a gate that is off in this version; it stays where somebody already has it.
    rolling = old.get("spec", {}).get("updateStrategy", {}).get("rollingUpdate") or {}
    if "maxUnavailable" not in rolling:
        (obj["spec"]["updateStrategy"].get("rollingUpdate") or {}).pop("maxUnavailable", None)


def _template_with_claims(spec: Object) -> Object:
    """The template as its pods will be: the controller adds a volume per claim and names the host itself."""
    template: Object = spec["template"]
    claims = spec.get("volumeClaimTemplates", ())
    pod = template["spec"]
    if not claims and not pod.get("hostname") and not pod.get("subdomain"):
        return template
    made = {claim["metadata"].get("name", "") for claim in claims}
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sorted(made)]
    volumes += [volume for volume in pod.get("volumes", ()) if volume.get("name") not in made]
    pod = {key: value for key, value in pod.items() if key not in ("hostname", "subdomain", "volumes")}
    return {**template, "spec": {**pod, "volumes": volumes} if volumes else pod}


def _wrong_stateful_strategy(update: Object) -> FieldErrors:
    path = "spec.updateStrategy"
    rolling = update.get("rollingUpdate")
    match update["type"]:
        case "RollingUpdate":
            return [] if rolling is None else _wrong_rolling(rolling, f"{path}.rollingUpdate")
        case "OnDelete":
            if rolling is None:
                return []
            return [fields.invalid(f"{path}.rollingUpdate", rolling, "only belongs to type RollingUpdate")]
        case _:
            return [fields.invalid(path, update, "the type must be RollingUpdate or OnDelete")]


def _wrong_rolling(rolling: Object, path: str) -> FieldErrors:
    errors = common.nonnegative(rolling, path, "partition")
    most = rolling.get("maxUnavailable")
    if most is not None:
        errors += common.wrong_share(most, f"{path}.maxUnavailable")
        if common.share(most) == 0:
            errors.append(fields.invalid(f"{path}.maxUnavailable", most, "cannot be 0"))
    return errors


class ControllerRevision(Strategy):
    generation = False

    def validate(self, obj: Object) -> FieldErrors:
        revision = obj.get("revision", 0)
        return [] if revision >= 0 else [fields.invalid("revision", revision, "must be greater than or equal to 0")]

    def validate_create(self, obj: Object) -> FieldErrors:
        data = obj.get("data")
        if data is None:
            return [fields.required("data")]
        return [] if isinstance(data, dict) else [fields.required("data", "must be an object")]

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        if obj.get("data") == old.get("data"):
            return []
        return [fields.invalid("data", obj.get("data"), "field is immutable")]
