"""A machine in memory: the fake side of every part of `localpv.host`.

`FakeMachine` holds disks, folders and mounts and is changed by a test as an administrator would change a real one; the
parts look at it through the same Protocols as the real ones look at the kernel, and refuse what those refuse."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localpv import errors
from localpv.host import contents, wiper
from localpv.host.contents import BLANK, LOST_AND_FOUND, Contents, of_names
from localpv.host.feeds import Feed
from localpv.host.folders import Capacity, Entry, FileKind
from localpv.host.model import methods
from localpv.host.model.devices import BlockDevice, DeviceKind, DeviceNumber, Signature
from localpv.host.model.identity import Identity
from localpv.host.model.methods import Method, Progress, Readback
from localpv.host.mounts import Mount, MountTable
from localpv.host.uevents import LOST, Uevent
from localpv.host.workers import Report

ROOT_BYTES = 100 * 1024**3
BOOT = "5c4f7b52-0000-4000-8000-000000000001"
"""The boot that the machine is in; a test gives a disk another one, as if it was looked at before a restart."""


@dataclass
class FakeDisk:
    """A disk and what is on it."""

    device: BlockDevice
    dirty: bool = False
    """Whether somebody's data is on it: files in its file system, or bytes without a name."""

    held: bool = False
    """Whether another process has it open exclusively."""


def block_device(**known: Any) -> BlockDevice:
    """A device of which these fields were read, those of its identity among them."""
    names = {name: known.pop(name) for name in _NAMES & known.keys()}
    return BlockDevice(names=Identity(**names), **known)


_NAMES = {each.name for each in dataclasses.fields(Identity)} - {each.name for each in dataclasses.fields(BlockDevice)}


@dataclass
class FakeMachine:
    """Disks, folders and mounts. Paths are absolute; folders need not be made before things are put into them."""

    disks: dict[Path, FakeDisk] = field(default_factory=dict)
    links: dict[Path, Path] = field(default_factory=dict)
    folders: set[Path] = field(default_factory=lambda: {Path("/")})
    files: set[Path] = field(default_factory=set)
    mounted: list[Mount] = field(default_factory=list)
    hung: set[Path] = field(default_factory=set)
    """Paths that give no answer."""

    _feeds: list[tuple[frozenset[Path], Feed[Path]]] = field(default_factory=list)
    _mount_feeds: list[Feed[str]] = field(default_factory=list)
    _uevent_feeds: list[Feed[Uevent]] = field(default_factory=list)
    _inodes: dict[Path, int] = field(default_factory=dict)
    _count: int = 0

    def add_disk(self, path: Path | str, *, size_bytes: int = 10 * 1024**3, **known: object) -> BlockDevice:
        """A new disk; `known` are further fields of BlockDevice. Each gets numbers and a serial of its own."""
        self._count += 1
        path = Path(path)
        own: dict[str, Any] = {"number": DeviceNumber(8, 16 * self._count), "serial": f"FAKE{self._count}"}
        own |= {"boot_id": BOOT, "disk_sequence": self._count}
        device = block_device(path=path, kernel_name=path.name, size_bytes=size_bytes, **(own | known))
        self.disks[path] = FakeDisk(device)
        self._tell_uevent("add", device)
        return device

    def remove_disk(self, path: Path | str) -> None:
        self._tell_uevent("remove", self.disks.pop(Path(path)).device)

    def attach_loop(self, path: Path | str, over: Path | str) -> BlockDevice:
        """A loop device on another device, as it is put there while pods have that one."""
        lower = self.disks[Path(over)]
        made = self.add_disk(path, size_bytes=lower.device.size_bytes, kind=DeviceKind.LOOP)
        lower.device = dataclasses.replace(lower.device, holders=(*lower.device.holders, made.kernel_name))
        self._tell_uevent("change", made)
        return made

    def detach_loop(self, path: Path | str) -> None:
        made = self.disks.pop(Path(path)).device
        for disk in self.disks.values():
            kept = tuple(name for name in disk.device.holders if name != made.kernel_name)
            disk.device = dataclasses.replace(disk.device, holders=kept)
        self._tell_uevent("change", made)

    def make_file_system(self, path: Path | str, *, kind: str = "ext4", uuid: str = "") -> None:
        self._count += 1
        disk = self.disks[Path(path)]
        made = Signature(type=kind, usage="filesystem", uuid=uuid or f"00000000-0000-4000-8000-{self._count:012}")
        disk.device = dataclasses.replace(disk.device, signatures=(made,))
        disk.dirty = False

    def link(self, path: Path | str, target: Path | str) -> None:
        self.links[Path(path)] = Path(target)
        self._tell(Path(path).parent)

    def make_folder(self, path: Path | str) -> None:
        self.folders |= {Path(path), *Path(path).parents}
        self._tell(Path(path).parent)

    def write_file(self, path: Path | str) -> None:
        self.make_folder(Path(path).parent)
        self.files.add(Path(path))
        self._tell(Path(path).parent)

    def remove(self, path: Path | str) -> None:
        """Remove a link, a file or a folder with all that is in it."""
        path = Path(path)
        self.links.pop(path, None)
        for kept in (self.files, self.folders):
            kept -= {one for one in kept if one == path or path in one.parents}
        self._inodes.pop(path, None)
        self._tell(path.parent)

    def rename(self, path: Path | str, new: Path | str) -> None:
        """Give a folder, with all that is in it, another name."""
        path, new = Path(path), Path(new)
        for kept in (self.files, self.folders):
            moved = {one for one in kept if one == path or path in one.parents}
            kept -= moved
            kept |= {new / one.relative_to(path) for one in moved}
        self._inodes = {new if one == path else one: number for one, number in self._inodes.items()}
        for folder in {path.parent, new.parent}:
            self._tell(folder)

    def inode(self, folder: Path) -> int:
        """The number of a folder; one that is made anew gets another."""
        if folder not in self._inodes:
            self._count += 1
            self._inodes[folder] = 1000 + self._count
        return self._inodes[folder]

    def mount(self, disk: Path | str | None, at: Path | str) -> Mount:
        """Mount a disk, or a file system of its own in memory (None)."""
        self._count += 1
        device = self.disks[self.resolve(Path(disk))].device if disk else None
        mount = Mount(
            mount_id=100 + self._count,
            device=device.number if device else DeviceNumber(0, self._count),
            root="/",
            mount_point=Path(at),
            options=("rw",),
            fs_type=device.fs_type if device else "tmpfs",
            source=str(device.path) if device else "tmpfs",
        )
        self.folders |= {Path(at), *Path(at).parents}
        self.mounted.append(mount)
        self._tell_mounts()
        return mount

    def unmount(self, at: Path | str) -> None:
        last = max(number for number, mount in enumerate(self.mounted) if mount.mount_point == Path(at))
        del self.mounted[last]
        self._tell_mounts()

    def lose_uevents(self) -> None:
        for feed in self._uevent_feeds:
            feed.put(LOST)

    def resolve(self, path: Path) -> Path:
        for _ in range(40):
            if path not in self.links:
                return path
            path = path.parent / self.links[path]
        return path

    def describe(self, path: Path, *, exclusive: bool) -> BlockDevice:
        self.answer(path)
        real = self.resolve(path)
        if real not in self.disks:
            if real in self.folders or real in self.files:
                raise errors.HostError(f"{path} is no block device")
            raise FileNotFoundError(2, "No such file or directory", str(path))
        disk = self.disks[real]
        places = tuple(str(mount.mount_point) for mount in self.mounted if mount.device == disk.device.number)
        free = not (disk.held or places or disk.device.holders or disk.device.swap)
        return dataclasses.replace(disk.device, mounted_at=places, opens_exclusively=free if exclusive else None)

    def answer(self, path: Path) -> None:
        if path in self.hung or self.resolve(path) in self.hung:
            raise errors.HostTimeout(f"{path} gave no answer")

    def _tell(self, folder: Path) -> None:
        for folders, feed in self._feeds:
            for watched in folders:
                if folder == watched or folder in watched.parents:
                    feed.put(watched)

    def _tell_mounts(self) -> None:
        for feed in self._mount_feeds:
            feed.put("mounts")

    def _tell_uevent(self, action: str, device: BlockDevice) -> None:
        for feed in self._uevent_feeds:
            feed.put(Uevent(action=action, subsystem="block", device_name=device.kernel_name, device=device.number))


@dataclass
class FakeMounts:
    machine: FakeMachine

    async def table(self) -> MountTable:
        root = Mount(mount_id=1, device=DeviceNumber(8, 1), root="/", mount_point=Path("/"), fs_type="ext4")
        return MountTable((root, *self.machine.mounted))

    async def everywhere(self, device: DeviceNumber) -> tuple[Mount, ...]:
        return (await self.table()).of(device)

    def changes(self) -> Feed[str]:
        feed = Feed(overflow="mounts")
        self.machine._mount_feeds.append(feed)
        return feed


@dataclass
class FakeDevices:
    machine: FakeMachine

    async def describe(self, path: Path, *, exclusive: bool = True) -> BlockDevice:
        await asyncio.sleep(0)
        return self.machine.describe(path, exclusive=exclusive)

    async def contents(self, device: BlockDevice) -> Contents:
        self.machine.answer(device.path)
        if (known := contents.not_looked_into(device)) is not None:
            return known
        if not self.machine.disks[device.path].dirty:
            return BLANK
        if device.file_system is not None:
            return of_names(["file"])
        return Contents(data="data of an unknown kind near byte 0")

    async def behind(self, mount: Mount) -> Identity:
        for disk in self.machine.disks.values():
            if disk.device.number == mount.device:
                return dataclasses.replace(disk.device.identity, mount_id=mount.mount_id)
        return Identity(
            major_minor=str(mount.device),
            size_bytes=ROOT_BYTES,
            mount_id=mount.mount_id,
            boot_id=BOOT,
            disk_sequence=1 if mount.device.major else 0,
        )

    async def directory(self, path: Path, mount: Mount) -> Identity:
        self.machine.answer(path)
        return Identity(filesystem_id=f"fs-{mount.device}", inode=self.machine.inode(self.machine.resolve(path)))

    async def below(self, loop: str) -> DeviceNumber | None:
        await asyncio.sleep(0)
        return next((disk.device.number for disk in self.machine.disks.values() if loop in disk.device.holders), None)


@dataclass
class FakeFolders:
    machine: FakeMachine

    async def entries(self, folder: Path) -> tuple[Entry, ...]:
        self.machine.answer(folder)
        if folder not in self.machine.folders:
            raise FileNotFoundError(2, "No such file or directory", str(folder))
        known = (*self.machine.folders, *self.machine.files, *self.machine.links, *self.machine.disks)
        names = {path.name for path in known if path.parent == folder and path != folder}
        return tuple(self._entry(folder / name) for name in sorted(names) if folder / name not in self.machine.hung)

    def _entry(self, path: Path) -> Entry:
        real = self.machine.resolve(path)
        device = self.machine.disks[real].device.number if real in self.machine.disks else None
        if device:
            kind = FileKind.BLOCK_DEVICE
        elif real in self.machine.folders:
            kind = FileKind.DIRECTORY
        else:
            kind = FileKind.OTHER if real in self.machine.files else FileKind.DANGLING_LINK
        is_link = path in self.machine.links
        return Entry(
            name=path.name,
            kind=kind,
            is_link=is_link,
            target=real if is_link else None,
            device=device,
            inode=self.machine.inode(real) if kind is FileKind.DIRECTORY else 0,
        )

    async def capacity(self, path: Path) -> Capacity:
        self.machine.answer(path)
        if self.machine.resolve(path) not in self.machine.folders:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        mount = MountTable(tuple(self.machine.mounted)).containing(path)
        sizes = [
            disk.device.size_bytes
            for disk in self.machine.disks.values()
            if mount and disk.device.number == mount.device
        ]
        size = sizes[0] if sizes else ROOT_BYTES
        return Capacity(total_bytes=size)

    async def contents(self, path: Path, *, top: bool) -> Contents:
        self.machine.answer(path)
        known = (*self.machine.folders, *self.machine.files, *self.machine.links, *self.machine.disks)
        real = self.machine.resolve(path)
        lost = real / LOST_AND_FOUND
        names = [str(one.relative_to(real)) for one in known if one.parent == real and not (top and one == lost)]
        return of_names([*names, *(str(one.relative_to(real)) for one in known if top and one.parent == lost)])

    def changes(self, folders: Iterable[Path]) -> Feed[Path]:
        feed = Feed(overflow=Path("/"))
        self.machine._feeds.append((frozenset(folders), feed))
        return feed


@dataclass
class FakeUevents:
    machine: FakeMachine

    def changes(self) -> Feed[Uevent]:
        feed = Feed(overflow=LOST)
        self.machine._uevent_feeds.append(feed)
        return feed


@dataclass
class FakeWiper:
    machine: FakeMachine
    failures: list[Exception] = field(default_factory=list)
    """Raised by the next calls half-way, one each."""

    gate: asyncio.Event | None = None
    """While it is not set, a wiping stays half-way."""

    started: list[tuple[Path, Method]] = field(default_factory=list)
    finished: list[tuple[Path, Method]] = field(default_factory=list)

    async def check(self, path: Path, *, expected: Identity) -> BlockDevice:
        device = self.machine.describe(path, exclusive=True)
        wiper.refuse(device, expected)
        return device

    async def wipe(
        self,
        path: Path,
        method: Method,
        *,
        expected: Identity,
        verify: Readback = Readback.FULL,
        on_progress: Report | None = None,
    ) -> None:
        device = await self.check(path, expected=expected)
        if isinstance(method, methods.Discard) and not device.discard_max_bytes:
            raise errors.NotSupported(f"{device.path} cannot discard")
        disk = self.machine.disks[device.path]
        disk.held = True
        self.started.append((device.path, method))
        try:
            if on_progress:
                on_progress(Progress(done=device.size_bytes // 2, total=device.size_bytes, step="wiping"))
            await (self.gate.wait() if self.gate else asyncio.sleep(0))
            if self.failures:
                raise self.failures.pop(0)
        finally:
            disk.held = False
        disk.dirty = False
        disk.device = dataclasses.replace(disk.device, signatures=(), partitions=())
        self.finished.append((device.path, method))
