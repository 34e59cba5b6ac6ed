"""StatefulSets: pods with a number and a claim each."""

from __future__ import annotations

from localpv.api import fields, names
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import persistentvolumeclaim
from localpv.engine.apiserver.kinds import workload_common as common

_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_COUNTS = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")


class StatefulSet(common.Workload):
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
        obj["status"] = {"replicas": 0, "availableReplicas": 0}
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
        errors += _wrong_update_strategy(spec["updateStrategy"])
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
        errors = [
            fields.invalid("spec.serviceName", service, problem)
            for problem in (names.dns_label(service) if service else ())
        ]
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
            errors += persistentvolumeclaim.validate_spec(claim["spec"], f"spec.volumeClaimTemplates[{index}].spec")
        return errors

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        new_rest = {key: value for key, value in obj["spec"].items() if key not in _CHANGEABLE}
        old_rest = {key: value for key, value in old["spec"].items() if key not in _CHANGEABLE}
        if new_rest == old_rest:
            return []
        return [fields.forbidden("spec", f"only these can be changed after creation: {', '.join(_CHANGEABLE)}")]

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        status = obj.get("status", {})
        errors = common.wrong_counts(status, among=_COUNTS)
        return errors + common.wrong_collisions(status, old.get("status", {}))

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


def _wrong_update_strategy(update: Object) -> FieldErrors:
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
