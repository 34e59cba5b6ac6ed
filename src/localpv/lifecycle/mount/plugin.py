"""The local volume plugin: which volumes it serves and what it can do with them.

A volume spec is a PersistentVolume, or what is left of one on the disk after a restart. The plugin makes mounters and
unmounters, mappers and unmappers for it; it has no provisioner, recycler or deleter, for local volumes are made and
cleaned elsewhere (`lifecycle.publish`, `lifecycle.clean`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from localpv.api import kinds
from localpv.lifecycle.mount.layout import LOCAL
from localpv.lifecycle.mount.waiting import FAILED_MAP, FAILED_MOUNT, NotReady

NAME = LOCAL
READ_WRITE_ONCE, READ_WRITE_ONCE_POD, READ_ONLY_MANY = "ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany"
BLOCK, FILE_SYSTEM = "Block", "Filesystem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A local volume as the plugin sees it."""

    name: str
    """The name of the PersistentVolume."""

    path: str
    mode: str = FILE_SYSTEM
    fs_type: str = ""
    """Empty: whatever is there, or the default where nothing is."""

    mount_options: tuple[str, ...] = ()
    access_modes: tuple[str, ...] = ()
    read_only: bool = False
    uid: str = ""

    @property
    def event(self) -> str:
        return FAILED_MAP if self.mode == BLOCK else FAILED_MOUNT

    @property
    def access(self) -> str:
        """What containers may do with the raw device."""
        return "r" if self.read_only or set(self.access_modes) == {READ_ONLY_MANY} else "rwm"


def supports(source: kinds.PersistentVolume | kinds.Volume) -> bool:
    """Only PersistentVolumes: whoever may make a pod must not choose paths of the node."""
    return isinstance(source, kinds.PersistentVolume) and source.spec.local is not None


def access_modes() -> tuple[str, ...]:
    """The disk is at one node, so many nodes cannot have it."""
    return (READ_WRITE_ONCE,)


def supports_access_mode(mode: str) -> bool:
    """ReadWriteOncePod is ReadWriteOnce with one pod instead of one node, which schedulers look after."""
    return mode in (READ_WRITE_ONCE, READ_WRITE_ONCE_POD)


def volume_name(source: kinds.PersistentVolume) -> str:
    """What folders of this volume are called."""
    return source.metadata.name


def spec_of(source: kinds.PersistentVolume, *, read_only: bool = False) -> Spec:
    """The spec of a PersistentVolume; NotReady for one that this plugin does not serve."""
    local = source.spec.local
    name = volume_name(source)
    mode = source.spec.volume_mode or FILE_SYSTEM
    event = FAILED_MAP if mode == BLOCK else FAILED_MOUNT
    if local is None:
        raise NotReady(
            "NotSupported",
            f"volume {name} is no local volume, and the embedded engine serves no others",
            hint="use volumes of a class that localpv offers",
            event=event,
        )
    refuse_backsteps(local.path, name, event=event)
    return Spec(
        name=name,
        path=local.path,
        mode=mode,
        fs_type=(local.fs_type or "") if mode == FILE_SYSTEM else "",
        mount_options=source.spec.mount_options,
        access_modes=source.spec.access_modes,
        read_only=read_only,
        uid=source.metadata.uid,
    )


def refuse_backsteps(path: str, name: str, *, event: str = FAILED_MOUNT) -> None:
    """A path that is absolute and goes only downwards, or NotReady."""
    if not path.startswith("/") or ".." in PurePosixPath(path).parts or "\0" in path:
        raise NotReady(
            "InvalidPath",
            f"the path {path} of volume {name} is not absolute or contains ..",
            hint="name the directory or device itself in spec.local.path",
            event=event,
        )
