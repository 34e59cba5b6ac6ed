"""Errors to Status objects and back, with the messages that clients know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from localpv import errors
from localpv.api.fields import FieldError, summary, told

_BY_REASON: dict[str, type[errors.ApiError]] = {
    kind.reason: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ApiError)
}
_BY_CODE: dict[int, type[errors.ApiError]] = {
    kind.code: kind for kind in reversed(_BY_REASON.values()) if kind is not errors.ApiError
}


LONGEST_MESSAGE: Final = 64 << 10
"""Characters. What takes more was made of the request; twice what the errors of one object take."""

_LONGEST_NAME: Final = 512
"""No name that Kubernetes allows is longer; what is refused may have any."""


def to_status(error: errors.ApiError) -> dict[str, Any]:
    """The Status object that tells a client of this error."""
    message = error.message if len(error.message) <= LONGEST_MESSAGE else f"{error.message[:LONGEST_MESSAGE]}…"
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": error.list_metadata,
        "status": "Failure",
        "message": message,
        "reason": error.reason,
        "code": error.code,
    }
    if error.details:
        status["details"] = error.details
    return status


def from_status(status: dict[str, Any], http_code: int) -> errors.ApiError:
    """The error that a server meant; an answer that is no Status is told by its HTTP code."""
    kind = _BY_REASON.get(status.get("reason") or "") or _BY_CODE.get(http_code)
    if kind is None:
        kind = errors.BadRequest if 400 <= http_code < 500 else errors.InternalError
    return kind(status.get("message") or f"the server answered with HTTP {http_code}", details=status.get("details"))


def qualified(plural: str, group: str) -> str:
    """`persistentvolumes`, or `statefulsets.apps` for a resource in a group."""
    return f"{plural}.{group}" if group else plural


def _details(name: str, plural: str, group: str, **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name[:_LONGEST_NAME]
    if group:
        details["group"] = group
    if plural:
        details["kind"] = plural
    details.update(more)
    return details


def not_found(plural: str, group: str, name: str) -> errors.NotFound:
    return errors.NotFound(f'{qualified(plural, group)} "{name}" not found', details=_details(name, plural, group))


def already_exists(plural: str, group: str, name: str) -> errors.AlreadyExists:
    return errors.AlreadyExists(
        f'{qualified(plural, group)} "{name}" already exists', details=_details(name, plural, group)
    )


def conflict(plural: str, group: str, name: str, why: str) -> errors.Conflict:
    return errors.Conflict(
        f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}',
        details=_details(name, plural, group),
    )


def modified(plural: str, group: str, name: str) -> errors.Conflict:
    """The optimistic lock failed."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(plural, group, name, why)


def forbidden(plural: str, group: str, name: str, why: str) -> errors.Forbidden:
    return errors.Forbidden(
        f'{qualified(plural, group)} "{name}" is forbidden: {why}', details=_details(name, plural, group)
    )


def invalid(kind: str, group: str, name: str, causes: Sequence[FieldError]) -> errors.Invalid:
    """All that is wrong with an object at once. Here details.kind is the kind, not the plural."""
    causes = told(causes)
    return errors.Invalid(
        f'{qualified(kind, group)} "{name[:_LONGEST_NAME]}" is invalid: {summary(causes)}',
        details=_details(
            name,
            kind,
            group,
            causes=[{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes],
        ),
    )


def invalid_options(kind: str, *causes: FieldError) -> errors.Invalid:
    """Wrong options of a request: CreateOptions, ListOptions and so on."""
    return invalid(kind, "meta.k8s.io", "", causes)


def method_not_allowed(plural: str, group: str) -> errors.MethodNotAllowed:
    return errors.MethodNotAllowed(
        "the server does not allow this method on the requested resource", details=_details("", plural, group)
    )


def success(plural: str, group: str, name: str, uid: str = "") -> dict[str, Any]:
    """What a DELETE answers when the object is gone."""
    more = {"uid": uid} if uid else {}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": _details(name, plural, group, **more),
    }
