"""What is asked of a disk, by kind and by whether a volume has it, and what an answer that does not come says."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from localpv import errors
from localpv.agent.discover.entry import Sighting
from localpv.agent.discover.probe import NOTHING, DiskProbe, Facts
from localpv.host.contents import BLANK, Contents
from localpv.host.folders import Capacity, Entry, FileKind
from localpv.host.marks import Mark
from localpv.host.model.devices import BlockDevice, DeviceNumber, Medium, Signature
from localpv.host.model.identity import Identity
from localpv.host.mounts import Mount
from localpv.testing.fake_host import block_device

FOLDER, SDB = Path("/mnt/fast"), DeviceNumber(8, 16)
DEVICE = block_device(
    path=Path("/dev/sdb"), kernel_name="sdb", number=SDB, size_bytes=1000, serial="S1", rotational=True
)
EXT4 = Signature(type="ext4", usage="filesystem", uuid="u")
FILES, OLD = Contents(names=("data",), count=1), Mark(volume="pv-old", uid="uid-old")


class Machine:
    """Answers, and notes what it was asked."""

    def __init__(self, device: BlockDevice = DEVICE) -> None:
        self.device, self.found, self.asked = device, BLANK, list[str]()
        self.mark: Mark | None = None
        self.trouble: Exception | None = None
        self.gate: asyncio.Event | None = None

    async def describe(self, path: Path, *, exclusive: bool = True) -> BlockDevice:
        self.asked.append(f"describe {path}{' exclusive' if exclusive else ''}")
        if self.gate is not None:
            await self.gate.wait()
        if self.trouble is not None:
            raise self.trouble
        return self.device

    async def contents(self, what: BlockDevice | Path, *, top: bool = False) -> Contents:
        self.asked.append(f"contents {getattr(what, 'path', what)}{' top' if top else ''}")
        return self.found

    async def capacity(self, path: Path) -> Capacity:
        return Capacity(total_bytes=500)

    async def behind(self, mount: Mount) -> Identity:
        self.asked.append("behind")
        return Identity(fs_uuid="behind", mount_id=mount.mount_id)

    async def directory(self, path: Path, mount: Mount) -> Identity:
        return Identity(filesystem_id="fs", inode=7)

    async def of_device(self, path: Path, now: Identity) -> Mark | None:
        return self.mark

    async def of_directory(self, path: Path) -> Mark | None:
        return self.mark

    def probe(self) -> DiskProbe:
        return DiskProbe(devices=self, folders=self, marks=self)  # type: ignore[arg-type]


ON_DEVICE = Sighting(entry=Entry(name="a", kind=FileKind.BLOCK_DEVICE, device=SDB), folder=FOLDER)


def a_mount(**changes: object) -> Mount:
    mount = Mount(mount_id=70, device=SDB, root="/", mount_point=FOLDER / "a", source="/dev/sdb", fs_type="ext4")
    return dataclasses.replace(mount, **changes)  # type: ignore[arg-type]


def mount_point(mount: Mount) -> Sighting:
    return Sighting(entry=Entry(name="a", kind=FileKind.DIRECTORY), folder=FOLDER, mount=mount)


def directory(around: Mount | None) -> Sighting:
    return Sighting(entry=Entry(name="a", kind=FileKind.DIRECTORY), folder=FOLDER, around=around)


async def test_device_that_no_volume_has_is_tried_and_looked_into() -> None:
    machine = Machine()
    facts = await machine.probe().look(ON_DEVICE, unused=True)
    assert machine.asked == ["describe /mnt/fast/a exclusive", "contents /dev/sdb"]
    assert facts == Facts(
        device=DEVICE, identity=DEVICE.identity, medium=Medium.HDD, capacity_bytes=1000, contents=BLANK
    )


async def test_device_of_a_volume_is_neither_tried_nor_looked_into() -> None:
    machine = Machine()
    facts = await machine.probe().look(ON_DEVICE, unused=False)
    assert machine.asked == ["describe /mnt/fast/a"]
    assert facts.contents is None and facts.capacity_bytes == 1000


@pytest.mark.parametrize(("fs_type", "looked"), [("ext4", True), ("xfs", False), ("", False)])
async def test_file_system_is_looked_into_only_when_it_is_of_the_accepted_type(fs_type: str, looked: bool) -> None:
    machine = Machine(dataclasses.replace(DEVICE, signatures=(EXT4,)))
    facts = await machine.probe().look(ON_DEVICE, unused=True, fs_type=fs_type)
    assert (facts.contents is not None) is looked
    of_a_volume = await machine.probe().look(ON_DEVICE, unused=False, fs_type=fs_type)
    assert of_a_volume.contents is None


async def test_mark_of_a_tenant_is_found_beside_the_device_or_in_what_is_on_it() -> None:
    machine = Machine()
    machine.found = Contents(names=("x",), count=1, mark=OLD)
    assert (await machine.probe().look(ON_DEVICE, unused=True)).mark == OLD
    machine.mark = Mark(volume="pv-2", uid="uid-2")
    assert (await machine.probe().look(ON_DEVICE, unused=True)).mark == machine.mark
    assert (await machine.probe().look(ON_DEVICE, unused=False)).mark == machine.mark
    assert (await machine.probe().look(mount_point(a_mount()), unused=False)).mark == machine.mark


async def test_mount_point_is_known_by_its_device_and_the_number_of_the_mount() -> None:
    machine = Machine()
    facts = await machine.probe().look(mount_point(a_mount()), unused=True)
    assert facts.identity == dataclasses.replace(DEVICE.identity, mount_id=70)
    assert (facts.medium, facts.capacity_bytes, facts.contents) == (Medium.HDD, 500, BLANK)
    assert machine.asked == ["describe /dev/sdb", "contents /mnt/fast/a top"], "it is in use, so nobody tries"


async def test_part_of_a_file_system_is_a_directory_of_its_own() -> None:
    machine = Machine()
    facts = await machine.probe().look(mount_point(a_mount(root="/part")), unused=True)
    assert facts.identity is not None and (facts.identity.inode, facts.identity.mount_id) == (7, 70)
    assert machine.asked[-1] == "contents /mnt/fast/a"


async def test_directory_of_a_volume_is_not_looked_into() -> None:
    for sighting in (mount_point(a_mount()), directory(a_mount())):
        machine = Machine()
        assert (await machine.probe().look(sighting, unused=False)).contents is None
        assert not any(one.startswith("contents") for one in machine.asked)


@pytest.mark.parametrize(
    ("mount", "device", "trouble"),
    [
        (a_mount(source="tmpfs"), DEVICE, None),
        (a_mount(), dataclasses.replace(DEVICE, number=DeviceNumber(8, 32)), None),
        (a_mount(), DEVICE, errors.HostError("not known in here")),
        (a_mount(), DEVICE, FileNotFoundError(2, "No such file")),
    ],
    ids=["no device", "another device", "no such name", "no such file"],
)
async def test_mount_whose_device_has_no_name_in_here_is_known_by_its_number(
    mount: Mount, device: BlockDevice, trouble: Exception | None
) -> None:
    machine = Machine(device)
    machine.trouble = trouble
    facts = await machine.probe().look(mount_point(mount), unused=True)
    assert facts.identity == Identity(fs_uuid="behind", mount_id=70)
    assert facts.medium is Medium.UNKNOWN
    assert not mount.source.startswith("/dev/") or machine.asked[0] == "describe /dev/sdb"


async def test_plain_directory_has_no_mount_of_its_own_and_what_nothing_holds_has_no_facts() -> None:
    facts = await Machine().probe().look(directory(a_mount()), unused=True)
    assert facts.identity is not None and (facts.identity.inode, facts.identity.mount_id) == (7, 0)
    assert await Machine().probe().look(directory(None), unused=True) == NOTHING


@pytest.mark.parametrize(
    ("trouble", "said", "hung"),
    [
        (errors.HostTimeout("no answer"), "no answer", True),
        (errors.HostError("no"), "no", False),
        (OSError(5, "Input/output error"), "/mnt/fast/a: Input/output error", False),
    ],
    ids=repr,
)
async def test_disk_that_cannot_be_read_says_so(trouble: Exception, said: str, hung: bool) -> None:
    machine = Machine()
    machine.trouble = trouble
    assert await machine.probe().look(ON_DEVICE, unused=True) == Facts(trouble=said, hung=hung)


async def test_file_system_that_hangs_is_not_asked_in_another_way() -> None:
    machine = Machine()
    machine.trouble = errors.HostTimeout("no answer")
    assert await machine.probe().look(mount_point(a_mount()), unused=True) == Facts(trouble="no answer", hung=True)


async def test_directories_of_one_file_system_share_a_look_until_something_is_mounted() -> None:
    machine = Machine()
    probe = machine.probe()
    for _ in range(3):
        await probe.look(directory(a_mount()), unused=False)
    assert machine.asked == ["describe /dev/sdb"]
    probe.forget()
    await probe.look(directory(a_mount()), unused=False)
    assert len(machine.asked) == 2
    for _ in range(2):
        await probe.look(mount_point(a_mount()), unused=False)
    assert len(machine.asked) == 4, "a mount point is never known from memory"


async def test_look_that_failed_is_not_shared() -> None:
    machine = Machine()
    probe = machine.probe()
    machine.trouble = errors.HostTimeout("no answer")
    assert (await probe.look(directory(a_mount()), unused=False)).hung
    machine.trouble = None
    assert (await probe.look(directory(a_mount()), unused=False)).identity is not None
    assert len(machine.asked) == 2


async def test_look_that_one_gives_up_goes_on_for_the_others() -> None:
    machine = Machine()
    machine.gate = asyncio.Event()
    probe = machine.probe()
    first, second = (asyncio.create_task(probe.look(directory(a_mount()), unused=False)) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    machine.gate.set()
    assert (await second).identity is not None
    assert machine.asked == ["describe /dev/sdb"]
