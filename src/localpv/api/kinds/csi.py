"""What drivers of the Container Storage Interface say about themselves: CSIDriver, CSINode, CSIStorageCapacity."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from localpv.api.kinds.meta import Kind, Part, resource_of
from localpv.api.kinds.volumes import LabelSelector
from localpv.api.resources import Resource
from localpv.api.well_known import STORAGE_GROUP


class TokenRequest(Part, frozen=True, kw_only=True):
    """A token of the pod's service account that a driver wants with each volume."""

    audience: str = ""
    expiration_seconds: int | None = None


class CSIDriverSpec(Part, frozen=True, kw_only=True):
    attach_required: bool = True
    pod_info_on_mount: bool = False
    storage_capacity: bool = False
    fs_group_policy: str = "ReadWriteOnceWithFSType"
    volume_lifecycle_modes: tuple[str, ...] = ("Persistent",)
    token_requests: tuple[TokenRequest, ...] = ()
    service_account_token_in_secrets: bool = False


class CSIDriver(Kind, frozen=True, kw_only=True):
    """How a driver wants to be treated; absent fields mean what Kubernetes fills in."""

    resource: ClassVar[Resource] = resource_of("CSIDriver", STORAGE_GROUP)

    spec: CSIDriverSpec = CSIDriverSpec()


class VolumeNodeResources(Part, frozen=True, kw_only=True):
    count: int | None = None
    """How many volumes of a driver a node takes; None for any number."""


class CSINodeDriver(Part, frozen=True, kw_only=True):
    name: str
    node_id: str = msgspec.field(name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Part, frozen=True, kw_only=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Kind, frozen=True, kw_only=True):
    """The drivers that run on a node."""

    resource: ClassVar[Resource] = resource_of("CSINode", STORAGE_GROUP)

    spec: CSINodeSpec = CSINodeSpec()


class CSIStorageCapacity(Kind, frozen=True, kw_only=True):
    """How much of a class is free on some nodes."""

    resource: ClassVar[Resource] = resource_of("CSIStorageCapacity", STORAGE_GROUP)

    node_topology: LabelSelector | None = None
    """Nodes that it is about; None for none of them."""

    storage_class_name: str
    capacity: str | None = None
    maximum_volume_size: str | None = None
