"""The definition of LocalStorage: its schema from the structs, and what came of it at a glance."""

from __future__ import annotations

from localpv.api.crds import definitions
from localpv.api.kinds import localstorage
from localpv.api.objects import Object

COLUMNS: tuple[Object, ...] = (
    {
        "name": "Accepted",
        "jsonPath": '.status.conditions[?(@.type=="Accepted")].status',
        "description": "Whether all that it says can be done",
    },
    {"name": "Nodes", "jsonPath": ".status.nodeCount", "type": "integer", "description": "Nodes that are served"},
    {
        "name": "Current",
        "jsonPath": ".status.currentNodes",
        "type": "integer",
        "description": "Nodes that have the rules of this generation",
    },
    {
        "name": "Matched",
        "jsonPath": ".status.matchedDevices",
        "type": "integer",
        "description": "Devices that the rules matched",
    },
    {
        "name": "Published",
        "jsonPath": ".status.publishedDevices",
        "type": "integer",
        "description": "Devices that a PersistentVolume offers",
    },
    {
        "name": "Age",
        "jsonPath": ".metadata.creationTimestamp",
        "type": "date",
        "description": "How long ago it was created",
    },
)


def definition() -> Object:
    """The CustomResourceDefinition."""
    return definitions.define(localstorage.LocalStorage, COLUMNS)
