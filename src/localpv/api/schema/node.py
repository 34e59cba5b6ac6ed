"""One node of a schema, built-in kinds and custom ones alike.

Pruning, type checks, defaults, strategic merge and server-side apply all walk these nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final


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
    """STRUCT: the fields that have a default or hold one further down. Worked out by `defaults` when first needed."""

    extra: dict[str, Any] = field(default_factory=dict)
    """The rest of an OpenAPI schema that is only shown again: enum, pattern, minimum, ..."""
