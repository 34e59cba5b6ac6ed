"""The definition of LocalPool: a row for each pool of each node."""

from __future__ import annotations

from localpv.api.crds import definitions
from localpv.api.crds.definitions import IN_WIDE_TABLES
from localpv.api.kinds import localpool
from localpv.api.objects import Object

COLUMNS: tuple[Object, ...] = (
    {"name": "Node", "jsonPath": ".spec.nodeName", "description": "Node that has the pool"},
    {"name": "Pool", "jsonPath": ".spec.poolName", "description": "Name of the pool on its node"},
    {"name": "Kind", "jsonPath": ".spec.kind", "description": "What the pool is made of"},
    {"name": "Size", "jsonPath": ".status.size", "description": "What volumes may use together"},
    {"name": "Free", "jsonPath": ".status.free", "description": "What was free when it was measured"},
    {
        "name": "Data%",
        "jsonPath": ".status.dataPercent",
        "type": "integer",
        "description": "How full the data of a thin pool is",
        "priority": IN_WIDE_TABLES,
    },
    {
        "name": "Meta%",
        "jsonPath": ".status.metadataPercent",
        "type": "integer",
        "description": "How full the metadata of a thin pool is",
        "priority": IN_WIDE_TABLES,
    },
    {"name": "Error", "jsonPath": ".status.error", "description": "Why the pool offers nothing"},
    {
        "name": "Age",
        "jsonPath": ".metadata.creationTimestamp",
        "type": "date",
        "description": "How long ago the pool was first reported",
        "priority": IN_WIDE_TABLES,
    },
)


def definition() -> Object:
    """The CustomResourceDefinition."""
    return definitions.define(localpool.LocalPool, COLUMNS)
