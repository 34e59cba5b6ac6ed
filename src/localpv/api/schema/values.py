"""Whether the values of a custom kind are right: required fields and the checks that its schema asks for."""

from __future__ import annotations

import itertools
from typing import Any

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.schema.node import Node
from localpv.api.schema.places import Place, spelled


def check_values(value: Any, node: Node, path: str = "") -> FieldErrors:
    """What is wrong with a value that `take_in` found no wrong types in. Built-in parts have their own validators."""
    errors: FieldErrors = []
    _check(value, node, path or None, errors)
    return errors


def _check(value: Any, node: Node, place: Place, errors: FieldErrors) -> None:
    if value is None or not node.custom or len(errors) >= fields.MOST:
        return
    if node.checks:
        path = spelled(place)
        for check in node.checks:
            errors.extend(itertools.islice(check(path, value), fields.MOST))
    if type(value) is dict:
        missing = (name for name in node.required if name not in value)
        errors.extend(fields.required(spelled((place, name))) for name in itertools.islice(missing, fields.MOST))
        known, others = node.fields, node.items
        for name, item in value.items():
            child = known.get(name) or others
            if child is not None:
                _check(item, child, (place, name), errors)
    elif type(value) is list and node.items is not None:
        for index, item in enumerate(value):
            _check(item, node.items, (place, index), errors)
