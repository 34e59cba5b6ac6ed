"""Takes an object through the steps of a write for one kind, as the server does."""

from __future__ import annotations

import copy
from typing import Any

from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.api.schema import catalogue, walk
from localpv.engine.apiserver.kinds.base import Strategy


def created(strategy: Strategy, schema: str, obj: Object) -> tuple[Object, FieldErrors]:
    """What the server makes of a new object. `schema` is short for io.k8s.api.SCHEMA."""
    wrong = strategy.raw_errors(obj)
    taken = walk.take_in(obj, catalogue.built_in().node(f"io.k8s.api.{schema}"))
    assert not taken.type_errors
    strategy.default(obj)
    strategy.prepare_for_create(obj)
    return obj, wrong + strategy.validate(obj) + strategy.validate_create(obj)


def updated(strategy: Strategy, old: Object, change: Object) -> tuple[Object, FieldErrors]:
    """`old` with a merge patch on it."""
    new = merged(copy.deepcopy(old), change)
    strategy.default(new)
    strategy.prepare_for_update(new, old)
    return new, strategy.validate(new) + strategy.validate_update(new, old)


def reported(strategy: Strategy, old: Object, status: Object) -> tuple[Object, FieldErrors]:
    """`old` with a merge patch on its status, through the status subresource."""
    new = merged(copy.deepcopy(old), {"status": status})
    strategy.default(new)
    strategy.prepare_for_status_update(new, old)
    return new, strategy.validate_status_update(new, old)


def merged(target: Object, change: Object) -> Object:
    for key, value in change.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merged(target[key], value)
        else:
            target[key] = copy.deepcopy(value)
    return target


def causes(errors: FieldErrors) -> list[tuple[str, str]]:
    """Field and reason of each error, which are what clients go by."""
    return [(error.field, error.reason.removeprefix("FieldValue")) for error in errors]


def with_name(spec: Any, **top: Any) -> Object:
    return {"metadata": {"name": "name-1", "namespace": "default"}, "spec": spec, **top}
