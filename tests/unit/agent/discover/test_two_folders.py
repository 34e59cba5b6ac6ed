"""A class with two discovery directories: one record for each name, and never one disk in the other's place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.discover.world import World, a_class, discovering

from localpv.api.kinds.localdisk import Cleaning
from localpv.config.settings import ClassSettings, DeviceFilter, Folder
from localpv.host.model.devices import RuleMatch
from localpv.testing.fake_host import FakeMachine
from localpv.testing.waiting import eventually

LINKS = "/dev/disk/kubernetes-local-storage/fast"
BLOCK, FILESYSTEM = f"{LINKS}/block", f"{LINKS}/filesystem"
GROUP = "localpv-system/fast nodes[0].devices[0]"
MATCHED = (RuleMatch("fast", f"{GROUP}.deviceNames[0]"),)


def two_folders(**settings: object) -> ClassSettings:
    further = Folder(host_dir=FILESYSTEM, mount_dir=FILESYSTEM, volume_mode="Filesystem")
    given: dict[str, object] = {"from_local_storage": True, "volume_mode": "Block", "more_folders": (further,)}
    return a_class(folder=BLOCK, **(given | settings))


@pytest.fixture
async def world(machine: FakeMachine, tmp_path: Path) -> AsyncIterator[World]:
    async with discovering(machine, tmp_path / "state", two_folders()) as made:
        await made.discovery.wait_looked()
        yield made


def plug(machine: FakeMachine, name: str, link: str, **known: object) -> None:
    """A disk comes, and udev makes its link."""
    machine.add_disk(f"/dev/{name}", **{"matches": MATCHED, **known})
    machine.make_folder(Path(link).parent)
    machine.link(link, f"/dev/{name}")


def udev_says(machine: FakeMachine, name: str, *matches: RuleMatch) -> None:
    """Rules have changed, and udev has looked at the disk with them."""
    disk = machine.disks[Path(f"/dev/{name}")]
    disk.device = replace(disk.device, matches=matches)


def unplug(machine: FakeMachine, name: str, link: str) -> None:
    """The same backwards: with its last link udev removes the folder."""
    machine.remove(link)
    if not any(Path(link).parent in other.parents for other in machine.links):
        machine.remove(Path(link).parent)
    machine.remove_disk(f"/dev/{name}")


@pytest.mark.seed("OPR-7", "OPR-10")
async def test_devices_of_both_folders_are_offered_each_in_its_mode(world: World) -> None:
    plug(world.machine, "sdb", f"{BLOCK}/scsi-1")
    plug(world.machine, "sdc", f"{FILESYSTEM}/scsi-2")

    raw, formatted = await world.until("scsi-1", "Available"), await world.until("scsi-2", "Available")

    assert (raw.spec.path, raw.spec.volume_mode) == (f"{BLOCK}/scsi-1", "Block")
    assert (formatted.spec.path, formatted.spec.volume_mode) == (f"{FILESYSTEM}/scsi-2", "Filesystem")
    assert raw.status.matched_by == MATCHED[0].rule


@pytest.mark.seed("OPR-7")
async def test_folders_that_come_with_the_first_link_and_go_with_the_last_are_followed(world: World) -> None:
    for _ in range(2):
        plug(world.machine, "sdb", f"{BLOCK}/scsi-1")
        await world.until("scsi-1", "Available")
        unplug(world.machine, "sdb", f"{BLOCK}/scsi-1")
        await world.until_gone("scsi-1")


@pytest.mark.seed("OPR-7", "OPR-17")
async def test_folder_that_vanishes_under_a_volume_loses_no_record(world: World) -> None:
    plug(world.machine, "sdb", f"{BLOCK}/scsi-1")
    plug(world.machine, "sdc", f"{BLOCK}/scsi-2")
    await world.publish("scsi-1")
    await world.until("scsi-2", "Available")

    unplug(world.machine, "sdb", f"{BLOCK}/scsi-1")
    unplug(world.machine, "sdc", f"{BLOCK}/scsi-2")
    missing = await world.until("scsi-1", "Missing", "Gone")
    await world.until_gone("scsi-2")

    assert missing.spec.volume is not None
    assert missing.status.matched_by == MATCHED[0].rule


@pytest.mark.seed("OPR-10")
async def test_name_in_both_folders_is_offered_in_neither_until_one_is_gone(world: World) -> None:
    plug(world.machine, "sdb", f"{BLOCK}/scsi-1")
    await world.until("scsi-1", "Available")

    plug(world.machine, "sdc", f"{FILESYSTEM}/scsi-1")
    twice = await world.until("scsi-1", "Unavailable", "EntryTwice")
    assert FILESYSTEM in twice.status.message
    assert len(await world.records.list()) == 1

    unplug(world.machine, "sdb", f"{BLOCK}/scsi-1")
    left = await world.until("scsi-1", "Available")
    assert (left.spec.path, left.spec.volume_mode) == (f"{FILESYSTEM}/scsi-1", "Filesystem")


@pytest.mark.seed("OPR-10")
@pytest.mark.parametrize(("own", "other"), [(BLOCK, FILESYSTEM), (FILESYSTEM, BLOCK)])
async def test_disk_of_a_volume_keeps_its_folder_whatever_has_its_name_in_the_other(
    world: World, own: str, other: str
) -> None:
    plug(world.machine, "sdb", f"{own}/scsi-1")
    await world.publish("scsi-1")
    plug(world.machine, "sdc", f"{other}/scsi-1")
    plug(world.machine, "sdd", f"{other}/scsi-9")
    await world.until("scsi-9", "Available")  # the survey has seen both
    assert world.disk("scsi-1").status.phase == "Published"

    unplug(world.machine, "sdb", f"{own}/scsi-1")
    missing = await world.until("scsi-1", "Missing", "Gone")
    assert missing.spec.path == f"{own}/scsi-1"

    await world.order_cleaning("scsi-1")
    await world.round()
    assert world.disk("scsi-1").spec.path == f"{own}/scsi-1"  # by which alone the disk is found that is wiped


async def test_unfinished_cleaning_keeps_its_folder_as_well(world: World) -> None:
    plug(world.machine, "sdb", f"{FILESYSTEM}/scsi-1")
    disk = await world.until("scsi-1", "Available")
    failed = Cleaning(volume_uid="uid-old", state="Failed")
    await world.records.write_status(disk, msgspec.structs.replace(disk.status, cleaning=failed))
    await world.until("scsi-1", "Unavailable", "NotCleaned")

    unplug(world.machine, "sdb", f"{FILESYSTEM}/scsi-1")
    plug(world.machine, "sdc", f"{BLOCK}/scsi-1")
    await world.round()

    kept = world.disk("scsi-1")
    assert kept.spec.path == f"{FILESYSTEM}/scsi-1"
    assert not kept.status.eligible


@pytest.mark.seed("OPR-9")
async def test_only_devices_that_a_rule_matched_are_offered(world: World) -> None:
    plug(world.machine, "sdb", f"{BLOCK}/by-hand", matches=())
    plug(world.machine, "sdc", f"{BLOCK}/of-another", matches=(RuleMatch("slow", MATCHED[0].rule),))
    world.machine.make_folder(f"{FILESYSTEM}/directory")
    world.machine.mount(None, f"{FILESYSTEM}/mounted")

    await world.until("by-hand", "Unavailable", "NotMatched")
    await world.until("of-another", "Unavailable", "NotMatched")
    await world.until("directory", "Unavailable", "NotADevice")
    await world.until("mounted", "Unavailable", "NotADevice")


@pytest.mark.seed("OPR-9", "OPR-19")
@pytest.mark.parametrize(("own", "other"), [("", "0123abcd"), ("0123abcd", "")])
async def test_device_that_two_engines_of_the_machine_mean_is_offered_by_neither(
    machine: FakeMachine, tmp_path: Path, own: str, other: str
) -> None:
    """Each has records of its own, and both may call their classes the same."""
    ours, theirs = (RuleMatch("fast", MATCHED[0].rule, engine) for engine in (own, other))
    async with discovering(machine, tmp_path, two_folders(), engine=own) as world:
        plug(machine, "sdb", f"{BLOCK}/of-both", matches=(ours, theirs))
        plug(machine, "sdc", f"{BLOCK}/of-them", matches=(theirs,))
        plug(machine, "sdd", f"{BLOCK}/of-us", matches=(ours,))
        plug(machine, "sde", f"{BLOCK}/used", matches=(ours,))
        await world.until("of-us", "Available")
        await world.publish("used")
        for name in ("of-both", "of-them"):
            refused = await world.until(name, "Unavailable", "MatchedByOtherEngine")
            assert MATCHED[0].rule in refused.status.message
        udev_says(machine, "sde", ours, theirs)
        await world.round()
        assert world.disk("used").status.phase == "Published", "who has it keeps it"

        udev_says(machine, "sdb", ours)
        world.discovery.look_at_everything()
        await world.until("of-both", "Available")


async def test_count_of_a_group_is_kept_and_a_free_place_is_taken_by_the_next(
    machine: FakeMachine, tmp_path: Path
) -> None:
    filters = {GROUP: DeviceFilter(max_count=2)}
    async with discovering(machine, tmp_path, two_folders(device_filters=filters)) as world:
        for number, folder in enumerate([BLOCK, FILESYSTEM, BLOCK, FILESYSTEM]):
            plug(machine, f"sd{number}", f"{folder}/disk-{number}")
        plug(
            machine, "sdx", f"{BLOCK}/other-group", matches=(RuleMatch("fast", "a/b nodes[0].devices[1].udevRules[0]"),)
        )
        await world.until("other-group", "Available")
        await eventually(lambda: len(world.discovery.records) == 5 and not reasons(world, ""), what="all are judged")

        assert len(reasons(world, "CountReached")) == 2
        kept, gone = sorted(set(reasons(world, "Available")) - {"other-group"})
        await world.publish(kept)
        number = gone.removeprefix("disk-")
        unplug(machine, f"sd{number}", str(Path(world.disk(gone).spec.path)))
        await eventually(lambda: len(reasons(world, "CountReached")) == 1, what="another one takes the place")
        # Its file goes in a thread, which does not end with the world.
        await eventually(lambda: gone not in {place.entry for place in world.discovery.records}, what="it is forgotten")
        assert world.disk(kept).status.phase == "Published"

    async with discovering(machine, tmp_path, two_folders(device_filters={GROUP: DeviceFilter(max_count=1)})) as world:
        await world.discovery.wait_looked()
        await world.round()
        assert world.disk(kept).status.phase == "Published"  # a disk that has a volume is never refused by it


def reasons(world: World, reason: str) -> list[str]:
    return [disk.spec.entry for disk in world.discovery.records.values() if disk.status.reason == reason]
