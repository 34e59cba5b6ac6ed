"""Pools of LVM: volumes are logical volumes of a group, told from others by their tags.

`LvmPool` is thick: a volume has all of its extents from the start. What is freed is given to the next volume as it is,
so a volume is wiped before it is removed, and read back. `ThinPool` carves out of a thin pool, which zeroes each block
before a volume gets it: nothing needs to be wiped there, and zeroes over all of a volume would only fill the pool.

What if we die on the way? A volume is tagged `making` until it is whole and `going` before any of it goes. A snapshot
that copies on write holds bytes of its origin: it is split off first, so that they can be wiped too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from localpv import errors
from localpv.agent.pools.pool import PoolState, VolumeState, check_name
from localpv.host.lvm import LogicalVolume, Lvm, VolumeGroup
from localpv.host.model import methods
from localpv.host.model.methods import Method
from localpv.host.workers import Report
from localpv.volume import pool_names

TAG: Final = pool_names.DRIVER
MAKING, READY, GOING = (f"{TAG}/state={word}" for word in ("making", "ready", "going"))
SNAPSHOT = f"{TAG}/snapshot"
_SOURCE, _CREATED = f"{TAG}/source=", f"{TAG}/created="

PREFIX: Final = "localpv-"
"""Logical volumes are named so: LVM keeps names that begin with `snapshot` for itself, and people see whose it is."""

COPY_OF: Final = "copy-"
"""Snapshots of a moment, of which a clone is being copied, are named so."""

DATA_FULL_PERCENT = 95.0
METADATA_FULL_PERCENT = 90.0
"""A thin pool as full as this makes no more volumes: what it has promised must be kept first, and a pool whose metadata
is full goes read-only with all its volumes."""

METADATA_PART = 1000
"""Metadata of a thin pool of ours is this small a part of its data: chunks of 64 KiB need 64 bytes each."""

LEAST_METADATA_BYTES = 4 * 1024 * 1024
MOST_METADATA_BYTES = 15 * 1024**3


class LvmPool:
    """Thick volumes of one group."""

    kind = "lvm"
    snapshots = True

    def __init__(self, *, name: str, group: str, lvm: Lvm, devices: Sequence[Path] = (), stripes: int = 1) -> None:
        """`devices`: of which the group is made when there is none."""
        self.name = name
        self._group, self._lvm, self._devices, self._stripes = group, lvm, tuple(devices), stripes
        self._deciding = asyncio.Lock()
        self._acts: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def state(self) -> PoolState:
        async with self._deciding:
            group = await self._look()
        return self._state_of(group)

    async def create(
        self, name: str, size_bytes: int, *, source: str = "", progress: Report | None = None
    ) -> VolumeState:
        check_name(name)
        async with self._act(name):
            async with self._deciding:
                group = await self._look()
                size = self._rounded(group, size_bytes)
                found = _ours(group).get(name)
                origin = self._source(group, source, name) if source else None
                if found is None:
                    self._refuse(group, name, size, origin)
                    made = await self._begin(group, name, size, origin)
                else:
                    _refuse_another(name, found, size, source, snapshot=False)
                    if READY in found.tags:
                        return _volume(found)
                    made = replace(found, size_bytes=size)
            if MAKING in made.tags:
                await self._fill(made, origin, again=found is not None, progress=progress)
            return _volume(_tagged(made, READY))

    async def expand(self, name: str, size_bytes: int) -> VolumeState:
        check_name(name)
        async with self._act(name), self._deciding:
            group = await self._look()
            found = _ready(group, name)
            size = self._rounded(group, size_bytes)
            if SNAPSHOT in found.tags:
                raise errors.NotSupported(f"{name} is a snapshot: it stays as large as it is")
            if size > found.size_bytes:
                self._refuse_growth(group, found, size)
                await self._lvm.extend(self._group, found.name, size_bytes=size)
            return _volume(replace(found, size_bytes=max(size, found.size_bytes)))

    async def snapshot(self, name: str, source: str) -> VolumeState:
        check_name(name)
        async with self._act(name), self._deciding:
            group = await self._look()
            found, origin = _ours(group).get(name), self._source(group, source, name)
            if found is not None:
                _refuse_another(name, found, 0, source, snapshot=True)
                if _is_whole(found):
                    return _volume(found)
                await self._drop(found)  # we died before it became a snapshot
            self._refuse_snapshot(group, origin)
            tags = (TAG, READY, SNAPSHOT, f"{_SOURCE}{source}", _created())
            await self._take(PREFIX + name, origin, tags)
            return _volume(_ready(await self._look(), name))

    async def remove(self, name: str, *, method: Method, progress: Report | None = None) -> None:
        check_name(name)
        async with self._act(name):
            async with self._deciding:
                group = await self._look()
                await self._forget_moment(group, PREFIX + name)
                found = _ours(group).get(name)
                if found is None:
                    return
                self._refuse_removal(group, found)
                if GOING not in found.tags:
                    await self._lvm.retag(self._group, found.name, add=[GOING], remove=[MAKING, READY])
            await self._wiped(found, method, progress)
            await self._lvm.remove(self._group, found.name)

    async def attach(self, name: str) -> Path:
        check_name(name)
        async with self._act(name), self._deciding:
            found = _ready(await self._look(), name)
            if not found.active:
                await self._lvm.activate(self._group, found.name)
            return found.path

    async def detach(self, name: str) -> None:
        """The device stays where it is, as those of other logical volumes do."""
        check_name(name)
        async with self._act(name), self._deciding:
            found = _ours(await self._look()).get(name)
            if found is not None and found.open:
                raise errors.DeviceBusy(f"{name} is in use at {found.path}", hint="it is tried again by itself")

    def _act(self, name: str) -> asyncio.Lock:
        return self._acts.setdefault(name, asyncio.Lock())

    async def _look(self) -> VolumeGroup:
        """The group as it is now; made first where there is none, of devices that are listed for it."""
        group = await self._lvm.group(self._group)
        if group is not None:
            return group
        present = [path for path in self._devices if path.exists()]
        if not present:
            raise errors.HostError(
                f"there is no volume group {self._group}",
                hint="make it, or list devices for it, of which it is made" if not self._devices else "",
            )
        await self._lvm.create_group(self._group, present, tags=[TAG])
        group = await self._lvm.group(self._group)
        if group is None:
            raise errors.HostError(f"volume group {self._group} was made and is not there")
        return group

    def _extent(self, group: VolumeGroup) -> int:
        return group.extent_bytes * self._stripes

    def _rounded(self, group: VolumeGroup, size_bytes: int) -> int:
        extent = self._extent(group)
        return -(-size_bytes // extent) * extent

    def _state_of(self, group: VolumeGroup) -> PoolState:
        volumes = {name: _volume(found) for name, found in self._mine(group).items()}
        used = group.size_bytes - group.free_bytes
        return PoolState(
            capacity_bytes=group.size_bytes // self._extent(group) * self._extent(group),
            free_bytes=group.free_bytes,
            extent_bytes=self._extent(group),
            volumes=volumes,
            foreign_bytes=max(0, used - sum(volume.promised_bytes for volume in volumes.values())),
            error=_partial(group),
            warning=self._absent(),
        )

    def _absent(self) -> str:
        absent = [str(path) for path in self._devices if not path.exists()]
        return f"listed for the pool, but not there: {', '.join(absent)}" if absent else ""

    def _mine(self, group: VolumeGroup) -> Mapping[str, LogicalVolume]:
        return {name: found for name, found in _ours(group).items() if not found.thin_pool}

    def _source(self, group: VolumeGroup, source: str, name: str) -> LogicalVolume:
        check_name(source)
        found = self._mine(group).get(source)
        if found is None:
            raise errors.NotThere(f"{source}, of which {name} is to be made, is not in pool {self.name}")
        if not _is_whole(found):
            raise errors.DeviceBusy(f"{source} is half made or going", hint="it is tried again by itself")
        return found

    def _refuse(self, group: VolumeGroup, name: str, size: int, origin: LogicalVolume | None) -> None:
        if not size:
            raise errors.HostError(f"{name} needs a size")
        if origin is not None and size < _shown_bytes(origin):
            raise errors.HostError(f"{name} must be as large as its source, which has {_shown_bytes(origin)} bytes")
        if PREFIX + name in group.volumes:
            raise errors.AlreadyThere(f"{self._group} has a volume {PREFIX + name} that does not carry our tag")
        if why := _partial(group):
            raise errors.HostError(why)
        if size > group.free_bytes:
            raise errors.NoRoom(f"pool {self.name} has {group.free_bytes} bytes left, {size} are needed")

    async def _begin(self, group: VolumeGroup, name: str, size: int, origin: LogicalVolume | None) -> LogicalVolume:
        source = [f"{_SOURCE}{_name(origin)}"] if origin is not None else []
        tags = (TAG, MAKING, _created(), *source)
        extents = size // group.extent_bytes
        await self._lvm.create(self._group, PREFIX + name, extents=extents, tags=tags, stripes=self._stripes)
        return LogicalVolume(group=self._group, name=PREFIX + name, size_bytes=size, path=Path(), tags=frozenset(tags))

    async def _fill(
        self, made: LogicalVolume, origin: LogicalVolume | None, *, again: bool, progress: Report | None
    ) -> None:
        """Make a volume that is `making` whole: what it holds now was seen by nobody."""
        if origin is not None:
            await self._copy(origin, made, progress)
        elif again:
            # Whoever made it died, perhaps before its beginning was zeroed.
            await self._lvm.wipe(await self._active(made), methods.ZeroOut(), on_progress=progress)
        await self._lvm.retag(self._group, made.name, add=[READY], remove=[MAKING])

    async def _copy(self, origin: LogicalVolume, made: LogicalVolume, progress: Report | None) -> None:
        if origin.is_cow:
            await self._copy_now(origin, origin, made, progress)
            return
        # Somebody may write to it, now or soon: what is copied is how it is at this moment.
        moment = _moment(made.name)
        async with self._deciding:
            group = await self._look()
            await self._forget_moment(group, made.name)
            await self._take(moment, origin, (TAG, GOING, SNAPSHOT, f"{_SOURCE}{_name(origin)}"))
            source = (await self._look()).volumes[moment]
        await self._copy_now(source, origin, made, progress)
        await self._drop(source)

    async def _copy_now(
        self, source: LogicalVolume, origin: LogicalVolume, made: LogicalVolume, progress: Report | None
    ) -> None:
        size = _shown_bytes(origin)
        await self._lvm.copy(
            await self._active(source), await self._active(made), size_bytes=size, on_progress=progress
        )

    async def _forget_moment(self, group: VolumeGroup, name: str) -> None:
        """Remove what a copy to this volume that was cut short was made of."""
        left = group.volumes.get(_moment(name))
        if left is not None and {TAG, GOING} <= left.tags:
            await self._drop(left)

    async def _active(self, volume: LogicalVolume) -> LogicalVolume:
        found = (await self._look()).volumes.get(volume.name)
        if found is None or TAG not in found.tags:
            raise errors.NotThere(f"{volume.name} is not in {self._group} any more")
        if not found.active:
            await self._lvm.activate(self._group, found.name)
        return found

    async def _take(self, name: str, origin: LogicalVolume, tags: Sequence[str]) -> None:
        await self._lvm.snapshot(
            self._group, name, origin=origin.name, tags=tags, thin=bool(origin.thin_pool), read_only=True
        )

    def _refuse_snapshot(self, group: VolumeGroup, origin: LogicalVolume) -> None:
        if SNAPSHOT in origin.tags:
            raise errors.NotSupported(f"{_name(origin)} is a snapshot itself")
        if why := _partial(group):
            raise errors.HostError(why)
        if origin.size_bytes > group.free_bytes:
            raise errors.NoRoom(
                f"pool {self.name} has {group.free_bytes} bytes left, a snapshot needs {origin.size_bytes}"
            )

    def _refuse_growth(self, group: VolumeGroup, found: LogicalVolume, size: int) -> None:
        if names := _snapshots_of(group, found):
            raise errors.StillNeeded(f"{_name(found)} cannot grow while it has snapshots: {', '.join(names)}")
        if why := _partial(group):
            raise errors.HostError(why)
        if size - found.size_bytes > group.free_bytes:
            raise errors.NoRoom(
                f"pool {self.name} has {group.free_bytes} bytes left, {size - found.size_bytes} more are needed"
            )

    def _refuse_removal(self, group: VolumeGroup, found: LogicalVolume) -> None:
        if found.open:
            raise errors.DeviceBusy(f"{_name(found)} is in use at {found.path}", hint="it is tried again by itself")
        if not found.thin_pool and (names := _snapshots_of(group, found)):
            raise errors.StillNeeded(f"{_name(found)} has snapshots: {', '.join(names)}")

    async def _wiped(self, found: LogicalVolume, method: Method, progress: Report | None) -> None:
        if found.is_cow:
            await self._lvm.split(self._group, found.name)
        await self._lvm.wipe(await self._active(found), method, on_progress=progress)

    async def _drop(self, found: LogicalVolume) -> None:
        """Remove something of ours that nobody was ever given."""
        if GOING not in found.tags:
            await self._lvm.retag(self._group, found.name, add=[GOING], remove=[MAKING, READY])
        await self._wiped(found, methods.ZeroOut(), None)
        await self._lvm.remove(self._group, found.name)


class ThinPool(LvmPool):
    """Volumes of one thin pool, which together may be larger than it."""

    kind = "lvm-thin"

    def __init__(
        self,
        *,
        name: str,
        group: str,
        thin_pool: str,
        lvm: Lvm,
        devices: Sequence[Path] = (),
        size_bytes: int = 0,
        overprovision: float = 1.0,
    ) -> None:
        """`size_bytes`: of the thin pool when it is made; 0 for all that is free."""
        super().__init__(name=name, group=group, lvm=lvm, devices=devices)
        self._thin_pool, self._size_bytes, self._overprovision = thin_pool, size_bytes, overprovision

    async def _look(self) -> VolumeGroup:
        group = await super()._look()
        if self._thin_pool in group.volumes:
            return group
        if why := _partial(group):
            raise errors.HostError(why)
        extents, metadata = thin_sizes(group, self._size_bytes)
        if extents <= 0:
            raise errors.NoRoom(f"{self._group} has no room for thin pool {self._thin_pool}")
        await self._lvm.create_thin_pool(
            self._group, self._thin_pool, extents=extents, metadata_bytes=metadata, tags=[TAG]
        )
        group = await super()._look()
        if self._thin_pool not in group.volumes:
            raise errors.HostError(f"thin pool {self._thin_pool} was made and is not there")
        return group

    def _pool(self, group: VolumeGroup) -> LogicalVolume:
        pool = group.volumes[self._thin_pool]
        if not pool.is_thin_pool:
            raise errors.HostError(f"{self._group}/{self._thin_pool} is no thin pool")
        if not pool.zeroes:
            raise errors.HostError(
                f"thin pool {self._thin_pool} does not zero blocks: a new volume would show an old one's bytes",
                hint=f"lvchange --zero y {self._group}/{self._thin_pool}",
            )
        return pool

    def _mine(self, group: VolumeGroup) -> Mapping[str, LogicalVolume]:
        return {name: found for name, found in _ours(group).items() if found.thin_pool == self._thin_pool}

    def _state_of(self, group: VolumeGroup) -> PoolState:
        pool = self._pool(group)
        volumes = {name: _volume(found) for name, found in self._mine(group).items()}
        others = [each for each in group.volumes.values() if each.thin_pool == self._thin_pool]
        foreign = sum(each.size_bytes for each in others) - sum(each.size_bytes for each in self._mine(group).values())
        extent = group.extent_bytes
        return PoolState(
            capacity_bytes=int(pool.size_bytes * self._overprovision) // extent * extent,
            free_bytes=int(pool.size_bytes * (100.0 - (pool.data_percent or 0.0)) / 100.0),
            extent_bytes=extent,
            volumes=volumes,
            foreign_bytes=foreign,
            data_percent=pool.data_percent,
            metadata_percent=pool.metadata_percent,
            error=self._full(pool) or pool.abnormal,
            warning=self._absent(),
        )

    @staticmethod
    def _full(pool: LogicalVolume) -> str:
        if (pool.data_percent or 0.0) >= DATA_FULL_PERCENT:
            return f"the thin pool is {pool.data_percent:.0f} % full"
        if (pool.metadata_percent or 0.0) >= METADATA_FULL_PERCENT:
            return f"the metadata of the thin pool is {pool.metadata_percent:.0f} % full"
        return ""

    def _refuse_promise(self, group: VolumeGroup, more_bytes: int) -> None:
        state = self._state_of(group)
        if state.error:
            raise errors.NoRoom(f"pool {self.name} makes nothing now: {state.error}")
        if more_bytes > state.unpromised_bytes:
            raise errors.NoRoom(f"pool {self.name} has {state.unpromised_bytes} bytes left, {more_bytes} are needed")

    def _refuse(self, group: VolumeGroup, name: str, size: int, origin: LogicalVolume | None) -> None:
        super()._refuse(replace(group, free_bytes=size), name, size, origin)
        self._refuse_promise(group, size)

    async def _begin(self, group: VolumeGroup, name: str, size: int, origin: LogicalVolume | None) -> LogicalVolume:
        """A thin volume is whole when it is made, but for a clone that has to grow."""
        if origin is None:
            tags: tuple[str, ...] = (TAG, READY, _created())
            await self._lvm.create_thin(self._group, PREFIX + name, pool=self._thin_pool, size_bytes=size, tags=tags)
        else:
            tags = (TAG, READY if size == origin.size_bytes else MAKING, _created(), f"{_SOURCE}{_name(origin)}")
            await self._lvm.snapshot(
                self._group, PREFIX + name, origin=origin.name, tags=tags, thin=True, read_only=False
            )
        return LogicalVolume(
            group=self._group,
            name=PREFIX + name,
            size_bytes=size,
            path=Path(),
            tags=frozenset(tags),
            thin_pool=self._thin_pool,
        )

    async def _fill(
        self, made: LogicalVolume, origin: LogicalVolume | None, *, again: bool, progress: Report | None
    ) -> None:
        await self._lvm.extend(self._group, made.name, size_bytes=made.size_bytes)
        await self._lvm.retag(self._group, made.name, add=[READY], remove=[MAKING])

    def _refuse_snapshot(self, group: VolumeGroup, origin: LogicalVolume) -> None:
        if SNAPSHOT in origin.tags:
            raise errors.NotSupported(f"{_name(origin)} is a snapshot itself")
        self._refuse_promise(group, origin.size_bytes)

    def _refuse_growth(self, group: VolumeGroup, found: LogicalVolume, size: int) -> None:
        self._refuse_promise(group, size - found.size_bytes)

    async def _wiped(self, found: LogicalVolume, method: Method, progress: Report | None) -> None:
        """The pool zeroes each block before it gives it to a volume again: `_pool` has made sure of that."""
        self._pool(await self._look())


def thin_sizes(group: VolumeGroup, size_bytes: int) -> tuple[int, int]:
    """Extents of data and bytes of metadata of a thin pool that is `size_bytes` large, or 0: takes all that is free.

    LVM keeps as much again as the metadata has for its repair.
    """
    extent = group.extent_bytes
    wanted = min(size_bytes or group.free_bytes, group.free_bytes)
    metadata = min(max(LEAST_METADATA_BYTES, wanted // METADATA_PART), MOST_METADATA_BYTES)
    metadata = -(-metadata // extent) * extent
    return min(wanted, group.free_bytes - 2 * metadata) // extent, metadata


def _moment(name: str) -> str:
    return name.replace(PREFIX, PREFIX + COPY_OF, 1)


def _ours(group: VolumeGroup) -> dict[str, LogicalVolume]:
    """What carries our tag and one of our names, by the name of the volume."""
    return {
        _name(found): found
        for found in group.volumes.values()
        if TAG in found.tags and found.name.startswith(PREFIX) and not found.is_thin_pool
    }


def _name(found: LogicalVolume) -> str:
    return found.name.removeprefix(PREFIX)


def _ready(group: VolumeGroup, name: str) -> LogicalVolume:
    found = _ours(group).get(name)
    if found is None:
        raise errors.NotThere(f"{name} is not in volume group {group.name}")
    if not _is_whole(found):
        raise errors.DeviceBusy(f"{name} is half made or going", hint="it is tried again by itself")
    return found


def _is_whole(found: LogicalVolume) -> bool:
    """Ready, and a snapshot really is one: LVM makes it a plain volume first."""
    return READY in found.tags and (SNAPSHOT not in found.tags or bool(found.origin) or bool(found.thin_pool))


def _refuse_another(name: str, found: LogicalVolume, size: int, source: str, *, snapshot: bool) -> None:
    if GOING in found.tags:
        raise errors.DeviceBusy(f"{name} is being removed", hint="it is tried again by itself")
    is_snapshot = SNAPSHOT in found.tags
    whole = found.size_bytes == size or (MAKING in found.tags and bool(found.thin_pool))
    if is_snapshot is not snapshot or _word(found, _SOURCE) != source or not (snapshot or whole):
        raise errors.AlreadyThere(
            f"{name} is there with {found.size_bytes} bytes, made of {_word(found, _SOURCE) or 'nothing'}"
        )


def _snapshots_of(group: VolumeGroup, found: LogicalVolume) -> list[str]:
    """Whatever copies on write from it, also what is not ours: it would go with its origin."""
    return sorted(_name(each) for each in group.volumes.values() if each.is_cow and each.origin == found.name)


def _partial(group: VolumeGroup) -> str:
    if group.missing:
        return f"volume group {group.name} misses {group.missing} of its disks: LVM makes no changes to it"
    return ""


def _shown_bytes(found: LogicalVolume) -> int:
    return found.origin_bytes if found.is_cow else found.size_bytes


def _created() -> str:
    return _CREATED + datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _word(found: LogicalVolume, prefix: str) -> str:
    return next((tag.removeprefix(prefix) for tag in found.tags if tag.startswith(prefix)), "")


def _tagged(found: LogicalVolume, state: str) -> LogicalVolume:
    return replace(found, tags=found.tags - {MAKING, READY, GOING} | {state})


def _volume(found: LogicalVolume) -> VolumeState:
    return VolumeState(
        name=_name(found),
        size_bytes=_shown_bytes(found),
        promised_bytes=found.size_bytes,
        is_snapshot=SNAPSHOT in found.tags,
        source=_word(found, _SOURCE),
        ready=_is_whole(found),
        going=GOING in found.tags,
        abnormal=found.abnormal,
        created=_word(found, _CREATED),
    )
