"""Merge patch (RFC 7386): an object like the result, where null removes a field and a list replaces a list."""

from __future__ import annotations

from typing import Any

from localpv import errors
from localpv.api.objects import Object
from localpv.api.patch.values import copied, refusing_deep_nesting, same, without_nulls


@refusing_deep_nesting
def apply(original: Object, patch: Any) -> Object:
    """The object after the patch."""
    if not isinstance(patch, dict):
        raise errors.BadRequest("a merge patch must be a JSON object")
    return _merged(original, patch)


@refusing_deep_nesting
def apply_to(obj: Object, patch: Object) -> Object:
    """The same, written into an object that is nobody else's: copying it would cost more than the patch."""
    _merge_into(obj, patch)
    return obj


def _merge_into(obj: Object, patch: Object) -> None:
    for key, value in patch.items():
        before = obj.get(key)
        if value is None:
            obj.pop(key, None)
        elif isinstance(value, dict) and isinstance(before, dict):
            _merge_into(before, value)
        else:
            obj[key] = without_nulls(value)


def _merged(original: Object, patch: Object) -> Object:
    result = {key: copied(value) for key, value in original.items() if key not in patch}
    for key, value in patch.items():
        if value is None:
            continue
        before = original.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            result[key] = _merged(before, value)
        else:
            result[key] = without_nulls(value)
    return result


def diff(old: Object, new: Object) -> Object:
    """The patch that makes `new` out of `old`. Nulls inside `new` cannot be told by a merge patch and are left out."""
    patch: Object = {key: None for key in old if new.get(key) is None}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if changes := diff(before, value):
                patch[key] = changes
        elif value is not None and not same(before, value):
            patch[key] = copied(value)
    return patch
