"""Pod: where it may run, what it runs, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from localpv.api.kinds.containers import Container, ContainerStatus, ResourceRequirements, SecurityProfile
from localpv.api.kinds.meta import NOTHING, Kind, Part, resource_of
from localpv.api.kinds.placing import Affinity, SchedulingGate, Toleration, TopologySpreadConstraint
from localpv.api.kinds.pod_volumes import Volume
from localpv.api.resources import Resource


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
