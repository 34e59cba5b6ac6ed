"""One node of a schema, built-in kinds and custom ones alike.

Pruning, type checks, defaults, strategic merge and server-side apply all walk these nodes.

Custom kinds state their defaults in their schema. Of the built-in kinds only a few fields do (the protocol of a port,
the file system of some volume sources); the rest is up to each kind's strategy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from localpv.api import fields
from localpv.api.fields import FieldErrors

Place = Any
"""None at the root, a string for a given prefix, or a pair of the place above and a field name or index."""

LONGEST: Final = 1024
"""Characters of a path that are told; of a longer one the end. A hundred thousand values may each have their path told,
and a body can make a path as long as itself."""

_LONGEST_STEP: Final = 330
"""No key that Kubernetes allows is longer."""


def spelled(place: Place) -> str:
    """`spec.containers[0].name`"""
    steps: list[str | int] = []
    while type(place) is tuple:
        place, step = place
        steps.append(step)
    text = place or ""
    for step in reversed(steps):
        if type(step) is int:
            text += f"[{step}]"
        else:
            text = below(text, str(step)) if text else str(step)[:_LONGEST_STEP]
    return text if len(text) <= LONGEST else f"…{text[-LONGEST:]}"


def below(path: str, step: str) -> str:
    """The path of a field."""
    path = path if len(path) <= LONGEST else f"…{path[-LONGEST:]}"
    return f"{path}.{step}" if len(step) <= _LONGEST_STEP else f"{path}.{step[:_LONGEST_STEP]}…"


class Type(Enum):
    STRUCT = "struct"
    """An object with known fields."""
    MAP = "map"
    """An object with free keys and values of one schema (`items`)."""
    LIST = "list"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    INT_OR_STRING = "int-or-string"
    QUANTITY = "quantity"
    """A string or a number: the resource quantities of Kubernetes."""
    ANY = "any"
    """Whatever JSON allows, kept as it is (RawExtension, preserve-unknown-fields without a schema)."""


class ListKind(Enum):
    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""No default, which is not the same as a default of null."""


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """What one value may be. Nodes of built-in kinds refer to each other and may form circles."""

    type: Type
    name: str = ""
    """Definition this node comes from, such as io.k8s.api.core.v1.PodSpec; empty for anonymous ones."""

    description: str = ""
    format: str = ""
    """OpenAPI format: int32, int64, byte, date-time, double, ..."""

    fields: dict[str, Node] = field(default_factory=dict)
    """STRUCT: the known fields."""

    items: Node | None = None
    """LIST: the elements. MAP: the values."""

    required: tuple[str, ...] = ()
    default: Any = MISSING
    nullable: bool = False

    list_kind: ListKind = ListKind.ATOMIC
    """LIST, for server-side apply."""
    list_keys: tuple[str, ...] = ()
    """LIST of kind MAP: the fields that together name an element."""
    atomic: bool = False
    """STRUCT and MAP, for server-side apply: owned as a whole."""

    patch_strategy: tuple[str, ...] = ()
    """For strategic merge patch: "merge", "retainKeys", both, or none (replace)."""
    patch_merge_key: str = ""

    preserve_unknown: bool = False
    """STRUCT of a custom kind: unknown fields stay (x-kubernetes-preserve-unknown-fields)."""
    custom: bool = False
    """Of a CustomResourceDefinition: null may be a value, and a wrong type makes the object invalid, not unreadable."""
    embedded_resource: bool = False
    """A whole object inside an object: apiVersion, kind and metadata are known fields too."""

    checks: tuple[Callable[[str, Any], Any], ...] = ()
    """Value validations of a custom kind's schema: called with path and value, return a list of FieldError."""

    leads_to_default: tuple[str, ...] | None = None
    """STRUCT: the fields that have a default or hold one further down. Worked out when first needed."""

    extra: dict[str, Any] = field(default_factory=dict)
    """The rest of an OpenAPI schema that is only shown again: enum, pattern, minimum, ..."""


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


def apply_defaults(value: Any, node: Node) -> None:
    """Fill in missing fields, at every depth that `value` has.

    Null counts as missing where the schema refuses null, and in built-in kinds so does the empty string.
    """
    if type(value) is dict:
        for name in _leading(node):
            child = node.fields[name]
            present = value.get(name, MISSING)
            if present is MISSING or (present is None and not child.nullable) or (present == "" and not child.custom):
                if child.default is MISSING:
                    continue
                present = value[name] = fresh(child.default)
            if type(present) is dict or type(present) is list:
                apply_defaults(present, child)
        items = node.items
        if items is not None and _leads(items, frozenset()):
            for name, present in value.items():
                if name not in node.fields:
                    value[name] = _element(present, items)
    elif type(value) is list and node.items is not None and _leads(node.items, frozenset()):
        for index, present in enumerate(value):
            value[index] = _element(present, node.items)


def fresh(value: Any) -> Any:
    """A copy of a default that the object may change without changing the schema."""
    if type(value) is dict:
        return {key: fresh(child) for key, child in value.items()}
    if type(value) is list:
        return [fresh(child) for child in value]
    return value


def _element(present: Any, items: Node) -> Any:
    if present is None and not items.nullable and items.default is not MISSING:
        present = fresh(items.default)
    apply_defaults(present, items)
    return present


def _leading(node: Node) -> tuple[str, ...]:
    if node.leads_to_default is None:
        _leads(node, frozenset())
    return node.leads_to_default or ()


def _leads(node: Node, above: frozenset[int]) -> bool:
    """Whether a default may apply to this node or below it; remembers for each struct through which fields.

    `above` are the nodes on the way here: a definition that contains itself (JSONSchemaProps) ends there.
    """
    if id(node) in above:
        return False
    here = above | {id(node)}
    if node.leads_to_default is None:
        node.leads_to_default = tuple(name for name, child in node.fields.items() if _leads(child, here))
    if node.default is not MISSING or node.leads_to_default:
        return True
    return node.items is not None and _leads(node.items, here)
