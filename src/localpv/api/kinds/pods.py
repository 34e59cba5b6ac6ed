"""Pods: where they may run, their volumes, and how to read their logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
import msgspec.structs

from localpv.api.kinds import checks
from localpv.api.kinds.containers import (
    Container,
    ContainerStatus,
    FieldSelector,
    ResourceFieldSelector,
    ResourceRequirements,
    SecurityProfile,
)
from localpv.api.kinds.meta import NOTHING, Kind, Part, resource_of
from localpv.api.kinds.volumes import LabelSelector, NodeSelector, NodeSelectorTerm
from localpv.api.resources import Resource


class Toleration(Part, frozen=True, kw_only=True):
    """A taint that is put up with."""

    key: Annotated[str, checks.rule(maxLength=317)] = ""
    """Key of the taint; absent, with operator Exists, for all taints."""

    operator: Annotated[str, checks.rule(enum=["Exists", "Equal"])] = ""
    """Exists for any value, or Equal, the default."""

    value: Annotated[str, checks.rule(maxLength=63)] = ""
    """Value of the taint."""

    effect: Annotated[str, checks.rule(enum=["NoSchedule", "PreferNoSchedule", "NoExecute"])] = ""
    """Effect of the taint; absent for all effects."""


class PreferredNodes(Part, frozen=True, kw_only=True):
    weight: int
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Part, frozen=True, kw_only=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] = ()


class PodAffinityTerm(Part, frozen=True, kw_only=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()


class PreferredPods(Part, frozen=True, kw_only=True):
    weight: int
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Part, frozen=True, kw_only=True):
    """Nearness to other pods, or, as spec.affinity.podAntiAffinity, distance from them."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPods, ...] = ()


class Affinity(Part, frozen=True, kw_only=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Part, frozen=True, kw_only=True):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class SchedulingGate(Part, frozen=True, kw_only=True):
    name: str


class PersistentVolumeClaimVolumeSource(Part, frozen=True, kw_only=True):
    claim_name: str
    read_only: bool = False


class EphemeralVolumeSource(Part, frozen=True, kw_only=True):
    """A volume that comes and goes with its pod, through a claim named `POD-VOLUME`."""

    volume_claim_template: Mapping[str, Any] | None = None
    """As it is written: the claim gets every field of it."""


class HostPathVolumeSource(Part, frozen=True, kw_only=True):
    path: str
    type: str | None = None


class EmptyDirVolumeSource(Part, frozen=True, kw_only=True):
    medium: str = ""
    size_limit: str | None = None


class KeyToPath(Part, frozen=True, kw_only=True):
    key: str
    path: str
    mode: int | None = None


class ConfigMapVolumeSource(Part, frozen=True, kw_only=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class SecretVolumeSource(Part, frozen=True, kw_only=True):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class DownwardAPIFile(Part, frozen=True, kw_only=True):
    path: str
    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardAPIVolumeSource(Part, frozen=True, kw_only=True):
    items: tuple[DownwardAPIFile, ...] = ()
    default_mode: int | None = None


class DownwardAPIProjection(Part, frozen=True, kw_only=True):
    items: tuple[DownwardAPIFile, ...] = ()


class KeysProjection(Part, frozen=True, kw_only=True):
    """Of a ConfigMap or of a Secret."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class ServiceAccountTokenProjection(Part, frozen=True, kw_only=True):
    path: str
    audience: str = ""
    expiration_seconds: int | None = None


class VolumeProjection(Part, frozen=True, kw_only=True):
    config_map: KeysProjection | None = None
    secret: KeysProjection | None = None
    downward_api: DownwardAPIProjection | None = msgspec.field(name="downwardAPI", default=None)
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolumeSource(Part, frozen=True, kw_only=True):
    sources: tuple[VolumeProjection, ...] = ()
    default_mode: int | None = None


class LocalObjectReference(Part, frozen=True, kw_only=True):
    """An object of the same namespace."""

    name: str = ""


class CSIInlineVolumeSource(Part, frozen=True, kw_only=True):
    """A volume that a driver makes for one pod, and that goes with it."""

    driver: str
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: Mapping[str, str] = NOTHING
    node_publish_secret_ref: LocalObjectReference | None = None


class OtherSource(Part, frozen=True, kw_only=True):
    """That it is there is all that is read of a source which no part of localpv serves."""


class Volume(Part, frozen=True, kw_only=True):
    """One of spec.volumes."""

    name: str
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = msgspec.field(name="downwardAPI", default=None)
    projected: ProjectedVolumeSource | None = None
    csi: CSIInlineVolumeSource | None = None
    nfs: OtherSource | None = None
    iscsi: OtherSource | None = None
    fc: OtherSource | None = None
    image: OtherSource | None = None
    git_repo: OtherSource | None = None
    cephfs: OtherSource | None = None
    rbd: OtherSource | None = None
    glusterfs: OtherSource | None = None
    flex_volume: OtherSource | None = None
    portworx_volume: OtherSource | None = None
    vsphere_volume: OtherSource | None = None
    gce_persistent_disk: OtherSource | None = None
    aws_elastic_block_store: OtherSource | None = None
    azure_disk: OtherSource | None = None
    azure_file: OtherSource | None = None
    cinder: OtherSource | None = None
    flocker: OtherSource | None = None
    photon_persistent_disk: OtherSource | None = None
    quobyte: OtherSource | None = None
    scale_io: OtherSource | None = msgspec.field(name="scaleIO", default=None)
    storageos: OtherSource | None = None

    @property
    def other_source(self) -> str:
        """The name of the source, of a volume that no part of localpv serves; empty when it is none of these."""
        return next(
            (
                field.encode_name
                for field in msgspec.structs.fields(self)
                if type(getattr(self, field.name)) is OtherSource
            ),
            "",
        )


class Sysctl(Part, frozen=True, kw_only=True):
    """A parameter of the kernel that the containers of a pod have for themselves."""

    name: str
    value: str = ""


class PodSecurityContext(Part, frozen=True, kw_only=True):
    fs_group: int | None = None
    fs_group_change_policy: str | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str | None = None
    seccomp_profile: SecurityProfile | None = None
    app_armor_profile: SecurityProfile | None = None
    se_linux_options: Mapping[str, str] | None = None
    sysctls: tuple[Sysctl, ...] = ()


class HostAlias(Part, frozen=True, kw_only=True):
    ip: str = ""
    hostnames: tuple[str, ...] = ()


class DNSOption(Part, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = None


class PodDNSConfig(Part, frozen=True, kw_only=True):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[DNSOption, ...] = ()


class PodOS(Part, frozen=True, kw_only=True):
    name: str = ""


class ReadinessGate(Part, frozen=True, kw_only=True):
    condition_type: str


class PodCondition(Part, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    observed_generation: int = 0


class PodSpec(Part, frozen=True, kw_only=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    node_selector: Mapping[str, str] = NOTHING
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduler_name: str = ""
    priority: int | None = None
    service_account_name: str = ""
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    host_network: bool = False
    host_pid: bool = msgspec.field(name="hostPID", default=False)
    host_ipc: bool = msgspec.field(name="hostIPC", default=False)
    share_process_namespace: bool = False
    hostname: str = ""
    subdomain: str = ""
    hostname_override: str | None = None
    set_hostname_as_fqdn: bool = msgspec.field(name="setHostnameAsFQDN", default=False)
    host_users: bool | None = None
    host_aliases: tuple[HostAlias, ...] = ()
    dns_policy: str = ""
    dns_config: PodDNSConfig | None = None
    os: PodOS | None = None
    readiness_gates: tuple[ReadinessGate, ...] = ()
    security_context: PodSecurityContext | None = None
    overhead: Mapping[str, str] = NOTHING
    resources: ResourceRequirements | None = None
    """What the pod asks for as a whole; for what it names, its containers are not asked."""


class PodStatus(Part, frozen=True, kw_only=True):
    observed_generation: int = 0
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    host_ip: str = msgspec.field(name="hostIP", default="")
    pod_ip: str = msgspec.field(name="podIP", default="")
    start_time: str | None = None
    nominated_node_name: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""


class Pod(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("Pod")
    shared: ClassVar[tuple[str, ...]] = (
        *Kind.shared,
        "spec.node_name",
        "spec.scheduler_name",
        "spec.service_account_name",
        "spec.restart_policy",
        "spec.tolerations",
        "status.phase",
    )

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
