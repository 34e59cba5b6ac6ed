"""Where everything of this machine's pods lies; the names are those that a kubelet uses.

    pods/POD-UID/volumes/kubernetes.io~local-volume/PV           a volume bound for one pod
    pods/POD-UID/volumes/kubernetes.io~empty-dir/NAME            and so on for the other sources
    pods/POD-UID/volumeDevices/kubernetes.io~local-volume/PV     link to the raw device for one pod
    pods/POD-UID/volume-subpaths/NAME/CONTAINER/INDEX            a part of a volume for one container
    plugins/kubernetes.io/local-volume/mounts/PV                 a device with a file system, mounted for all pods
    plugins/kubernetes.io/local-volume/volumeDevices/PV/POD-UID  link to the raw device, one for each pod that has it
    plugins/kubernetes.io/local-volume/making/PV                 a file system is being made: which, on what device

Volumes of CSI drivers, where a driver is told to put them; beside each `vol_data.json` says whose it is:

    pods/POD-UID/volumes/kubernetes.io~csi/PV/mount              a volume published for one pod
    pods/POD-UID/volumeDevices/kubernetes.io~csi/PV              link to where a raw device is published for one pod
    plugins/kubernetes.io/csi/DRIVER/HASH/globalmount            a volume staged for all pods, by the hash of its handle
    plugins/kubernetes.io/csi/volumeDevices/staging/PV           a raw device staged for all pods
    plugins/kubernetes.io/csi/volumeDevices/publish/PV/POD-UID   a raw device published for one pod
    plugins/kubernetes.io/csi/volumeDevices/PV/dev/POD-UID       link to the one above, one for each pod that has it
    plugins_registry/NAME.sock                                   a driver that wants to be registered

A pod that has a volume is known by its folder or link; there is no other count of users.

There are two such trees. `root` is in the data folder and holds files: images, logs, records, emptyDirs and configMaps,
which need its room and may hold programs, and notes that outlive a restart of the machine. `run` is outside of it and
holds all that is mounted or ends with the machine: volumes, namespaces, the state of the container runtime. So who
removes the data folder of an engine that has stopped, whose pods run on, reaches into no volume.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from localpv import errors

LOCAL = "kubernetes.io/local-volume"
EMPTY_DIR = "kubernetes.io/empty-dir"
CONFIG_MAP = "kubernetes.io/configmap"
SECRET = "kubernetes.io/secret"
DOWNWARD = "kubernetes.io/downward-api"
PROJECTED = "kubernetes.io/projected"
HOST_PATH = "kubernetes.io/host-path"
CSI = "kubernetes.io/csi"

PODS, VOLUMES, DEVICES, SUB_PATHS = "pods", "volumes", "volumeDevices", "volume-subpaths"

FOLDER = "node"
"""Below the data folder: files of this machine's pods."""

RUN = Path("/run/localpv")
"""Folders for mounts, one for each data folder of the machine; gone after a restart of the machine, as mounts are."""

OWNER, RUN_FOLDER = "data", "run-folder"
"""Files that say which data folder a folder for mounts belongs to, and the other way round."""


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
        self.csi = self.root / "plugins" / CSI
        self.csi_devices = self.csi / DEVICES
        self.registry = self.root / "plugins_registry"

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

    def devices(self, uid: str, plugin: str = LOCAL) -> Path:
        """The pod device map path."""
        return self.pod(uid) / DEVICES / escaped(plugin)

    def staged(self, driver: str, handle: str) -> Path:
        """The folder of a volume that a CSI driver stages; handles can be anything, so they become their hash."""
        return self.csi / plain(driver) / hashlib.sha256(handle.encode()).hexdigest()

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


@dataclass(frozen=True, slots=True)
class KubeletPaths:
    """Paths below two folders; computing them touches nothing."""

    root: Path
    run: Path

    @classmethod
    def of(cls, data: Path) -> KubeletPaths:
        """Those of a data folder: the same after it was moved, and after it was lost and made anew where it was."""
        root, runs = Path(os.path.realpath(data)) / FOLDER, Path(os.path.realpath(RUN))
        if (known := _read(root / RUN_FOLDER)) and Path(known).parent == runs:
            return cls(root, Path(known))
        return cls(root, runs / hashlib.sha256(os.fsencode(root.parent)).hexdigest()[:16])

    @classmethod
    def before(cls, data: Path) -> KubeletPaths:
        """Where earlier versions had everything: all in the data folder."""
        root = Path(os.path.realpath(data)) / FOLDER
        return cls(root, root)

    def make(self) -> None:
        """Make both folders, each of which names the other; StartError where that cannot be."""
        owner = _read(self.run / OWNER)
        if owner not in ("", str(self.root.parent)) and _read(Path(owner) / FOLDER / RUN_FOLDER) == str(self.run):
            raise errors.StartError(
                f"the data folder {self.root.parent} is a copy of {owner}, and pods of that one may run",
                hint=f"remove {self.root / RUN_FOLDER} if both shall be used",
            )
        try:
            for folder in (self.root, self.run):
                folder.mkdir(parents=True, exist_ok=True, mode=0o750)
            (self.root / RUN_FOLDER).write_text(f"{self.run}\n")
            (self.run / OWNER).write_text(f"{self.root.parent}\n")
        except OSError as error:
            raise errors.StartError(
                f"{error.filename} cannot be written: {error.strerror}",
                hint="pods need it for their volumes; make it writable for root",
            ) from error

    @property
    def layout(self) -> Layout:
        """Where the volumes of pods are."""
        return Layout(self.run, disk=self.root)

    @property
    def seccomp(self) -> Path:
        """Profiles that an administrator puts there, for seccompProfile.localhostProfile."""
        return self.root / "seccomp"

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def containers(self) -> Path:
        return self.root / "containers"

    @property
    def runtime(self) -> Path:
        """State of the container runtime."""
        return self.run / "run"

    @property
    def pods(self) -> Path:
        return self.root / PODS

    def pod(self, uid: str) -> Path:
        return self.pods / uid

    def sandbox(self, uid: str) -> Path:
        return self.run / PODS / uid / "sandbox"

    def etc(self, uid: str) -> Path:
        """Files that the containers of a pod see in /etc."""
        return self.pod(uid) / "etc"

    def log(self, uid: str, container: str, attempt: int) -> Path:
        return self.pod(uid) / "log" / container / f"{attempt}.log"

    def container(self, id_: str) -> Path:
        return self.containers / id_


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
