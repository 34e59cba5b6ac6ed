"""Temporary door to the selector checks."""

from __future__ import annotations

from localpv.api.fields import FieldErrors
from localpv.api.objects import Object


def validate_label_selector(selector: Object, path: str) -> FieldErrors:
    from localpv.api import selectors

    return selectors.validate_label_selector(selector, path)


def validate(selector: Object, path: str) -> FieldErrors:
    from localpv.api import node_selector

    return node_selector.validate(selector, path)


def validate_term(term: Object, path: str, *, check_values: bool) -> FieldErrors:
    from localpv.api import node_selector

    return node_selector.validate_term(term, path, check_values=check_values)
