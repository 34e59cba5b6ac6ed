"""What a configuration is, once it was read and found right. Equal configurations compare equal."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from localpv.api.kinds.localdisk import VolumeMode
from localpv.api.objects import Object
from localpv.config import cleaners, globs
from localpv.config.cleaners import Cleaner
from localpv.config.globs import NamePattern
from localpv.config.pools import PoolSettings

MIN_RESYNC_SECONDS = 300.0
"""How often everything is looked at again although nothing changed, at most: after once to twice as long, by chance, so
that nodes do not do it together. The classic provisioner's default."""

LEAST_RESYNC_SECONDS = 1.0
"""Disks must also have time for something else."""

CLEANINGS_AT_ONCE = 2
"""Disks of one node that are cleaned at the same time: more only share the same buses, and pods need those too."""

MOST_CLEANINGS_AT_ONCE = 32
"""Each takes a thread and a buffer of some MiB."""

NODE_LOSS_GRACE_SECONDS = 3600.0
"""How long a node must be gone before its volumes are given up: longer than a repair that keeps the disks."""


class Reclaim(StrEnum):
    """What becomes of a volume when its claim is gone."""

    DELETE = "Delete"
    RETAIN = "Retain"
    RECYCLE = "Recycle"
    """The disk is cleaned, and the same volume is available again."""


class NodeLossPolicy(StrEnum):
    """What becomes of the volumes of a node that is gone."""

    WAIT = "wait"
    RELEASE = "release"
    """The claim goes, so that its pod can start again with another volume; the volume stays."""

    DELETE = "delete"
    """Claim and volume go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoss:
    policy: NodeLossPolicy = NodeLossPolicy.WAIT
    grace_seconds: float = NODE_LOSS_GRACE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A discovery directory of a class."""

    host_dir: str
    """Where it is on the host; paths of volumes are made of it."""

    mount_dir: str
    """The same directory as the agent sees it, which differs when the agent runs in a container."""

    volume_mode: str = ""
    """As of a class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFilter:
    """Which of the devices that a group of a LocalStorage matched are offered."""

    min_bytes: int = 0
    max_bytes: int = 0
    """0: however large."""

    media: tuple[str, ...] = ()
    """HDD, SSD, NVMe; empty: all, also what nobody can tell the medium of."""

    max_count: int = 0
    """How many devices of one node; 0: all."""

    retired: bool = False
    """Whether the group is going: nothing of it is offered any more."""

    looked_with: str = ""
    """Digest of the rules with which udev must have looked at a device before it counts as one of the group."""


_NO_FILTER = DeviceFilter()


def group_of(rule: str) -> str:
    """The group of devices that a rule is one of: `default/fast nodes[0].devices[1]` of `...udevRules[0]` in it."""
    return rule.rpartition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSettings:
    """One entry of storageClassMap: where the disks of a class are found, and how they are offered and cleaned."""

    name: str
    """Name of the StorageClass."""

    host_dir: str = ""
    """Discovery directory on the host; paths of volumes are made of it. Empty for a class with a pool."""

    mount_dir: str = ""
    """The same directory as the agent sees it, which differs when the agent runs in a container."""

    pool: PoolSettings | None = None
    """What volumes of the class are carved out of; such a class offers no disks."""

    volume_mode: str = ""
    """Empty or Auto: devices are offered as devices and directories as file systems."""

    more_folders: tuple[Folder, ...] = ()
    """Further discovery directories, each with a volume mode of its own: one class can offer both."""

    device_filters: Mapping[str, DeviceFilter] = field(default_factory=dict)
    """By the group of devices of a LocalStorage, as `matchedBy` of its LocalDisks begins."""

    local_storages: frozenset[str] = frozenset()
    """LocalStorages that mean the class, as NAMESPACE/NAME."""

    from_local_storage: bool = False
    """Whether the class is one of LocalStorages: then only block devices are offered that a rule of one matched."""

    access_mode: str = "ReadWriteOnce"
    fs_type: str = ""
    name_pattern: NamePattern = globs.ALL
    selector: tuple[Object, ...] = ()
    """Further NodeSelectorTerms: nodes that can use the volumes too, as with shared disks."""

    block_cleaner: Cleaner | None = None
    """For devices. None: the default for the mode of the volume."""

    raw_cleaner: Cleaner | None = None
    """Of a class of LocalStorages: for devices that are offered as such. What cleans for a file system may leave blocks
    that the next tenant of a raw device would read, so the one is never taken for the other."""

    fs_cleaner: Cleaner = cleaners.FILE_SYSTEM_DEFAULT
    require_mount_point: bool = False
    """Whether a plain directory, which shares its file system with others, is refused."""

    adopt_existing: bool | None = None
    """Whether what is not empty is offered at first sight, as it is; None: no, except by the drop-in."""

    reclaim: Reclaim | None = None
    """None: as the StorageClass says."""

    use_job_for_cleaning: bool | None = None
    """Whether devices of this class are cleaned in Jobs; None: as the whole configuration says."""

    node_loss: NodeLoss = NodeLoss()

    def device_filter(self, matched_by: str) -> DeviceFilter:
        """What the group of devices says whose rule matched a device."""
        return self.device_filters.get(group_of(matched_by), _NO_FILTER)

    @property
    def folders(self) -> tuple[Folder, ...]:
        """All discovery directories of the class; a class with a pool has none."""
        if self.pool is not None:
            return ()
        first = Folder(host_dir=self.host_dir, mount_dir=self.mount_dir, volume_mode=self.volume_mode)
        return (first, *self.more_folders)

    def folder_of(self, path: str) -> Folder | None:
        """The discovery directory that has a path of the host as its direct entry."""
        above = posixpath.dirname(path)
        return next((folder for folder in self.folders if folder.host_dir == above), None)

    def cleaner(self, *, on_device: bool, volume_mode: str) -> Cleaner:
        """How a disk of this class is cleaned; by the mode of its volume, for one class can have both."""
        if not on_device:
            return self.fs_cleaner
        if self.from_local_storage and volume_mode == VolumeMode.BLOCK:
            return self.raw_cleaner or cleaners.RAW_DEFAULT
        default = cleaners.RAW_DEFAULT if volume_mode == VolumeMode.BLOCK else cleaners.FORMATTED_DEFAULT
        return self.block_cleaner or default

    def shows_old_data(self, method: Sequence[str]) -> bool:
        """Whether a raw device that was cleaned so has old blocks on it, which the cleaner of this class would not
        leave: it was cleaned for another mode, or by a person's choice."""
        own = self.cleaner(on_device=True, volume_mode=VolumeMode.BLOCK).method
        return cleaners.leaves_data(method) and not cleaners.leaves_data(own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Everything that the ConfigMap says."""

    classes: Mapping[str, ClassSettings] = field(default_factory=dict)
    node_labels_for_pv: tuple[str, ...] = ()
    labels_for_pv: Mapping[str, str] = field(default_factory=dict)
    use_alpha_api: bool = False
    use_job_for_cleaning: bool = False
    job_tolerations: tuple[Object, ...] = ()
    cleanings_at_once: int = CLEANINGS_AT_ONCE
    min_resync_seconds: float = MIN_RESYNC_SECONDS
    use_node_name_only: bool = False
    set_pv_owner_ref: bool = False
    remove_node_not_ready_taint: bool = False
    not_ready_taint_key: str = ""

    @property
    def cleans_in_jobs(self) -> bool:
        """Whether any disk may be cleaned in a Job."""
        return self.use_job_for_cleaning or any(each.use_job_for_cleaning for each in self.classes.values())
