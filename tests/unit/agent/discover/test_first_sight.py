"""What is not blank when it is seen first is not offered, and what went through localpv goes by its record."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.discover.world import FOLDER, World, a_class, discovering

from localpv.api.kinds.localdisk import Cleaning
from localpv.testing.fake_host import FakeMachine
from localpv.testing.waiting import eventually


def a_disk(machine: FakeMachine, name: str = "sdb", *, dirty: bool = False, fs: str = "", **known: object) -> None:
    machine.add_disk(f"/dev/{name}", **known)
    if fs:
        machine.make_file_system(f"/dev/{name}", kind=fs)
    machine.disks[Path(f"/dev/{name}")].dirty = dirty
    machine.link(f"{FOLDER}/a", f"/dev/{name}")


async def cleaned(
    world: World, entry: str = "a", *, leaves_bytes: bool = False, method: tuple[str, ...] = ("fs-reset",)
) -> None:
    """The disk was used, and its cleaning was verified."""
    disk = await world.publish(entry)
    world.machine.disks[Path("/dev/sdb")].dirty = leaves_bytes
    cleaning = Cleaning(volume_uid="uid-a", state="Verified", method=method)
    await world.records.write_status(disk, msgspec.structs.replace(disk.status, cleaning=cleaning))
    await world.take_back(entry)
    await world.until(entry, "Available")


async def test_directory_with_files_is_not_offered_until_it_is_emptied(machine: FakeMachine, tmp_path: Path) -> None:
    machine.write_file(f"{FOLDER}/a/precious")
    async with discovering(machine, tmp_path) as world:
        found = await world.until("a", "Unavailable", "NotEmpty")
        assert "'precious'" in found.status.message
        machine.remove(f"{FOLDER}/a/precious")
        await world.round()
        await world.until("a", "Available")


async def test_mount_point_is_empty_when_only_lost_and_found_is_in_it(machine: FakeMachine, tmp_path: Path) -> None:
    for name in ("a", "b"):
        machine.add_disk(f"/dev/{name}")
        machine.mount(f"/dev/{name}", f"{FOLDER}/{name}")
        machine.make_folder(f"{FOLDER}/{name}/lost+found")
    machine.write_file(f"{FOLDER}/b/lost+found/#12")
    machine.make_folder(f"{FOLDER}/c/lost+found")  # in a plain directory it is one like any other
    async with discovering(machine, tmp_path) as world:
        await world.until("a", "Available")
        assert "lost+found/#12" in (await world.until("b", "Unavailable", "NotEmpty")).status.message
        await world.until("c", "Unavailable", "NotEmpty")


@pytest.mark.parametrize("mode", ["Block", "Filesystem"])
async def test_device_with_bytes_on_it_is_not_offered(machine: FakeMachine, tmp_path: Path, mode: str) -> None:
    a_disk(machine, dirty=True)
    async with discovering(machine, tmp_path, a_class(volume_mode=mode)) as world:
        await world.until("a", "Unavailable", "NotEmpty")


async def test_device_with_the_announced_file_system_must_be_empty(machine: FakeMachine, tmp_path: Path) -> None:
    a_disk(machine, fs="xfs", dirty=True)
    async with discovering(machine, tmp_path, a_class(volume_mode="Filesystem", fs_type="xfs")) as world:
        await world.until("a", "Unavailable", "NotEmpty")
        machine.disks[Path("/dev/sdb")].dirty = False
        await world.round()
        await world.until("a", "Available")


async def test_class_can_adopt_what_exists_and_says_so(machine: FakeMachine, tmp_path: Path) -> None:
    a_disk(machine, dirty=True)
    machine.write_file(f"{FOLDER}/b/precious")
    machine.make_folder(f"{FOLDER}/c")
    async with discovering(machine, tmp_path, a_class(adopt_existing=True)) as world:
        for entry in ("a", "b", "c"):
            await world.until(entry, "Available")
        told = {about: message for about, reason, message in world.events.told if reason == "ExistingDataAdopted"}
        assert told.keys() == {world.disk("a").metadata.name, world.disk("b").metadata.name}
        assert "'precious'" in told[world.disk("b").metadata.name]


async def test_published_volume_with_files_is_not_withdrawn_after_a_restart(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.make_folder(f"{FOLDER}/a")
    a_disk(machine, dirty=False)
    machine.link(f"{FOLDER}/b", "/dev/sdb")
    machine.remove(f"{FOLDER}/a")
    machine.make_folder(f"{FOLDER}/a")
    async with discovering(machine, tmp_path) as world:
        await world.publish("a")
        await world.publish("b")
    machine.write_file(f"{FOLDER}/a/of-the-tenant")
    machine.disks[Path("/dev/sdb")].dirty = True
    async with discovering(machine, tmp_path) as world:
        await world.discovery.wait_looked()
        await world.round()
        for entry in ("a", "b"):
            assert (await world.until(entry, "Published")).status.eligible is True


async def test_directory_that_is_filled_while_it_settles_is_not_offered(machine: FakeMachine, tmp_path: Path) -> None:
    async with discovering(machine, tmp_path, settle_seconds=1.0) as world:
        await world.discovery.wait_looked()
        machine.make_folder(f"{FOLDER}/a")
        await world.until("a", "Unavailable", "Settling")
        machine.files.add(Path(f"{FOLDER}/a/copied"))  # nobody is told of what happens below
        await world.until("a", "Unavailable", "NotEmpty")


@pytest.mark.parametrize("method", [("fs-reset",), ("/scripts/quick_reset.sh",), ("/opt/own-cleaner", "--fast")])
async def test_device_that_was_cleaned_is_offered_with_what_its_method_leaves(
    machine: FakeMachine, tmp_path: Path, method: tuple[str, ...]
) -> None:
    a_disk(machine)
    async with discovering(machine, tmp_path) as world:
        await cleaned(world, leaves_bytes=True, method=method)
        await world.round()
        await world.until("a", "Available")


async def test_another_device_in_the_place_of_a_cleaned_one_is_seen_for_the_first_time(
    machine: FakeMachine, tmp_path: Path
) -> None:
    a_disk(machine)
    async with discovering(machine, tmp_path) as world:
        await cleaned(world)
        machine.remove_disk("/dev/sdb")
        await world.until("a", "Unavailable", "DanglingLink")
        machine.add_disk("/dev/sdb")
        machine.disks[Path("/dev/sdb")].dirty = True
        await world.until("a", "Unavailable", "NotEmpty")
        await eventually(lambda: world.disk("a").status.cleaning is None)
        await world.round()  # what was said of the other one does not count at the next look either
        assert world.disk("a").status.reason == "NotEmpty"


@pytest.mark.parametrize("method", [("zeroout",), ("dd-zero", "1"), ("blkdiscard",), ("zero", "1"), ("ata-erase",)])
async def test_data_that_the_last_cleaning_cannot_have_left_is_somebodys(
    machine: FakeMachine, tmp_path: Path, method: tuple[str, ...]
) -> None:
    a_disk(machine)
    async with discovering(machine, tmp_path) as world:
        await cleaned(world, method=method)
        machine.disks[Path("/dev/sdb")].dirty = True  # written by hand, past localpv
        await world.round()
        await world.until("a", "Unavailable", "NotEmpty")
