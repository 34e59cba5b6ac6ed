"""A disk that could be offered, with all that is known about it; and what a rule may say against it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localpv.agent.discover import remains
from localpv.agent.discover.entry import Sighting
from localpv.agent.discover.probe import Facts
from localpv.api.kinds.localdisk import DiskKind, LocalDisk, VolumeMode
from localpv.config.settings import ClassSettings, DeviceFilter, Folder
from localpv.host.model.devices import BlockDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """All that is known about one."""

    settings: ClassSettings
    sighting: Sighting
    facts: Facts
    record: LocalDisk | None = None
    rival: str = ""
    """Another entry or volume that has the same disk, and the better right to it."""

    settling: bool = False
    """Whether the entry appeared only a moment ago."""

    left: LocalDisk | None = None
    """The record of another place by which the device was cleaned last, with a method that may leave old blocks."""

    unclean: LocalDisk | None = None
    """The record of another place by which a cleaning of the disk was begun and never ended well."""

    of_group: int = 0
    """Devices of the same group of a LocalStorage that volumes have, or that were offered before."""

    @property
    def published(self) -> bool:
        return self.record is not None and remains.taken(self.record)

    @property
    def mode(self) -> VolumeMode:
        return mode(folder(self.settings, self.sighting), self.sighting.kind)

    @property
    def device(self) -> BlockDevice | None:
        return self.facts.device

    @property
    def matched_by(self) -> str:
        return matched_by(self.settings, self.facts)

    @property
    def filter(self) -> DeviceFilter:
        return self.settings.device_filter(self.matched_by)


@dataclass(frozen=True, slots=True)
class Finding:
    """Why not."""

    reason: str
    message: str
    missing: bool = False
    """Whether what was published is not there any more."""


def matched_by(settings: ClassSettings, facts: Facts) -> str:
    """The rule of a LocalStorage that matched a device for a class; empty when none did."""
    matches = facts.device.matches if facts.device is not None else ()
    return next((match.rule for match in matches if match.storage_class == settings.name), "")


def accepted_type(settings: ClassSettings, sighting: Sighting) -> str:
    """The type of file system that may be on a device before it is offered; empty for none."""
    return settings.fs_type if mode(folder(settings, sighting), sighting.kind) is VolumeMode.FILESYSTEM else ""


def folder(settings: ClassSettings, sighting: Sighting) -> Folder:
    """The discovery directory in which something was seen."""
    for each in settings.folders:
        if Path(each.mount_dir) == sighting.folder:
            return each
    return next(iter(settings.folders), Folder(host_dir=str(sighting.folder), mount_dir=str(sighting.folder)))


def mode(said: ClassSettings | Folder, kind: DiskKind | None) -> VolumeMode:
    """As the class says for the directory; where it leaves it open, devices are offered as devices and directories as
    file systems."""
    if said.volume_mode in [*VolumeMode]:
        return VolumeMode(said.volume_mode)
    return VolumeMode.BLOCK if kind is DiskKind.BLOCK_DEVICE else VolumeMode.FILESYSTEM
