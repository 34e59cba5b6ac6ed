"""LocalDisk: one candidate for a volume on one node, and where the node's agent and the manager meet.

The agent creates it and writes its status; the manager writes `volume`, `identity` and `clean` in its spec. Nobody
writes what belongs to the other. The CustomResourceDefinition is generated from these structs (`api/crds`): what is
written below a field is what `kubectl explain` shows.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from localpv.api.kinds import checks
from localpv.api.kinds.meta import Kind, Part
from localpv.api.resources import Resource

LOCAL_DISKS = Resource(
    group="localpv.dev",
    version="v1alpha1",
    kind="LocalDisk",
    plural="localdisks",
    singular="localdisk",
    namespaced=False,
    schema="dev.localpv.v1alpha1.LocalDisk",
    short_names=("ld", "ldisk"),
    categories=("localpv",),
    subresources=("status",),
    list_kind="LocalDiskList",
    custom=True,
    selectable_fields=("spec.nodeName", "spec.storageClassName"),
)


class DiskKind(StrEnum):
    """What was found at the path."""

    DIRECTORY = "Directory"
    MOUNT_POINT = "MountPoint"
    BLOCK_DEVICE = "BlockDevice"


class Medium(StrEnum):
    """What the data is kept on."""

    UNKNOWN = ""
    HDD = "HDD"
    SSD = "SSD"
    NVME = "NVMe"


class VolumeMode(StrEnum):
    """How a pod gets the volume."""

    BLOCK = "Block"
    FILESYSTEM = "Filesystem"


class Phase(StrEnum):
    """Where on the circle a disk is."""

    UNAVAILABLE = "Unavailable"
    AVAILABLE = "Available"
    PUBLISHED = "Published"
    IN_USE = "InUse"
    RELEASING = "Releasing"
    CLEANING = "Cleaning"
    CLEAN_FAILED = "CleanFailed"
    MISSING = "Missing"


MOST_EARLIER = 8
"""Devices that a place remembers; with more a person is asked."""


class CleaningState(StrEnum):
    """How far a cleaning is."""

    WAITING = "Waiting"
    RUNNING = "Running"
    FAILED = "Failed"
    VERIFIED = "Verified"


class DiskIdentity(Part, frozen=True, kw_only=True):
    """What tells this disk from every other, as far as it can be read. Compared before anything is destroyed."""

    by_id: tuple[str, ...] = msgspec.field(default=(), name="byID")
    """Names of the device below /dev/disk/by-id."""

    wwn: str = ""
    """World Wide Name of the device, or the identifier of an NVMe namespace."""

    serial: str = ""
    """Serial number of the device."""

    part_uuid: str = msgspec.field(default="", name="partUUID")
    """UUID of the partition."""

    fs_uuid: str = msgspec.field(default="", name="fsUUID")
    """UUID of the file system."""

    major_minor: str = ""
    """Numbers of the device in the kernel, such as 8:16. They can change when the machine restarts."""

    size_bytes: Annotated[int, checks.COUNT] = 0
    """Size of the device or the file system in bytes."""

    model: str = ""
    """Model of the device as its maker calls it."""

    mount_id: Annotated[int, checks.COUNT] = msgspec.field(default=0, name="mountID")
    """Number of the mount in the kernel, of a mount point. It changes with every mount."""

    filesystem_id: str = msgspec.field(default="", name="filesystemID")
    """File system that a plain directory, or the file behind a loop device, lies in."""

    inode: Annotated[int, checks.COUNT] = 0
    """Inode of a plain directory, or of the file behind a loop device, in that file system."""

    inode_generation: Annotated[int, checks.COUNT] = 0
    """Generation of the inode: a file system gives the number of what was deleted to the next file."""

    offset_bytes: Annotated[int, checks.COUNT] = 0
    """Where a loop device begins in its file, or a partition on its disk."""

    size_limit_bytes: Annotated[int, checks.COUNT] = 0
    """Where a loop device ends before its file does; absent when it goes to the end."""

    boot_id: str = msgspec.field(default="", name="bootID")
    """Boot of the machine in which this was read. The disk sequence number counts within one boot only."""

    disk_sequence: Annotated[int, checks.COUNT] = 0
    """Disk sequence number (diskseq): the kernel gives a new one to each disk that comes."""


class OfferedVolume(Part, frozen=True, kw_only=True):
    """The PersistentVolume that offers this disk."""

    name: Annotated[str, checks.NAME]
    """Name of the PersistentVolume. It is written before the volume is created."""

    uid: str = ""
    """UID of the PersistentVolume. It is written after the volume was created."""

    reclaim_policy: str = ""
    """Reclaim policy that the PersistentVolume was last seen with. It decides what becomes of the disk when somebody
    deletes the volume by hand: with Retain nothing is cleaned."""


class CleanOrder(Part, frozen=True, kw_only=True):
    """The order to clean the disk for one released volume."""

    volume_name: Annotated[str, checks.NAME]
    """Name of the PersistentVolume whose data must go."""

    volume_uid: Annotated[str, checks.rule(minLength=1)] = msgspec.field(name="volumeUID")
    """UID of the PersistentVolume whose data must go. A cleaning counts only for this one."""

    claim_uid: str = msgspec.field(default="", name="claimUID")
    """UID of the claim that left the data, when it is known. A volume that is offered again keeps its own UID."""

    method: tuple[str, ...] = ()
    """A built-in method with its arguments, or a command with its arguments."""

    requested_at: Annotated[str | None, checks.TIME] = None
    """When the order was given."""

    job: str = ""
    """Name of the Job that carries the order out; empty when the agent does."""


class LocalDiskSpec(Part, frozen=True, kw_only=True):
    """Which disk this is, and what the manager wants with it."""

    node_name: Annotated[str, checks.NAME]
    """Node that has the disk. Written once, by the agent."""

    storage_class_name: Annotated[str, checks.NAME]
    """StorageClass that the disk is offered in. Written once, by the agent."""

    entry: Annotated[str, checks.rule(minLength=1, maxLength=255)]
    """Name of the directory, mount point, device or link in the discovery directory of the class."""

    path: Annotated[str, checks.PATH]
    """Where the disk is on the host: the discovery directory and the entry."""

    volume_mode: Annotated[str, checks.one_of(VolumeMode)]
    """Whether volumes on this disk have a file system (Filesystem) or are raw devices (Block)."""

    fs_type: str = ""
    """File system that a device is formatted with before its first use."""

    volume: OfferedVolume | None = None
    """The PersistentVolume that offers this disk. As long as it is set, the disk belongs to that volume."""

    identity: DiskIdentity | None = None
    """What was found on the disk when it was published. A disk with another identity is never cleaned."""

    clean: CleanOrder | None = None
    """The order to clean the disk. It is taken back once a cleaning is verified."""


class Cleaning(Part, frozen=True, kw_only=True):
    """The last cleaning, under way or ended."""

    volume_uid: Annotated[str, checks.rule(minLength=1)] = msgspec.field(name="volumeUID")
    """UID of the PersistentVolume on whose behalf the disk is cleaned."""

    state: Annotated[str, checks.one_of(CleaningState)]
    """Waiting while somebody still uses the disk, Running while data may be half gone, Failed until the next attempt,
    Verified when nothing is left."""

    reason: Annotated[str, checks.WORD] = ""
    """Why the cleaning waits or failed, as one word for programs."""

    method: tuple[str, ...] = ()
    """What is done, as the order names it."""

    attempt: Annotated[int, checks.COUNT] = 0
    """How many times the cleaning was begun."""

    bytes_done: Annotated[int, checks.COUNT] = 0
    """Bytes that are clean already."""

    bytes_total: Annotated[int, checks.COUNT] = 0
    """Bytes that must be cleaned; absent when nobody can tell."""

    entries_done: Annotated[int, checks.COUNT] = 0
    """Files and directories that are removed already, of a directory."""

    step: str = ""
    """What is being done now, such as zeroing 1/2 or verifying."""

    started_at: Annotated[str | None, checks.TIME] = None
    """When this attempt began."""

    finished_at: Annotated[str | None, checks.TIME] = None
    """When this attempt ended."""

    next_attempt_at: Annotated[str | None, checks.TIME] = None
    """When a failed cleaning is tried again."""

    error: str = ""
    """Why the last attempt failed, or what the cleaning waits for, as a sentence for people."""


class DiskCondition(Part, frozen=True, kw_only=True):
    """One thing that is known about the disk, beside its phase."""

    type: Annotated[str, checks.rule(minLength=1)]
    """What the condition is about."""

    status: Annotated[str, checks.TRUTH]
    """Whether it holds: True, False or Unknown."""

    reason: Annotated[str, checks.WORD] = ""
    """Why, as one word for programs."""

    message: str = ""
    """Why, as a sentence for people."""

    last_transition_time: Annotated[str | None, checks.TIME] = None
    """Since when the status is what it is."""


class EarlierDevice(Part, frozen=True, kw_only=True):
    """A device that was at the path before another, and what may be left on it."""

    identity: DiskIdentity
    """Which device that was."""

    cleaning: Cleaning
    """Its last cleaning, which may have left old blocks."""


class LocalDiskStatus(Part, frozen=True, kw_only=True):
    """What the agent on the node sees."""

    phase: Annotated[str, checks.rule(enum=["", *map(str, Phase)])] = ""
    """Unavailable, Available, Published, InUse, Releasing, Cleaning, CleanFailed or Missing; absent until
    the agent has looked."""

    eligible: bool | None = None
    """Whether the disk may be offered; absent until the agent has looked."""

    reason: Annotated[str, checks.WORD] = ""
    """Why the disk is in this phase, as one word for programs."""

    message: str = ""
    """Why the disk is in this phase and what to do about it, as a sentence for people."""

    kind: Annotated[str, checks.rule(enum=["", *map(str, DiskKind)])] = ""
    """What was found at the path: Directory, MountPoint or BlockDevice."""

    medium: Annotated[str, checks.one_of(Medium)] = Medium.UNKNOWN.value
    """What the data is kept on: HDD, SSD or NVMe; empty when that cannot be told."""

    capacity_bytes: Annotated[int, checks.COUNT] = 0
    """Size of the device, or of the file system that the directory is in."""

    size: str = ""
    """The capacity in the form that tables show, such as 931.5Gi."""

    identity: DiskIdentity | None = None
    """What the disk is now."""

    matched_by: Annotated[str, checks.rule(maxLength=1024)] = ""
    """The rule of a LocalStorage that matched the device: its namespace and name, and the place of the rule in it."""

    cleaning: Cleaning | None = None
    """The last cleaning, under way or ended."""

    earlier: Annotated[tuple[EarlierDevice, ...], checks.rule(maxItems=MOST_EARLIER)] = ()
    """Other devices that were here, as long as old blocks may be on them: they must not be offered raw anywhere."""

    conditions: tuple[DiskCondition, ...] = ()
    """What else is known about the disk."""


class LocalDisk(Kind, frozen=True, kw_only=True):
    """A disk, partition, mount point or directory on one node that can be offered as a PersistentVolume."""

    resource: ClassVar[Resource] = LOCAL_DISKS
    shared: ClassVar[tuple[str, ...]] = (
        *Kind.shared,
        "spec.node_name",
        "spec.storage_class_name",
        "spec.volume_mode",
        "spec.fs_type",
        "status.phase",
        "status.reason",
        "status.message",
        "status.kind",
        "status.medium",
        "status.size",
    )

    spec: LocalDiskSpec
    """Which disk this is, and what the manager wants with it."""

    status: LocalDiskStatus = LocalDiskStatus()
    """What the agent on the node sees."""


def size_text(size_bytes: int) -> str:
    """Bytes as `kubectl get localdisks` shows them, with at most one digit after the point: `931.5Gi`, `10Gi`.

    Rounded down: a table must not promise more than there is.
    """
    amount, suffix, remainder = size_bytes, "", 0
    for suffix_of_next in ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"):
        if amount < 1024:
            break
        amount, remainder = divmod(amount, 1024)
        suffix = suffix_of_next
    tenth = remainder * 10 // 1024
    return f"{amount}.{tenth}{suffix}" if tenth else f"{amount}{suffix}"
