"""The definition of PoolSnapshot: a row for each snapshot of a volume of a pool."""

from __future__ import annotations

from localpv.api.crds import definitions
from localpv.api.crds.definitions import IN_WIDE_TABLES
from localpv.api.kinds import localpool
from localpv.api.objects import Object

COLUMNS: tuple[Object, ...] = (
    {"name": "Node", "jsonPath": ".spec.nodeName", "description": "Node that has the snapshot"},
    {"name": "Pool", "jsonPath": ".spec.poolName", "description": "Pool that it is in"},
    {"name": "Volume", "jsonPath": ".spec.sourceVolume", "description": "PoolVolume that it was taken of"},
    {"name": "Bytes", "jsonPath": ".status.sizeBytes", "type": "integer", "description": "What it reserves"},
    {"name": "Phase", "jsonPath": ".status.phase", "description": "How far the agent is"},
    {"name": "Code", "jsonPath": ".status.code", "description": "Why it failed"},
    {
        "name": "Message",
        "jsonPath": ".status.message",
        "description": "Why it failed, or what it waits for",
        "priority": IN_WIDE_TABLES,
    },
    {
        "name": "Age",
        "jsonPath": ".metadata.creationTimestamp",
        "type": "date",
        "description": "How long ago it was ordered",
        "priority": IN_WIDE_TABLES,
    },
)


def definition() -> Object:
    """The CustomResourceDefinition."""
    return definitions.define(localpool.PoolSnapshot, COLUMNS)
