"""Released directories and mount points become empty ones, and nothing outside of them is touched."""

from __future__ import annotations

import os
from dataclasses import replace

import msgspec
import pytest
from tests.journey.machine import PATTERN, Machine, open_machine

from localpv import errors
from localpv.agent.clean import paths, plans, states
from localpv.api.kinds.localdisk import CleaningState, DiskIdentity, DiskKind
from localpv.config import cleaners

VERIFIED = CleaningState.VERIFIED
WAITING = CleaningState.WAITING
FAILED = CleaningState.FAILED

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root")
machine = pytest.fixture(open_machine)


@pytest.mark.seed("CLN-8")
async def test_directory_is_emptied_and_nothing_outside_is_touched(machine: Machine) -> None:
    volume, outside = machine.disks / "vol", machine.folder / "outside"
    outside.mkdir()
    (outside / "precious").write_text("keep")
    deep = volume / "/".join("abcdefgh")
    deep.mkdir(parents=True)
    (deep / "file").write_text("old")
    (volume / "link-to-folder").symlink_to(outside)
    (volume / "link-to-file").symlink_to(outside / "precious")
    (deep / "up").symlink_to("../../../../../../../../..")
    (volume / " odd\nname").write_text("old")
    os.mkfifo(volume / "fifo")
    locked = volume / "immutable"
    locked.write_text("old")
    machine.run("chattr", "+i", locked)
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, VERIFIED)

    assert list(volume.iterdir()) == []
    assert (outside / "precious").read_text() == "keep"
    assert cleaning.method == ("fs-clean",)


async def test_directory_with_a_mount_inside_waits(machine: Machine) -> None:
    volume = machine.disks / "vol"
    volume.mkdir()
    (volume / "file").write_text("old")
    inside = machine.mount("tmpfs", volume / "inside", "-t", "tmpfs")
    (inside / "others").write_text("keep")
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, WAITING)
        assert str(inside) in cleaning.error
        assert (inside / "others").read_text() == "keep"
        assert (volume / "file").exists()
        machine.unmount(inside)
        await machine.until(disk, VERIFIED)

    assert list(volume.iterdir()) == []


@pytest.mark.parametrize("part", ["", "data"])
async def test_directory_that_a_pod_still_has_mounted_waits(machine: Machine, part: str) -> None:
    volume = machine.disks / "vol"
    (volume / "data").mkdir(parents=True)
    (volume / "data" / "file").write_text("old")
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    pod = machine.mount(volume / part, machine.folder / "pod", "--bind")
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, WAITING)
        assert str(pod) in cleaning.error
        assert (volume / "data" / "file").exists()
        machine.unmount(pod)
        await machine.until(disk, VERIFIED)


async def test_mount_point_is_emptied_and_stays_mounted(machine: Machine) -> None:
    device = machine.device("img", linked=False)
    machine.make_file_system(device)
    volume = machine.mount(device, machine.disks / "vol")
    (volume / "file").write_bytes(PATTERN)
    disk = await machine.record("vol", DiskKind.MOUNT_POINT)
    await machine.order(disk)

    async with machine.cleaning():
        await machine.until(disk, VERIFIED)

    assert volume.is_mount()
    assert [path.name for path in volume.iterdir()] == ["lost+found"]


async def test_mount_point_that_is_not_mounted_is_refused(machine: Machine) -> None:
    device = machine.device("img", linked=False)
    machine.make_file_system(device)
    volume = machine.mount(device, machine.disks / "vol")
    disk = await machine.record("vol", DiskKind.MOUNT_POINT)
    machine.unmount(volume)
    (volume / "on-the-root-disk").write_text("keep")
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "IdentityChanged"
    assert (volume / "on-the-root-disk").exists()


async def test_other_file_system_at_the_mount_point_is_refused(machine: Machine) -> None:
    first, second = machine.device("one", linked=False), machine.device("two", linked=False)
    for device in (first, second):
        machine.make_file_system(device)
    volume = machine.mount(first, machine.disks / "vol")
    disk = await machine.record("vol", DiskKind.MOUNT_POINT)
    machine.unmount(volume)
    machine.mount(second, volume)
    (volume / "others").write_text("keep")
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "IdentityChanged"
    assert (volume / "others").exists()


async def test_mount_over_a_plain_directory_is_refused(machine: Machine) -> None:
    volume = machine.disks / "vol"
    volume.mkdir()
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    machine.mount("tmpfs", volume, "-t", "tmpfs")
    (volume / "others").write_text("keep")
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "IdentityChanged"
    assert (volume / "others").exists()


@pytest.mark.seed("CLN-7")
async def test_directory_replaced_by_a_link_is_refused(machine: Machine) -> None:
    volume, outside = machine.disks / "vol", machine.folder / "outside"
    volume.mkdir()
    outside.mkdir()
    (outside / "precious").write_text("keep")
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    volume.rmdir()
    volume.symlink_to(outside)
    await machine.order(disk)

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)

    assert cleaning.reason == "OutsideFolder"
    assert (outside / "precious").read_text() == "keep"


async def test_command_for_file_systems_gets_the_directory_and_must_leave_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "FIRST_WAIT_SECONDS", 1.0)
    volume = machine.disks / "vol"
    volume.mkdir()
    (volume / "file").write_text("old")
    half = machine.script("half.sh", f'test -e {machine.folder}/now && rm "$LOCAL_PV_FILESYSTEM"/*', "true")
    machine.settings = replace(machine.settings, fs_cleaner=cleaners.read(half, for_devices=False))
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    await machine.order(disk, *half)

    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED)
        assert cleaning.reason == "NotClean"
        assert "file" in cleaning.error
        (machine.folder / "now").touch()
        await machine.until(disk, VERIFIED)
    assert list(volume.iterdir()) == []


@pytest.mark.parametrize("recorded", [DiskKind.MOUNT_POINT, DiskKind.DIRECTORY])
async def test_what_comes_in_the_place_of_a_volume_after_the_look_is_not_emptied(
    machine: Machine, recorded: DiskKind
) -> None:
    """Between the look and the act lie writes to an API server, which may take their time."""
    volume = machine.disks / "vol"
    volume.mkdir()
    if recorded is DiskKind.MOUNT_POINT:
        (volume / "precious").write_text("of the machine, below the mount")
        machine.mount("tmpfs", volume, "-t", "tmpfs")
    disk = await machine.record("vol", recorded)
    executor = machine.executor()
    target = await executor.look(disk, paths.find(disk, machine.settings))
    if recorded is DiskKind.MOUNT_POINT:
        machine.unmount(volume)
    else:
        machine.mount("tmpfs", volume, "-t", "tmpfs")
        (volume / "precious").write_text("of whoever mounted it")
    with pytest.raises(errors.DeviceChanged):
        await executor.clean(target, plans.Empty(), on_progress=lambda progress: None)
    assert (volume / "precious").exists()


@pytest.mark.parametrize("kind", [DiskKind.DIRECTORY, DiskKind.MOUNT_POINT])
async def test_directory_of_an_earlier_version_that_could_not_open_its_device_is_cleaned(
    machine: Machine, kind: DiskKind
) -> None:
    """Such a record has the number of the file system and its room, and no name."""
    volume = machine.disks / "vol"
    volume.mkdir()
    if kind is DiskKind.MOUNT_POINT:
        device = machine.device("ext", linked=False)
        machine.make_file_system(device)
        machine.mount(device, volume)
    (volume / "file").write_text("old")
    disk, room = await machine.record("vol", kind), os.statvfs(volume)
    now = disk.spec.identity
    assert now is not None
    before = DiskIdentity(major_minor=now.major_minor, size_bytes=room.f_blocks * room.f_frsize, mount_id=now.mount_id)
    disk = await machine.records.write_spec(disk, msgspec.structs.replace(disk.spec, identity=before))
    await machine.order(disk)
    async with machine.cleaning():
        await machine.until(disk, VERIFIED)
    assert not (volume / "file").exists()


async def test_mount_of_an_earlier_version_that_was_made_anew_is_refused_with_a_way_out(machine: Machine) -> None:
    volume, device = machine.disks / "vol", machine.device("ext", linked=False)
    machine.make_file_system(device)
    machine.mount(device, volume)
    (volume / "file").write_text("old")
    disk = await machine.record("vol", DiskKind.MOUNT_POINT)
    now = disk.spec.identity
    assert now is not None
    before = DiskIdentity(major_minor=now.major_minor, size_bytes=1, mount_id=now.mount_id + 1)
    disk = await machine.records.write_spec(disk, msgspec.structs.replace(disk.spec, identity=before))
    await machine.order(disk)
    async with machine.cleaning():
        cleaning = await machine.until(disk, FAILED, reason="IdentityChanged")
    assert "earlier version" in cleaning.error and "--release-finalizers" in cleaning.error
    assert (volume / "file").exists()
