"""Where this node sees a disk: in a folder of its class, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localpv import errors
from localpv.api.kinds.localdisk import LocalDisk
from localpv.config.settings import ClassSettings
from localpv.host import openat


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A path that may be touched, and the folder that allows it."""

    folder: Path
    """The discovery directory as this process sees it."""

    path: Path
    host_path: Path
    """The same on the host; another one when this process runs in a container."""


def find(disk: LocalDisk, settings: ClassSettings) -> Place:
    """The place of a disk; OutsideFolder unless the record names a direct entry of a folder of its class.

    By name only. That no link leads out is seen when it is opened, step by step, by whoever acts on it.
    """
    spec = disk.spec
    # An entry of the same name in another folder of the class is another disk: the path says which is meant.
    found = settings.folder_of(spec.path) or next(iter(settings.folders), None)
    if found is None:
        raise errors.OutsideFolder(f"{spec.path} was found in a directory, and class {settings.name} has a pool now")
    names = openat.names_below(Path(found.host_dir), Path(spec.path))
    if names != (spec.entry,):
        raise errors.OutsideFolder(f"{spec.path} is not the entry {spec.entry} of {found.host_dir}")
    folder = Path(found.mount_dir)
    path = folder / spec.entry
    openat.names_below(folder, path)
    return Place(folder=folder, path=path, host_path=Path(spec.path))
