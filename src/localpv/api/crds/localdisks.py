"""The definition of LocalDisk: its schema from the structs, and the table that administrators read like lsblk."""

from __future__ import annotations

from localpv.api import well_known
from localpv.api.crds import schema
from localpv.api.kinds import localdisk
from localpv.api.objects import Object

IN_WIDE_TABLES = 1

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
    resource = localdisk.LOCAL_DISKS
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified, "labels": {well_known.APP_NAME: "localpv"}},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "listKind": resource.list_kind,
                "plural": resource.plural,
                "singular": resource.singular,
                "shortNames": list(resource.short_names),
                "categories": list(resource.categories),
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "selectableFields": [{"jsonPath": f".{field}"} for field in resource.selectable_fields],
                    "additionalPrinterColumns": [{"type": "string", **column} for column in COLUMNS],
                    "schema": {"openAPIV3Schema": _whole()},
                }
            ],
        },
    }


def _whole() -> Object:
    whole = schema.of(localdisk.LocalDisk)
    whole["properties"] = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}} | whole["properties"]
    whole["required"] = ["spec"]
    return whole
