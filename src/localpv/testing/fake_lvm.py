"""LVM in memory: groups, thick and thin volumes, snapshots, and what stands in every extent, freed ones too.

What an extent holds is a word: empty for zeroes. So a test sees whose bytes a new volume shows, and what is left in
free space. It can die before or after any change, as an agent can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from localpv import errors
from localpv.host.lvm import LogicalVolume, VolumeGroup
from localpv.host.model.methods import Method, Progress
from localpv.host.workers import Report

EXTENT = 4 * 1024 * 1024


@dataclass
class _Volume:
    """A logical volume: its extents of the group, or for a thin one what its blocks hold."""

    size: int
    """In extents; what it shows of its origin for a snapshot that copies on write."""

    extents: list[int]
    tags: frozenset[str]
    thin_pool: str = ""
    thin: dict[int, str] = field(default_factory=dict)
    origin: str = ""
    kept: dict[int, str] = field(default_factory=dict)
    """Of a snapshot that copies on write: what its origin held where it was written since."""

    is_thin_pool: bool = False
    zeroes: bool = True
    active: bool = True
    open: bool = False
    number: int = 0


class FakeLvm:
    """One group of so many extents on disks that hold zeroes."""

    def __init__(self, *, extents: int = 32, group: str = "vg1", exists: bool = True) -> None:
        self.name, self.exists = group, exists
        self.content = [""] * extents
        """What each extent of the group holds."""

        self.volumes: dict[str, _Volume] = {}
        self.missing = 0
        self.calls: list[str] = []
        self.before: Callable[[str], None] = lambda call: None
        self.after: Callable[[str], None] = lambda call: None
        """Told of each change; may raise."""

        self._numbers = 0

    # What a test does and sees.

    def write(self, name: str, word: str) -> None:
        """Write to all of a volume, as a tenant does."""
        volume = self.volumes[name]
        for at in range(volume.size):
            self._put(name, at, word)

    def read(self, name: str) -> list[str]:
        return [self._get(name, at) for at in range(self.volumes[name].size)]

    def free(self) -> list[int]:
        taken = {extent for volume in self.volumes.values() for extent in volume.extents}
        return [extent for extent in range(len(self.content)) if extent not in taken]

    def foreign(self, name: str, extents: int) -> None:
        """Somebody runs lvcreate by hand."""
        self.volumes[name] = self._made(extents, self._taken(extents), ())

    # Lvm.

    async def group(self, name: str) -> VolumeGroup | None:
        self.calls.append("fullreport")
        if name != self.name or not self.exists:
            return None
        return VolumeGroup(
            name=name,
            size_bytes=len(self.content) * EXTENT,
            free_bytes=len(self.free()) * EXTENT,
            extent_bytes=EXTENT,
            missing=self.missing,
            volumes={each: self._shown(each, volume) for each, volume in self.volumes.items()},
        )

    async def create_group(self, name: str, devices: Sequence[Path], *, tags: Iterable[str]) -> None:
        self._change("vgcreate")
        self.name, self.exists = name, True
        self.after("vgcreate")

    async def create(self, group: str, name: str, *, extents: int, tags: Iterable[str], stripes: int = 1) -> None:
        self._change("lvcreate")
        self._refuse_name(name)
        made = self.volumes[name] = self._made(extents, self._taken(extents), tags)
        self.after("lvcreate, but not zeroed")
        self.content[made.extents[0]] = ""
        self.after("lvcreate")

    async def create_thin_pool(
        self, group: str, name: str, *, extents: int, metadata_bytes: int, tags: Iterable[str]
    ) -> None:
        self._change("lvcreate")
        self._refuse_name(name)
        taken = self._taken(extents + 2 * (metadata_bytes // EXTENT))
        self.volumes[name] = replace(self._made(extents, taken, tags), is_thin_pool=True)
        self.after("lvcreate")

    async def create_thin(self, group: str, name: str, *, pool: str, size_bytes: int, tags: Iterable[str]) -> None:
        self._change("lvcreate")
        self._refuse_name(name)
        self.volumes[name] = replace(self._made(size_bytes // EXTENT, [], tags), thin_pool=pool)
        self.after("lvcreate")

    async def snapshot(
        self, group: str, name: str, *, origin: str, tags: Iterable[str], thin: bool, read_only: bool
    ) -> None:
        self._change("lvcreate")
        self._refuse_name(name)
        source = self.volumes[origin]
        if thin:
            made = self._made(source.size, [], tags)
            self.volumes[name] = replace(made, thin_pool=source.thin_pool, thin=dict(source.thin), origin=origin)
        else:
            made = self.volumes[name] = self._made(source.size, self._taken(source.size + 1), tags)
            self.after("lvcreate, but no snapshot yet")
            made.origin = origin
        self.after("lvcreate")

    async def extend(self, group: str, name: str, *, size_bytes: int) -> None:
        self._change("lvextend")
        volume, more = self.volumes[name], size_bytes // EXTENT - self.volumes[name].size
        if not volume.thin_pool and any(each.origin == name for each in self.volumes.values()):
            raise errors.CommandFailed(
                ["lvm", "lvextend"], exit_code=5, stderr="Snapshot origin volumes can be resized"
            )
        if more > 0:
            volume.extents += [] if volume.thin_pool else self._taken(more)
            volume.size += more
        self.after("lvextend")

    async def retag(self, group: str, name: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        self._change("lvchange")
        self.volumes[name].tags = self.volumes[name].tags - {*remove} | {*add}
        self.after("lvchange")

    async def split(self, group: str, name: str) -> None:
        self._change("lvconvert")
        volume = self.volumes[name]
        volume.origin, volume.size, volume.kept = "", len(volume.extents), {}
        self.after("lvconvert")

    async def remove(self, group: str, name: str) -> None:
        self._change("lvremove")
        if self.volumes[name].open:
            raise errors.DeviceBusy(f"Logical volume {group}/{name} in use.")
        del self.volumes[name]
        self.after("lvremove")

    async def activate(self, group: str, name: str) -> None:
        self._change("lvchange")
        self.volumes[name].active = True
        self.after("lvchange")

    async def wipe(self, volume: LogicalVolume, method: Method, *, on_progress: Report | None = None) -> None:
        self._use("wipe", volume)
        size = self.volumes[volume.name].size
        for at in range(size):
            self._put(volume.name, at, "")
            if on_progress is not None:
                on_progress(Progress(done=(at + 1) * EXTENT, total=size * EXTENT, step="zeroing 1/1"))
            self.after("wipe of an extent")
        self.after("wipe")

    async def copy(
        self, source: LogicalVolume, target: LogicalVolume, *, size_bytes: int, on_progress: Report | None = None
    ) -> None:
        self._use("copy", target)
        self._use("copy", source, exclusive=False)
        for at in range(self.volumes[target.name].size):
            self._put(target.name, at, self._get(source.name, at) if at * EXTENT < size_bytes else "")
            self.after("copy of an extent")
        self.after("copy")

    # Inside.

    def _change(self, call: str) -> None:
        self.calls.append(call)
        if self.missing:
            raise errors.CommandFailed(["lvm", call], exit_code=5, stderr="Cannot change VG while PVs are missing.")
        self.before(call)

    def _use(self, what: str, volume: LogicalVolume, *, exclusive: bool = True) -> None:
        self.before(what)
        known = self.volumes.get(volume.name)
        if known is None or volume.uuid != f"uuid{known.number}":
            raise errors.DeviceChanged(f"{volume.path} is not logical volume {volume.name}")
        if not known.active:
            raise errors.HostError(f"{volume.path} is not there")
        if known.open and exclusive:
            raise errors.DeviceBusy(f"{volume.path} is in use")

    def _refuse_name(self, name: str) -> None:
        if name in self.volumes:
            raise errors.CommandFailed(["lvm", "lvcreate"], exit_code=5, stderr=f'"{name}" already exists')
        if name.startswith(("snapshot", "pvmove")):
            raise errors.CommandFailed(["lvm", "lvcreate"], exit_code=3, stderr=f'Name "{name}" is reserved')

    def _taken(self, count: int) -> list[int]:
        free = self.free()
        if count > len(free):
            raise errors.NoRoom(f"insufficient free space ({len(free)} extents): {count} required")
        return free[:count]

    def _made(self, size: int, extents: list[int], tags: Iterable[str]) -> _Volume:
        self._numbers += 1
        return _Volume(size=size, extents=extents, tags=frozenset(tags), number=self._numbers)

    def _get(self, name: str, at: int) -> str:
        volume = self.volumes[name]
        if volume.thin_pool:
            return volume.thin.get(at, "")
        if volume.origin:
            return volume.kept[at] if at in volume.kept else self._get(volume.origin, at)
        return self.content[volume.extents[at]]

    def _put(self, name: str, at: int, word: str) -> None:
        volume = self.volumes[name]
        if volume.thin_pool:
            volume.thin[at] = word
            return
        for each in self.volumes.values():
            if each.origin == name and not each.thin_pool and at not in each.kept and at < each.size:
                each.kept[at] = self._get(name, at)
                self.content[each.extents[at + 1]] = each.kept[at]
        self.content[volume.extents[at]] = word

    def _shown(self, name: str, volume: _Volume) -> LogicalVolume:
        is_cow = bool(volume.origin) and not volume.thin_pool
        used = sum(len(each.thin) for each in self.volumes.values() if each.thin_pool == name)
        return LogicalVolume(
            group=self.name,
            name=name,
            uuid=f"uuid{volume.number}",
            size_bytes=(len(volume.extents) if is_cow else volume.size) * EXTENT,
            path=Path("/dev/mapper") / f"{self.name}-{name}",
            tags=volume.tags,
            origin=volume.origin,
            origin_bytes=volume.size * EXTENT if is_cow else 0,
            thin_pool=volume.thin_pool,
            is_thin_pool=volume.is_thin_pool,
            zeroes=volume.zeroes if volume.is_thin_pool else False,
            data_percent=100.0 * used / volume.size if volume.is_thin_pool else None,
            metadata_percent=1.0 if volume.is_thin_pool else None,
            active=volume.active,
            open=volume.open,
        )
