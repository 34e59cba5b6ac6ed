"""A node with a machine in memory, whose discovery runs for the time of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from tests.unit.manager.worlds import FakeEvents

from localpv.agent.discover.discovery import Discovery, HostView
from localpv.agent.discover.entry import Place
from localpv.api.kinds.localdisk import CleanOrder, LocalDisk, OfferedVolume
from localpv.config.settings import ClassSettings, Configuration
from localpv.disk.records import Ours, every_record
from localpv.disk.records.folder import FolderRecords
from localpv.disk.records.names import disk_name
from localpv.host.workers import Workers
from localpv.observe.discovery import Discoveries
from localpv.runtime.clock import SystemClock
from localpv.testing.fake_host import FakeDevices, FakeFolders, FakeMachine, FakeMounts, FakeUevents
from localpv.testing.fake_volume_host import FakeMarks
from localpv.testing.waiting import eventually

NODE = "node-1"
FOLDER = "/mnt/fast"


def a_class(name: str = "fast", *, folder: str = FOLDER, **settings: object) -> ClassSettings:
    return ClassSettings(name=name, host_dir=folder, mount_dir=folder, **settings)  # type: ignore[arg-type]


def configured(*classes: ClassSettings) -> Configuration:
    return Configuration(classes={settings.name: settings for settings in classes})


@dataclass
class World:
    """The machine, its discovery, and the records as the manager would see them."""

    machine: FakeMachine
    records: FolderRecords
    discovery: Discovery
    events: FakeEvents

    def find(self, entry: str, storage_class: str = "fast") -> LocalDisk | None:
        return self.records._records.get(disk_name(NODE, storage_class, entry))

    def disk(self, entry: str, storage_class: str = "fast") -> LocalDisk:
        found = self.find(entry, storage_class)
        assert found is not None, f"no record of {entry}"
        return found

    async def until(self, entry: str, *words: str, storage_class: str = "fast") -> LocalDisk:
        """Wait until the record of an entry is in a phase and, if it is named, has a reason."""

        def reached() -> bool:
            found = self.find(entry, storage_class)
            return found is not None and (found.status.phase, found.status.reason)[: len(words)] == words

        try:
            await eventually(reached)
        except AssertionError:
            found = self.find(entry, storage_class)
            raise AssertionError(
                f"{entry} never was {words}, but {found.status if found else 'has no record'}"
            ) from None
        return self.disk(entry, storage_class)

    async def until_gone(self, entry: str, storage_class: str = "fast") -> None:
        await eventually(lambda: self.find(entry, storage_class) is None, what=f"{entry} has no record")

    async def publish(self, entry: str, storage_class: str = "fast") -> LocalDisk:
        """What the manager does when it offers a disk."""
        disk = await self.until(entry, "Available", storage_class=storage_class)
        offered = OfferedVolume(name=f"pv-{entry}", uid=f"uid-{entry}")
        await self.records.write_spec(
            disk, msgspec.structs.replace(disk.spec, volume=offered, identity=disk.status.identity)
        )
        return await self.until(entry, "Published", storage_class=storage_class)

    async def order_cleaning(self, entry: str) -> LocalDisk:
        disk = self.disk(entry)
        assert disk.spec.volume is not None
        order = CleanOrder(volume_name=disk.spec.volume.name, volume_uid=disk.spec.volume.uid)
        await self.records.write_spec(disk, msgspec.structs.replace(disk.spec, clean=order))
        return await self.until(entry, "Releasing")

    async def take_back(self, entry: str) -> LocalDisk:
        """What the manager does when the volume is gone and the disk clean."""
        disk = self.disk(entry)
        return await self.records.write_spec(
            disk, msgspec.structs.replace(disk.spec, volume=None, identity=None, clean=None)
        )

    async def round(self) -> None:
        """Let everything be looked at, and wait until it was."""
        self.discovery.look_at_everything()
        queues = (self.discovery._surveys, self.discovery._looks, self.discovery._loops)
        idle = 0
        while idle < 5:  # what one look wrote may come back and let the next one begin
            await asyncio.sleep(0.01)
            idle = 0 if any(queue._waiting or queue._taken for queue in queues) else idle + 1

    def place(self, entry: str, storage_class: str = "fast") -> Place:
        return Place(storage_class, entry)


@asynccontextmanager
async def discovering(
    machine: FakeMachine,
    state: Path,
    *classes: ClassSettings,
    settle_seconds: float = 0.05,
    round_seconds: float = 60.0,
    resync_seconds: float = 300.0,
    records: FolderRecords | None = None,
    marks: FakeMarks | None = None,
    ours: Ours = every_record,
    engine: str = "",
) -> AsyncIterator[World]:
    records = records or FolderRecords(state)
    records.open()
    events = FakeEvents()
    discovery = Discovery(
        node=NODE,
        records=records,
        host=HostView(
            folders=FakeFolders(machine),
            mounts=FakeMounts(machine),
            devices=FakeDevices(machine),
            marks=marks or FakeMarks(),
            uevents=FakeUevents(machine),
            workers=Workers(),
        ),
        clock=SystemClock(),
        configuration=replace(configured(*(classes or (a_class(),))), min_resync_seconds=resync_seconds),
        settle_seconds=settle_seconds,
        round_seconds=round_seconds,
        recorder=Discoveries(to=events),
        ours=ours,
        engine=engine,
    )
    running = asyncio.create_task(discovery.run())
    try:
        yield World(machine, records, discovery, events)
        assert not running.done(), "discovery ended by itself"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        records.close()
