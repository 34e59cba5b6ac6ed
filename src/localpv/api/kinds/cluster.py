"""Node, Namespace, ConfigMap, Event and Lease: what surrounds volumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from localpv.api.kinds.meta import NOTHING, Kind, Part, resource_of
from localpv.api.resources import Resource


class Taint(Part, frozen=True, kw_only=True):
    key: str
    effect: str
    value: str = ""


class NodeSpec(Part, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Part, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class NodeStatus(Part, frozen=True, kw_only=True):
    capacity: Mapping[str, str] = NOTHING
    allocatable: Mapping[str, str] = NOTHING
    conditions: tuple[NodeCondition, ...] = ()


class Node(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("Node")

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Kind, frozen=True, kw_only=True):
    """Its labels, by which affinities select."""

    resource: ClassVar[Resource] = resource_of("Namespace")


class ConfigMap(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("ConfigMap")

    data: Mapping[str, str] = NOTHING
    binary_data: Mapping[str, str] = NOTHING
    immutable: bool | None = None


class Secret(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("Secret")

    data: Mapping[str, str] = NOTHING
    """Values in base64."""

    type: str = ""


class ObjectReference(Part, frozen=True, kw_only=True):
    """Which object an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Part, frozen=True, kw_only=True):
    component: str = ""
    host: str = ""


class Event(Kind, frozen=True, kw_only=True):
    """An event of core/v1, which `kubectl events` and `describe` show."""

    resource: ClassVar[Resource] = resource_of("Event")

    involved_object: ObjectReference
    reason: str = ""
    message: str = ""
    type: str = ""
    source: EventSource = EventSource()
    count: int = 0
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    action: str = ""
    reporting_component: str = ""


class LeaseSpec(Part, frozen=True, kw_only=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("Lease", "coordination.k8s.io")

    spec: LeaseSpec = LeaseSpec()
