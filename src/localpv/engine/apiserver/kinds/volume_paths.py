"""Paths inside objects that describe volumes: which way they may point."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields
from localpv.api.fields import FieldError

Errors = Iterator[FieldError]


def has_backstep(path: str) -> bool:
    """Whether any component is `..`; `a..b` and `..data` are names like any other."""
    return ".." in path and ".." in path.split("/")


def no_backsteps(path: str, field: str) -> Errors:
    if has_backstep(path):
        yield fields.invalid(field, path, "must not contain '..' as a component")


def inside(path: str, field: str) -> Errors:
    """A path that stays below the directory it is joined to."""
    if path.startswith("/"):
        yield fields.invalid(field, path, "must be a relative path")
    yield from no_backsteps(path, field)


def inside_and_not_reserved(path: str, field: str) -> Errors:
    """As `inside`; and the kubelet keeps names that begin with two dots for itself."""
    yield from inside(path, field)
    if path.startswith("..") and not path.startswith("../"):
        yield fields.invalid(field, path, "must not start with '..'")


def file_mode(value: int | None, field: str) -> Errors:
    if value is not None and not 0 <= value <= 0o777:
        yield fields.invalid(field, value, "must be a file mode from 0 to 0777 (octal)")
