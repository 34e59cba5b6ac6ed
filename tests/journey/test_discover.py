"""Real mounts, loop devices and links on this machine become LocalDisks at an API server. Needs root."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import subprocess
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from tests.contract import custom, wire

from localpv.agent.discover.discovery import Discovery, HostView
from localpv.api.kinds.localdisk import LocalDisk, OfferedVolume
from localpv.client import client as clients
from localpv.client import config
from localpv.config.settings import ClassSettings, Configuration
from localpv.disk.records.api import ApiRecords
from localpv.disk.records.names import disk_name
from localpv.host import loop
from localpv.host.devices import Devices, KernelDevices
from localpv.host.folders import KernelFolders
from localpv.host.loop import LoopHolders
from localpv.host.marks import DiskMarks
from localpv.host.model.devices import BlockDevice
from localpv.host.mounts import KernelMounts
from localpv.host.uevents import KernelUevents
from localpv.host.workers import Workers
from localpv.runtime.clock import SystemClock
from localpv.testing.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and loop devices need root")

MIB = 1024 * 1024


@dataclass
class Machine:
    """What a test puts on this machine; all of it is taken back at the end."""

    folder: Path
    scratch: Path
    undo: ExitStack = field(default_factory=ExitStack)

    def mount(self, name: str, *words: str) -> Path:
        place = self.folder / name
        place.mkdir(exist_ok=True)
        _run("mount", *(words or ("-t", "tmpfs", "-o", "size=8m", "tmpfs")), str(place))
        self.undo.callback(_quietly, "umount", "--lazy", str(place))
        return place

    def unmount(self, place: Path) -> None:
        _once_free("umount", str(place))

    def device(self, *, size: int = 64 * MIB, fs_type: str = "", partitioned: bool = False) -> Path:
        file = self.scratch / f"disk-{uuid.uuid4().hex}"
        with file.open("wb") as made:
            made.truncate(size)
        if fs_type:
            _run(f"mkfs.{fs_type}", "-q", str(file))
        if partitioned:
            # One partition of type Linux from sector 2048 on, as every partitioning tool would begin.
            with file.open("r+b") as table:
                table.seek(446)
                table.write(bytes((0, 0, 0, 0, 0x83, 0, 0, 0)) + struct.pack("<II", 2048, 2048))
                table.seek(510)
                table.write(b"\x55\xaa")
        device = loop.attach(file)
        self.undo.callback(loop.detach, device)
        return device

    def link(self, name: str, target: Path) -> Path:
        place = self.folder / name
        place.symlink_to(target)
        return place


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def _once_free(*words: str) -> None:
    """Do something to a disk that discovery knows: while it looks at the disk, others find it busy."""
    wire.eventually(
        lambda: subprocess.run(words, check=False, capture_output=True).returncode == 0, f"{words} succeeds"
    )


def _quietly(*words: str) -> None:
    subprocess.run(words, check=False, capture_output=True)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "disks", tmp_path / "scratch")
    made.folder.mkdir()
    made.scratch.mkdir()
    with made.undo:
        yield made


@pytest.fixture(scope="module")
def _kind_installed(target: wire.Target) -> Iterator[None]:
    with custom.installed(target, "localdisks"):
        yield


@dataclass
class Node:
    """A node whose discovery runs, and its records as others see them."""

    name: str
    records: ApiRecords
    discovery: Discovery

    async def until(self, entry: str, *words: str) -> LocalDisk:
        """Wait until an entry's record is in a phase and, if it is named, has a reason."""
        last: LocalDisk | None = None

        async def reached() -> bool:
            nonlocal last
            last = await self.records.get(disk_name(self.name, "fast", entry))
            return last is not None and (last.status.phase, last.status.reason)[: len(words)] == words

        await _until(reached, lambda: f"{entry} never was {words}, but {last.status if last else 'without a record'}")
        assert last is not None
        return last

    async def publish(self, entry: str) -> LocalDisk:
        disk = await self.until(entry, "Available")
        spec = msgspec.structs.replace(
            disk.spec, volume=OfferedVolume(name=f"pv-{uuid.uuid4()}", uid="uid"), identity=disk.status.identity
        )
        await self.records.write_spec(disk, spec)
        return await self.until(entry, "Published")


async def _until(condition: Callable[[], Awaitable[bool]], what: Callable[[], str]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not await condition():
        assert time.monotonic() < end, what()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def discovering(
    target: wire.Target,
    machine: Machine,
    *,
    workers: Workers | None = None,
    devices: Devices | None = None,
    settle_seconds: float = 0.2,
    **settings: object,
) -> AsyncIterator[Node]:
    name, workers = f"node-{uuid.uuid4().hex[:8]}", workers or Workers()
    fast = ClassSettings(name="fast", host_dir=str(machine.folder), mount_dir=str(machine.folder), **settings)  # type: ignore[arg-type]
    connection = config.load(target.kubeconfig)
    async with clients.connect(connection, component="agent") as client:
        records = ApiRecords(client, node=name)
        discovery = Discovery(
            node=name,
            records=records,
            host=HostView(
                folders=KernelFolders(workers=workers),
                mounts=KernelMounts(),
                devices=devices or KernelDevices(workers=workers),
                marks=DiskMarks(workers=workers),
                uevents=KernelUevents(),
                workers=workers,
            ),
            clock=SystemClock(),
            configuration=Configuration(classes={"fast": fast}),
            settle_seconds=settle_seconds,
        )
        running = asyncio.create_task(discovery.run())
        try:
            yield Node(name, records, discovery)
            assert not running.done(), "discovery ended by itself"
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            with contextlib.suppress(Exception):
                for disk in await records.list():
                    await records.delete(disk)


@pytest.fixture
async def node(target: wire.Target, machine: Machine, _kind_installed: None) -> AsyncIterator[Node]:
    async with discovering(target, machine, volume_mode="") as made:
        yield made


@pytest.mark.seed("DSC-1", "DSC-9", "DSC-10", "DSC-12")
async def test_directories_mounts_and_devices_lie_in_one_folder_and_each_is_told_as_what_it_is(
    machine: Machine, node: Node
) -> None:
    await node.discovery.wait_looked()
    (machine.folder / "directory").mkdir()
    machine.mount("memory")
    machine.mount("ext4", "-o", "loop", str(_image(machine, "ext4")))
    raw = machine.device(size=32 * MIB)
    machine.link("raw", raw)

    directory = await node.until("directory", "Available")
    memory = await node.until("memory", "Available")
    ext4 = await node.until("ext4", "Available")
    device = await node.until("raw", "Available")

    room = os.statvfs(machine.folder)
    assert (directory.status.kind, directory.spec.volume_mode) == ("Directory", "Filesystem")
    assert directory.status.capacity_bytes == room.f_blocks * room.f_frsize
    assert (memory.status.kind, memory.status.capacity_bytes) == ("MountPoint", 8 * MIB)
    assert ext4.status.kind == "MountPoint"
    assert ext4.status.identity is not None and ext4.status.identity.fs_uuid
    assert (device.status.kind, device.spec.volume_mode) == ("BlockDevice", "Block")
    assert (device.status.capacity_bytes, device.status.size) == (32 * MIB, "32Mi")
    assert device.status.identity is not None and device.status.identity.inode


def _image(machine: Machine, fs_type: str) -> Path:
    file = machine.scratch / f"image-{uuid.uuid4().hex}"
    with file.open("wb") as made:
        made.truncate(64 * MIB)
    _run(f"mkfs.{fs_type}", "-q", str(file))
    return file


@pytest.mark.seed("DSC-8")
async def test_what_must_not_be_offered_is_told_with_its_reason(machine: Machine, node: Node) -> None:
    mounted = machine.device(fs_type="ext4")
    _run("mount", str(mounted), str(_made(machine.scratch / "elsewhere")))
    machine.undo.callback(_quietly, "umount", str(machine.scratch / "elsewhere"))
    (machine.folder / "README").write_text("not a disk")
    machine.link("mounted", mounted)
    machine.link("formatted", machine.device(fs_type="ext4"))
    machine.link("partitioned", machine.device(partitioned=True))
    machine.link("dangling", Path("/dev/disk/by-id/not-there"))
    machine.link("directory", _made(machine.scratch / "plain"))
    machine.mount("read-only", "-t", "tmpfs", "-o", "ro,size=8m", "tmpfs")
    held = machine.device()
    # Before it is found: whoever looks at it has it exclusively for a moment.
    holder = os.open(held, os.O_RDWR | os.O_EXCL)
    machine.link("held", held)
    try:
        for entry, reason in {
            "README": "NotADirectoryNorDevice",
            "mounted": "Mounted",
            "formatted": "HasFileSystem",
            "partitioned": "Partitioned",
            "dangling": "DanglingLink",
            "directory": "LinkToDirectory",
            "read-only": "ReadOnly",
            "held": "InUse",
        }.items():
            assert (await node.until(entry, "Unavailable", reason)).status.eligible is False
    finally:
        os.close(holder)
    await node.until("held", "Available")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def test_swap_is_never_offered(machine: Machine, node: Node) -> None:
    device = machine.device()
    _run("mkswap", str(device))

    machine.link("swap", device)

    await node.until("swap", "Unavailable", "Swap")


async def test_announced_file_system_is_accepted_and_another_is_not(
    target: wire.Target, machine: Machine, _kind_installed: None
) -> None:
    machine.link("announced", machine.device(fs_type="ext4"))
    machine.link("other", machine.device(fs_type="ext2"))
    async with discovering(target, machine, fs_type="ext4", volume_mode="Filesystem") as node:
        await node.until("announced", "Available")
        await node.until("other", "Unavailable", "HasFileSystem")


async def test_mount_made_on_a_new_directory_is_what_is_offered(
    target: wire.Target, machine: Machine, _kind_installed: None
) -> None:
    # A mount ends the waiting; without one the directory would never be offered here.
    async with discovering(target, machine, volume_mode="", settle_seconds=3600) as node:
        await node.discovery.wait_looked()
        (machine.folder / "a").mkdir()
        await node.until("a", "Unavailable", "Settling")

        machine.mount("a")

        assert (await node.until("a", "Available")).status.kind == "MountPoint"


async def test_published_mount_point_that_is_unmounted_is_missing_until_the_same_is_mounted_again(
    machine: Machine, node: Node
) -> None:
    image, other = _image(machine, "ext4"), _image(machine, "ext4")
    place = machine.mount("a", "-o", "loop", str(image))
    await node.publish("a")

    machine.unmount(place)
    assert (await node.until("a", "Missing", "WasMountPoint")).status.eligible is False

    machine.mount("a", "-o", "loop", str(other))
    await node.until("a", "Missing", "IdentityChanged")
    machine.unmount(place)

    machine.mount("a", "-o", "loop", str(image))
    assert (await node.until("a", "Published")).status.eligible is True


async def test_device_swapped_behind_a_published_link_is_told(machine: Machine, node: Node) -> None:
    place = machine.link("a", machine.device())
    published = await node.publish("a")

    place.unlink()
    machine.link("a", machine.device())

    changed = await node.until("a", "Missing", "IdentityChanged")
    assert changed.spec.identity == published.spec.identity


async def test_raw_device_is_in_use_while_it_is_mapped_for_a_pod(machine: Machine, node: Node) -> None:
    device = machine.device()
    machine.link("a", device)
    inside = machine.device()
    os.mknod(machine.folder / "b", 0o60600, os.stat(inside).st_rdev)
    for entry in ("a", "b"):
        await node.publish(entry)

    # The engine keeps a loop device on it, and so does kubelet.
    holding = LoopHolders(workers=Workers())
    described = await KernelDevices(workers=Workers()).describe(device, exclusive=False)
    machine.undo.callback(lambda: [loop.detach(found.device) for found in [loop.find(node.name)] if found])
    await holding.hold(device, described.number, name=node.name)
    await node.until("a", "InUse")
    await holding.release(node.name)
    await node.until("a", "Published")

    # kubelet bind-mounts the node of the device itself, below its global map path.
    for entry, source in (("a", device), ("b", machine.folder / "b")):
        place = machine.scratch / f"volumeDevices-{entry}"
        place.touch()
        _run("mount", "--bind", str(source), str(place))
        machine.undo.callback(_quietly, "umount", "--lazy", str(place))
        await node.until(entry, "InUse")
        _run("umount", str(place))
        await node.until(entry, "Published")


async def test_published_device_in_use_is_told_and_its_entry_may_go(machine: Machine, node: Node) -> None:
    device = machine.device()
    link = machine.link("a", device)
    await node.publish("a")
    _once_free("mkfs.ext4", "-q", str(device))
    _once_free("mount", str(device), str(_made(machine.scratch / "pod")))
    machine.undo.callback(_quietly, "umount", str(machine.scratch / "pod"))
    await node.until("a", "InUse")

    machine.unmount(machine.scratch / "pod")
    await node.until("a", "Published")

    link.unlink()
    await node.until("a", "Missing", "Gone")
    machine.link("b", device)
    await node.until("b", "Unavailable", "DuplicateDevice")


async def test_bind_mounts_of_one_directory_are_one_disk(machine: Machine, node: Node) -> None:
    shared, other = _made(machine.scratch / "shared"), _made(machine.scratch / "other")
    machine.mount("one", "--bind", str(shared))
    await node.until("one", "Available")

    machine.mount("another", "--bind", str(other))
    machine.mount("a-second-one", "--bind", str(shared))

    await node.until("another", "Available")
    await node.until("a-second-one", "Unavailable", "DuplicateDevice")


async def test_odd_names_are_names(machine: Machine, node: Node) -> None:
    odd = ["with space", "ümläut", "new\nline", "-rf", "back\\slash", "x" * 200, "..dots"]
    for name in odd:
        machine.mount(name) if not name.startswith("-") else (machine.folder / name).mkdir()
    raw = os.fsencode(machine.folder) + b"/no-\xff-text"
    os.mkdir(raw)
    for name in odd:
        disk = await node.until(name, "Available")
        assert disk.spec.path == f"{machine.folder}/{name}"
        assert disk.status.kind == ("Directory" if name.startswith("-") else "MountPoint")

    async def ignored() -> bool:
        return list(node.discovery.ignored.values()) == ["NameNotText"]

    await _until(ignored, lambda: f"{node.discovery.ignored}")


async def test_folder_that_is_reached_by_a_link_shows_its_mounts_all_the_same(
    target: wire.Target, machine: Machine, _kind_installed: None
) -> None:
    machine.mount("a")
    real, machine.folder = machine.folder, machine.scratch / "by-link"
    machine.folder.symlink_to(real)
    async with discovering(target, machine, require_mount_point=True) as node:
        assert (await node.until("a", "Available")).status.kind == "MountPoint"


class HalfDead(KernelDevices):
    """The devices of this machine, of which one never answers, as a dead disk does."""

    def __init__(self, workers: Workers, dead: Path) -> None:
        super().__init__(workers=workers)
        self._dead = dead
        self.revived = threading.Event()

    async def describe(self, path: Path, *, exclusive: bool = True) -> BlockDevice:
        if path == self._dead:
            await self._workers.call(self.revived.wait, key=str(path), timeout=0.5)
        return await super().describe(path, exclusive=exclusive)


async def test_dead_disk_delays_nobody_else(target: wire.Target, machine: Machine, _kind_installed: None) -> None:
    workers = Workers()
    devices = HalfDead(workers, machine.folder / "dead")
    async with discovering(target, machine, workers=workers, devices=devices, volume_mode="Block") as node:
        await node.discovery.wait_looked()
        machine.link("dead", machine.device())
        for number in range(5):
            machine.link(f"alive-{number}", machine.device())
        for number in range(5):
            await node.until(f"alive-{number}", "Available")

        # All of them came while the dead one was still being asked.
        await node.until("dead", "Unavailable", "Hung")
        devices.revived.set()
        await node.until("dead", "Available")


async def test_mount_is_a_record_without_waiting_for_the_next_round(machine: Machine, node: Node) -> None:
    """Told by the kernel: the round that looks at everything is a minute away. How fast is for `make bench` to say."""
    await node.discovery.wait_looked()
    for number in range(20):
        name = f"m{number}"
        (machine.folder / name).mkdir()
        machine.mount(name)
        await node.until(name, "Available")
