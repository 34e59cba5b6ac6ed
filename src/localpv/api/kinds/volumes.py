"""PersistentVolume, PersistentVolumeClaim and StorageClass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from localpv.api.kinds.meta import NOTHING, Kind, Part, resource_of
from localpv.api.resources import Resource


class NodeSelectorRequirement(Part, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Part, frozen=True, kw_only=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Part, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class VolumeNodeAffinity(Part, frozen=True, kw_only=True):
    required: NodeSelector | None = None


class LocalVolumeSource(Part, frozen=True, kw_only=True):
    path: str
    fs_type: str | None = None


class SecretReference(Part, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""


class CSIVolumeSource(Part, frozen=True, kw_only=True):
    driver: str
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: Mapping[str, str] = NOTHING
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None


class ClaimReference(Part, frozen=True, kw_only=True):
    """spec.claimRef: which claim a volume belongs to; without a uid it is only reserved for it."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    kind: str = ""
    api_version: str = ""
    resource_version: str = ""


class PersistentVolumeSpec(Part, frozen=True, kw_only=True):
    capacity: Mapping[str, str] = NOTHING
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_attributes_class_name: str | None = None
    mount_options: tuple[str, ...] = ()
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    local: LocalVolumeSource | None = None
    csi: CSIVolumeSource | None = None


class PersistentVolumeStatus(Part, frozen=True, kw_only=True):
    phase: str = ""
    message: str = ""
    reason: str = ""
    last_phase_transition_time: str | None = None


class PersistentVolume(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("PersistentVolume")
    shared: ClassVar[tuple[str, ...]] = (
        *Kind.shared,
        "metadata.annotations",
        "spec.capacity",
        "spec.access_modes",
        "spec.persistent_volume_reclaim_policy",
        "spec.storage_class_name",
        "spec.mount_options",
        "spec.volume_mode",
        "spec.node_affinity",
        "status.phase",
    )

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class LabelSelectorRequirement(Part, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Part, frozen=True, kw_only=True):
    match_labels: Mapping[str, str] = NOTHING
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class VolumeResourceRequirements(Part, frozen=True, kw_only=True):
    requests: Mapping[str, str] = NOTHING
    limits: Mapping[str, str] = NOTHING


class DataSource(Part, frozen=True, kw_only=True):
    """What a new volume is filled with."""

    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


class PersistentVolumeClaimSpec(Part, frozen=True, kw_only=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    """None asks for the default class; an empty name asks for a volume without a class."""

    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    data_source: DataSource | None = None
    data_source_ref: DataSource | None = None


class Condition(Part, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PersistentVolumeClaimStatus(Part, frozen=True, kw_only=True):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: Mapping[str, str] = NOTHING
    allocated_resources: Mapping[str, str] = NOTHING
    allocated_resource_statuses: Mapping[str, str] = NOTHING
    """By resource, how far a growth is, such as NodeResizePending."""

    conditions: tuple[Condition, ...] = ()


class PersistentVolumeClaim(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("PersistentVolumeClaim")
    shared: ClassVar[tuple[str, ...]] = (
        *Kind.shared,
        "spec.access_modes",
        "spec.resources.requests",
        "spec.storage_class_name",
        "spec.volume_mode",
        "status.phase",
        "status.access_modes",
        "status.capacity",
    )

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class TopologyRequirement(Part, frozen=True, kw_only=True):
    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Part, frozen=True, kw_only=True):
    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("StorageClass", "storage.k8s.io")

    provisioner: str
    parameters: Mapping[str, str] = NOTHING
    reclaim_policy: str | None = None
    mount_options: tuple[str, ...] = ()
    volume_binding_mode: str | None = None
    allow_volume_expansion: bool = False
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
