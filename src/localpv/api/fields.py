"""What is wrong with a field of an object, in the words that Kubernetes uses for it.

A validator returns a list of `FieldError`; the server turns a non-empty list into one
`Invalid` answer whose causes name every field at once.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final


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

MOST: Final = 100
"""Errors of one object that are told; a body may have fifty thousand wrong values."""

MOST_TEXT: Final = 32 << 10
"""Characters of all that is told of one object. Each error is told twice: in the message, and as a cause."""

LONGEST_SHOWN: Final = 512
"""Characters of a value that an error repeats; a body may be one value, with an error for each part of it."""

_LONGEST_FIELD: Final = 1024


def shown(value: Any) -> str:
    """A value as JSON; of a long one the beginning, and no more than that is ever written out."""
    if isinstance(value, str):
        text = json.dumps(value[: LONGEST_SHOWN + 1], ensure_ascii=False)
    elif isinstance(value, dict | list):
        text = ""
        for piece in _pieces(value):
            text += piece
            if len(text) > LONGEST_SHOWN:
                break
    else:
        text = _scalar(value)
    return text if len(text) <= LONGEST_SHOWN + 2 else f"{text[:LONGEST_SHOWN]}…"


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield "{"
        for place, (key, child) in enumerate(value.items()):
            yield f"{',' if place else ''}{json.dumps(key[: LONGEST_SHOWN + 1])}:"
            yield from _pieces(child)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for place, child in enumerate(value):
            if place:
                yield ","
            yield from _pieces(child)
        yield "]"
    else:
        yield json.dumps(value[: LONGEST_SHOWN + 1]) if isinstance(value, str) else _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _error(field: str, reason: str, message: str) -> FieldError:
    if len(field) > _LONGEST_FIELD:
        field = f"{field[:_LONGEST_FIELD]}…"
    return FieldError(field, reason, message if len(message) <= MOST_TEXT else f"{message[:MOST_TEXT]}…")


def _with(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head


def required(field: str, detail: str = "") -> FieldError:
    return _error(field, "FieldValueRequired", _with("Required value", detail))


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return _error(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}")


def malformed(field: str, value: Any, sentences: Iterable[str]) -> FieldErrors:
    """An error for each thing that a rule of `names` finds wrong with a value."""
    return [invalid(field, value, sentence) for sentence in sentences]


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    return _error(field, "FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {detail}")


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    names = ", ".join(json.dumps(name) for name in supported)
    return _error(field, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {names}")


def duplicate(field: str, value: Any) -> FieldError:
    return _error(field, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")


def forbidden(field: str, detail: str) -> FieldError:
    return _error(field, "FieldValueForbidden", _with("Forbidden", detail))


def not_found(field: str, value: Any) -> FieldError:
    return _error(field, "FieldValueNotFound", f"Not found: {shown(value)}")


def too_long(field: str, limit: int) -> FieldError:
    return _error(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, actual: int, limit: int) -> FieldError:
    return _error(field, "FieldValueTooMany", f"Too many: {actual}: must have at most {limit} items")


def repeated(values: Iterable[Hashable]) -> set[int]:
    """Where a value stands that stood further in front already."""
    seen: set[Hashable] = set()
    places: set[int] = set()
    for index, value in enumerate(values):
        if value in seen:
            places.add(index)
        seen.add(value)
    return places


def told(errors: Iterable[FieldError]) -> FieldErrors:
    """As many of the errors as one answer has room for, and at least one."""
    found: FieldErrors = []
    left = MOST_TEXT
    for error in itertools.islice(errors, MOST):
        left -= len(error.field) + len(error.message)
        if found and left < 0:
            break
        found.append(error)
    return found


def summary(errors: Sequence[FieldError]) -> str:
    """The part of an Invalid message that follows the object's name."""
    if len(errors) == 1:
        return str(errors[0])
    return "[" + ", ".join(dict.fromkeys(str(error) for error in errors)) + "]"
