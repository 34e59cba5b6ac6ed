"""LocalPool, PoolVolume and PoolSnapshot: pools that volumes are carved out of, and what was carved, on one node each.

The agent of the node writes the LocalPool and the status of the others; the manager writes PoolVolumes and
PoolSnapshots, and writing one is the reservation of its bytes (`volume/pool_ledger`). The CustomResourceDefinitions are
generated from these structs (`api/crds`): what is written below a field is what `kubectl explain` shows.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from localpv.api.kinds import checks
from localpv.api.kinds.localdisk import VolumeMode
from localpv.api.kinds.meta import Kind, Part
from localpv.api.resources import Resource


def _resource(kind: str, plural: str, short_name: str) -> Resource:
    return Resource(
        group="localpv.dev",
        version="v1alpha1",
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=False,
        schema=f"dev.localpv.v1alpha1.{kind}",
        short_names=(short_name,),
        categories=("localpv",),
        subresources=("status",),
        list_kind=f"{kind}List",
        custom=True,
        selectable_fields=("spec.nodeName", "spec.poolName"),
    )


LOCAL_POOLS = _resource("LocalPool", "localpools", "lpool")
POOL_VOLUMES = _resource("PoolVolume", "poolvolumes", "pvol")
POOL_SNAPSHOTS = _resource("PoolSnapshot", "poolsnapshots", "psnap")


class PoolKind(StrEnum):
    """What a pool is made of."""

    FILE = "file"
    LVM = "lvm"
    LVM_THIN = "lvm-thin"
    DISK = "disk"


class PoolPhase(StrEnum):
    """How far the agent is with a volume or a snapshot."""

    PENDING = "Pending"
    READY = "Ready"
    FAILED = "Failed"
    DELETING = "Deleting"


POOL_NAME = checks.rule(pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", maxLength=63)
VOLUME_NAME = checks.rule(pattern="^[a-z0-9][-a-z0-9]*$", maxLength=80)
PHASE = checks.rule(enum=["", *map(str, PoolPhase)])
CODE = checks.rule(pattern="^([A-Z][A-Z_]*)?$", maxLength=32)
MESSAGE = checks.rule(maxLength=1024)
PERCENT = checks.rule(minimum=0, maximum=100)
WORDS = checks.rule(maxItems=64)
ARGUMENT = checks.rule(maxLength=1024)


class LocalPoolSpec(Part, frozen=True, kw_only=True):
    """Which pool this is."""

    node_name: Annotated[str, checks.NAME]
    """Node that has the pool. Written once, by the agent."""

    pool_name: Annotated[str, POOL_NAME]
    """Name of the pool on its node. Written once, by the agent."""

    kind: Annotated[str, checks.one_of(PoolKind)]
    """What the pool is made of: file, lvm, lvm-thin or disk."""

    class_names: Annotated[tuple[Annotated[str, checks.NAME], ...], WORDS] = ()
    """StorageClasses whose claims get volumes of this pool."""


class PoolCondition(Part, frozen=True, kw_only=True):
    """One thing that is known about the pool."""

    type: Annotated[str, checks.rule(minLength=1, maxLength=316)]
    """What the condition is about."""

    status: Annotated[str, checks.TRUTH]
    """Whether it holds: True, False or Unknown."""

    reason: Annotated[str, checks.WORD] = ""
    """Why, as one word for programs."""

    message: Annotated[str, MESSAGE] = ""
    """Why, as a sentence for people."""

    last_transition_time: Annotated[str | None, checks.TIME] = None
    """Since when the status is what it is."""


class LocalPoolStatus(Part, frozen=True, kw_only=True):
    """What the agent on the node measures."""

    capacity_bytes: Annotated[int, checks.COUNT] = 0
    """All that volumes and snapshots may use together, what is promised beyond the size of a thin pool included."""

    foreign_bytes: Annotated[int, checks.COUNT] = 0
    """Of the capacity, what no PoolVolume or PoolSnapshot accounts for: logical volumes and files made by others."""

    extent_bytes: Annotated[int, checks.COUNT] = 0
    """Sizes of volumes are rounded up to a multiple of this."""

    minimum_bytes: Annotated[int, checks.COUNT] = 0
    """Smallest volume that the pool makes."""

    free_bytes: Annotated[int, checks.COUNT] = 0
    """What was free when the pool was measured. What is promised but not yet made is not taken off."""

    size: Annotated[str, checks.rule(maxLength=32)] = ""
    """The capacity in the form that tables show, such as 931.5Gi."""

    free: Annotated[str, checks.rule(maxLength=32)] = ""
    """The free bytes in the form that tables show."""

    data_percent: Annotated[int, PERCENT] = 0
    """How full the data of a thin pool is."""

    metadata_percent: Annotated[int, PERCENT] = 0
    """How full the metadata of a thin pool is."""

    snapshots: bool = False
    """Whether the pool makes snapshots, and volumes from snapshots and from other volumes."""

    error: Annotated[str, MESSAGE] = ""
    """Why the pool offers nothing, as a sentence for people; absent when it does."""

    conditions: Annotated[tuple[PoolCondition, ...], WORDS] = ()
    """What else is known about the pool."""

    observed_at: Annotated[str | None, checks.TIME] = None
    """When this changed last; a pool that was never measured offers nothing."""


class LocalPool(Kind, frozen=True, kw_only=True):
    """A pool on one node that volumes are carved out of."""

    resource: ClassVar[Resource] = LOCAL_POOLS
    shared: ClassVar[tuple[str, ...]] = (*Kind.shared, "spec.pool_name", "spec.kind", "spec.class_names")

    spec: LocalPoolSpec
    """Which pool this is."""

    status: LocalPoolStatus = LocalPoolStatus()
    """What the agent on the node measures."""


class PoolSource(Part, frozen=True, kw_only=True):
    """What a volume is filled with when it is made: one of the two."""

    volume: Annotated[str, checks.rule(maxLength=80)] = ""
    """Name of the PoolVolume that is cloned."""

    snapshot: Annotated[str, checks.rule(maxLength=80)] = ""
    """Name of the PoolSnapshot that is restored."""


class PoolClaim(Part, frozen=True, kw_only=True):
    """The object of a tenant that this was made for."""

    namespace: Annotated[str, checks.NAME]
    """Namespace of the object."""

    name: Annotated[str, checks.NAME]
    """Name of the object."""

    uid: Annotated[str, checks.rule(minLength=1, maxLength=128)]
    """UID of the object."""


class Progress(Part, frozen=True, kw_only=True):
    """How far a copy or a wipe is."""

    bytes_done: Annotated[int, checks.COUNT] = 0
    """Bytes that are copied or wiped already."""

    bytes_total: Annotated[int, checks.COUNT] = 0
    """Bytes that must be copied or wiped."""


class PoolVolumeSpec(Part, frozen=True, kw_only=True):
    """What volume the manager wants."""

    node_name: Annotated[str, checks.NAME]
    """Node whose pool the volume is carved out of."""

    pool_name: Annotated[str, POOL_NAME]
    """Pool that the volume is carved out of."""

    class_name: Annotated[str, checks.NAME]
    """StorageClass of the claim."""

    size_bytes: Annotated[int, checks.rule(minimum=1)]
    """Size of the volume, a multiple of the pool's extent. It is raised to expand the volume."""

    volume_mode: Annotated[str, checks.one_of(VolumeMode)] = VolumeMode.FILESYSTEM.value
    """Whether pods get a file system (Filesystem) or a raw device (Block)."""

    fs_type: Annotated[str, checks.rule(maxLength=32)] = ""
    """File system that the volume is formatted with before its first use."""

    source: PoolSource | None = None
    """What the volume is filled with when it is made; absent for an empty volume."""

    wipe_method: Annotated[tuple[Annotated[str, ARGUMENT], ...], WORDS] = ()
    """How the volume is wiped before its space is free: a built-in method with its arguments; absent for the pool's
    own way."""

    claim: PoolClaim
    """The claim that the volume was made for."""


class PoolVolumeStatus(Part, frozen=True, kw_only=True):
    """What the agent has made of it."""

    phase: Annotated[str, PHASE] = ""
    """Pending while the volume is being made or filled, Ready, Failed with a code and a message, Deleting while it is
    wiped and removed; absent until the agent has looked."""

    size_bytes: Annotated[int, checks.COUNT] = 0
    """Size that the volume really has."""

    code: Annotated[str, CODE] = ""
    """Why it failed, as the name of a gRPC code such as RESOURCE_EXHAUSTED."""

    message: Annotated[str, MESSAGE] = ""
    """Why it failed or what it waits for, as a sentence for people."""

    progress: Progress | None = None
    """How far the copy or the wipe is; absent when none is under way."""

    observed_generation: Annotated[int, checks.COUNT] = 0
    """Generation of the spec that this is the answer to."""


class PoolVolume(Kind, frozen=True, kw_only=True):
    """A volume that is carved out of a pool; as long as it exists, its bytes are promised."""

    resource: ClassVar[Resource] = POOL_VOLUMES
    shared: ClassVar[tuple[str, ...]] = (
        *Kind.shared,
        "spec.node_name",
        "spec.pool_name",
        "spec.class_name",
        "spec.volume_mode",
        "spec.fs_type",
        "spec.wipe_method",
        "status.phase",
    )

    spec: PoolVolumeSpec
    """What volume the manager wants."""

    status: PoolVolumeStatus = PoolVolumeStatus()
    """What the agent has made of it."""


class PoolSnapshotSpec(Part, frozen=True, kw_only=True):
    """What snapshot the manager wants."""

    node_name: Annotated[str, checks.NAME]
    """Node that has the volume."""

    pool_name: Annotated[str, POOL_NAME]
    """Pool that the volume and its snapshot are in."""

    source_volume: Annotated[str, VOLUME_NAME]
    """Name of the PoolVolume that is kept as it is now."""

    size_bytes: Annotated[int, checks.COUNT] = 0
    """What the snapshot reserves in its pool."""

    wipe_method: Annotated[tuple[Annotated[str, ARGUMENT], ...], WORDS] = ()
    """How the snapshot is wiped before its space is free; absent for the pool's own way."""

    snapshot: PoolClaim
    """The VolumeSnapshot that this was made for."""


class PoolSnapshotStatus(Part, frozen=True, kw_only=True):
    """What the agent has made of it."""

    phase: Annotated[str, PHASE] = ""
    """Pending, Ready, Failed with a code and a message, or Deleting; absent until the agent has looked."""

    size_bytes: Annotated[int, checks.COUNT] = 0
    """What the snapshot really reserves in its pool."""

    restore_bytes: Annotated[int, checks.COUNT] = 0
    """Size of the smallest volume that it can be restored to."""

    created_at: Annotated[str | None, checks.TIME] = None
    """When the snapshot was taken."""

    code: Annotated[str, CODE] = ""
    """Why it failed, as the name of a gRPC code."""

    message: Annotated[str, MESSAGE] = ""
    """Why it failed or what it waits for, as a sentence for people."""

    progress: Progress | None = None
    """How far the copy or the wipe is; absent when none is under way."""

    observed_generation: Annotated[int, checks.COUNT] = 0
    """Generation of the spec that this is the answer to."""


class PoolSnapshot(Kind, frozen=True, kw_only=True):
    """A volume of a pool as it was at one moment."""

    resource: ClassVar[Resource] = POOL_SNAPSHOTS
    shared: ClassVar[tuple[str, ...]] = (*Kind.shared, "spec.node_name", "spec.pool_name", "status.phase")

    spec: PoolSnapshotSpec
    """What snapshot the manager wants."""

    status: PoolSnapshotStatus = PoolSnapshotStatus()
    """What the agent has made of it."""
