"""Where on the disk of a node everything of its pods stands; the names are those that a kubelet uses.

    pods/POD-UID/volumes/kubernetes.io~local-volume/PV           a volume bound for one pod
    pods/POD-UID/volumes/kubernetes.io~empty-dir/NAME            and so on for the other sources
    pods/POD-UID/volumeDevices/kubernetes.io~local-volume/PV     link to the raw device for one pod
    pods/POD-UID/volume-subpaths/NAME/CONTAINER/INDEX            a part of a volume for one container
    plugins/kubernetes.io/local-volume/mounts/PV                 a device with a file system, mounted for all pods
    plugins/kubernetes.io/local-volume/volumeDevices/PV/POD-UID  link to the raw device, one for each pod that has it
    plugins/kubernetes.io/local-volume/making/PV                 a file system is being made: which, on what device

A pod that has a volume is known by its folder or link; there is no other count of users.

There are two such trees. Everything that is mounted or linked stands below `root`, outside the data folder: who removes
that folder while pods run must not reach into their volumes. Files of our own stand below `disk`, in the data folder:
emptyDirs and configMaps, which need its room and may hold programs, and notes that outlive a restart of the machine.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from localpv import errors

LOCAL = "kubernetes.io/local-volume"
EMPTY_DIR = "kubernetes.io/empty-dir"
CONFIG_MAP = "kubernetes.io/configmap"
SECRET = "kubernetes.io/secret"
DOWNWARD = "kubernetes.io/downward-api"
PROJECTED = "kubernetes.io/projected"
HOST_PATH = "kubernetes.io/host-path"

PODS, VOLUMES, DEVICES, SUB_PATHS = "pods", "volumes", "volumeDevices", "volume-subpaths"


class Layout:
    """Paths below the folders of one node."""

    def __init__(self, root: Path, *, disk: Path | None = None) -> None:
        self.root = Path(os.path.realpath(root))
        """For all that is mounted; without links, as mount tables have it."""

        self.disk = Path(os.path.realpath(disk)) if disk is not None else self.root
        """For files of our own."""

        self.pods = self.root / PODS
        self._plugin = self.root / "plugins" / LOCAL
        self.global_mounts = self._plugin / "mounts"
        self.global_maps = self._plugin / DEVICES
        self._making = self.disk / "plugins" / LOCAL / "making"

    def pod(self, uid: str) -> Path:
        return self.pods / plain(uid)

    def volumes(self, uid: str, plugin: str) -> Path:
        return self.pod(uid) / VOLUMES / escaped(plugin)

    def volume(self, uid: str, plugin: str, name: str) -> Path:
        return self.volumes(uid, plugin) / plain(name)

    def folders_of_pods(self) -> tuple[Path, ...]:
        """The two folders that have a folder for each pod, that for mounts first."""
        return tuple(dict.fromkeys((self.pods, self.disk / PODS)))

    def folders(self, uid: str) -> tuple[Path, ...]:
        """Both folders of a pod, that for its mounts first."""
        return tuple(dict.fromkeys((self.pod(uid), self.disk / PODS / plain(uid))))

    def scratch(self, uid: str, plugin: str, name: str, *, memory: bool) -> Path:
        """Where a volume of the pod's own is: a mount in memory, or a folder on the disk."""
        folder = self.folders(uid)[0 if memory else -1]
        return folder / VOLUMES / escaped(plugin) / plain(name)

    def devices(self, uid: str) -> Path:
        """The pod device map path."""
        return self.pod(uid) / DEVICES / escaped(LOCAL)

    def sub_path(self, uid: str, volume: str, container: str, index: int) -> Path:
        return self.pod(uid) / SUB_PATHS / plain(volume) / plain(container) / str(index)

    def global_mount(self, volume: str) -> Path:
        return self.global_mounts / plain(volume)

    def global_map(self, volume: str) -> Path:
        """The global map path: a folder with a link for each pod."""
        return self.global_maps / plain(volume)

    def making(self, volume: str) -> Path:
        return self._making / plain(volume)

    def lock_name(self, volume: str) -> str:
        """Under which the raw device of a volume is held: the same after every start, of no other node's folder."""
        return f"localpv-{hashlib.sha256(os.fsencode(self.global_map(volume))).hexdigest()[:40]}"


def escaped(plugin: str) -> str:
    """A plugin's name as the name of one folder."""
    return plugin.replace("/", "~")


def unescaped(folder: str) -> str:
    """The name of the plugin whose folder this is."""
    return folder.replace("~", "/")


def plain(name: str) -> str:
    """A name that is one folder; OutsideFolder for one that is not."""
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise errors.OutsideFolder(f"{name!r} cannot be the name of a folder")
    return name
