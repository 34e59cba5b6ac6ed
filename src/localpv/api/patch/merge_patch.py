"""Merge patch (RFC 7386): an object like the result, where null removes a field and a list replaces a list."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from localpv import errors
from localpv.api.objects import Object

P = ParamSpec("P")
R = TypeVar("R")


def copied(value: Any) -> Any:
    """The same value in new dictionaries and lists. Several times as fast as copy.deepcopy, which expects anything."""
    if isinstance(value, dict):
        return {key: copied(each) if isinstance(each, (dict, list)) else each for key, each in value.items()}
    if isinstance(value, list):
        return [copied(each) if isinstance(each, (dict, list)) else each for each in value]
    return value


def without_nulls(value: Any) -> Any:
    """A copy in which no dictionary has a null: in a patch, null says that a field goes."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON, where true is not 1 as it is in Python."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(value, other[key]) for key, value in one.items())
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def refusing_deep_nesting(patch: Callable[P, R]) -> Callable[P, R]:
    """Values nested beyond what the interpreter can walk are the client's mistake, not a failure of the server."""

    @wraps(patch)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return patch(*args, **kwargs)
        except RecursionError:
            raise errors.BadRequest("the patch, or the object it is for, is nested too deeply") from None

    return guarded


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
