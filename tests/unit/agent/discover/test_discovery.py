"""A running discovery: what appears on the machine, and what the records say a moment later."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.agent.discover.world import FOLDER, NODE, World, a_class, configured, discovering

from localpv import errors
from localpv.agent.discover.reconciler import AGAIN_SECONDS
from localpv.api.kinds.localdisk import (
    Cleaning,
    DiskIdentity,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    OfferedVolume,
)
from localpv.api.kinds.meta import ObjectMeta
from localpv.config.globs import NamePattern
from localpv.disk.records.folder import FolderRecords
from localpv.disk.records.names import disk_name
from localpv.host.marks import Mark
from localpv.host.model.devices import DeviceKind, DeviceNumber
from localpv.runtime.controller import Done, LookAgain
from localpv.testing.fake_host import ROOT_BYTES, FakeMachine
from localpv.testing.fake_volume_host import FakeMarks
from localpv.testing.waiting import eventually

GIB = 1024**3
OTHER_NUMBER = DeviceNumber(8, 250)


@pytest.mark.seed("DSC-1")
@pytest.mark.seed("DSC-10")
async def test_directory_that_has_no_record_gets_one_with_the_room_of_its_file_system(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.make_folder(f"{FOLDER}/a")
    async with discovering(machine, tmp_path) as world:
        disk = await world.until("a", "Available")

    assert disk.spec.node_name == NODE
    assert disk.spec.storage_class_name == "fast"
    assert disk.spec.path == f"{FOLDER}/a"
    assert disk.spec.volume_mode == "Filesystem"
    assert disk.status.eligible is True
    assert disk.status.kind == "Directory"
    assert disk.status.capacity_bytes == ROOT_BYTES
    assert disk.status.size == "100Gi"


@pytest.mark.seed("DSC-2")
async def test_directory_that_has_a_record_gets_no_second_one_and_no_write(world: World) -> None:
    world.machine.mount(None, f"{FOLDER}/a")
    before = await world.until("a", "Available")

    await world.round()

    assert [disk.metadata.resource_version for disk in await world.records.list()] == [before.metadata.resource_version]


@pytest.mark.seed("DSC-2")
async def test_restarted_discovery_writes_nothing_when_nothing_changed(machine: FakeMachine, tmp_path: Path) -> None:
    machine.make_folder(f"{FOLDER}/a")
    async with discovering(machine, tmp_path) as world:
        before = await world.until("a", "Available")
    async with discovering(machine, tmp_path) as world:
        await world.discovery.wait_looked()
        await world.round()
        assert await world.records.list() == [before]


@pytest.mark.seed("DSC-3")
async def test_directories_mounts_and_links_that_come_later_are_found(world: World) -> None:
    await world.discovery.wait_looked()
    world.machine.add_disk("/dev/sdb")

    world.machine.make_folder(f"{FOLDER}/directory")
    world.machine.mount(None, f"{FOLDER}/mounted")
    world.machine.link(f"{FOLDER}/linked", "/dev/sdb")

    assert (await world.until("directory", "Available")).status.kind == "Directory"
    assert (await world.until("mounted", "Available")).status.kind == "MountPoint"
    assert (await world.until("linked", "Available")).status.kind == "BlockDevice"


@pytest.mark.seed("DSC-4")
async def test_directories_that_are_not_configured_are_ignored(machine: FakeMachine, tmp_path: Path) -> None:
    machine.make_folder("/mnt/slow/a")
    machine.make_folder(f"{FOLDER}/a/below")
    async with discovering(machine, tmp_path, a_class(adopt_existing=True)) as world:
        await world.until("a", "Available")
        await world.round()
        assert [disk.spec.path for disk in await world.records.list()] == [f"{FOLDER}/a"]


@pytest.mark.seed("DSC-4")
async def test_name_that_does_not_match_is_reported_and_gets_no_record(machine: FakeMachine, tmp_path: Path) -> None:
    machine.make_folder(f"{FOLDER}/ssd-1")
    machine.make_folder(f"{FOLDER}/hdd-1")
    async with discovering(machine, tmp_path, a_class(name_pattern=NamePattern("ssd-*,nvme-*"))) as world:
        await world.until("ssd-1", "Available")
        assert len(await world.records.list()) == 1
        assert world.discovery.ignored == {world.place("hdd-1"): "NameNotMatched"}


async def test_lost_and_found_is_never_offered(machine: FakeMachine, tmp_path: Path) -> None:
    machine.add_disk("/dev/sdb")
    machine.mount("/dev/sdb", FOLDER)  # the discovery directory is the top of a file system
    machine.make_folder(f"{FOLDER}/lost+found")
    machine.make_folder(f"{FOLDER}/a")
    async with discovering(machine, tmp_path) as world:
        await world.until("a", "Available")
        assert world.find("lost+found") is None
        assert world.discovery.ignored == {world.place("lost+found"): "LostAndFound"}


async def test_survey_of_one_class_forgets_nothing_that_is_ignored_in_another(
    machine: FakeMachine, tmp_path: Path
) -> None:
    for folder in (FOLDER, "/mnt/slow"):
        machine.make_folder(f"{folder}/lost+found")
    async with discovering(machine, tmp_path, a_class(), a_class("slow", folder="/mnt/slow")) as world:
        await world.discovery.wait_looked()
        both = {world.place("lost+found"): "LostAndFound", world.place("lost+found", "slow"): "LostAndFound"}
        assert world.discovery.ignored == both

        machine.make_folder("/mnt/slow/a")
        await world.until("a", "Available", storage_class="slow")
        assert world.discovery.ignored == both

        machine.remove("/mnt/slow/lost+found")
        machine.make_folder("/mnt/slow/b")
        await world.until("b", "Available", storage_class="slow")
        assert world.discovery.ignored == {world.place("lost+found"): "LostAndFound"}


async def test_files_that_mark_devices_are_never_offered(machine: FakeMachine, tmp_path: Path) -> None:
    machine.write_file(f"{FOLDER}/.localpv-used-uid-1")
    machine.make_folder(f"{FOLDER}/a")
    async with discovering(machine, tmp_path) as world:
        await world.until("a", "Available")
        assert world.find(".localpv-used-uid-1") is None
        assert world.discovery.ignored == {world.place(".localpv-used-uid-1"): "Mark"}


async def test_disk_that_a_tenant_had_is_offered_when_its_mark_is_gone(machine: FakeMachine, tmp_path: Path) -> None:
    device = machine.add_disk("/dev/sdb")
    machine.link(f"{FOLDER}/a", "/dev/sdb")
    marks = FakeMarks()
    await marks.mark_device(Path(FOLDER) / "a", Mark(volume="pv-1", uid="u", entry="a", identity=device.identity))
    async with discovering(machine, tmp_path, a_class(volume_mode="Block"), marks=marks) as world:
        found = await world.until("a", "Unavailable", "UsedBefore")
        assert "pv-1" in found.status.message and "localpv wipe a`" in found.status.message
        marks.devices.clear()
        world.discovery.look_at_everything()
        await world.until("a", "Available")


async def test_lost_and_found_that_was_offered_once_is_taken_back(machine: FakeMachine, tmp_path: Path) -> None:
    spec = LocalDiskSpec(
        node_name=NODE,
        storage_class_name="fast",
        entry="lost+found",
        path=f"{FOLDER}/lost+found",
        volume_mode="Filesystem",
        volume=OfferedVolume(name="pv", uid="uid"),
        identity=DiskIdentity(major_minor="8:1"),
    )
    records = FolderRecords(tmp_path)
    records.open()
    await records.create(LocalDisk(metadata=ObjectMeta(name=disk_name(NODE, "fast", "lost+found")), spec=spec))
    records.close()
    machine.make_folder(f"{FOLDER}/lost+found")
    async with discovering(machine, tmp_path) as world:
        found = await world.until("lost+found", "Unavailable", "LostAndFound")
        assert found.status.eligible is False


async def test_name_that_is_no_text_is_reported_and_gets_no_record(machine: FakeMachine, tmp_path: Path) -> None:
    name = b"disk-\xff".decode("utf-8", "surrogateescape")
    machine.make_folder(f"{FOLDER}/{name}")
    machine.make_folder(f"{FOLDER}/disk ä\n1")
    async with discovering(machine, tmp_path) as world:
        odd = await world.until("disk ä\n1", "Available")
        assert odd.spec.path == f"{FOLDER}/disk ä\n1"
        assert world.discovery.ignored == {world.place(name): "NameNotText"}


class Failing(FolderRecords):
    failures = 3

    async def create(self, disk: LocalDisk) -> LocalDisk:
        if self.failures:
            self.failures -= 1
            raise errors.Unavailable("come back later")
        return await super().create(disk)


@pytest.mark.seed("DSC-7")
async def test_entry_whose_record_could_not_be_made_is_not_remembered_as_done(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.make_folder(f"{FOLDER}/a")
    records = Failing(tmp_path)
    async with discovering(machine, tmp_path, records=records) as world:
        await world.until("a", "Available")
        assert records.failures == 0


class LosingStatus(FolderRecords):
    failures = 2

    async def write_status(self, disk: LocalDisk, status: LocalDiskStatus, **how: Any) -> LocalDisk:
        if self.failures:
            self.failures -= 1
            raise errors.Unavailable("come back later")
        return await super().write_status(disk, status, **how)


@pytest.mark.seed("DSC-7")
async def test_record_whose_status_could_not_be_written_gets_it_later(machine: FakeMachine, tmp_path: Path) -> None:
    machine.make_folder(f"{FOLDER}/a")
    async with discovering(machine, tmp_path, records=LosingStatus(tmp_path)) as world:
        await world.until("a", "Available")


@pytest.mark.seed("DSC-8")
async def test_files_and_links_to_nowhere_are_told_and_not_offered(world: World) -> None:
    world.machine.write_file(f"{FOLDER}/README")
    world.machine.link(f"{FOLDER}/gone", "/dev/sdz")

    assert (await world.until("README", "Unavailable", "NotADirectoryNorDevice")).status.eligible is False
    assert "/dev/sdz" in (await world.until("gone", "Unavailable", "DanglingLink")).status.message


@pytest.mark.seed("DSC-9")
async def test_one_directory_holds_devices_and_file_systems_each_with_its_own_mode(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.add_disk("/dev/sdb")
    machine.link(f"{FOLDER}/raw", "/dev/sdb")
    machine.mount(None, f"{FOLDER}/files")
    async with discovering(machine, tmp_path, a_class(volume_mode="")) as world:
        assert (await world.until("raw", "Available")).spec.volume_mode == "Block"
        assert (await world.until("files", "Available")).spec.volume_mode == "Filesystem"


async def test_directory_in_a_class_of_raw_devices_is_refused(machine: FakeMachine, tmp_path: Path) -> None:
    machine.add_disk("/dev/sdb")
    machine.link(f"{FOLDER}/raw", "/dev/sdb")
    machine.mount(None, f"{FOLDER}/files")
    async with discovering(machine, tmp_path, a_class(volume_mode="Block")) as world:
        await world.until("raw", "Available")
        await world.until("files", "Unavailable", "NotADevice")


@pytest.mark.seed("DSC-10")
@pytest.mark.seed("DSC-12")
async def test_link_to_a_device_has_the_size_and_the_identity_of_the_device(world: World) -> None:
    world.machine.add_disk("/dev/nvme0n1", size_bytes=3 * GIB, model="Fast One", wwn="eui.01")
    world.machine.link(f"{FOLDER}/a", "/dev/nvme0n1")

    disk = await world.until("a", "Available")

    assert disk.status.capacity_bytes == 3 * GIB
    assert disk.status.medium == "NVMe"
    assert disk.status.identity is not None
    assert (disk.status.identity.wwn, disk.status.identity.model) == ("eui.01", "Fast One")


@pytest.mark.seed("DSC-12")
async def test_link_to_nowhere_is_offered_once_its_device_comes(world: World) -> None:
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    await world.until("a", "Unavailable", "DanglingLink")

    world.machine.add_disk("/dev/sdb")

    await world.until("a", "Available")


async def test_new_directory_is_not_offered_before_somebody_could_have_mounted_on_it(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.add_disk("/dev/sdb", size_bytes=GIB)
    async with discovering(machine, tmp_path, settle_seconds=3600) as world:
        await world.discovery.wait_looked()
        machine.make_folder(f"{FOLDER}/a")
        await world.until("a", "Unavailable", "Settling")
        machine.mount("/dev/sdb", f"{FOLDER}/a")
        disk = await world.until("a", "Available")

        assert (disk.status.kind, disk.status.capacity_bytes) == ("MountPoint", GIB)


async def test_published_mount_point_that_is_unmounted_is_missing_and_comes_back(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.make_file_system("/dev/sdb", uuid="u1")
    world.machine.mount("/dev/sdb", f"{FOLDER}/a")
    await world.publish("a")

    world.machine.unmount(f"{FOLDER}/a")
    missing = await world.until("a", "Missing", "WasMountPoint")
    assert missing.status.eligible is False
    assert missing.status.kind == "MountPoint"
    await world.round()
    assert world.disk("a").status.phase == "Missing"

    world.machine.mount("/dev/sdb", f"{FOLDER}/a")
    assert (await world.until("a", "Published")).status.eligible is True


async def test_mount_point_that_was_never_published_is_not_offered_as_a_directory_either(world: World) -> None:
    world.machine.mount(None, f"{FOLDER}/a")
    await world.until("a", "Available")

    world.machine.unmount(f"{FOLDER}/a")
    disk = await world.until("a", "Missing", "WasMountPoint")

    # The administrator says that the directory is meant.
    await world.records.delete(disk)
    assert (await world.until("a", "Available")).status.kind == "Directory"


async def test_published_disk_whose_entry_goes_is_missing_and_one_never_published_is_forgotten(world: World) -> None:
    for name in ("sdb", "sdc"):
        world.machine.add_disk(f"/dev/{name}")
        world.machine.link(f"{FOLDER}/{name}", f"/dev/{name}")
    await world.publish("sdb")
    await world.until("sdc", "Available")

    world.machine.remove(f"{FOLDER}/sdb")
    world.machine.remove(f"{FOLDER}/sdc")

    missing = await world.until("sdb", "Missing", "Gone")
    assert missing.spec.volume is not None
    assert missing.status.capacity_bytes == 10 * GIB
    await world.until_gone("sdc")


async def test_disk_of_a_volume_found_under_another_name_is_not_offered_a_second_time(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.link(f"{FOLDER}/old", "/dev/sdb")
    await world.publish("old")

    world.machine.remove(f"{FOLDER}/old")
    world.machine.link(f"{FOLDER}/new", "/dev/sdb")

    disk = await world.until("new", "Unavailable", "DuplicateDevice")
    assert "pv-old" in disk.status.message


async def test_file_system_of_a_volume_mounted_under_another_name_is_not_offered_a_second_time(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.make_file_system("/dev/sdb")
    world.machine.mount("/dev/sdb", f"{FOLDER}/old")
    await world.publish("old")

    world.machine.unmount(f"{FOLDER}/old")
    world.machine.mount("/dev/sdb", f"{FOLDER}/new")

    await world.until("new", "Unavailable", "DuplicateDevice")


async def test_of_two_links_to_one_device_the_first_is_offered_and_the_second_takes_over(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.link(f"{FOLDER}/b", "/dev/sdb")
    await world.until("b", "Available")
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    await world.until("a", "Unavailable", "DuplicateDevice")
    assert world.disk("b").status.phase == "Available"

    world.machine.remove(f"{FOLDER}/b")

    await world.until_gone("b")
    await world.until("a", "Available")


async def test_link_that_comes_back_does_not_take_the_disk_from_the_one_that_took_over(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    for name in ("a", "b"):
        world.machine.link(f"{FOLDER}/{name}", "/dev/sdb")
    await world.until("a", "Available")
    await world.until("b", "Unavailable", "DuplicateDevice")
    world.machine.remove(f"{FOLDER}/a")
    await world.until_gone("a")
    await world.until("b", "Available")

    world.machine.link(f"{FOLDER}/a", "/dev/sdb")

    await world.until("a", "Unavailable", "DuplicateDevice")
    assert world.disk("b").status.phase == "Available"


async def test_disk_of_a_volume_that_was_taken_back_is_offered_by_its_other_link_at_once(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.link(f"{FOLDER}/old", "/dev/sdb")
    await world.publish("old")
    world.machine.remove(f"{FOLDER}/old")
    world.machine.link(f"{FOLDER}/old", "/dev/not-there")
    world.machine.link(f"{FOLDER}/new", "/dev/sdb")
    await world.until("old", "Missing", "DanglingLink")
    await world.until("new", "Unavailable", "DuplicateDevice")

    await world.take_back("old")

    await world.until("old", "Unavailable", "DanglingLink")
    await world.until("new", "Available")


async def test_disk_is_offered_by_its_other_link_when_one_that_was_never_fit_leads_elsewhere(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.make_folder("/mnt/slow")
    machine.add_disk("/dev/sdb")
    machine.make_file_system("/dev/sdb")
    machine.link(f"{FOLDER}/a", "/dev/sdb")
    fast = a_class(volume_mode="Block")
    slow = a_class("slow", folder="/mnt/slow", volume_mode="Filesystem", fs_type="ext4", adopt_existing=True)
    async with discovering(machine, tmp_path, fast, slow) as world:
        await world.until("a", "Unavailable", "HasFileSystem")
        machine.link("/mnt/slow/b", "/dev/sdb")  # only now: the one that is found fit first is not given up again
        await world.until("b", "Unavailable", "DuplicateDevice", storage_class="slow")

        machine.remove(f"{FOLDER}/a")
        machine.link(f"{FOLDER}/a", "/dev/not-there")

        await world.until("a", "Unavailable", "DanglingLink")
        await world.until("b", "Available", storage_class="slow")


async def test_of_two_ways_to_one_directory_in_two_classes_one_is_offered(machine: FakeMachine, tmp_path: Path) -> None:
    machine.make_folder("/mnt/slow")
    mount = machine.mount(None, f"{FOLDER}/a")
    machine.mounted.append(dataclasses.replace(mount, mount_id=999, mount_point=Path("/mnt/slow/a")))
    machine.make_folder("/mnt/slow/a")
    async with discovering(machine, tmp_path, a_class(), a_class("slow", folder="/mnt/slow")) as world:
        await world.discovery.wait_looked()
        await world.round()
        both = {world.disk("a").status.reason, world.disk("a", "slow").status.reason}
        assert both == {"Available", "DuplicateDevice"}


async def test_partition_is_not_offered_while_its_whole_disk_is_a_volume(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.link(f"{FOLDER}/whole", "/dev/sdb")
    await world.publish("whole")

    world.machine.add_disk("/dev/sdb1", parent="sdb")
    world.machine.link(f"{FOLDER}/a-part", "/dev/sdb1")

    await world.until("a-part", "Unavailable", "DuplicateDevice")


async def test_device_swapped_behind_a_published_link_is_told(world: World) -> None:
    world.machine.add_disk("/dev/sdb", serial="ONE")
    world.machine.add_disk("/dev/sdc", serial="TWO")
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    await world.publish("a")

    world.machine.link(f"{FOLDER}/a", "/dev/sdc")

    changed = await world.until("a", "Missing", "IdentityChanged")
    assert "serial was ONE, is TWO" in changed.status.message
    assert changed.spec.identity is not None and changed.spec.identity.serial == "ONE"


async def test_published_device_that_is_mounted_is_in_use(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    await world.publish("a")

    world.machine.mount("/dev/sdb", "/var/lib/kubelet/pods/x")
    assert (await world.until("a", "InUse")).status.eligible is True

    world.machine.unmount("/var/lib/kubelet/pods/x")
    await world.until("a", "Published")


async def test_device_that_somebody_else_mounts_is_withdrawn(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    await world.until("a", "Available")

    world.machine.mount("/dev/sdb", "/data")
    await world.until("a", "Unavailable", "Mounted")

    world.machine.unmount("/data")
    await world.until("a", "Available")


async def test_disk_held_for_a_moment_is_offered_as_soon_as_it_is_free(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.disks[Path("/dev/sdb")].held = True
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    await world.until("a", "Unavailable", "InUse")

    world.machine.disks[Path("/dev/sdb")].held = False  # and nobody tells

    await world.until("a", "Available")


async def test_disk_that_stays_busy_is_asked_a_few_times_and_then_with_every_round(world: World) -> None:
    ask = partial(world.discovery._reconciler._ask_again, world.place("a"))
    waits = [LookAgain(after=seconds) for seconds in AGAIN_SECONDS]
    assert [ask() for _ in range(len(waits) + 2)] == [*waits, Done(), Done()]
    world.discovery._reconciler._calm(world.place("a"))
    assert ask() == waits[0], "what was calm is asked as often again"


async def test_two_paths_to_one_disk_are_offered_once_and_a_shared_name_is_no_sign_of_that(world: World) -> None:
    world.machine.add_disk("/dev/sdb", wwn="0x5000", size_bytes=GIB)
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    await world.until("a", "Available")
    world.machine.add_disk("/dev/sdc", wwn="0x5000", size_bytes=GIB)
    world.machine.add_disk("/dev/sdd", wwn="0x5000", size_bytes=2 * GIB)
    world.machine.link(f"{FOLDER}/path", "/dev/sdc")
    world.machine.link(f"{FOLDER}/larger", "/dev/sdd")
    await world.until("path", "Unavailable", "DuplicateDevice")
    await world.until("larger", "Available")


async def test_hung_disk_delays_nobody_else_and_comes_back(world: World) -> None:
    for name in ("sdb", "sdc"):
        world.machine.add_disk(f"/dev/{name}")
    world.machine.hung.add(Path("/dev/sdb"))
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    world.machine.link(f"{FOLDER}/b", "/dev/sdc")

    await world.until("b", "Available")
    await world.until("a", "Unavailable", "Hung")
    world.machine.hung.clear()
    await world.until("a", "Available")


async def test_published_disk_that_hangs_keeps_its_place(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    before = await world.publish("a")

    world.machine.hung.add(Path("/dev/sdb"))
    world.discovery.look_at_everything()

    hung = await world.until("a", "Published", "Hung")
    assert hung.status.identity == before.status.identity
    assert hung.status.eligible is False


async def test_directory_that_cannot_be_read_is_not_mistaken_for_an_empty_one(world: World) -> None:
    world.machine.mount(None, f"{FOLDER}/a")
    await world.until("a", "Available")

    world.machine.hung.add(Path(FOLDER))
    await world.round()

    assert world.disk("a").status.phase == "Available"


async def test_cleaning_is_told_by_who_cleans_and_the_disk_is_offered_only_when_it_was_taken_back(
    world: World,
) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    await world.publish("a")
    disk = await world.order_cleaning("a")
    assert disk.status.eligible is False

    cleaning = Cleaning(volume_uid="uid-a", state="Running")
    running = msgspec.structs.replace(disk.status, cleaning=cleaning, phase="Cleaning", reason="Cleaning", message="x")
    await world.records.write_status(disk, running)
    await world.round()
    assert world.disk("a").status == running

    verified = msgspec.structs.replace(
        running, cleaning=Cleaning(volume_uid="uid-a", state="Verified"), phase="Releasing", reason="Cleaned"
    )
    await world.records.write_status(world.disk("a"), verified)
    await world.round()
    assert world.disk("a").status == verified

    await world.take_back("a")
    assert (await world.until("a", "Available")).status.eligible is True


async def test_disk_taken_back_without_a_verified_cleaning_is_not_offered(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    await world.publish("a")
    disk = world.disk("a")
    failed = msgspec.structs.replace(disk.status, cleaning=Cleaning(volume_uid="uid-a", state="Failed"))
    await world.records.write_status(disk, failed)

    await world.take_back("a")

    told = await world.until("a", "Unavailable", "NotCleaned")
    assert "localpv wipe" in told.status.message
    world.machine.remove(f"{FOLDER}/a")
    await world.until("a", "Missing", "Gone")


async def test_a_raw_device_is_in_use_while_a_loop_device_is_kept_on_it_for_pods(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.add_disk("/dev/sdc")
    for entry, device in (("a", "/dev/sdb"), ("b", "/dev/sdc")):
        world.machine.link(f"{FOLDER}/{entry}", device)
        await world.publish(entry)

    world.machine.attach_loop("/dev/loop7", "/dev/sdb")
    await world.until("a", "InUse")
    world.machine.detach_loop("/dev/loop7")
    await world.until("a", "Published")

    assert world.disk("b").status.phase == "Published"


async def test_what_the_manager_wrote_is_never_touched(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    published = await world.publish("a")

    world.machine.mount("/dev/sdb", "/data")
    await world.until("a", "InUse")
    world.machine.remove(f"{FOLDER}/a")
    gone = await world.until("a", "Missing")

    assert gone.spec == published.spec


async def test_removed_class_takes_back_what_nobody_has_and_keeps_what_a_volume_has(world: World) -> None:
    world.machine.mount(None, f"{FOLDER}/a")
    world.machine.mount(None, f"{FOLDER}/b")
    await world.publish("a")
    await world.until("b", "Available")

    world.discovery.configure(configured())

    await world.until("a", "Unavailable", "ClassRemoved")
    await world.until_gone("b")
    world.discovery.configure(configured(a_class()))
    await world.until("a", "Published")
    await world.until("b", "Available")


async def test_class_that_is_added_or_changed_takes_effect_without_a_restart(world: World) -> None:
    world.machine.make_folder("/mnt/slow/x")
    world.machine.make_folder(f"{FOLDER}/a")
    await world.until("a", "Available")

    world.discovery.configure(configured(a_class(require_mount_point=True), a_class("slow", folder="/mnt/slow")))

    await world.until("a", "Unavailable", "NotMounted")
    await world.until("x", "Available", storage_class="slow")
    world.machine.mount(None, "/mnt/slow/y")
    await world.until("y", "Available", storage_class="slow")


async def test_another_mode_of_the_class_reaches_disks_that_no_volume_has(world: World) -> None:
    for name in ("sdb", "sdc"):
        world.machine.add_disk(f"/dev/{name}")
        world.machine.link(f"{FOLDER}/{name}", f"/dev/{name}")
    await world.publish("sdb")
    await world.until("sdc", "Available")

    world.discovery.configure(configured(a_class(volume_mode="Filesystem")))

    await eventually(lambda: world.disk("sdc").spec.volume_mode == "Filesystem")
    assert world.disk("sdb").spec.volume_mode == "Block"


async def test_what_nobody_told_is_found_by_the_round(machine: FakeMachine, tmp_path: Path) -> None:
    async with discovering(machine, tmp_path, round_seconds=0.1) as world:
        await world.discovery.wait_looked()
        machine.folders.add(Path(f"{FOLDER}/a"))
        await world.until("a", "Available")


async def test_published_disk_that_went_bad_in_silence_is_found_once_to_twice_after_the_resync_period(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.add_disk("/dev/sdb", serial="ONE")
    machine.link(f"{FOLDER}/a", "/dev/sdb")
    # Long rounds: only minResyncPeriod can be what lets it look.
    async with discovering(machine, tmp_path, round_seconds=60.0, resync_seconds=0.5) as world:
        await world.publish("a")
        found = machine.disks[Path("/dev/sdb")]
        names = dataclasses.replace(found.device.names, serial="TWO")
        found.device = dataclasses.replace(found.device, names=names)
        await world.until("a", "Missing", "IdentityChanged")


async def test_disks_of_volumes_are_not_asked_before_the_resync_period(machine: FakeMachine, tmp_path: Path) -> None:
    machine.add_disk("/dev/sdb", serial="ONE")
    machine.link(f"{FOLDER}/a", "/dev/sdb")
    async with discovering(machine, tmp_path, round_seconds=0.02, resync_seconds=3600.0) as world:
        await world.publish("a")
        found = machine.disks[Path("/dev/sdb")]
        names = dataclasses.replace(found.device.names, serial="TWO")
        found.device = dataclasses.replace(found.device, names=names)
        machine.folders.add(Path(f"{FOLDER}/b"))
        await world.until("b", "Available")  # rounds have come and gone
        assert world.disk("a").status.phase == "Published"


async def test_lost_messages_about_devices_lead_to_a_look_at_all_of_them(world: World) -> None:
    world.machine.add_disk("/dev/sdb")
    world.machine.link(f"{FOLDER}/a", "/dev/sdb")
    await world.until("a", "Available")
    found = world.machine.disks[Path("/dev/sdb")]
    found.device = dataclasses.replace(found.device, read_only=True)

    world.machine.lose_uevents()

    await world.until("a", "Unavailable", "ReadOnly")


@pytest.mark.parametrize("told", ["sdb", "sdb1", "sdb1p1"])
async def test_message_about_a_disk_leads_to_a_look_at_its_parts_and_the_other_way_round(
    world: World, told: str
) -> None:
    world.machine.add_disk("/dev/sdb1", kind=DeviceKind.PARTITION, parent="sdb")
    world.machine.link(f"{FOLDER}/a", "/dev/sdb1")
    await world.until("a", "Available")
    found = world.machine.disks[Path("/dev/sdb1")]
    found.device = dataclasses.replace(found.device, read_only=True)

    world.machine._tell_uevent("change", dataclasses.replace(found.device, kernel_name="sda", number=OTHER_NUMBER))
    world.machine._tell_uevent("change", dataclasses.replace(found.device, kernel_name=told, number=OTHER_NUMBER))

    await world.until("a", "Unavailable", "ReadOnly")


async def test_discovery_directory_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    machine = FakeMachine()
    async with discovering(machine, tmp_path) as world:
        await world.discovery.wait_looked()
        machine.mount(None, f"{FOLDER}/a")
        await world.until("a", "Available")


async def test_two_hundred_entries_have_their_records_at_once(machine: FakeMachine, tmp_path: Path) -> None:
    for number in range(200):
        machine.make_folder(f"{FOLDER}/{number:03}")
    async with discovering(machine, tmp_path) as world:
        await world.discovery.wait_looked()
        await eventually(lambda: all(disk.status.eligible for disk in world.records._records.values()))
        assert len(await world.records.list()) == 200


async def test_disk_that_is_well_or_waits_for_a_person_is_not_asked_again(machine: FakeMachine, tmp_path: Path) -> None:
    machine.make_folder(f"{FOLDER}/a")
    machine.write_file(f"{FOLDER}/b")
    async with discovering(machine, tmp_path) as world:
        await world.discovery.wait_looked()
        assert world.disk("a").status.phase == "Available" and world.disk("b").status.phase == "Unavailable"
        assert world.discovery._reconciler._tries == {}


async def test_discovery_is_synced_when_every_configured_directory_has_been_looked_through(
    machine: FakeMachine, tmp_path: Path
) -> None:
    async with discovering(machine, tmp_path, a_class(), a_class("slow", folder="/mnt/slow")) as world:
        assert not world.discovery.synced
        await world.discovery.wait_looked()
        assert world.discovery.synced
        world.discovery.configure(configured(a_class(), a_class("new", folder="/mnt/new")))
        assert not world.discovery.synced
        await eventually(lambda: world.discovery.synced)
