"""A schema with one field of every shape that ownership tells apart, and objects of it."""

from __future__ import annotations

from typing import Any

from localpv.api.objects import Object
from localpv.api.schema.node import ListKind, Node, Type

_TEXT = Node(type=Type.STRING)


def _list(items: Node, kind: ListKind, *keys: str) -> Node:
    return Node(type=Type.LIST, items=items, list_kind=kind, list_keys=keys)


def thing_node(**more: Node) -> Node:
    """A custom kind `Thing`."""
    item = Node(type=Type.STRUCT, fields={"name": _TEXT, "value": _TEXT, "tags": _list(_TEXT, ListKind.SET)})
    port = Node(
        type=Type.STRUCT,
        fields={
            "port": Node(type=Type.INTEGER),
            "protocol": Node(type=Type.STRING, default="TCP"),
            "note": _TEXT,
        },
    )
    spec = Node(
        type=Type.STRUCT,
        fields={
            "text": _TEXT,
            "number": Node(type=Type.INTEGER),
            "struct": Node(type=Type.STRUCT, fields={"x": _TEXT, "y": _TEXT}),
            "whole": Node(type=Type.STRUCT, fields={"x": _TEXT, "y": _TEXT}, atomic=True),
            "map": Node(type=Type.MAP, items=_TEXT),
            "list": _list(_TEXT, ListKind.ATOMIC),
            "set": _list(_TEXT, ListKind.SET),
            "named": _list(item, ListKind.MAP, "name"),
            "ports": _list(port, ListKind.MAP, "port", "protocol"),
            "free": Node(type=Type.STRUCT, preserve_unknown=True),
            **more,
        },
    )
    status = Node(type=Type.STRUCT, fields={"phase": _TEXT})
    return Node(type=Type.STRUCT, fields={"apiVersion": _TEXT, "kind": _TEXT, "spec": spec, "status": status})


def thing(spec: dict[str, Any] | None = None, **metadata: Any) -> Object:
    obj: Object = {"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": "it", **metadata}}
    if spec is not None:
        obj["spec"] = spec
    return obj
