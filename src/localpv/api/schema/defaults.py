"""Filling in what a schema gives a default for.

Custom kinds state their defaults in their schema. Of the built-in kinds only a few fields do (the protocol of a port,
the file system of some volume sources); the rest is up to each kind's strategy.
"""

from __future__ import annotations

from typing import Any

from localpv.api.schema.node import MISSING, Node


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
