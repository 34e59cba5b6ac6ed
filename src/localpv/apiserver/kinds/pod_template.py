"""The pod templates inside workloads: defaults and checks shared by every kind that makes pods."""

from __future__ import annotations

from localpv.api.fields import FieldErrors
from localpv.api.objects import Object


def default_template(template: Object) -> None:
    """Fill in what a pod template leaves out, in place."""


def validate_template(template: Object, path: str) -> FieldErrors:
    """What is wrong with a pod template found at `path`, such as `spec.template`."""
    return []
