"""The volumes of a pod, by where their content comes from."""

from __future__ import annotations

import msgspec
import msgspec.structs

from localpv.api.kinds.containers import FieldSelector, ResourceFieldSelector
from localpv.api.kinds.meta import Part


class PersistentVolumeClaimVolumeSource(Part, frozen=True, kw_only=True):
    claim_name: str
    read_only: bool = False


class EphemeralVolumeSource(Part, frozen=True, kw_only=True):
    """A volume that comes and goes with its pod, through a claim named `POD-VOLUME`."""


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
    csi: OtherSource | None = None
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
