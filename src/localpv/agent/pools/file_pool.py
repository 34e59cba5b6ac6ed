"""A pool of files: each volume is a file of a directory, allocated as a whole, with a loop device on top.

Its size is what volumes are promised, not what is written: when the pool says yes, the volume can be filled. Clones and
snapshots share blocks where the file system can (xfs, btrfs), so they are made in no time, and are still counted in
full, for every block of them may come to differ. Elsewhere they are copied, which needs a source that nobody writes to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec

from localpv import errors
from localpv.agent.pools.pool import PoolState, VolumeState, check_name
from localpv.host import devices, loop
from localpv.host.model.methods import Method
from localpv.host.pool_files import Found, PoolFiles, Record, State
from localpv.host.workers import Control, Report, Workers

T = TypeVar("T")

EXTENT_BYTES = 1024 * 1024
"""Sizes of volumes are multiples of it: whatever is below, direct I/O and file systems are aligned."""

FOREIGN_STEP = 16 * 1024 * 1024
"""What others have of the file system is told in steps of this: a log that grows is no news."""

BLOCK_BYTES = 4096
"""Logical block of every volume. Left to the kernel it would be 512 for most files and 4096 for those that share their
blocks, and a file system with smaller blocks could not be mounted from its own clone."""

CALL_SECONDS = 60.0
"""A file system that takes longer to allocate or remove one file is taken for hung, and only its pool with it."""


class FilePool:
    """The pool in one directory."""

    kind = "file"
    snapshots = True

    def __init__(self, *, name: str, directory: Path, size_bytes: int, workers: Workers) -> None:
        """`size_bytes` 0: as large as the file system."""
        self.name = name
        self._files = PoolFiles(directory)
        self._size_bytes = size_bytes
        self._workers = workers
        self._deciding = asyncio.Lock()
        """Held while it is decided whether there is room, until the decision is written."""

        self._acts: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._copied: dict[str, int] = {}
        """Sources that are being copied now, and how often."""

    async def state(self) -> PoolState:
        return await self._call(self._state_now)

    async def create(
        self, name: str, size_bytes: int, *, source: str = "", progress: Report | None = None
    ) -> VolumeState:
        check_name(name)
        size_bytes = _rounded(size_bytes)
        async with self._act(name):
            async with self._deciding:
                found, record = await self._call(lambda: self._begin(name, size_bytes, source, snapshot=False))
            if record is None:
                assert found is not None
                return _volume(found)
            return await self._fill(record, progress)

    async def snapshot(self, name: str, source: str) -> VolumeState:
        check_name(name)
        async with self._act(name):
            async with self._deciding:
                found, record = await self._call(lambda: self._begin(name, 0, source, snapshot=True))
            if record is None:
                assert found is not None
                return _volume(found)
            return await self._fill(record, None)

    async def expand(self, name: str, size_bytes: int) -> VolumeState:
        check_name(name)
        size_bytes = _rounded(size_bytes)
        async with self._act(name), self._deciding:
            return _volume(await self._call(lambda: self._expand_now(name, size_bytes)))

    async def remove(self, name: str, *, method: Method, progress: Report | None = None) -> None:
        """`method` is not needed: `pool_files` says why."""
        check_name(name)
        if name in self._copied:
            raise errors.DeviceBusy(f"{name} is being copied", hint="it is tried again by itself")
        async with self._act(name):
            await self._call(lambda: self._remove_now(name))

    async def attach(self, name: str) -> Path:
        check_name(name)
        async with self._act(name):
            return await self._call(lambda: self._attach_now(name))

    async def detach(self, name: str) -> None:
        check_name(name)
        async with self._act(name):
            await self._call(lambda: self._detach_now(name))

    def _act(self, name: str) -> asyncio.Lock:
        return self._acts.setdefault(name, asyncio.Lock())

    async def _call(self, function: Callable[[], T]) -> T:
        return await self._workers.call(function, key=f"pool {self.name}", timeout=CALL_SECONDS)

    def _state_now(self) -> PoolState:
        self._files.prepare()
        found, room = self._files.scan(), self._files.room()
        capacity = self._capacity(room.total_bytes)
        # Blocks that are shared are counted once, with the volume that had them first: the rest must be kept free.
        ours = sum(min(each.allocated_bytes, each.data_bytes) for each in found.values() if not each.record.shared)
        lacking = max(0, capacity - room.free_bytes - ours)
        return PoolState(
            capacity_bytes=capacity,
            free_bytes=room.free_bytes,
            extent_bytes=EXTENT_BYTES,
            volumes={name: _volume(each) for name, each in found.items()},
            foreign_bytes=min(-(-lacking // FOREIGN_STEP) * FOREIGN_STEP, capacity),
        )

    def _capacity(self, total_bytes: int) -> int:
        size = min(self._size_bytes, total_bytes) if self._size_bytes else total_bytes
        return size // EXTENT_BYTES * EXTENT_BYTES

    def _begin(
        self, name: str, size_bytes: int, source: str, *, snapshot: bool
    ) -> tuple[Found, None] | tuple[None, Record]:
        """Write that a volume is being made, if there is none and there is room; else the one that is there."""
        self._files.prepare()
        found = self._files.find(name)
        origin = self._source(source, name) if source else None
        if snapshot:
            assert origin is not None
            size_bytes = origin.record.size_bytes
        elif origin is not None and size_bytes < origin.record.size_bytes and found is None:
            raise errors.HostError(f"{name} must be as large as its source, which has {origin.record.size_bytes} bytes")
        if found is not None:
            record = found.record
            if record.state is State.GOING:
                raise errors.DeviceBusy(f"{name} is being removed", hint="it is tried again by itself")
            same_size = snapshot or record.size_bytes == size_bytes
            if record.snapshot is not snapshot or record.source != source or not same_size:
                raise errors.AlreadyThere(
                    f"{name} is there with {record.size_bytes} bytes, made of {record.source or 'nothing'}"
                )
            if record.state is State.READY:
                return found, None
        elif not snapshot and not size_bytes:
            raise errors.HostError(f"{name} needs a size")
        else:
            self._refuse_without_room(size_bytes)
            record = Record(
                name=name,
                size_bytes=size_bytes,
                state=State.MAKING,
                snapshot=snapshot,
                source=source,
                created=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            )
        self._files.begin(record)
        return None, record

    def _refuse_without_room(self, more_bytes: int) -> None:
        """NoRoom unless the pool can promise so much more, and the file system could keep all that was promised."""
        state = self._state_now()
        if more_bytes <= state.unpromised_bytes:
            return
        others = f", for others have {state.foreign_bytes} bytes of its file system" if state.foreign_bytes else ""
        raise errors.NoRoom(
            f"pool {self.name} has {state.unpromised_bytes} bytes left, {more_bytes} are needed{others}"
        )

    def _source(self, source: str, name: str) -> Found:
        check_name(source)
        found = self._files.find(source)
        if found is None or found.data_bytes < 0:
            raise errors.NotThere(f"{source}, of which {name} is to be made, is not in pool {self.name}")
        if found.record.state is not State.READY:
            raise errors.DeviceBusy(f"{source} is {found.record.state}", hint="it is tried again by itself")
        return found

    async def _fill(self, record: Record, progress: Report | None) -> VolumeState:
        try:
            if not record.source:
                await self._call(lambda: self._files.allocate(record.name, record.size_bytes))
            elif await self._call(lambda: self._clone(record)):
                record = msgspec.structs.replace(record, shared=True)
            else:
                await self._copy(record, progress)
            return await self._call(lambda: self._finish(record))
        except errors.NoRoom:
            await self._call(lambda: self._give_up(record))
            raise

    def _clone(self, record: Record) -> bool:
        # What the file system on the source has not written yet is not in its file. A clone of the moment after is
        # what a disk holds when the power fails: the journal of the file system makes it whole when it is mounted.
        device = loop.of_file(self._files.data(record.source))
        if device is not None:
            loop.flush(device)
        return self._files.clone(record.name, record.source, record.size_bytes, read_only=record.snapshot)

    async def _copy(self, record: Record, progress: Report | None) -> None:
        source = record.source

        def refuse_in_use() -> None:
            if loop.of_file(self._files.data(source)) is not None:
                raise errors.DeviceBusy(
                    f"{source} is in use, and its file system cannot clone: a copy would be of no one moment",
                    hint="end the pods that use it, or keep the pool on xfs or btrfs",
                )

        def copy(control: Control) -> None:
            self._files.copy(record.name, source, record.size_bytes, control)

        async with self._act(source):
            # Not attached now, and not while the copy goes on: attaching waits for this lock.
            await self._call(refuse_in_use)
            self._copied[source] = self._copied.get(source, 0) + 1
            try:
                await self._workers.long(copy, key=f"pool {self.name} copy {record.name}", on_progress=progress)
            finally:
                self._copied[source] -= 1
                if not self._copied[source]:
                    del self._copied[source]

    def _finish(self, record: Record) -> VolumeState:
        self._files.write(_with_state(record, State.READY))
        found = self._files.find(record.name)
        if found is None:
            raise errors.HostError(f"{record.name} was removed from pool {self.name} while it was being made")
        return _volume(found)

    def _give_up(self, record: Record) -> None:
        self._files.write(_with_state(record, State.GOING))
        self._files.remove(record.name)

    def _expand_now(self, name: str, size_bytes: int) -> Found:
        found = self._ready(name)
        record = found.record
        if record.snapshot:
            raise errors.NotSupported(f"{name} is a snapshot: it stays as large as it is")
        if size_bytes > record.size_bytes:
            self._refuse_without_room(size_bytes - record.size_bytes)
            # The larger size is promised before it is there: should we die between, the next call makes it true.
            self._files.write(_with_size(record, size_bytes))
        elif found.data_bytes >= record.size_bytes:
            self._grow_device(name)
            return found
        try:
            self._files.grow(name, max(size_bytes, record.size_bytes))
        except errors.NoRoom:
            self._files.write(_with_size(record, found.data_bytes))
            raise
        self._grow_device(name)
        return self._ready(name)

    def _grow_device(self, name: str) -> None:
        device = loop.of_file(self._files.data(name))
        if device is not None:
            loop.grow(device)

    def _remove_now(self, name: str) -> None:
        found = self._files.find(name)
        if found is None:
            self._files.remove_empty(name)
            return
        device = loop.of_file(self._files.data(name))
        if device is not None:
            _refuse_in_use(device, name)
        if found.record.state is not State.GOING:
            self._files.write(_with_state(found.record, State.GOING))
        self._detach_now(name)
        self._files.remove(name)

    def _attach_now(self, name: str) -> Path:
        found = self._ready(name)
        if found.data_bytes < found.record.size_bytes:
            self._files.grow(name, found.record.size_bytes)  # we died while it was expanded
        data = self._files.data(name)
        device = loop.of_file(data)
        if device is None:
            device = loop.attach(
                data,
                read_only=found.record.snapshot,
                direct_io=True,
                block_size=BLOCK_BYTES,
                name=name[: loop.NAME_BYTES],
            )
        return device

    def _detach_now(self, name: str) -> None:
        data = self._files.data(name)
        device = loop.of_file(data)
        if device is None:
            return
        _refuse_in_use(device, name)
        loop.detach(device)
        if loop.of_file(data) == device:
            # Open by somebody who has not claimed it: it goes when they close it.
            raise errors.DeviceBusy(f"{device} of {name} is open", hint="it is tried again by itself")

    def _ready(self, name: str) -> Found:
        found = self._files.find(name)
        if found is None:
            raise errors.NotThere(f"{name} is not in pool {self.name}")
        if found.record.state is not State.READY:
            raise errors.DeviceBusy(f"{name} is {found.record.state}", hint="it is tried again by itself")
        if found.data_bytes < 0:
            raise errors.HostError(f"the data of {name} in pool {self.name} is gone")
        return found


def _refuse_in_use(device: Path, name: str) -> None:
    if not devices.opens_exclusively(device):
        raise errors.DeviceBusy(f"{name} is in use by {device}", hint="it is tried again by itself")


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // EXTENT_BYTES) * EXTENT_BYTES


def _with_state(record: Record, state: State) -> Record:
    return msgspec.structs.replace(record, state=state)


def _with_size(record: Record, size_bytes: int) -> Record:
    return msgspec.structs.replace(record, size_bytes=size_bytes)


def _volume(found: Found) -> VolumeState:
    record = found.record
    abnormal = found.broken
    if not abnormal and record.state is State.READY and found.data_bytes < 0:
        abnormal = "its data is gone"
    return VolumeState(
        name=record.name,
        size_bytes=max(found.data_bytes, 0) if record.state is State.READY else record.size_bytes,
        promised_bytes=max(record.size_bytes, found.data_bytes),
        is_snapshot=record.snapshot,
        source=record.source,
        ready=record.state is State.READY and not found.broken,
        going=record.state is State.GOING,
        abnormal=abnormal,
        created=record.created,
    )
