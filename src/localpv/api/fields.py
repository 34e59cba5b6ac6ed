"""What is wrong with a field of an object, in the words that Kubernetes uses for it.

A validator returns a list of `FieldError`; the server turns a non-empty list into one
`Invalid` answer whose causes name every field at once.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldError:
    """One cause in a Status: which field, why as a machine word, why as a sentence."""

    field: str
    """Path in the object, such as `spec.containers[0].name`."""

    reason: str
    """Machine word for details.causes[].reason, such as FieldValueRequired."""

    message: str
    """For people, without the path: `Required value: a local volume needs node affinity`."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


FieldErrors = list[FieldError]

MOST = 1000
"""Errors of one object that are told; a body may have a hundred thousand wrong values."""


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value, separators=(",", ":"))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _with(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(field, "FieldValueRequired", _with("Required value", detail))


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, "FieldValueTypeInvalid", f"Invalid value: {_shown(value)}: {detail}")


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    names = ", ".join(json.dumps(name) for name in supported)
    return FieldError(field, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {names}")


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError(field, "FieldValueForbidden", _with("Forbidden", detail))


def not_found(field: str, value: Any) -> FieldError:
    return FieldError(field, "FieldValueNotFound", f"Not found: {_shown(value)}")


def too_long(field: str, limit: int) -> FieldError:
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, actual: int, limit: int) -> FieldError:
    return FieldError(field, "FieldValueTooMany", f"Too many: {actual}: must have at most {limit} items")


def repeated(values: Iterable[Hashable]) -> set[int]:
    """Where a value stands that stood further in front already."""
    seen: set[Hashable] = set()
    places: set[int] = set()
    for index, value in enumerate(values):
        if value in seen:
            places.add(index)
        seen.add(value)
    return places


def summary(errors: Sequence[FieldError]) -> str:
    """The part of an Invalid message that follows the object's name."""
    if len(errors) == 1:
        return str(errors[0])
    return "[" + ", ".join(dict.fromkeys(str(error) for error in errors)) + "]"
