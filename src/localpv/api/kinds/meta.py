"""What all kinds have in common: the base of every struct, and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from localpv.api.resources import BUILT_IN, Resource

NOTHING: Mapping[str, Any] = MappingProxyType({})
"""The value of a map that an object does not have: one for all objects, so that absence costs no memory."""


class Part(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True, gc=False):
    """A piece of an object. Lists are tuples and absent means the default, which is not sent."""


class OwnerReference(Part, frozen=True, kw_only=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Part, frozen=True, kw_only=True):
    """Without managedFields, which no controller reads and which are half of most objects."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int = 0
    labels: Mapping[str, str] = NOTHING
    annotations: Mapping[str, str] = NOTHING
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`NAMESPACE/NAME`, or `NAME` of an object without a namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def deleting(self) -> bool:
        """Whether the object only waits for its finalizers."""
        return self.deletion_timestamp is not None


class Kind(Part, frozen=True, kw_only=True):
    """A whole object; its class knows where in the API it lives."""

    resource: ClassVar[Resource]

    shared: ClassVar[tuple[str, ...]] = ("metadata.namespace", "metadata.labels", "metadata.finalizers")
    """Fields in which many objects have the same value; readers keep such a value once."""

    metadata: ObjectMeta

    @property
    def key(self) -> str:
        return self.metadata.key


_BY_NAME = {(resource.group, resource.kind): resource for resource in BUILT_IN}


def resource_of(kind: str, group: str = "") -> Resource:
    """A built-in resource, by the name of its kind."""
    return _BY_NAME[group, kind]


def read_time(text: str) -> datetime:
    """The moment that a timestamp field names."""
    return datetime.fromisoformat(text)


def write_time(moment: datetime) -> str:
    """A moment as MicroTime fields want it: UTC, and always six digits after the point."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
