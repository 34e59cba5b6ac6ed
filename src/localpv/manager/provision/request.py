"""What a claim and its class ask for, or why nobody can give it: read before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from localpv.api import well_known
from localpv.api.kinds.localdisk import VolumeMode
from localpv.api.kinds.volumes import DataSource, PersistentVolumeClaim, StorageClass
from localpv.api.quantity import NANO
from localpv.config.settings import ClassSettings
from localpv.errors import ConfigurationError
from localpv.volume import fit

STANDARD_FS_TYPE = f"{well_known.CSI_PREFIX}fstype"
FS_TYPE = "fsType"
MKFS_OPTIONS = "mkfsOptions"
POOL = "pool"
PARAMETERS = (STANDARD_FS_TYPE, FS_TYPE, MKFS_OPTIONS, POOL)
"""What a class can say. Others that begin as the first are meant for all drivers, and are not ours to refuse."""

FS_TYPES = ("ext4", "xfs", "btrfs")
DEFAULT_FS_TYPE = "ext4"
"""As external-provisioner is told in most installations; all nodes have it."""

ACCESS_MODES = ("ReadWriteOnce", "ReadWriteOncePod")
MOST_OPTIONS = 1024
LARGEST_BYTES = 1 << 60


class Refused(ConfigurationError):
    """Claim and class ask for what no pool can give: nothing helps but to change one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A volume that somebody wants."""

    class_name: str
    size_bytes: int
    volume_mode: str
    fs_type: str
    """Empty for a raw device."""

    attributes: Mapping[str, str]
    """What the node is told when it formats and mounts the volume."""

    wipe_method: tuple[str, ...]
    """As the class is configured; empty for the pool's own way."""

    pool_name: str
    """The one pool that will do; empty for any of the class."""

    source: DataSource | None


def read(claim: PersistentVolumeClaim, storage_class: StorageClass, settings: ClassSettings | None) -> Request:
    """What the claim asks for; Refused says why it cannot be had."""
    if claim.spec.selector is not None:
        raise Refused(
            "a claim with a selector gets no volume that is made for it: the volume is made without labels",
            hint="take the selector out of the claim",
        )
    for mode in claim.spec.access_modes:
        if mode not in ACCESS_MODES:
            raise Refused(
                f"access mode {mode} is not possible: the volume is on one node",
                hint=f"ask for {' or '.join(ACCESS_MODES)}",
            )
    parameters = _parameters(storage_class)
    mode = claim.spec.volume_mode or VolumeMode.FILESYSTEM.value
    fs_type = ""
    if mode == VolumeMode.FILESYSTEM:
        fs_type = (
            parameters.get(STANDARD_FS_TYPE)
            or parameters.get(FS_TYPE)
            or (settings.fs_type if settings else "")
            or DEFAULT_FS_TYPE
        )
        if fs_type not in FS_TYPES:
            raise Refused(f"file system {fs_type!r} is not known", hint=f"there are {', '.join(FS_TYPES)}")
    size = -(-fit.wanted(claim) // NANO)
    if not 0 < size <= LARGEST_BYTES:
        raise Refused(f"a volume cannot have {size} bytes", hint="ask for a size such as 10Gi")
    options = parameters.get(MKFS_OPTIONS, "")
    cleaner = settings.block_cleaner if settings is not None else None
    return Request(
        class_name=storage_class.key,
        size_bytes=size,
        volume_mode=mode,
        fs_type=fs_type,
        attributes={MKFS_OPTIONS: options} if options and fs_type else {},
        wipe_method=cleaner.method if cleaner is not None else (),
        pool_name=parameters.get(POOL, ""),
        source=claim.spec.data_source_ref or claim.spec.data_source,
    )


def _parameters(storage_class: StorageClass) -> Mapping[str, str]:
    found = storage_class.parameters
    unknown = sorted(name for name in found if name not in PARAMETERS and not name.startswith(well_known.CSI_PREFIX))
    if unknown:
        raise Refused(
            f"class {storage_class.key} has parameters that are not known: {', '.join(unknown)[:MOST_OPTIONS]}",
            hint=f"there are {', '.join(PARAMETERS)}",
        )
    if len(found.get(MKFS_OPTIONS, "")) > MOST_OPTIONS:
        raise Refused(f"{MKFS_OPTIONS} of class {storage_class.key} is longer than {MOST_OPTIONS} characters")
    return found
