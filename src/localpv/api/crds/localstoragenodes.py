"""The definition of LocalStorageNode: its schema from the structs, and a row for each LocalStorage on each node."""

from __future__ import annotations

from localpv.api.crds import definitions
from localpv.api.kinds import localstorage
from localpv.api.objects import Object

COLUMNS: tuple[Object, ...] = (
    {"name": "LocalStorage", "jsonPath": ".spec.localStorageName", "description": "LocalStorage that it is about"},
    {"name": "Node", "jsonPath": ".spec.nodeName", "description": "Node that it is about"},
    {
        "name": "Generation",
        "jsonPath": ".status.generation",
        "type": "integer",
        "description": "Generation whose rules are in force there",
    },
    {
        "name": "Matched",
        "jsonPath": ".status.matched",
        "type": "integer",
        "description": "Devices that the rules matched there",
    },
    {"name": "Error", "jsonPath": ".status.error", "description": "Why the rules are not in force"},
    {
        "name": "Age",
        "jsonPath": ".metadata.creationTimestamp",
        "type": "date",
        "description": "How long ago the node first reported",
        "priority": definitions.IN_WIDE_TABLES,
    },
)


def definition() -> Object:
    """The CustomResourceDefinition."""
    return definitions.define(localstorage.LocalStorageNode, COLUMNS)
