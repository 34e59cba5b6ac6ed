"""The pod templates inside workloads: defaults and checks shared by every kind that makes pods."""

from __future__ import annotations

from localpv.api import fields, names
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import pod_defaults, pod_spec, pod_volumes


def default_template(template: Object) -> None:
    """Fill in what a pod template leaves out, in place."""
    template.setdefault("metadata", {})
    pod_defaults.default_spec(template.setdefault("spec", {}))


def validate_template(template: Object, path: str) -> FieldErrors:
    """What is wrong with a pod template found at `path`, such as `spec.template`."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    wrong = names.validate_labels(metadata.get("labels") or {}, f"{path}.labels")
    wrong += names.validate_annotations(metadata.get("annotations") or {}, f"{path}.annotations")
    wrong.extend(pod_spec.errors(spec, f"{path}.spec", is_pod=False))
    if spec.get("ephemeralContainers"):
        wrong.append(fields.forbidden(f"{path}.spec.ephemeralContainers", "they are added to pods that run"))
    return wrong


def raw_template_errors(template: object, path: str) -> FieldErrors:
    """For `Strategy.raw_errors` of workloads: a `local` volume, which the schema would drop without a word."""
    spec = template.get("spec") if isinstance(template, dict) else None
    return pod_volumes.raw_errors(spec.get("volumes"), f"{path}.spec.volumes") if isinstance(spec, dict) else []
