"""Where everything of this machine's pods lies, as below the folder of a kubelet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """Paths below one folder; computing them touches nothing."""

    root: Path

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def containers(self) -> Path:
        return self.root / "containers"

    @property
    def runtime(self) -> Path:
        """State of the container runtime."""
        return self.root / "run"

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    def pod(self, uid: str) -> Path:
        return self.pods / uid

    def sandbox(self, uid: str) -> Path:
        return self.pod(uid) / "sandbox"

    def etc(self, uid: str) -> Path:
        """Files that the containers of a pod see in /etc."""
        return self.pod(uid) / "etc"

    def log(self, uid: str, container: str, attempt: int) -> Path:
        return self.logs(uid, container) / f"{attempt}.log"

    def logs(self, uid: str, container: str) -> Path:
        return self.pod(uid) / "log" / container

    def container(self, id_: str) -> Path:
        return self.containers / id_
