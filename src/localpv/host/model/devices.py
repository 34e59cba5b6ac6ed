"""Block devices as the kernel shows them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from localpv.host.model.identity import Identity


class DeviceNumber(NamedTuple):
    """Major and minor number of a device; printed as the kernel does, such as 8:16."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}:{self.minor}"

    @classmethod
    def parse(cls, text: str) -> DeviceNumber:
        major, _, minor = text.partition(":")
        return cls(int(major), int(minor))


class Medium(StrEnum):
    """What the data is kept on."""

    UNKNOWN = ""
    HDD = "HDD"
    SSD = "SSD"
    NVME = "NVMe"


class DeviceKind(StrEnum):
    """What sort of block device it is."""

    DISK = "disk"
    PARTITION = "part"
    LOOP = "loop"
    MAPPED = "dm"
    RAID = "md"
    ROM = "rom"
    MEMORY = "ram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A file system, a partition table, a member of LVM or RAID: something known that starts on the device."""

    type: str
    usage: str = ""
    """filesystem, raid, crypto, other or partition-table."""

    uuid: str = ""
    label: str = ""


class RuleMatch(NamedTuple):
    """What a rule of a LocalStorage has left about a device in udev's database."""

    storage_class: str
    rule: str
    engine: str = ""
    """Whose LocalStorage it is: empty for that of a cluster, else the name of a `localpv up` of this machine."""

    mark: str = ""
    """A digest of the rules with which udev has looked at the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDevice:
    """One reading of a block device. What could not be read is empty."""

    path: Path
    """The device node itself; links are resolved."""

    kernel_name: str
    number: DeviceNumber
    size_bytes: int
    kind: DeviceKind = DeviceKind.DISK
    logical_block_size: int = 512
    rotational: bool = False
    read_only: bool = False
    removable: bool = False
    vendor: str = ""
    part_label: str = ""
    parent: str = ""
    """Kernel name of the whole disk, of a partition."""

    signatures: tuple[Signature, ...] = ()
    partitions: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    slaves: tuple[str, ...] = ()
    mounted_at: tuple[str, ...] = ()
    swap: bool = False
    opens_exclusively: bool | None = None
    """Whether nobody else claims it; None when that was not tried."""

    discard_max_bytes: int = 0
    write_zeroes_max_bytes: int = 0
    backing_file: str = ""
    names: Identity = field(default_factory=Identity)
    """What else than its number, its size and its file system tells it from others."""

    matches: tuple[RuleMatch, ...] = ()
    """Rules of LocalStorages that matched it, as udev knows them."""

    @property
    def medium(self) -> Medium:
        if self.kernel_name.startswith("nvme"):
            return Medium.NVME
        return Medium.HDD if self.rotational else Medium.SSD

    @property
    def file_system(self) -> Signature | None:
        return next((found for found in self.signatures if found.usage == "filesystem"), None)

    @property
    def fs_uuid(self) -> str:
        return self.file_system.uuid if self.file_system else ""

    @property
    def fs_type(self) -> str:
        return self.file_system.type if self.file_system else ""

    @property
    def fs_label(self) -> str:
        return self.file_system.label if self.file_system else ""

    @property
    def in_use_by(self) -> str:
        """One sentence about who uses it; empty when nobody does."""
        if self.mounted_at:
            return f"it is mounted at {self.mounted_at[0]}"
        if self.holders:
            return f"it is part of {', '.join(self.holders)}"
        if self.swap:
            return "it is used as swap"
        if self.opens_exclusively is False:
            return "another process or the kernel has it open for itself"
        return ""

    @property
    def identity(self) -> Identity:
        return replace(self.names, fs_uuid=self.fs_uuid, major_minor=str(self.number), size_bytes=self.size_bytes)
