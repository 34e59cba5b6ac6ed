"""Volumes of pods on the real machine, for several files of tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.unit.engine.kubelet.volumes.world import FakeLookup

from localpv.engine.kubelet import volumes as mounting
from localpv.engine.kubelet.volumes import HostParts, PodVolumes
from localpv.host import loop


def mounts_below(folder: Path) -> list[str]:
    """Mount points below a folder, in the order of mounting."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if line.split()[4].startswith(f"{folder}/")]


class Node:
    """One node's folder, its pods and their API."""

    def __init__(self, root: Path) -> None:
        self.root, self.lookup = root, FakeLookup()
        self.warnings: list[str] = []
        self.volumes = self.restarted()

    def restarted(self, host: HostParts | None = None) -> PodVolumes:
        """As after a new start: what was in memory is gone, what is on the disk is there."""
        self.volumes = PodVolumes(
            root=self.root,
            host=host or mounting.on_this_machine(),
            lookup=self.lookup,
            on_event=lambda pod, reason, message, warning: self.warnings.append(reason),
        )
        return self.volumes

    def mounts(self) -> list[str]:
        return [str(Path(place).relative_to(self.volumes.layout.root)) for place in mounts_below(self.root)]

    def held(self, volume: str = "pv") -> bool:
        return loop.find(self.volumes.layout.lock_name(volume)) is not None

    def left(self) -> list[str]:
        """Mounts, folders, links and holds of volumes that are still there."""
        own = self.volumes.layout.root
        folders = {path for path in own.rglob("*")} if own.exists() else set()
        base = own / "plugins" / "kubernetes.io" / "local-volume"
        keep = {own / "pods", base, *base.parents, base / "mounts", base / "volumeDevices", base / "making"}
        held = [name for name in self.lookup.volumes if self.held(name)]
        return [*sorted(str(path) for path in folders - keep if path.parent != base / "making"), *self.mounts(), *held]

    def clear(self) -> None:
        """Take everything away, however the test ended."""
        for place in reversed(mounts_below(self.root)):
            subprocess.run(["umount", place], check=False)
        for name in self.lookup.volumes:
            if found := loop.find(self.volumes.layout.lock_name(name)):
                loop.detach(found.device)
