"""The definition of LocalDisk: its schema from the structs, and the table that administrators read like lsblk."""

from __future__ import annotations

from localpv.api.crds import definitions
from localpv.api.crds.definitions import IN_WIDE_TABLES
from localpv.api.kinds import localdisk
from localpv.api.objects import Object

COLUMNS: tuple[Object, ...] = (
    {"name": "Node", "jsonPath": ".spec.nodeName", "description": "Node that has the disk"},
    {"name": "Entry", "jsonPath": ".spec.entry", "description": "Name in the discovery directory"},
    {"name": "Size", "jsonPath": ".status.size", "description": "Capacity of the disk"},
    {"name": "Type", "jsonPath": ".status.kind", "description": "What was found there"},
    {"name": "Medium", "jsonPath": ".status.medium", "description": "What the data is kept on"},
    {"name": "Model", "jsonPath": ".status.identity.model", "description": "Model of the device"},
    {"name": "Class", "jsonPath": ".spec.storageClassName", "description": "StorageClass it is offered in"},
    {"name": "Phase", "jsonPath": ".status.phase", "description": "Where on the circle it is"},
    {"name": "Volume", "jsonPath": ".spec.volume.name", "description": "PersistentVolume that offers it"},
    {"name": "Reason", "jsonPath": ".status.reason", "description": "Why it is in this phase"},
    {"name": "Path", "jsonPath": ".spec.path", "description": "Where it is on the host", "priority": IN_WIDE_TABLES},
    {
        "name": "Serial",
        "jsonPath": ".status.identity.serial",
        "description": "Serial number of the device",
        "priority": IN_WIDE_TABLES,
    },
    {
        "name": "Age",
        "jsonPath": ".metadata.creationTimestamp",
        "type": "date",
        "description": "How long ago it was discovered",
        "priority": IN_WIDE_TABLES,
    },
)


def definition() -> Object:
    """The CustomResourceDefinition."""
    return definitions.define(localdisk.LocalDisk, COLUMNS)
