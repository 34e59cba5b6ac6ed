"""A node for journeys: real loop devices and directories, records in a folder, and the cleaner over them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
from tests.loops import Lent

from localpv.agent.clean.cleaner import Cleaner
from localpv.agent.clean.host_executor import HostExecutor
from localpv.agent.clean.reconciler import CleaningScope, Limits
from localpv.api.kinds.localdisk import (
    Cleaning,
    CleanOrder,
    DiskKind,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    VolumeMode,
)
from localpv.api.kinds.meta import ObjectMeta
from localpv.config.settings import ClassSettings
from localpv.disk import identity as identities
from localpv.disk.records import names
from localpv.disk.records.folder import FolderRecords
from localpv.host import loop
from localpv.host.devices import KernelDevices, KernelOpeners
from localpv.host.marks import DiskMarks
from localpv.host.model.identity import Identity
from localpv.host.mounts import KernelMounts
from localpv.host.trees import KernelTrees
from localpv.host.wiper import KernelWiper
from localpv.host.workers import Workers
from localpv.observe.cleaning import Cleanings
from localpv.observe.recorder import Recorder
from localpv.testing.waiting import PATIENCE_SECONDS

NODE = "node-1"
CLASS = "fast"
MIB = 1024 * 1024
PATTERN = b"the old tenant's secret "


class Machine:
    """One node in one folder. What it mounts and attaches goes with `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disks = folder / "disks"
        self.disks.mkdir(parents=True, exist_ok=True)
        self.settings = ClassSettings(name=CLASS, host_dir=str(self.disks), mount_dir=str(self.disks))
        self.records = FolderRecords(folder / "records")
        self.workers = Workers()
        self.mounts = KernelMounts()
        self.devices = KernelDevices(workers=self.workers)
        self._loops: list[Lent] = []
        self._mounted: list[Path] = []

    def close(self) -> None:
        self.records.close()
        for path in reversed(self._mounted):
            subprocess.run(["umount", "-l", path], check=False, capture_output=True)
        for lent in self._loops:
            lent.give_back()

    def reopen(self) -> None:
        """Read the records again after another process had them."""
        self.records = FolderRecords(self.folder / "records")
        self.records.open()

    def classes(self) -> Mapping[str, ClassSettings]:
        return {CLASS: self.settings}

    def executor(self) -> HostExecutor:
        return HostExecutor(
            workers=self.workers,
            devices=self.devices,
            mounts=self.mounts,
            openers=KernelOpeners(workers=self.workers),
            trees=KernelTrees(workers=self.workers, mounts=self.mounts),
            wiping=KernelWiper(workers=self.workers, devices=self.devices),
            marks=DiskMarks(workers=self.workers),
        )

    def cleaner(self, *, limits: Limits | None = None, events: Recorder | None = None) -> Cleaner:
        return Cleaner(
            scope=CleaningScope(node=NODE),
            records=self.records,
            classes=self.classes,
            executor=self.executor(),
            state_folder=self.folder / "state",
            limits=limits,
            recorder=Cleanings(to=events),
        )

    @asynccontextmanager
    async def cleaning(self, *, limits: Limits | None = None, events: Recorder | None = None) -> AsyncIterator[None]:
        """The cleaner runs for as long as the block does."""
        task = asyncio.create_task(self.cleaner(limits=limits, events=events).run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def device(self, name: str, *, size: int = 32 * MIB, linked: bool = True) -> Path:
        """A loop device full of old data, with a link to it among the disks."""
        file = self.folder / f"{name}.img"
        file.write_bytes((PATTERN * (size // len(PATTERN) + 1))[:size])
        device = self.attach(file)
        if linked:
            (self.disks / name).symlink_to(device)
        return device

    def attach(self, file: Path) -> Path:
        """A loop device over a file, or over another device."""
        device = loop.attach(file)
        self._loops.insert(0, Lent.now(device))
        return device

    def run(self, *argv: str | Path) -> None:
        subprocess.run(argv, check=True, capture_output=True)

    def make_file_system(self, device: Path, *options: str) -> None:
        self.run("mkfs.ext4", "-q", "-F", *options, device)

    def script(self, name: str, *lines: str) -> tuple[str, ...]:
        """A command of the administrator."""
        path = self.folder / name
        path.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
        path.chmod(0o755)
        return (str(path),)

    def mount(self, source: str | Path, at: Path, *options: str) -> Path:
        at.mkdir(parents=True, exist_ok=True)
        self.run("mount", *options, source, at)
        self._mounted.append(at)
        return at

    def unmount(self, at: Path) -> None:
        self.run("umount", at)

    async def identity(self, entry: str, kind: DiskKind) -> Identity:
        path = self.disks / entry
        if kind is DiskKind.BLOCK_DEVICE:
            return (await self.devices.describe(path, exclusive=False)).identity
        mount = (await self.mounts.table()).containing(path.parent.resolve() / entry)
        assert mount is not None
        found = await self.devices.behind(mount)
        if kind is DiskKind.MOUNT_POINT:
            return found
        return replace(found, mount_id=0).of_directory(await self.devices.directory(path, mount))

    async def record(
        self, entry: str, kind: DiskKind = DiskKind.BLOCK_DEVICE, *, mode: VolumeMode | None = None
    ) -> LocalDisk:
        """The record of a published disk, as discovery and the manager leave it."""
        identity = identities.written(await self.identity(entry, kind))
        mode = mode or (VolumeMode.BLOCK if kind is DiskKind.BLOCK_DEVICE else VolumeMode.FILESYSTEM)
        disk = LocalDisk(
            metadata=ObjectMeta(name=names.disk_name(NODE, CLASS, entry)),
            spec=LocalDiskSpec(
                node_name=NODE,
                storage_class_name=CLASS,
                entry=entry,
                path=str(self.disks / entry),
                volume_mode=mode,
                identity=identity,
            ),
        )
        disk = await self.records.create(disk)
        return await self.records.write_status(disk, LocalDiskStatus(kind=kind, identity=identity))

    async def order(self, disk: LocalDisk, *method: str, uid: str = "uid-1") -> LocalDisk:
        clean = CleanOrder(volume_name=f"pv-{disk.spec.entry}", volume_uid=uid, method=method)
        now = await self.records.get(disk.metadata.name)
        assert now is not None
        return await self.records.write_spec(now, msgspec.structs.replace(now.spec, clean=clean))

    def file_says(self, disk: LocalDisk, text: str) -> bool:
        """Whether the file of a record holds a text, for while another process has the records."""
        return text in (self.folder / "records" / f"{disk.metadata.name}.json").read_text()

    async def status(self, disk: LocalDisk) -> Cleaning | None:
        now = await self.records.get(disk.metadata.name)
        assert now is not None
        return now.status.cleaning

    async def until(self, disk: LocalDisk, *states: str, reason: str = "") -> Cleaning:
        """Wait until the cleaning of a disk is in one of these states."""
        seen = None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    seen = await self.status(disk)
                    if seen is not None and seen.state in states and reason in ("", seen.reason):
                        return seen
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"never became {states} {reason}: {seen}") from None


def open_machine(tmp_path: Path) -> Iterator[Machine]:
    """For a fixture: a machine whose mounts and loop devices are gone after the test."""
    machine = Machine(tmp_path)
    machine.records.open()
    try:
        yield machine
    finally:
        machine.close()


def holds_old_data(path: Path) -> bool:
    """Whether the old pattern can be read anywhere on a device, past the kernel's cache."""
    subprocess.run(["blockdev", "--flushbufs", path], check=True)
    with path.open("rb") as device:
        return any(PATTERN in chunk for chunk in iter(lambda: device.read(4 * MIB), b""))
