"""A node in memory: records, disks and executor, each of which can die at any call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from tests.unit.manager.memory_records import MemoryRecords

from localpv import errors
from localpv.agent.clean.cleaner import Cleaner
from localpv.agent.clean.executor import Target
from localpv.agent.clean.locks import Locks
from localpv.agent.clean.paths import Place
from localpv.agent.clean.plans import Plan
from localpv.agent.clean.reconciler import CleaningReconciler, CleaningScope, Limits
from localpv.agent.clean.slots import Slots
from localpv.api.kinds.localdisk import (
    Cleaning,
    CleanOrder,
    DiskIdentity,
    DiskKind,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    VolumeMode,
)
from localpv.api.kinds.meta import Kind, ObjectMeta
from localpv.config.settings import ClassSettings
from localpv.disk.records import Ours, every_record
from localpv.host.model.identity import Identity
from localpv.host.model.methods import Progress
from localpv.host.workers import Report
from localpv.observe.cleaning import Cleanings
from localpv.runtime.controller import Done, LookAgain, Outcome
from localpv.testing.clock import FakeClock

NODE, CLASS, FOLDER = "node-1", "fast", "/mnt/disks"
CHUNKS = 4
SETTINGS = ClassSettings(name=CLASS, host_dir=FOLDER, mount_dir=FOLDER)


class Killed(BaseException):
    """The process ends here: nothing that comes after happens."""


class Fuse:
    """Counts the calls of a process to the outside and kills it at one of them."""

    def __init__(self, at: int = 0) -> None:
        self.at, self.count = at, 0

    def burn(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise Killed


class FakeRecords(MemoryRecords):
    """Records whose caller can die before a write and just after it."""

    def __init__(self) -> None:
        super().__init__()
        self.fuse = Fuse()
        self.troubles: list[Exception] = []
        """Raised by the next writes, one each."""

        self.writes: list[LocalDisk] = []

    async def get(self, name: str) -> LocalDisk | None:
        self.fuse.burn()
        await asyncio.sleep(0)
        return await super().get(name)

    async def write_status(self, disk: LocalDisk, status: LocalDiskStatus, *, locked: bool = True) -> LocalDisk:
        self.fuse.burn()
        await asyncio.sleep(0)
        if self.troubles:
            raise self.troubles.pop(0)
        written = self.change(disk, locked=locked, status=status)
        self.writes.append(written)
        self.fuse.burn()
        return written


@dataclass
class FakeDisk:
    """What really lies on a disk."""

    dirty: set[int] = field(default_factory=lambda: set(range(CHUNKS)))
    identity: str = "serial-1"
    lock: str = "device-8-16"
    users: str = ""
    no_answer: Exception | None = None
    """Raised when it is asked who uses it."""

    fails: list[Exception] = field(default_factory=list)
    """Raised half-way by the next cleanings, one each."""

    gate: asyncio.Event | None = None
    """While it is not set, a cleaning stays half-way."""

    deaf: bool = False
    """Whether a cleaning that hangs at the gate cannot be stopped."""

    touched: bool = False
    running: int = 0
    most_running: int = 0


class FakeHands:
    """Cleans disks in memory and watches that the rules are kept while it does."""

    def __init__(self, records: FakeRecords) -> None:
        self.records = records
        self.disks: dict[str, FakeDisk] = {}
        self.fuse = Fuse()
        self.looked: list[str] = []
        self.running = self.most_running = 0

    async def look(self, disk: LocalDisk, place: Place) -> Target:
        self.fuse.burn()
        self.looked.append(disk.metadata.name)
        found, recorded = self.disks.get(place.path.name), disk.spec.identity
        if found is None:
            raise errors.OutsideFolder(f"{place.path} leads nowhere")
        if recorded is None or recorded.serial != found.identity:
            raise errors.DeviceChanged(f"serial was {recorded and recorded.serial}, is {found.identity}")
        return Target(
            kind=DiskKind(disk.status.kind), place=place, identity=Identity(), lock=found.lock, size_bytes=CHUNKS
        )

    async def users(self, target: Target) -> str:
        self.fuse.burn()
        disk = self.disks[target.place.path.name]
        if disk.no_answer is not None:
            raise disk.no_answer
        return disk.users

    async def clean(self, target: Target, plan: Plan, *, on_progress: Report) -> None:
        name = target.place.path.name
        disk = self.disks[name]
        record = next(one for one in self.records.disks.values() if one.spec.entry == name)
        # State is written before the act that it describes.
        assert record.status.cleaning is not None and record.status.cleaning.state == "Running"
        assert record.spec.clean is not None and record.status.cleaning.volume_uid == record.spec.clean.volume_uid
        disk.running += 1
        self.running += 1
        disk.most_running = max(disk.most_running, disk.running)
        self.most_running = max(self.most_running, self.running)
        try:
            for chunk in range(CHUNKS):
                self.fuse.burn()
                on_progress(Progress(done=chunk, total=CHUNKS, step="wiping"))
                await asyncio.sleep(0)
                if chunk == CHUNKS // 2:
                    await self._half_way(disk)
                disk.touched = True
                disk.dirty.discard(chunk)
            self.fuse.burn()
            if disk.dirty:
                raise errors.NotClean("old data is left")
        finally:
            disk.running -= 1
            self.running -= 1

    async def _half_way(self, disk: FakeDisk) -> None:
        while disk.gate is not None and not disk.gate.is_set():
            try:
                await disk.gate.wait()
            except asyncio.CancelledError:
                if not disk.deaf:
                    raise
        if disk.fails:
            raise disk.fails.pop(0)


class Told(Cleanings):
    """Remembers what was told."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, str, bool]] = []
        self.refusals: list[str] = []
        self.counted: list[tuple[str, ...]] = []

    def started(self, disk: LocalDisk, order: CleanOrder, method: str) -> None:
        super().started(disk, order, method)
        self.counted.append(("began", disk.spec.volume_mode, method))

    def verified(self, disk: LocalDisk, order: CleanOrder, method: str, **figures: Any) -> None:
        super().verified(disk, order, method, **figures)
        self.counted.append(("verified", disk.spec.volume_mode, method, str(figures["size_bytes"])))

    def failed(self, disk: LocalDisk, order: CleanOrder, method: str, *, reason: str, message: str) -> None:
        super().failed(disk, order, method, reason=reason, message=message)
        self.counted.append(("failed", disk.spec.volume_mode, method, reason))

    def refused(self, disk: LocalDisk, order: CleanOrder, *, reason: str, message: str) -> None:
        super().refused(disk, order, reason=reason, message=message)
        self.refusals.append(reason)

    def event(self, about: Kind, reason: str, message: str, *, warning: bool = False, part: str = "") -> None:
        self.events.append((str(reason), message, warning))

    @property
    def reasons(self) -> list[str]:
        return [reason for reason, _, _ in self.events]


class World:
    """Everything that outlives the process, and the process."""

    def __init__(self, folder: Path, *, limits: Limits | None = None) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.records = FakeRecords()
        self.executor = FakeHands(self.records)
        self.told = Told()
        self.limits = limits or Limits()
        self.settings = {CLASS: SETTINGS}
        self.called: list[str] = []
        self.only = ""
        self.ours: Ours = every_record
        self.start()

    def start(self, *, dies_at: int = 0) -> Fuse:
        """A new process, with nothing in its memory."""
        self.records.fuse = self.executor.fuse = fuse = Fuse(dies_at)
        self.reconciler = CleaningReconciler(
            scope=CleaningScope(node=NODE, only=self.only, ours=self.ours),
            records=self.records,
            classes=lambda: self.settings,
            executor=self.executor,
            locks=Locks(self.folder / "locks"),
            slots=Slots(self.limits.at_once, call=self.called.append),
            clock=self.clock,
            recorder=self.told,
            limits=self.limits,
        )
        return fuse

    def cleaner(self) -> Cleaner:
        return Cleaner(
            scope=CleaningScope(node=NODE),
            records=self.records,
            classes=lambda: self.settings,
            executor=self.executor,
            state_folder=self.folder,
            clock=self.clock,
            recorder=self.told,
            limits=self.limits,
        )

    def add(
        self, entry: str = "sdb", *, uid: str = "uid-1", method: tuple[str, ...] = ("dd-zero", "1"), node: str = NODE
    ) -> str:
        """A disk full of data and its record, with an order unless the uid is empty."""
        self.executor.disks[entry] = FakeDisk(identity=f"serial-{entry}", lock=f"device-{entry}")
        order = CleanOrder(volume_name=f"pv-{entry}", volume_uid=uid, method=method) if uid else None
        return self.records.keep(
            LocalDisk(
                metadata=ObjectMeta(name=f"{NODE}-{entry}", uid=f"record-{entry}"),
                spec=LocalDiskSpec(
                    node_name=node,
                    storage_class_name=CLASS,
                    entry=entry,
                    path=f"{FOLDER}/{entry}",
                    volume_mode=VolumeMode.BLOCK,
                    identity=DiskIdentity(serial=f"serial-{entry}"),
                    clean=order,
                ),
                status=LocalDiskStatus(kind=DiskKind.BLOCK_DEVICE),
            )
        ).metadata.name

    def change(self, name: str, change: Callable[[LocalDiskSpec], LocalDiskSpec]) -> None:
        """What the manager writes."""
        disk = self.records.disks[name]
        self.records.keep(msgspec.structs.replace(disk, spec=change(disk.spec)))

    def order(self, name: str, uid: str | None) -> None:
        clean = CleanOrder(volume_name="pv", volume_uid=uid, method=("dd-zero", "1")) if uid else None
        self.change(name, lambda spec: msgspec.structs.replace(spec, clean=clean))

    def disk(self, name: str) -> FakeDisk:
        return self.executor.disks[self.records.disks[name].spec.entry]

    def status(self, name: str) -> LocalDiskStatus:
        return self.records.disks[name].status

    def cleaning(self, name: str) -> Cleaning:
        found = self.status(name).cleaning
        assert found is not None
        return found

    async def step(self, name: str) -> Outcome:
        return await self.reconciler.step(name)

    async def to_end(self, name: str) -> None:
        """Steps until there is nothing more to do, letting time pass where that is asked for."""
        for _ in range(50):
            match await self.reconciler.step(name):
                case Done():
                    return
                case LookAgain(after=seconds):
                    await self.clock.advance(seconds)
        raise AssertionError(f"no end: {self.cleaning(name)}")

    def check_rules(self, name: str) -> None:
        """What must be true at every moment."""
        disk, cleaning = self.disk(name), self.status(name).cleaning
        verified = cleaning is not None and cleaning.state == "Verified"
        assert not (verified and disk.dirty), "a disk with old data counts as clean"
        if disk.touched and not verified:
            assert cleaning is not None and cleaning.state in ("Running", "Failed"), "nobody knows that it was begun"
