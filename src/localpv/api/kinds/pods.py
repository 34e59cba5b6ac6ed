"""Pod: where it runs, how far it is, and everything about its volumes."""

from __future__ import annotations

from typing import ClassVar

from localpv.api.kinds.meta import Kind, Part, resource_of
from localpv.api.kinds.volumes import PersistentVolumeClaimSpec
from localpv.api.resources import Resource


class PersistentVolumeClaimVolumeSource(Part, frozen=True, kw_only=True):
    claim_name: str
    read_only: bool = False


class ClaimTemplate(Part, frozen=True, kw_only=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Part, frozen=True, kw_only=True):
    """A volume that comes and goes with its pod, through a claim named `POD-VOLUME`."""

    volume_claim_template: ClaimTemplate | None = None


class HostPathVolumeSource(Part, frozen=True, kw_only=True):
    path: str
    type: str | None = None


class Volume(Part, frozen=True, kw_only=True):
    """One of spec.volumes; the sources that are no matter of claims are not told apart."""

    name: str
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None


class VolumeMount(Part, frozen=True, kw_only=True):
    name: str
    mount_path: str
    sub_path: str = ""
    read_only: bool = False


class VolumeDevice(Part, frozen=True, kw_only=True):
    name: str
    device_path: str


class Container(Part, frozen=True, kw_only=True):
    name: str
    image: str = ""
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()


class PodSecurityContext(Part, frozen=True, kw_only=True):
    fs_group: int | None = None
    fs_group_change_policy: str | None = None


class PodSpec(Part, frozen=True, kw_only=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    service_account_name: str = ""
    restart_policy: str = ""
    security_context: PodSecurityContext | None = None


class PodStatus(Part, frozen=True, kw_only=True):
    phase: str = ""
    reason: str = ""
    message: str = ""


class Pod(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("Pod")
    shared: ClassVar[tuple[str, ...]] = (
        *Kind.shared,
        "spec.node_name",
        "spec.scheduler_name",
        "spec.service_account_name",
        "spec.restart_policy",
        "status.phase",
    )

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
