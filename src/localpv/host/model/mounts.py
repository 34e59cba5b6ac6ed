"""The mount table of one mount namespace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from localpv.host.model.devices import DeviceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of /proc/self/mountinfo."""

    mount_id: int
    device: DeviceNumber
    root: str
    """Which directory of the file system is seen at the mount point; not / for a bind mount of a part."""

    mount_point: Path
    options: tuple[str, ...] = ()
    fs_type: str = ""
    source: str = ""
    super_options: tuple[str, ...] = ()

    @property
    def device_node(self) -> str:
        """Path below /dev of the device that is bind-mounted as such, as kubelet maps raw volumes; else empty."""
        return self.root.removeprefix("/") if self.fs_type == "devtmpfs" else ""

    @property
    def read_only(self) -> bool:
        return "ro" in self.options or "ro" in self.super_options


@dataclass(frozen=True, slots=True)
class MountTable:
    """All mounts, in the order in which the kernel lists them."""

    mounts: tuple[Mount, ...] = ()

    def __iter__(self) -> Iterator[Mount]:
        return iter(self.mounts)

    def at(self, path: PurePath) -> Mount | None:
        """The mount that is seen at exactly this path: the last one, where several are stacked."""
        return next((mount for mount in reversed(self.mounts) if mount.mount_point == path), None)

    def is_mount_point(self, path: PurePath) -> bool:
        return self.at(path) is not None

    def containing(self, path: PurePath) -> Mount | None:
        """The mount that a file at this path lies in."""
        parts = path.parts
        last = {mount.mount_point.parts: mount for mount in self.mounts}
        return next((last[part] for size in range(len(parts), 0, -1) if (part := parts[:size]) in last), None)

    def below(self, path: PurePath) -> tuple[Mount, ...]:
        """Mounts strictly below this path."""
        return tuple(mount for mount in self.at_or_below(path) if mount.mount_point != path)

    def at_or_below(self, path: PurePath) -> tuple[Mount, ...]:
        own = path.parts
        size = len(own)
        # Not by `parents`, which are made anew for each of the mounts: a busy machine has thousands.
        return tuple(mount for mount in self.mounts if mount.mount_point.parts[:size] == own)

    def of(self, device: DeviceNumber) -> tuple[Mount, ...]:
        """Every place where this device is mounted."""
        return tuple(mount for mount in self.mounts if mount.device == device)
