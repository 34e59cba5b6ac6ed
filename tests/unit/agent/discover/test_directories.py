"""A plain directory is known by its inode: under another name it is the same, and another under its name is not."""

from __future__ import annotations

from tests.unit.agent.discover.world import FOLDER, World

from localpv.testing.fake_host import FakeMachine


async def test_renamed_directory_of_a_volume_is_not_offered_again(world: World, machine: FakeMachine) -> None:
    machine.make_folder(f"{FOLDER}/a")
    await world.publish("a")

    machine.rename(f"{FOLDER}/a", f"{FOLDER}/b")

    await world.until("a", "Missing", "Gone")
    found = await world.until("b", "Unavailable", "DuplicateDevice")
    assert "entry a of class fast (volume pv-a)" in found.status.message
    await world.round()
    assert world.disk("b").status.reason == "DuplicateDevice"

    machine.rename(f"{FOLDER}/b", f"{FOLDER}/a")
    await world.until("a", "Published")
    await world.until_gone("b")


async def test_renamed_directory_is_offered_when_nobody_has_it_any_more(world: World, machine: FakeMachine) -> None:
    machine.make_folder(f"{FOLDER}/a")
    await world.publish("a")
    machine.rename(f"{FOLDER}/a", f"{FOLDER}/b")
    await world.until("b", "Unavailable", "DuplicateDevice")

    await world.take_back("a")

    await world.until("b", "Available")


async def test_other_directory_under_the_name_of_a_published_one_is_not_it(world: World, machine: FakeMachine) -> None:
    machine.make_folder(f"{FOLDER}/a")
    await world.publish("a")
    machine.rename(f"{FOLDER}/a", "/mnt/kept")
    machine.make_folder(f"{FOLDER}/a")

    found = await world.until("a", "Missing", "IdentityChanged")

    assert "inode was" in found.status.message


async def test_neighbours_in_one_file_system_are_not_each_other(world: World, machine: FakeMachine) -> None:
    for name in ("a", "b", "c"):
        machine.make_folder(f"{FOLDER}/{name}")
    await world.publish("a")
    await world.until("b", "Available")
    await world.until("c", "Available")
