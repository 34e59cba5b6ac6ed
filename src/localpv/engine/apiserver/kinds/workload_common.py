"""What the kinds that make pods have in common: selectors, counts, percentages, templates, the scale subresource."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from localpv.api import fields, names, selectors
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import pod_spec
from localpv.engine.apiserver.kinds.base import StatusStrategy
from localpv.errors import Invalid

_IS_PERCENT = re.compile(r"[0-9]{1,9}%").fullmatch
_IS_NUMBER = re.compile(r"[+-]?[0-9]{1,9}").fullmatch


class Workload(StatusStrategy):
    """A kind with a template for pods at spec.template."""

    fixed: tuple[str, ...] = ("selector",)
    """Fields of the spec that keep the value they were created with."""

    initial_status: Mapping[str, int] = MappingProxyType({})
    counts: tuple[str, ...] = ()
    """Counts in the status beside the replicas: none is negative, and none but two larger than those."""

    def raw_errors(self, body: Object) -> FieldErrors:
        spec = body.get("spec")
        template = spec.get("template") if isinstance(spec, dict) else None
        return pod_spec.raw_template_errors(template, "spec.template")

    def prepare_for_create(self, obj: Object) -> None:
        obj["status"] = dict(self.initial_status)

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        return unchanged(obj["spec"], old["spec"], "spec", *self.fixed)

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        status = obj.get("status", {})
        return wrong_counts(status, among=self.counts) + wrong_collisions(status, old.get("status", {}))


def nonnegative(values: Object, path: str, *keys: str) -> FieldErrors:
    """Counts and times that are there must be 0 or more."""
    return [
        fields.invalid(f"{path}.{key}", values[key], "must be greater than or equal to 0")
        for key in keys
        if values.get(key, 0) < 0
    ]


def unchanged(new: Object, old: Object, path: str, *keys: str) -> FieldErrors:
    """Fields that keep the value they were created with."""
    return [
        fields.invalid(f"{path}.{key}", new.get(key), "field is immutable")
        for key in keys
        if new.get(key) != old.get(key)
    ]


def default_template(spec: Object) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    template.setdefault("spec", {})
    pod_spec.default_template(template)


def wrong_selector(spec: Object) -> FieldErrors:
    """A selector is needed, must be well-formed, and must not mean everything."""
    selector = spec.get("selector")
    if selector is None:
        return [fields.required("spec.selector")]
    errors = selectors.validate(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(fields.invalid("spec.selector", selector, "an empty selector would mean every pod"))
    return errors


def selects(selector: Object | None, labels: dict[str, str]) -> bool | None:
    """Whether a selector of an object means these labels; None when it is malformed."""
    if selector is None:
        return False
    if selectors.validate(selector, ""):
        return None
    return selectors.from_object(selector).matches(labels)


def wrong_template(spec: Object, template: Object, kind: str) -> FieldErrors:
    """The template of pods that run for ever: right by itself, and found by the selector."""
    path = "spec.template"
    labels = template.get("metadata", {}).get("labels") or {}
    errors: FieldErrors = []
    match selects(spec.get("selector"), labels):
        case None:
            return [fields.invalid("spec.selector", spec.get("selector"), "cannot be read")]
        case False:
            errors.append(not_selected(labels))
    errors += pod_spec.validate_template(template, path)
    return errors + wrong_restart(template, kind)


def not_selected(labels: dict[str, str]) -> FieldError:
    return fields.invalid("spec.template.metadata.labels", labels, "these labels are not what `selector` asks for")


def wrong_restart(template: Object, kind: str) -> FieldErrors:
    pod = template.get("spec", {})
    errors = []
    policy = pod.get("restartPolicy", "")
    if policy != "Always":
        errors.append(fields.not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        why = f"the pods of a {kind} run for ever"
        errors.append(fields.forbidden("spec.template.spec.activeDeadlineSeconds", why))
    return errors


def wrong_share(value: int | str, path: str, *, at_most_all: bool = True) -> FieldErrors:
    """A number of pods, or a percentage of them."""
    if isinstance(value, int):
        return [fields.invalid(path, value, "must be greater than or equal to 0")] if value < 0 else []
    if not _IS_PERCENT(value):
        return [fields.invalid(path, value, "must be a number or a percentage such as '25%'")]
    if at_most_all and int(value[:-1]) > 100:
        return [fields.invalid(path, value, "must not be more than 100%")]
    return []


def share(value: int | str) -> int:
    """The number in a number or a percentage; what is neither counts as 0 and is reported elsewhere."""
    if isinstance(value, int):
        return value
    text = value[:-1] if _IS_PERCENT(value) else value
    return int(text) if _IS_NUMBER(text) else 0


def wrong_counts(status: Object, *, among: Sequence[str]) -> FieldErrors:
    """Counts in a status: none negative, none larger than the whole."""
    errors = nonnegative(status, "status", "replicas", "observedGeneration", "collisionCount", *among)
    whole = status.get("replicas", 0)
    for key in among:
        limited = key not in ("unavailableReplicas", "terminatingReplicas")
        if limited and (count := status.get(key, 0)) > whole:
            errors.append(fields.invalid(f"status.{key}", count, "cannot be more than status.replicas"))
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        errors.append(fields.invalid("status.availableReplicas", available, "cannot be more than readyReplicas"))
    return errors


def wrong_collisions(status: Object, old: Object) -> FieldErrors:
    count = status.get("collisionCount", 0)
    if count < old.get("collisionCount", 0):
        return [fields.invalid("status.collisionCount", count, "cannot become less")]
    return []


def name_warnings(obj: Object) -> list[str]:
    """Names of workloads become names of pods, and these become host names."""
    problems = names.dns_label(obj["metadata"].get("name", ""))
    if not problems:
        return []
    return [f"metadata.name: pods and host names are made from it, so it should be a DNS label: {', '.join(problems)}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePaths:
    """Where a kind keeps what its scale subresource shows, as dotted paths: `.spec.replicas`."""

    spec: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str = ""
    """Path of the selector as text; empty: the label selector at spec.selector."""
    plain_selector: bool = False
    """The selector at spec.selector is a map of labels (ReplicationController)."""


BUILT_IN = ScalePaths()


def to_scale(obj: Object, paths: ScalePaths = BUILT_IN) -> Object:
    """The autoscaling/v1 Scale of an object."""
    metadata = obj["metadata"]
    status: Object = {"replicas": _number(value_at(obj, paths.status))}
    selector = _selector_text(obj, paths)
    if selector:
        status["selector"] = selector
    spec = _number(value_at(obj, paths.spec))
    keep = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in keep if key in metadata},
        "spec": {"replicas": spec} if spec else {},
        "status": status,
    }


def apply_scale(obj: Object, scale: Object, paths: ScalePaths = BUILT_IN) -> None:
    """Set the number of replicas in `obj` to what the Scale asks for; nothing else of a Scale can be changed."""
    *way, last = paths.spec.removeprefix(".").split(".")
    place = obj
    for key in way:
        place = place.setdefault(key, {})
        if not isinstance(place, dict):
            raise Invalid(f"the object cannot be scaled: {key} on the way to {paths.spec} is no object")
    place[last] = (scale.get("spec") or {}).get("replicas", 0)


def _selector_text(obj: Object, paths: ScalePaths) -> str:
    if paths.selector:
        text = value_at(obj, paths.selector)
        return text if isinstance(text, str) else ""
    selector = obj.get("spec", {}).get("selector")
    if paths.plain_selector:
        return ",".join(f"{key}={value}" for key, value in sorted((selector or {}).items()))
    if paths is not BUILT_IN:
        return ""
    return str(selectors.from_object(selector)) if selector else ""


def value_at(obj: Object, path: str) -> Any:
    """What is at a dotted path, or None."""
    value: Any = obj
    for key in path.removeprefix(".").split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
