"""What is looked at before anything is cleaned: is it there, and is it the disk that was recorded?"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from localpv import errors
from localpv.agent.clean import paths as clean_paths
from localpv.agent.clean import plans
from localpv.agent.clean.executor import Target
from localpv.agent.clean.host_executor import HostExecutor
from localpv.agent.clean.paths import Place
from localpv.api.kinds.localdisk import DiskIdentity, DiskKind, LocalDisk, LocalDiskSpec, LocalDiskStatus, VolumeMode
from localpv.api.kinds.meta import ObjectMeta
from localpv.config.settings import ClassSettings, Folder
from localpv.disk import identity as identities
from localpv.host import openat
from localpv.host.model import methods
from localpv.host.model.devices import BlockDevice, DeviceNumber, Signature
from localpv.host.model.identity import Identity
from localpv.host.model.methods import Progress
from localpv.host.mounts import Mount, MountTable
from localpv.host.openat import Numbers
from localpv.host.workers import Report, Workers
from localpv.testing.fake_host import block_device


@dataclasses.dataclass
class OneMount:
    """Mounts and devices of a machine whose directory volume lies in one mount, or is its mount point."""

    volume: Path
    mount: Mount
    mounted: tuple[Mount, ...] = ()
    inode: int = 7

    async def table(self) -> MountTable:
        return MountTable((self.mount, *self.mounted))

    async def everywhere(self, device: DeviceNumber) -> tuple[Mount, ...]:
        return (await self.table()).of(device)

    async def behind(self, mount: Mount) -> Identity:
        return Identity(fs_uuid="fs-1", mount_id=mount.mount_id)

    async def directory(self, path: Path, mount: Mount) -> Identity:
        return Identity(filesystem_id="fs-1", inode=self.inode)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    made = tmp_path / "disks" / "vol"
    made.mkdir(parents=True)
    return made


def one_mount(volume: Path, *, at: Path, root: str = "/") -> OneMount:
    fd = os.open(volume, os.O_RDONLY)
    try:
        mount_id = Numbers.of(fd).mount_id
    finally:
        os.close(fd)
    mount = Mount(mount_id=mount_id, device=DeviceNumber(8, 1), root=root, mount_point=at)
    return OneMount(volume=volume, mount=mount)


def executor(machine: OneMount) -> HostExecutor:
    return HostExecutor(
        workers=Workers(),
        devices=machine,  # type: ignore[arg-type]
        mounts=machine,  # type: ignore[arg-type]
        openers=None,  # type: ignore[arg-type]
        trees=None,  # type: ignore[arg-type]
        wiping=None,  # type: ignore[arg-type]
        marks=None,  # type: ignore[arg-type]
    )


def record(volume: Path, identity: DiskIdentity | None, kind: DiskKind = DiskKind.DIRECTORY) -> LocalDisk:
    return LocalDisk(
        metadata=ObjectMeta(name="disk"),
        spec=LocalDiskSpec(
            node_name="n",
            storage_class_name="fast",
            entry=volume.name,
            path=str(volume),
            volume_mode=VolumeMode.FILESYSTEM,
            identity=identity,
        ),
        status=LocalDiskStatus(kind=kind),
    )


def place(volume: Path) -> Place:
    return Place(folder=volume.parent, path=volume, host_path=volume)


def recorded(machine: OneMount, **changes: object) -> DiskIdentity:
    """What discovery would have written down of the volume as it is."""
    is_mount_point = machine.mount.mount_point == machine.volume
    found = Identity(fs_uuid="fs-1", mount_id=machine.mount.mount_id if is_mount_point else 0)
    if not is_mount_point or machine.mount.root != "/":
        found = found.of_directory(Identity(filesystem_id="fs-1", inode=machine.inode))
    return identities.written(dataclasses.replace(found, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [DiskKind.BLOCK_DEVICE, DiskKind.DIRECTORY, DiskKind.MOUNT_POINT])
async def test_disk_that_nobody_recorded_is_refused_before_it_is_looked_at(volume: Path, kind: DiskKind) -> None:
    machine = one_mount(volume, at=Path("/"))
    with pytest.raises(errors.DeviceChanged, match="nobody recorded") as refused:
        await executor(machine).look(record(volume, None, kind), place(volume))
    assert "localpv wipe" in refused.value.hint


def at_root(volume: Path) -> OneMount:
    return one_mount(volume, at=Path("/"))


def as_mount_point(volume: Path) -> OneMount:
    return one_mount(volume, at=volume)


def as_bind_mount(volume: Path) -> OneMount:
    return one_mount(volume, at=volume, root="/part")


@pytest.mark.parametrize("build", [at_root, as_mount_point, as_bind_mount])
async def test_directory_that_is_the_recorded_one_is_found(volume: Path, build: Callable[[Path], OneMount]) -> None:
    machine = build(volume)
    found = await executor(machine).look(record(volume, recorded(machine)), place(volume))
    status = volume.stat()
    assert (found.device, found.found, found.size_bytes) == (None, None, 0)
    assert found.directory == Numbers(status.st_dev, status.st_ino, machine.mount.mount_id)
    assert found.lock.endswith(f"-{status.st_ino}")


@pytest.mark.parametrize("build", [at_root, as_bind_mount])
async def test_another_directory_of_the_same_file_system_is_refused(
    volume: Path, build: Callable[[Path], OneMount]
) -> None:
    machine = build(volume)
    with pytest.raises(errors.DeviceChanged, match="not the disk that was recorded"):
        await executor(machine).look(record(volume, recorded(machine, inode=8)), place(volume))


async def test_directory_that_is_no_mount_point_any_more_is_refused_with_what_to_do(volume: Path) -> None:
    before, now = as_mount_point(volume), at_root(volume)
    with pytest.raises(errors.DeviceChanged, match="now nothing is mounted there") as refused:
        await executor(now).look(record(volume, recorded(before)), place(volume))
    assert refused.value.hint == "mount the right file system again"


async def test_directory_that_became_a_mount_point_is_refused_with_what_to_do(volume: Path) -> None:
    before, now = at_root(volume), as_mount_point(volume)
    with pytest.raises(errors.DeviceChanged, match="now something is mounted there") as refused:
        await executor(now).look(record(volume, recorded(before)), place(volume))
    assert refused.value.hint == "unmount it"


async def test_mount_that_goes_during_the_look_is_told(volume: Path) -> None:
    machine = at_root(volume)
    seen = machine.mount.mount_id
    machine.mount = dataclasses.replace(machine.mount, mount_id=seen + 1)
    with pytest.raises(errors.HostError, match="gone again"):
        await executor(machine).look(record(volume, recorded(machine)), place(volume))


async def users(machine: OneMount) -> str:
    target = Target(kind=DiskKind.DIRECTORY, place=place(machine.volume), identity=Identity(), lock="", device=None)
    return await executor(machine).users(target)


def mounted(machine: OneMount, at: str, *, root: str, number: int = 900) -> Mount:
    return dataclasses.replace(machine.mount, mount_id=number, mount_point=Path(at), root=root)


async def test_directory_that_nobody_has_mounted_has_no_users(volume: Path) -> None:
    machine = at_root(volume)
    assert await users(machine) == ""
    machine.mounted = (mounted(machine, "/elsewhere", root=f"{volume}-2"),)
    assert await users(machine) == "", "another volume, whose name begins alike"


@pytest.mark.parametrize("inside", ["", "/sub"])
async def test_directory_that_a_pod_has_mounted_says_where(volume: Path, inside: str) -> None:
    machine = at_root(volume)
    machine.mounted = (mounted(machine, "/pods/p/v", root=f"{volume}{inside}"),)
    assert await users(machine) == "is mounted at /pods/p/v too"


async def test_part_of_a_file_system_is_in_use_when_a_pod_has_it_mounted(volume: Path) -> None:
    machine = as_bind_mount(volume)
    machine.mounted = (mounted(machine, "/whole", root="/"), mounted(machine, "/other", root="/part2", number=901))
    assert await users(machine) == "", "who has the whole file system, or another part, uses another directory"
    machine.mounted = (*machine.mounted, mounted(machine, "/pods/p/v", root="/part", number=902))
    assert await users(machine) == "is mounted at /pods/p/v too"


async def test_directory_with_something_mounted_inside_says_where(volume: Path) -> None:
    machine = at_root(volume)
    inside = mounted(machine, f"{volume}/sub", root="/x")
    machine.mounted = (dataclasses.replace(inside, device=DeviceNumber(8, 9)),)
    assert await users(machine) == f"has something mounted inside, at {volume}/sub"


async def test_directory_in_no_mount_at_all_is_refused(volume: Path) -> None:
    machine = one_mount(volume, at=Path("/nowhere"))
    with pytest.raises(errors.OutsideFolder, match="lies in no mount"):
        await users(machine)


@pytest.mark.parametrize("folder", ["/", "/mnt/../etc", "disks"])
def test_class_whose_folder_cannot_be_managed_here_has_no_place_for_a_disk(volume: Path, folder: str) -> None:
    """The path on the host is fine; what this process would touch is not."""
    settings = ClassSettings(name="fast", host_dir=str(volume.parent), mount_dir=folder)
    with pytest.raises(errors.OutsideFolder, match="cannot be managed"):
        clean_paths.find(record(volume, None), settings)


@pytest.mark.parametrize("path", ["/mnt/disks/other", "/mnt/disks/a/vol", "/etc/vol", "/mnt/disks"])
def test_record_that_names_another_path_than_its_entry_has_no_place(volume: Path, path: str) -> None:
    disk = record(Path(path).with_name("vol"), None)
    disk = msgspec.structs.replace(disk, spec=msgspec.structs.replace(disk.spec, path=path))
    with pytest.raises(errors.OutsideFolder):
        clean_paths.find(disk, ClassSettings(name="fast", host_dir="/mnt/disks", mount_dir="/mnt/disks"))


def test_disk_is_found_in_the_folder_as_this_process_sees_it() -> None:
    disk = record(Path("/mnt/disks/vol"), None)
    settings = ClassSettings(name="fast", host_dir="/mnt/disks", mount_dir="/seen/disks")
    assert clean_paths.find(disk, settings) == Place(
        folder=Path("/seen/disks"), path=Path("/seen/disks/vol"), host_path=Path("/mnt/disks/vol")
    )


@pytest.mark.parametrize("folder", ["block", "filesystem"])
def test_disk_of_a_class_with_two_folders_is_in_the_one_that_its_path_names(folder: str) -> None:
    disk = record(Path(f"/mnt/{folder}/vol"), None)
    settings = ClassSettings(
        name="fast",
        host_dir="/mnt/block",
        mount_dir="/seen/block",
        more_folders=(Folder(host_dir="/mnt/filesystem", mount_dir="/seen/filesystem"),),
    )
    found = clean_paths.find(disk, settings)
    assert (found.folder, found.path) == (Path(f"/seen/{folder}"), Path(f"/seen/{folder}/vol"))
    with pytest.raises(errors.OutsideFolder):
        clean_paths.find(record(Path("/mnt/others/vol"), None), settings)


SDB = block_device(
    path=Path("/dev/sdb"), kernel_name="sdb", number=DeviceNumber(8, 16), size_bytes=1000, serial="S1", boot_id="b"
)


class Machine:
    """A machine with one device; it notes what is done, in order."""

    def __init__(self, device: BlockDevice = SDB, *, openers: tuple[str, ...] = ()) -> None:
        self.device, self.openers, self.done = device, openers, list[tuple[object, ...]]()

    async def describe(self, path: Path, *, exclusive: bool = True) -> BlockDevice:
        self.done.append(("describe", path, exclusive))
        return self.device

    async def of(self, number: DeviceNumber) -> tuple[str, ...]:
        assert number == self.device.number
        return self.openers

    async def wipe(
        self, path: Path, method: methods.Method, *, expected: Identity, verify: methods.Readback, on_progress: Report
    ) -> None:
        self.done.append(("wipe", path, method, expected, verify))

    async def empty(self, path: Path, *, inside: Path, expected: Numbers | None, on_progress: Report) -> None:
        self.done.append(("empty", path, inside, expected))

    async def empty_with(self, argv: tuple[str, ...], path: Path, *, inside: Path, expected: Numbers | None) -> None:
        self.done.append(("empty with", argv, path, inside, expected))

    async def forget_device(self, path: Path, now: Identity) -> None:
        self.done.append(("forget the mark", path, now))

    def executor(self) -> HostExecutor:
        workers = Workers()
        return HostExecutor(
            workers=workers, devices=self, mounts=self, openers=self, trees=self, wiping=self, marks=self
        )  # type: ignore[arg-type]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    def locate(folder: Path, path: Path) -> openat.Located:
        return openat.Located(path=path, device_path=Path("/dev/sdb"), device=SDB.number)

    monkeypatch.setattr(openat, "locate_device", locate)
    return Machine()


RECORDED = Identity(serial="S1", fs_uuid="written-by-the-tenant", size_bytes=1000)


async def test_device_that_is_the_recorded_one_is_found_whatever_is_written_on_it(
    volume: Path, machine: Machine
) -> None:
    table = Signature(type="ext4", usage="filesystem", uuid="another")
    machine.device = dataclasses.replace(SDB, signatures=(table,))
    disk = record(volume, identities.written(RECORDED), DiskKind.BLOCK_DEVICE)
    found = await machine.executor().look(disk, place(volume))
    assert (found.kind, found.device, found.size_bytes) == (DiskKind.BLOCK_DEVICE, Path("/dev/sdb"), 1000)
    assert (found.lock, found.directory) == ("device-8-16", None)
    assert found.found == machine.device.identity and found.identity == RECORDED
    assert machine.done == [("describe", Path("/dev/sdb"), False)], "to look must not take it from anybody"


async def test_another_device_in_its_place_is_refused(volume: Path, machine: Machine) -> None:
    machine.device = dataclasses.replace(SDB, names=Identity(serial="S2", boot_id="b"))
    with pytest.raises(errors.DeviceChanged, match="serial was S1, is S2") as refused:
        await machine.executor().look(
            record(volume, identities.written(RECORDED), DiskKind.BLOCK_DEVICE), place(volume)
        )
    assert "put the right disk back" in refused.value.hint


@pytest.mark.parametrize(
    ("device", "openers", "said"),
    [
        (SDB, (), ""),
        (dataclasses.replace(SDB, mounted_at=("/mnt/x",)), (), "is mounted at /mnt/x"),
        (SDB, ("dd (7)",), "is open in dd (7)"),
        (SDB, ("a", "b", "c", "d"), "is open in a, b, c"),
        (dataclasses.replace(SDB, swap=True), ("a",), "is used as swap"),
    ],
    ids=str,
)
async def test_user_of_a_device_is_named(
    volume: Path, device: BlockDevice, openers: tuple[str, ...], said: str
) -> None:
    machine = Machine(device, openers=openers)
    assert await machine.executor().users(device_target(volume)) == said
    assert machine.done == [("describe", Path("/dev/sdb"), True)]


def device_target(volume: Path) -> Target:
    return Target(
        kind=DiskKind.BLOCK_DEVICE,
        place=place(volume),
        identity=RECORDED,
        lock="",
        device=Path("/dev/sdb"),
        found=SDB.identity,
    )


async def test_device_is_wiped_if_it_is_the_recorded_one_and_loses_its_mark_last(volume: Path) -> None:
    machine, told = Machine(), list[Progress]()
    await machine.executor().clean(device_target(volume), plans.Wipe(methods.Zero()), on_progress=told.append)
    assert machine.done == [
        ("wipe", Path("/dev/sdb"), methods.Zero(), RECORDED, methods.Readback.FULL),
        ("forget the mark", volume, SDB.identity),
    ]


async def test_device_that_could_not_be_wiped_keeps_its_mark(volume: Path) -> None:
    class Broken(Machine):
        async def wipe(self, *_: object, **__: object) -> None:  # type: ignore[override]
            raise errors.NotClean("old data is left")

    machine = Broken()
    with pytest.raises(errors.NotClean):
        await machine.executor().clean(device_target(volume), plans.Wipe(methods.Zero()), on_progress=lambda _: None)
    assert machine.done == []


async def test_directory_is_emptied_if_it_is_the_one_that_was_looked_at(volume: Path) -> None:
    machine, told, seen = Machine(), list[Progress](), Numbers(8, 7, 1)
    target = Target(kind=DiskKind.DIRECTORY, place=place(volume), identity=RECORDED, lock="", directory=seen)
    await machine.executor().clean(target, plans.Empty(), on_progress=told.append)
    assert (machine.done, told) == ([("empty", volume, volume.parent, seen)], [])
    await machine.executor().clean(target, plans.Run(("/opt/x", "1")), on_progress=told.append)
    assert machine.done[1:] == [("empty with", ("/opt/x", "1"), volume, volume.parent, seen)]
    assert told == [Progress(done=0, step="running a command")]


async def test_look_at_a_directory_leaves_nothing_open(volume: Path) -> None:
    machine = at_root(volume)
    looking, disk = executor(machine), record(volume, recorded(machine))
    await looking.look(disk, place(volume))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await looking.look(disk, place(volume))
    assert len(os.listdir("/proc/self/fd")) == before


async def test_mount_point_is_recorded_with_any_number_of_its_mount(volume: Path) -> None:
    machine = as_mount_point(volume)
    found = await executor(machine).look(record(volume, recorded(machine, mount_id=1)), place(volume))
    assert found.directory is not None


async def test_own_mount_of_a_volume_is_no_user_of_it(volume: Path) -> None:
    machine = as_mount_point(volume)
    assert await users(machine) == ""
    machine.mounted = (mounted(machine, str(volume), root="/", number=machine.mount.mount_id + 1),)
    assert await users(machine) == "", "the same mounted over it once more"
