"""What lies in a discovery directory, and how much room there is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from localpv.host.model.devices import DeviceNumber


class FileKind(StrEnum):
    """What an entry is once links are followed."""

    DIRECTORY = "Directory"
    BLOCK_DEVICE = "BlockDevice"
    DANGLING_LINK = "DanglingLink"
    OTHER = "Other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One first-level entry of a directory."""

    name: str
    kind: FileKind
    is_link: bool = False
    target: Path | None = None
    """Where a link leads in the end, or would lead if that were there."""

    device: DeviceNumber | None = None
    """Numbers of a block device."""

    inode: int = 0
    """Of a directory: another one in its place has another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Room of a file system."""

    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Uevent:
    """What the kernel tells when a device comes, goes or changes."""

    action: str
    subsystem: str = ""
    device_name: str = ""
    device: DeviceNumber | None = None
    lost: bool = False
    """Messages were lost before this one: look at everything again."""
