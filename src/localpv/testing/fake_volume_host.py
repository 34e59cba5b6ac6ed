"""The fake side of the parts of `localpv.host` that serve pods: mounting, file systems, holds, groups, sub-paths.

They change the mounts and disks of a `FakeMachine`. Folders of our own are real ones, in a folder of the test."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localpv import errors
from localpv.host import filesystems, mounter, openat, volume_files
from localpv.host.filesystems import Content
from localpv.host.folders import FileKind
from localpv.host.marks import Mark
from localpv.host.model.devices import BlockDevice, DeviceNumber, Signature
from localpv.host.model.identity import Identity
from localpv.host.model.methods import Progress
from localpv.host.mounter import Source
from localpv.host.mounts import Mount, MountTable
from localpv.host.openat import Numbers
from localpv.host.volume_files import File
from localpv.host.workers import Report
from localpv.testing.fake_host import FakeMachine, FakeMounts


@dataclass
class FakeMounter:
    machine: FakeMachine
    log: list[str] = field(default_factory=list)
    busy: set[Path] = field(default_factory=set)
    """Places that somebody works in."""

    unknown_options: set[str] = field(default_factory=set)
    broken: set[Path] = field(default_factory=set)
    """Devices whose file system was not finished."""

    @contextlib.asynccontextmanager
    async def opened(self, path: Path) -> AsyncIterator[Source]:
        self.machine.answer(path)
        real = self.machine.resolve(path)
        if real in self.machine.disks:
            kind, device = FileKind.BLOCK_DEVICE, self.machine.disks[real].device.number
        elif real in self.machine.folders or real.is_dir():
            kind, device = FileKind.DIRECTORY, None
        elif real in self.machine.files or real.exists():
            kind, device = FileKind.OTHER, None
        else:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        mount = (await FakeMounts(self.machine).table()).containing(real)
        assert mount is not None
        yield Source(path=path, real_path=real, kind=kind, mount_id=mount.mount_id, device=device)

    async def bind(self, source: Source, at: Path, *, read_only: bool = False, options: Sequence[str] = ()) -> None:
        self.log.append(f"bind {source.path.name}")
        below = (await FakeMounts(self.machine).table()).containing(source.real_path)
        assert below is not None
        root = Path(below.root) / source.real_path.relative_to(below.mount_point)
        self._add(at, device=below.device, root=str(root), fs_type=below.fs_type, source=below.source)
        if read_only:
            await self.make_read_only(at, read_only=True)

    async def make_read_only(self, at: Path, *, read_only: bool) -> None:
        self.log.append("make read-only")
        number, mount = self._last(at)
        self.machine.mounted[number] = dataclasses.replace(mount, options=("ro" if read_only else "rw",))

    async def mount(self, device: Path, at: Path, *, fs_type: str, options: Sequence[str] = ()) -> None:
        self.machine.answer(device)
        self.log.append(f"mount {device.name}")
        found = self.machine.describe(device, exclusive=True)
        if found.fs_type != fs_type or device in self.broken or self.unknown_options & set(options):
            raise errors.CommandFailed(["mount"], exit_code=32, stderr="wrong fs type, bad option, bad superblock")
        if found.in_use_by:
            raise errors.CommandFailed(["mount"], exit_code=32, stderr="already mounted")
        self._add(at, device=found.number, fs_type=fs_type, source=str(found.path))

    async def mount_memory(self, at: Path, *, size_bytes: int = 0, mode: int = 0o777) -> None:
        self.log.append("mount memory")
        self._add(at, device=DeviceNumber(0, 99), fs_type="tmpfs", source="tmpfs")

    async def unmount(self, at: Path) -> None:
        self.log.append(f"unmount {at.name}")
        if at in self.busy:
            raise errors.DeviceBusy(f"{at} is in use")
        if MountTable(tuple(self.machine.mounted)).at(at):
            self.machine.unmount(at)

    def _add(self, at: Path, *, device: DeviceNumber, fs_type: str, source: str, root: str = "/") -> None:
        if not at.is_dir() and at not in self.machine.folders:
            raise errors.HostError(f"nothing can be mounted at {at}: No such file or directory")
        self.machine._count += 1
        self.machine.mounted.append(
            Mount(
                mount_id=100 + self.machine._count,
                device=device,
                root=root,
                mount_point=at,
                options=("rw",),
                fs_type=fs_type,
                source=source,
            )
        )

    def _last(self, at: Path) -> tuple[int, Mount]:
        return max((number, mount) for number, mount in enumerate(self.machine.mounted) if mount.mount_point == at)


@dataclass
class FakeFileSystems:
    machine: FakeMachine
    log: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    """Raised by the next makings half-way, one each."""

    async def content(self, device: BlockDevice) -> Content:
        self.machine.answer(device.path)
        disk = self.machine.disks[device.path]
        if disk.device.number != device.number:
            raise errors.DeviceChanged(f"{device.path} became another disk")
        if disk.device.partitions:
            return Content(other=f"partitions ({', '.join(disk.device.partitions)})")
        found = disk.device.signatures
        if len(found) == 1 and found[0].usage == "filesystem":
            return Content(fs_type=found[0].type, uuid=found[0].uuid)
        if found:
            return Content(other=" and ".join(f"{one.type} ({one.usage})" for one in found))
        return Content(other=filesystems.UNKNOWN) if disk.dirty else Content()

    async def make(
        self, device: BlockDevice, fs_type: str, *, uuid: str, unfinished: bool = False, options: Sequence[str] = ()
    ) -> None:
        self.log.append(f"mkfs.{fs_type} {device.kernel_name}")
        filesystems.making(device.path, fs_type, uuid=uuid, force=unfinished, options=options)
        disk = self.machine.disks[device.path]
        if self.machine.describe(device.path, exclusive=True).in_use_by:
            raise errors.DeviceBusy(f"{device.path} is in use")
        filesystems.refuse_unless_blank(await self.content(device), device, uuid=uuid, unfinished=unfinished)
        if self.failures:
            disk.dirty = True
            raise self.failures.pop(0)
        made = Signature(type=fs_type, usage="filesystem", uuid=uuid)
        disk.device, disk.dirty = dataclasses.replace(disk.device, signatures=(made,)), True

    async def check(self, device: BlockDevice, fs_type: str) -> None:
        self.log.append(f"fsck {device.kernel_name}")


@dataclass
class FakeHolders:
    machine: FakeMachine
    log: list[str] = field(default_factory=list)
    held_now: dict[str, DeviceNumber] = field(default_factory=dict)

    async def hold(self, device: Path, number: DeviceNumber, *, name: str) -> str:
        self.log.append(f"hold {device.name}")
        if self.held_now.setdefault(name, number) != number:
            raise errors.DeviceChanged(f"{device} is device {number} now")
        disk = self.machine.disks[self.machine.resolve(device)]
        holder = f"loop{list(self.held_now).index(name)}"
        disk.device = dataclasses.replace(disk.device, holders=(holder,))
        return holder

    async def held(self, name: str) -> DeviceNumber | None:
        return self.held_now.get(name)

    async def release(self, name: str) -> None:
        self.log.append("release")
        number = self.held_now.pop(name, None)
        for disk in self.machine.disks.values():
            if disk.device.number == number:
                disk.device = dataclasses.replace(disk.device, holders=())


@dataclass
class FakeOwnership:
    given: dict[Path, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    async def give(self, path: Path, *, group: int, read_only: bool = False, unless_root_has_it: bool = False) -> bool:
        if unless_root_has_it and self.given.get(path) == group:
            return False
        self.log.append(f"give to {group}")
        self.given[path] = group
        return True


@dataclass
class FakeMarks:
    directories: dict[Path, Mark] = field(default_factory=dict)
    devices: dict[Path, list[Mark]] = field(default_factory=dict)
    """By discovery directory."""

    without: set[Path] = field(default_factory=set)
    """Directories in file systems that have no room for marks."""

    async def mark_directory(self, path: Path, mark: Mark) -> bool:
        if path not in self.without:
            self.directories[path] = mark
        return path not in self.without

    async def mark_device(self, path: Path, mark: Mark) -> None:
        others = [one for one in self.devices.get(path.parent, []) if one.uid != mark.uid]
        self.devices[path.parent] = [*others, mark]

    async def of_directory(self, path: Path) -> Mark | None:
        return self.directories.get(path)

    async def of_device(self, path: Path, identity: Identity) -> Mark | None:
        return next((one for one in self.devices.get(path.parent, []) if one.is_of(path.name, identity)), None)

    async def forget_device(self, path: Path, identity: Identity) -> None:
        marks = self.devices.get(path.parent, [])
        marks[:] = [one for one in marks if not one.ends_with(path.name, identity)]


@dataclass
class FakeSubPaths:
    mounting: FakeMounter

    async def bind(self, volume: Path, part: str, at: Path, *, read_only: bool) -> None:
        mounter.subpath_names(part)
        at.mkdir(parents=True, exist_ok=True)
        async with self.mounting.opened(volume) as source:
            await self.mounting.bind(source, at, read_only=read_only)


@dataclass
class FakeFileSets:
    sets: dict[Path, Mapping[str, File]] = field(default_factory=dict)

    async def replace(self, folder: Path, files: Mapping[str, File], *, group: int | None = None) -> bool:
        for path in files:
            volume_files.refuse_outside(path)
        changed = self.sets.get(folder) != files
        self.sets[folder] = dict(files)
        return changed


@dataclass
class FakeNodePaths:
    machine: FakeMachine

    async def check(self, path: Path, kind: str) -> None:
        if kind not in volume_files.KINDS:
            raise errors.NotSupported(f"{kind} is no type of a path")
        self.machine.answer(path)
        real = self.machine.resolve(path)
        if not {real} & {*self.machine.folders, *self.machine.files, *self.machine.disks}:
            if kind in ("", "DirectoryOrCreate"):
                self.machine.make_folder(path)
            elif kind == "FileOrCreate":
                self.machine.write_file(path)
            else:
                raise FileNotFoundError(2, "No such file or directory", str(path))
        fits = {
            "Directory": real in self.machine.folders,
            "DirectoryOrCreate": real in self.machine.folders,
            "File": real in self.machine.files,
            "FileOrCreate": real in self.machine.files,
            "BlockDevice": real in self.machine.disks,
        }
        if kind and not fits.get(kind, False):
            raise errors.HostError(f"{path} is not what was asked for")


@dataclass
class FakeTrees:
    machine: FakeMachine
    failures: list[Exception] = field(default_factory=list)
    """Raised by the next calls, one each."""

    emptied: list[Path] = field(default_factory=list)

    async def empty(
        self, path: Path, *, inside: Path, expected: Numbers | None = None, on_progress: Report | None = None
    ) -> int:
        self._refuse(path, inside=inside)
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        count = 0
        for kept in (self.machine.files, self.machine.folders):
            gone = {one for one in kept if path in one.parents and one != path / "lost+found"}
            count += len(gone)
            kept -= gone
        if on_progress:
            on_progress(Progress(done=count))
        self.emptied.append(path)
        return count

    async def empty_with(
        self, argv: Sequence[str], path: Path, *, inside: Path, expected: Numbers | None = None
    ) -> None:
        await self.empty(path, inside=inside)

    def _refuse(self, path: Path, *, inside: Path) -> None:
        openat.names_below(inside, path)
        self.machine.answer(path)
        if path in self.machine.links or path not in self.machine.folders:
            raise errors.OutsideFolder(f"{path} is no directory of its own")
        if below := MountTable(tuple(self.machine.mounted)).below(path):
            raise errors.DeviceBusy(f"{below[0].mount_point} is mounted inside the volume")
