"""Jobs: pods that come to an end. The server itself gives each its selector, from the job's UID.

Two policies say when a Job counts as failed or as done before all its pods are.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from localpv.api import fields, names, selectors
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import job_status, pod_spec, rules
from localpv.engine.apiserver.kinds import workload_common as common
from localpv.engine.apiserver.kinds.checks import without
from localpv.engine.apiserver.kinds.rules import Field

_MAX_RULES = 20
_MAX_EXIT_CODES = 255
_MAX_INDEXES_TEXT = 64 * 1024
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_EXIT_CODES = (Field("operator", required="In or NotIn", enum=("In", "NotIn")),)
_POD_CONDITION = (
    Field("type", form=names.qualified_name, unset=""),
    Field("status", enum=("False", "True", "Unknown")),
)
_MODE = (Field("completionMode", enum=("NonIndexed", "Indexed")),)


def _wrong_policies(spec: Object) -> FieldErrors:
    errors: FieldErrors = []
    failure, success = spec.get("podFailurePolicy"), spec.get("successPolicy")
    if failure is not None:
        errors += _wrong_failure_policy(failure, spec, "spec.podFailurePolicy.rules")
    if success is not None:
        if spec["completionMode"] != "Indexed":
            errors.append(fields.invalid("spec.successPolicy", success, "needs completionMode Indexed"))
        else:
            errors += _wrong_success_policy(success, spec, "spec.successPolicy.rules")
    replacement = spec["podReplacementPolicy"]
    allowed = ("Failed",) if failure is not None else ("Failed", "TerminatingOrFailed")
    if replacement not in allowed:
        errors.append(fields.not_supported("spec.podReplacementPolicy", replacement, allowed))
    return errors


def _wrong_failure_policy(policy: Object, spec: Object, path: str) -> FieldErrors:
    given = policy.get("rules", ())
    errors: FieldErrors = []
    if len(given) > _MAX_RULES:
        errors.append(fields.too_many(path, len(given), _MAX_RULES))
    pod = spec["template"]["spec"]
    containers = {container.get("name") for key in ("containers", "initContainers") for container in pod.get(key, ())}
    for index, rule in enumerate(given):
        errors += _wrong_failure_rule(rule, f"{path}[{index}]", containers, "backoffLimitPerIndex" in spec)
    return errors


def _wrong_failure_rule(rule: Object, path: str, containers: Collection[str], per_index: bool) -> FieldErrors:
    errors: FieldErrors = []
    action, codes, conditions = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions", ())
    if not action:
        errors.append(fields.required(f"{path}.action", f"one of {', '.join(_ACTIONS)}"))
    elif action == "FailIndex" and not per_index:
        errors.append(fields.invalid(f"{path}.action", action, "needs backoffLimitPerIndex"))
    elif action not in _ACTIONS:
        errors.append(fields.not_supported(f"{path}.action", action, _ACTIONS))
    if codes is not None:
        errors += _wrong_exit_codes(codes, f"{path}.onExitCodes", containers)
    if len(conditions) > _MAX_RULES:
        errors.append(fields.too_many(f"{path}.onPodConditions", len(conditions), _MAX_RULES))
    for index, pattern in enumerate(conditions):
        errors += rules.errors(_POD_CONDITION, pattern, f"{path}.onPodConditions[{index}]")
    if (codes is not None) == bool(conditions):
        errors.append(fields.invalid(path, rule, "a rule is about exit codes or about conditions: exactly one of them"))
    return errors


def _wrong_exit_codes(codes: Object, path: str, containers: Collection[str]) -> FieldErrors:
    errors = [*rules.errors(_EXIT_CODES, codes, path)]
    operator, values = codes.get("operator", ""), codes.get("values", [])
    container = codes.get("containerName")
    if container is not None and container not in containers:
        errors.append(fields.invalid(f"{path}.containerName", container, "the template has no container of that name"))
    if not values:
        errors.append(fields.invalid(f"{path}.values", values, "at least one exit code is needed"))
    elif len(values) > _MAX_EXIT_CODES:
        errors.append(fields.too_many(f"{path}.values", len(values), _MAX_EXIT_CODES))
    again = fields.repeated(values)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(fields.invalid(f"{path}.values[{index}]", value, "0 is no failure"))
        if index in again:
            errors.append(fields.duplicate(f"{path}.values[{index}]", value))
    if values != sorted(values):
        errors.append(fields.invalid(f"{path}.values", values, "must be in rising order"))
    return errors


def _wrong_success_policy(policy: Object, spec: Object, path: str) -> FieldErrors:
    given = policy.get("rules", ())
    errors: FieldErrors = []
    if not given:
        errors.append(fields.required(path, "at least one rule is needed"))
    if len(given) > _MAX_RULES:
        errors.append(fields.too_many(path, len(given), _MAX_RULES))
    for index, rule in enumerate(given):
        errors += _wrong_success_rule(rule, spec.get("completions", 0), f"{path}[{index}]")
    return errors


def _wrong_success_rule(rule: Object, completions: int, path: str) -> FieldErrors:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    errors: FieldErrors = []
    if indexes is None and count is None:
        errors.append(fields.required(path, "succeededCount or succeededIndexes is needed"))
    listed = 0
    if indexes is not None:
        if len(indexes) > _MAX_INDEXES_TEXT:
            errors.append(fields.too_long(f"{path}.succeededIndexes", _MAX_INDEXES_TEXT))
        try:
            listed = sum(last - first + 1 for first, last in job_status.intervals(indexes, completions))
        except job_status.MalformedIndexes as error:
            errors.append(fields.invalid(f"{path}.succeededIndexes", indexes, str(error)))
    if count is not None:
        errors += common.nonnegative(rule, path, "succeededCount")
        if count > completions:
            errors.append(fields.invalid(f"{path}.succeededCount", count, "cannot be more than completions"))
        if indexes is not None and count > listed:
            errors.append(fields.invalid(f"{path}.succeededCount", count, "cannot be more than the indexes listed"))
    return errors


CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_UID_LABELS = ("controller-uid", CONTROLLER_UID)
_NAME_LABELS = ("job-name", JOB_NAME)

_MAX_INDEXED = 100_000
_MAX_WITH_MANY_COMPLETIONS = 10_000
_MAX_MANAGED_BY = 63
_UNLIMITED_BACKOFF = 2**31 - 1
_IS_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+").fullmatch
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)


class Job(common.Workload):
    propagation = "Orphan"

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if "parallelism" not in spec:
            spec.setdefault("completions", 1)
            spec["parallelism"] = 1
        spec.setdefault("backoffLimit", _UNLIMITED_BACKOFF if "backoffLimitPerIndex" in spec else 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
        spec.setdefault("manualSelector", False)
        for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
            for pattern in rule.get("onPodConditions", ()):
                if not pattern.get("status"):
                    pattern["status"] = "True"
        common.default_template(spec)
        labels = spec["template"]["metadata"].get("labels")
        if labels and not obj["metadata"].get("labels"):
            # One dictionary in two places until `prepare_for_create`: labels that are generated there belong to both.
            obj["metadata"]["labels"] = labels

    def prepare_for_create(self, obj: Object) -> None:
        """Needs metadata.uid and metadata.name, which the server has set by now."""
        super().prepare_for_create(obj)
        metadata, spec = obj["metadata"], obj["spec"]
        template = spec["template"]["metadata"]
        if not spec["manualSelector"]:
            labels = template.setdefault("labels", {})
            for key in _NAME_LABELS:
                labels.setdefault(key, metadata.get("name", ""))
            for key in _UID_LABELS:
                labels.setdefault(key, metadata.get("uid", ""))
            wanted = spec.setdefault("selector", {}).setdefault("matchLabels", {})
            wanted.setdefault(CONTROLLER_UID, metadata.get("uid", ""))
        _separate_labels(obj)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_update(obj, old)
        _separate_labels(obj)

    def validate(self, obj: Object) -> FieldErrors:
        spec = obj["spec"]
        errors = _wrong_generated(obj)
        errors += wrong_spec(spec)
        selector = spec.get("selector")
        if selector is None:
            errors.append(fields.required("spec.selector"))
        else:
            errors += selectors.validate(selector, "spec.selector")
        labels = spec["template"]["metadata"].get("labels") or {}
        if common.selects(selector, labels) is False:
            errors.append(common.not_selected(labels))
        completions = spec.get("completions", 0)
        if spec["completionMode"] == "Indexed" and completions > 0:
            name = obj["metadata"].get("name", "")
            if names.dns_label(f"{name}-{completions - 1}"):
                why = f"the host name of the last pod, {name}-{completions - 1}, would be no DNS label"
                errors.append(fields.invalid("metadata.name", name, why))
        return errors

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        spec, before = obj["spec"], old["spec"]
        errors: FieldErrors = []
        if spec["completionMode"] != "Indexed":
            errors += common.unchanged(spec, before, "spec", "completions")
        elif spec.get("completions") not in (None, before.get("completions"), spec["parallelism"]):
            why = "can only change together with parallelism, to the same number"
            errors.append(fields.invalid("spec.completions", spec["completions"], why))
        errors += common.unchanged(spec, before, "spec", "selector")
        if spec["template"] != _as_far_as_fixed(old, spec["template"]):
            errors.append(fields.invalid("spec.template", spec["template"], "field is immutable"))
        fixed = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
        return errors + common.unchanged(spec, before, "spec", *fixed)

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        return job_status.validate_update(obj, old)

    def selectable(self, obj: Object) -> dict[str, str]:
        return {"status.successful": str(obj.get("status", {}).get("succeeded", 0))}

    def warnings(self, obj: Object) -> list[str]:
        found = common.name_warnings(obj)
        spec = obj["spec"]
        many = spec.get("completions", 0) > _MAX_INDEXED and spec.get("parallelism", 0) > _MAX_WITH_MANY_COMPLETIONS
        if spec["completionMode"] == "Indexed" and many:
            found.append(
                f"spec: with more than {_MAX_INDEXED} completions and more than {_MAX_WITH_MANY_COMPLETIONS} at a time,"
                " completedIndexes may grow too long when many of them fail"
            )
        return found


def _separate_labels(obj: Object) -> None:
    labels = obj["spec"]["template"]["metadata"].get("labels")
    if labels and (obj["metadata"].get("labels") or labels) is labels:
        obj["metadata"]["labels"] = dict(labels)


def _wrong_generated(obj: Object) -> FieldErrors:
    """Where the server makes the selector, a client's own labels must not contradict it."""
    metadata, spec = obj["metadata"], obj["spec"]
    selector = spec.get("selector")
    if spec["manualSelector"] or selector is None:
        return []
    expected = dict.fromkeys(_UID_LABELS, metadata.get("uid", "")) | dict.fromkeys(
        _NAME_LABELS, metadata.get("name", "")
    )
    labels = spec["template"]["metadata"].get("labels") or {}
    errors: FieldErrors = []
    for key, value in expected.items():
        if key not in labels:
            errors.append(fields.required(f"spec.template.metadata.labels[{key}]", f"must be '{value}'"))
        elif labels[key] != value:
            path = f"spec.template.metadata.labels[{key}]"
            errors.append(fields.invalid(path, labels, f"must be '{value}'"))
    if common.selects(selector, expected) is False:
        why = "without manualSelector it must be the one that the server makes"
        errors.append(fields.invalid("spec.selector", selector, why))
    return errors


def wrong_spec(spec: Object) -> FieldErrors:
    errors = common.nonnegative(spec, "spec", *_COUNTS)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        errors.append(fields.required("spec.backoffLimitPerIndex", "maxFailedIndexes needs it"))
    if "managedBy" in spec:
        errors += _wrong_manager(spec["managedBy"])
    errors += rules.errors(_MODE, spec, "spec")
    mode = spec["completionMode"]
    if mode == "Indexed":
        errors += _wrong_indexed(spec)
    elif mode == "NonIndexed":
        errors += [
            fields.invalid(f"spec.{key}", spec[key], "needs completionMode Indexed")
            for key in ("backoffLimitPerIndex", "maxFailedIndexes")
            if key in spec
        ]
    errors += _wrong_policies(spec)
    errors += pod_spec.validate_template(spec["template"], "spec.template")
    path, policy = "spec.template.spec.restartPolicy", spec["template"]["spec"].get("restartPolicy", "")
    if policy in ("", "Always"):
        errors.append(fields.required(path, "the pods of a Job come to an end: OnFailure or Never"))
    elif policy not in ("OnFailure", "Never"):
        errors.append(fields.not_supported(path, policy, ("OnFailure", "Never")))
    elif policy != "Never" and "podFailurePolicy" in spec:
        errors.append(fields.invalid(path, policy, "with a podFailurePolicy it can only be Never"))
    return errors


def _wrong_indexed(spec: Object) -> FieldErrors:
    errors = []
    completions, parallelism, failed = (spec.get(key) for key in ("completions", "parallelism", "maxFailedIndexes"))
    if completions is None:
        errors.append(fields.required("spec.completions", "completionMode Indexed needs it"))
    if parallelism is not None and parallelism > _MAX_INDEXED:
        errors.append(fields.invalid("spec.parallelism", parallelism, f"can be at most {_MAX_INDEXED}"))
    if completions is not None and failed is not None and failed > completions:
        errors.append(fields.invalid("spec.maxFailedIndexes", failed, "cannot be more than completions"))
    if failed is not None and failed > _MAX_INDEXED:
        errors.append(fields.invalid("spec.maxFailedIndexes", failed, f"can be at most {_MAX_INDEXED}"))
    if (completions or 0) > _MAX_INDEXED and "backoffLimitPerIndex" in spec:
        why = f"can be at most {_MAX_WITH_MANY_COMPLETIONS} with more than {_MAX_INDEXED} completions"
        if failed is None:
            errors.append(fields.required("spec.maxFailedIndexes", f"needed with more than {_MAX_INDEXED} completions"))
        elif failed > _MAX_WITH_MANY_COMPLETIONS:
            errors.append(fields.invalid("spec.maxFailedIndexes", failed, why))
        if (parallelism or 0) > _MAX_WITH_MANY_COMPLETIONS:
            errors.append(fields.invalid("spec.parallelism", parallelism, why))
    return errors


def _wrong_manager(text: str) -> FieldErrors:
    path = "spec.managedBy"
    if not text:
        return [fields.required(path)]
    domain, _, rest = text.partition("/")
    errors: FieldErrors = []
    if not domain or not rest:
        errors.append(fields.invalid(path, text, "must be a domain, a slash and a path, such as example.com/manager"))
    else:
        errors += fields.malformed(path, domain, names.dns_subdomain(domain))
        if not _IS_PATH(rest):
            errors.append(fields.invalid(path, rest, "has characters that cannot stand in a path"))
    if len(text.encode()) > _MAX_MANAGED_BY:
        errors.append(fields.too_long(path, _MAX_MANAGED_BY))
    return errors


def _as_far_as_fixed(old: Object, template: Object) -> Object:
    """The old template, with what may change taken over from the new one.

    Where pods go may be changed as long as the job is suspended and has never started.
    """
    before: Object = old["spec"]["template"]
    if not old["spec"].get("suspend") or old.get("status", {}).get("startTime"):
        return before
    metadata = {
        **without(before["metadata"], "labels", "annotations"),
        **_only(template["metadata"], "labels", "annotations"),
    }
    free = ("nodeSelector", "tolerations", "schedulingGates")
    pod = {**without(before["spec"], *free), **_only(template["spec"], *free)}
    affinity = {**without(pod.get("affinity") or {}, "nodeAffinity")}
    new = template["spec"].get("affinity")
    if new is not None:
        pod["affinity"] = affinity | _only(new, "nodeAffinity")
    elif not affinity:
        pod.pop("affinity", None)
    return {**before, "metadata": metadata, "spec": pod}


def _only(values: Object, *keys: str) -> Object:
    return {key: values[key] for key in keys if key in values}
