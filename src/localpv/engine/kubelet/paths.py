"""Where everything of this machine's pods lies, as below the folder of a kubelet.

There are two folders. `root` is in the data folder and holds files: images, logs, records, emptyDirs. `run` is outside
of it and holds all that is mounted or ends with the machine: volumes, namespaces, the state of the container runtime.
So who removes the data folder of an engine that has stopped, whose pods run on, reaches into no volume.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from localpv import errors
from localpv.engine.kubelet.volumes.paths import PODS, Layout

FOLDER = "node"
"""Below the data folder: files of this machine's pods."""

RUN = Path("/run/localpv")
"""Folders for mounts, one for each data folder of the machine; gone after a restart of the machine, as mounts are."""

OWNER, RUN_FOLDER = "data", "run-folder"
"""Files that say which data folder a folder for mounts belongs to, and the other way round."""


@dataclass(frozen=True, slots=True)
class Places:
    """Paths below two folders; computing them touches nothing."""

    root: Path
    run: Path

    @classmethod
    def of(cls, data: Path) -> Places:
        """Those of a data folder: the same after it was moved, and after it was lost and made anew where it was."""
        root, runs = Path(os.path.realpath(data)) / FOLDER, Path(os.path.realpath(RUN))
        if (known := _read(root / RUN_FOLDER)) and Path(known).parent == runs:
            return cls(root, Path(known))
        return cls(root, runs / hashlib.sha256(os.fsencode(root.parent)).hexdigest()[:16])

    @classmethod
    def before(cls, data: Path) -> Places:
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

    def folders(self) -> tuple[Path, ...]:
        """The two folders that have a folder for each pod."""
        return tuple(dict.fromkeys((self.run / PODS, self.pods)))

    def sandbox(self, uid: str) -> Path:
        return self.run / PODS / uid / "sandbox"

    def etc(self, uid: str) -> Path:
        """Files that the containers of a pod see in /etc."""
        return self.pod(uid) / "etc"

    def log(self, uid: str, container: str, attempt: int) -> Path:
        return self.logs(uid, container) / f"{attempt}.log"

    def logs(self, uid: str, container: str) -> Path:
        return self.pod(uid) / "log" / container

    def container(self, id_: str) -> Path:
        return self.containers / id_


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
