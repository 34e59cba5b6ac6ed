"""A disk that was cleaned with a method that leaves old blocks is not offered raw, wherever its link goes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.discover.world import FOLDER, World, a_class, configured, discovering

from localpv.agent.discover import eligibility
from localpv.api.kinds.localdisk import Cleaning, LocalDisk
from localpv.config.cleaners import Cleaner
from localpv.config.settings import ClassSettings
from localpv.testing.fake_host import FakeMachine

RAW = "/mnt/raw"
FORMATTED = a_class(volume_mode="Filesystem")


def raw(**settings: object) -> ClassSettings:
    return a_class("raw", folder=RAW, volume_mode="Block", **settings)


@pytest.fixture
def machine(machine: FakeMachine) -> FakeMachine:
    machine.make_folder(RAW)
    machine.add_disk("/dev/sdb")
    machine.link(f"{FOLDER}/a", "/dev/sdb")
    return machine


async def clean(
    world: World, entry: str, method: str, *, storage_class: str = "fast", at: str = "2026-01-01T10:00:00Z"
) -> LocalDisk:
    """What a released disk's record says once it was cleaned and its volume is gone."""
    disk = world.disk(entry, storage_class)
    done = Cleaning(volume_uid="uid-old", state="Verified", method=(method,), finished_at=at)
    return await world.records.write_status(disk, msgspec.structs.replace(disk.status, cleaning=done))


async def leave(world: World, method: str = "fs-reset") -> None:
    """A tenant has left the disk, and its link goes from the class to the other."""
    await world.until("a", "Available")
    await clean(world, "a", method)
    await world.round()
    world.machine.remove(f"{FOLDER}/a")
    world.machine.link(f"{RAW}/b", "/dev/sdb")


async def test_disk_that_goes_to_a_class_of_raw_devices_is_refused_until_it_was_wiped(
    machine: FakeMachine, tmp_path: Path
) -> None:
    async with discovering(machine, tmp_path, FORMATTED, raw(adopt_existing=True)) as world:
        await leave(world)

        refused = await world.until("b", "Unavailable", "NotErased", storage_class="raw")
        assert "localpv wipe b" in refused.status.message
        kept = await world.until("a", "Unavailable", "Gone")
        assert f"delete LocalDisk {kept.metadata.name}" in kept.status.message
        await world.round()
        assert world.disk("b", "raw").status.reason == "NotErased"

        await clean(world, "b", "zeroout", storage_class="raw", at="2026-01-01T11:00:00Z")
        await world.until("b", "Available", storage_class="raw")
        await world.round()
        assert world.find("a") is None  # the later cleaning says all there is to say


async def test_memory_outlives_a_restart_and_a_class_that_is_gone(machine: FakeMachine, tmp_path: Path) -> None:
    async with discovering(machine, tmp_path, FORMATTED) as world:
        await leave(world)
        await world.until("a", "Unavailable", "Gone")
    async with discovering(machine, tmp_path, raw()) as world:
        await world.until("b", "Unavailable", "NotErased", storage_class="raw")
        await world.until("a", "Unavailable", "Gone")


async def test_cleaning_before_the_last_one_does_not_count(machine: FakeMachine, tmp_path: Path) -> None:
    async with discovering(machine, tmp_path, FORMATTED, raw()) as world:
        await leave(world)
        await world.until("b", "Unavailable", "NotErased", storage_class="raw")
        await clean(world, "b", "zeroout", storage_class="raw", at="2026-01-01T09:00:00Z")
        await world.round()
        assert world.disk("b", "raw").status.reason == "NotErased"
        assert world.find("a") is not None


async def test_who_deletes_the_record_answers_for_it(machine: FakeMachine, tmp_path: Path) -> None:
    async with discovering(machine, tmp_path, FORMATTED, raw()) as world:
        await leave(world)
        await world.until("b", "Unavailable", "NotErased", storage_class="raw")
        await world.until("a", "Unavailable", "Gone")
        await world.records.delete(world.disk("a"))
        await world.until("b", "Available", storage_class="raw")


@pytest.mark.parametrize("method", ["zeroout", "dd-zero"])
async def test_disk_that_was_wiped_is_offered_raw_and_its_old_record_goes(
    machine: FakeMachine, tmp_path: Path, method: str
) -> None:
    async with discovering(machine, tmp_path, FORMATTED, raw()) as world:
        await leave(world, method)
        await world.until("b", "Available", storage_class="raw")
        await world.until_gone("a")


async def test_class_that_leaves_old_blocks_by_its_own_choice_offers_the_disk(
    machine: FakeMachine, tmp_path: Path
) -> None:
    reset = Cleaner(("fs-reset",), ("fs-reset",))
    async with discovering(machine, tmp_path, FORMATTED, raw(block_cleaner=reset)) as world:
        await leave(world)
        await world.until("b", "Available", storage_class="raw")


async def test_under_a_file_system_the_disk_is_offered_and_the_memory_goes_on_to_its_next_cleaning(
    machine: FakeMachine, tmp_path: Path
) -> None:
    other = a_class("raw", folder=RAW, volume_mode="Filesystem")
    async with discovering(machine, tmp_path, FORMATTED, other) as world:
        await leave(world)
        await world.until("b", "Available", storage_class="raw")
        await world.until("a", "Unavailable", "Gone")

        await clean(world, "b", "fs-reset", storage_class="raw", at="2026-01-01T11:00:00Z")
        await world.round()
        assert world.find("a") is None
        machine.remove(f"{RAW}/b")
        await world.until("b", "Unavailable", "Gone", storage_class="raw")


async def test_another_disk_is_none_of_it(machine: FakeMachine, tmp_path: Path) -> None:
    async with discovering(machine, tmp_path, FORMATTED, raw()) as world:
        await leave(world)
        machine.add_disk("/dev/sdc")
        machine.link(f"{RAW}/c", "/dev/sdc")
        await world.until("c", "Available", storage_class="raw")


async def test_disk_that_comes_back_to_its_place_is_offered_again(machine: FakeMachine, tmp_path: Path) -> None:
    async with discovering(machine, tmp_path, FORMATTED) as world:
        await leave(world)
        await world.until("a", "Unavailable", "Gone")
        machine.link(f"{FOLDER}/a", "/dev/sdb")
        back = await world.until("a", "Available")
        assert back.status.cleaning is not None


async def test_another_disk_in_its_place_does_not_make_it_forgotten(machine: FakeMachine, tmp_path: Path) -> None:
    async with discovering(machine, tmp_path, FORMATTED, raw()) as world:
        await leave(world)
        await world.until("b", "Unavailable", "NotErased", storage_class="raw")
        machine.add_disk("/dev/sdc")
        machine.link(f"{FOLDER}/a", "/dev/sdc")
        other = await world.until("a", "Available")
        assert other.status.cleaning is None
        await world.round()
        assert world.disk("b", "raw").status.reason == "NotErased"
        machine.remove(f"{FOLDER}/a")
        await world.until("a", "Unavailable", "Gone")
        assert world.disk("b", "raw").status.reason == "NotErased"

    async with discovering(machine, tmp_path, FORMATTED, raw()) as world:
        await world.until("b", "Unavailable", "NotErased", storage_class="raw")
        await clean(world, "b", "zeroout", storage_class="raw", at="2026-01-01T11:00:00Z")
        await world.until("b", "Available", storage_class="raw")
        await world.round()
        assert world.find("a") is None


async def test_disk_that_takes_its_place_again_is_known_by_its_cleaning(machine: FakeMachine, tmp_path: Path) -> None:
    async with discovering(machine, tmp_path, FORMATTED) as world:
        await leave(world)
        await world.until("a", "Unavailable", "Gone")
        machine.add_disk("/dev/sdc")
        machine.link(f"{FOLDER}/a", "/dev/sdc")
        await world.until("a", "Available")
        machine.remove(f"{FOLDER}/a")
        await world.until("a", "Unavailable", "Gone")
        machine.link(f"{FOLDER}/a", "/dev/sdb")
        back = await world.until("a", "Available")
        assert back.status.cleaning is not None and back.status.cleaning.method == ("fs-reset",)
        assert back.status.earlier == ()


async def test_place_remembers_so_many_disks_and_then_asks(
    machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eligibility, "MOST_EARLIER", 0)
    async with discovering(machine, tmp_path, FORMATTED) as world:
        await leave(world)
        before = await world.until("a", "Unavailable", "Gone")
        machine.add_disk("/dev/sdc")
        machine.link(f"{FOLDER}/a", "/dev/sdc")
        refused = await world.until("a", "Unavailable", "TooManyEarlier")
        assert (refused.status.identity, refused.status.cleaning) == (before.status.identity, before.status.cleaning)
        await world.records.delete(refused)
        await world.until("a", "Available")


async def test_of_two_cleanings_in_one_second_the_later_one_counts(machine: FakeMachine, tmp_path: Path) -> None:
    async with discovering(machine, tmp_path, FORMATTED, raw()) as world:
        await world.until("a", "Available")
        await clean(world, "a", "fs-reset", at="2026-01-01T10:00:00.100000Z")
        machine.remove(f"{FOLDER}/a")
        machine.link(f"{RAW}/b", "/dev/sdb")
        await world.until("b", "Unavailable", "NotErased", storage_class="raw")
        await clean(world, "b", "zeroout", storage_class="raw", at="2026-01-01T10:00:00.900000Z")
        await world.until("b", "Available", storage_class="raw")


async def test_disk_whose_cleaning_did_not_end_well_is_offered_nowhere_else(
    machine: FakeMachine, tmp_path: Path
) -> None:
    async with discovering(machine, tmp_path, FORMATTED, raw(adopt_existing=True)) as world:
        await world.until("a", "Available")
        disk = world.disk("a")
        failed = Cleaning(volume_uid="uid-old", state="Failed", method=("zeroout",), finished_at="2026-01-01T10:00:00Z")
        await world.records.write_status(disk, msgspec.structs.replace(disk.status, cleaning=failed))
        machine.remove(f"{FOLDER}/a")
        machine.link(f"{RAW}/b", "/dev/sdb")
        refused = await world.until("b", "Unavailable", "NotCleaned", storage_class="raw")
        assert f"{FOLDER}/a" in refused.status.message

        machine.add_disk("/dev/sdc")
        machine.link(f"{FOLDER}/a", "/dev/sdc")
        await world.until("a", "Unavailable", "NotCleaned")
        await world.round()
        assert "this is another disk" in world.disk("a").status.message
        assert world.disk("b", "raw").status.reason == "NotCleaned"
        machine.remove(f"{FOLDER}/a")
        await world.until("a", "Missing")

        await clean(world, "b", "zeroout", storage_class="raw", at="2026-01-01T11:00:00Z")
        await world.until("b", "Available", storage_class="raw")
        await world.round()
        assert world.find("a") is None


async def test_folder_of_a_class_that_becomes_raw_shows_the_manager_what_was_left(
    machine: FakeMachine, tmp_path: Path
) -> None:
    """One record for both: the manager refuses it by its last cleaning."""
    async with discovering(machine, tmp_path, FORMATTED) as world:
        await leave(world)
        await world.until("a", "Unavailable", "Gone")
        machine.link(f"{RAW}/a", "/dev/sdb")
        machine.remove(f"{RAW}/b")
        world.discovery.configure(configured(a_class(folder=RAW, volume_mode="Block")))
        moved = await world.until("a", "Available")
        assert (moved.spec.path, moved.spec.volume_mode) == (f"{RAW}/a", "Block")
        assert moved.status.cleaning is not None and moved.status.cleaning.method == ("fs-reset",)


async def test_volume_whose_directory_left_its_class_is_not_found_in_another(
    machine: FakeMachine, tmp_path: Path
) -> None:
    async with discovering(machine, tmp_path, FORMATTED) as world:
        published = await world.publish("a")
        machine.link(f"{RAW}/a", "/dev/sdb")
        machine.add_disk("/dev/sdc")
        machine.link(f"{RAW}/c", "/dev/sdc")
        world.discovery.configure(configured(a_class(folder=RAW, volume_mode="Block")))

        await world.until("c", "Available")
        missing = await world.until("a", "Missing", "Gone")
        assert missing.spec == published.spec
        assert f"{FOLDER}/a is in no directory of class fast" in missing.status.message


@pytest.mark.parametrize("same_name", [False, True])
async def test_records_of_another_configuration_with_a_class_of_this_name_are_left_alone(
    machine: FakeMachine, tmp_path: Path, same_name: bool
) -> None:
    machine.add_disk("/dev/sdc")
    machine.link(f"{FOLDER}/used", "/dev/sdc")
    async with discovering(machine, tmp_path, FORMATTED) as world:
        await world.until("a", "Available")
        await world.publish("used")
        before = [world.disk("a"), world.disk("used")]
    machine.add_disk("/dev/sdd")
    machine.link(f"{RAW}/own", "/dev/sdd")
    if same_name:
        for number, name in enumerate(("a", "used")):
            machine.add_disk(f"/dev/sdx{number}")
            machine.link(f"{RAW}/{name}", f"/dev/sdx{number}")

    here = a_class(folder=RAW, volume_mode="Filesystem")
    async with discovering(machine, tmp_path, here, ours=lambda disk: disk.spec.path.startswith(RAW)) as world:
        await world.until("own", "Available")
        await world.round()
        assert [world.disk("a"), world.disk("used")] == before
