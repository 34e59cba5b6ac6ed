"""A local volume as the node sees it: a PersistentVolume, or what is left of one on the disk after a restart."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePosixPath

from localpv.api import kinds
from localpv.engine.kubelet.volumes.results import FAILED_MAP, FAILED_MOUNT, NotReady

READ_ONLY_MANY, READ_WRITE_ONCE, READ_WRITE_ONCE_POD = "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod"
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

    @property
    def unsupported_access_modes(self) -> tuple[str, ...]:
        """Those that promise the volume to several nodes: the disk is in one. ReadWriteOncePod is for one pod of it."""
        return tuple(mode for mode in self.access_modes if mode not in (READ_WRITE_ONCE, READ_WRITE_ONCE_POD))

    def refuse_second_pod(self, others: Collection[str]) -> None:
        """NotReady for a volume of one pod only that others (their uids) have, or are about to have or to give back.

        Schedulers see to that too, but whoever names the node of a pod himself goes past them.
        """
        if READ_WRITE_ONCE_POD in self.access_modes and others:
            raise NotReady(
                "InUseByAnotherPod",
                f"volume {self.name} is {READ_WRITE_ONCE_POD} and in use by another pod, {min(others)}",
                hint="the pod goes on by itself when the other one is gone",
                event=self.event,
            )


def spec_of(source: kinds.PersistentVolume, *, read_only: bool = False) -> Spec:
    """The spec of a PersistentVolume; NotReady for one that this plugin does not serve."""
    local = source.spec.local
    name = source.metadata.name
    mode = source.spec.volume_mode or FILE_SYSTEM
    if local is None:
        raise NotReady("NotSupported", f"volume {name} is no local volume", event=event_of(source))
    refuse_backsteps(local.path, name, event=event_of(source))
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


def event_of(volume: kinds.PersistentVolume) -> str:
    """The reason of the event when it cannot be set up."""
    return FAILED_MAP if volume.spec.volume_mode == BLOCK else FAILED_MOUNT


def refuse_backsteps(path: str, name: str, *, event: str = FAILED_MOUNT) -> None:
    """A path that is absolute and goes only downwards, or NotReady."""
    if not path.startswith("/") or ".." in PurePosixPath(path).parts or "\0" in path:
        raise NotReady(
            "InvalidPath",
            f"the path {path} of volume {name} is not absolute or contains ..",
            hint="name the directory or device itself in spec.local.path",
            event=event,
        )
