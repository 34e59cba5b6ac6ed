"""The order of steps, who counts as the first and who as the last, and death after each step."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from tests.unit.engine.kubelet.volumes.world import Died, Machine, a_pod, claim_volume, dying_hands

from localpv import errors
from localpv.api.kinds.pods import ConfigMapVolumeSource, EmptyDirVolumeSource, Pod, Volume
from localpv.engine.kubelet.volumes import NotReady
from localpv.host.model.devices import BlockDevice


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path / "node")
    found.machine.make_folder("/mnt/disks/vol1")
    found.machine.add_disk("/dev/sdb")
    found.machine.add_disk("/dev/sdc")
    return found


async def refused(machine: Machine, pod: Pod) -> NotReady:
    with pytest.raises(NotReady) as caught:
        await machine.volumes.set_up(pod)
    assert caught.value.message
    return caught.value


@pytest.mark.seed("PLG-12")
async def test_a_blank_device_is_made_checked_mounted_once_and_bound_for_each_pod(machine: Machine) -> None:
    machine.lookup.offer("/dev/sdb")
    one, two = a_pod(claim_volume(), group=7), a_pod(claim_volume(), group=7)
    await machine.volumes.set_up(one)
    assert machine.log == ["mkfs.ext4 sdb", "fsck sdb", "mount sdb", "give to 7", "bind pv"]
    machine.log.clear()
    await machine.volumes.set_up(two)
    await machine.volumes.set_up(one)
    assert machine.log == ["bind pv"]
    machine.log.clear()
    await machine.volumes.tear_down(one.metadata.uid)
    assert machine.log == ["unmount pv"]
    await machine.volumes.tear_down(two.metadata.uid)
    assert machine.log == ["unmount pv", "unmount pv", "unmount pv"]
    assert machine.left() == []


@pytest.mark.parametrize("fs_type", ["xfs", "btrfs", "ext3"])
async def test_the_file_system_is_the_one_that_the_volume_says(machine: Machine, fs_type: str) -> None:
    machine.lookup.offer("/dev/sdb", fs_type=fs_type)
    await machine.volumes.set_up(a_pod(claim_volume()))
    assert machine.log[0] == f"mkfs.{fs_type} sdb"


async def test_a_file_system_that_is_mounted_read_only_is_not_mended(machine: Machine) -> None:
    machine.machine.make_file_system("/dev/sdb")
    machine.lookup.offer("/dev/sdb", mount_options=["ro"])
    await machine.volumes.set_up(a_pod(claim_volume()))
    assert machine.log == ["mount sdb", "bind pv"]


async def test_a_file_system_that_is_there_is_kept(machine: Machine) -> None:
    machine.machine.make_file_system("/dev/sdb", kind="xfs")
    machine.lookup.offer("/dev/sdb")
    await machine.volumes.set_up(a_pod(claim_volume()))
    assert machine.log == ["fsck sdb", "mount sdb", "bind pv"]


async def test_another_file_system_than_the_volume_says_is_told_and_mended(machine: Machine) -> None:
    machine.machine.make_file_system("/dev/sdb", kind="xfs")
    machine.lookup.offer("/dev/sdb", fs_type="ext4")
    pod = a_pod(claim_volume())
    error = await refused(machine, pod)
    assert error.reason == "WrongFileSystem" and "xfs" in error.message and error.hint
    assert machine.log == []
    machine.machine.make_file_system("/dev/sdb", kind="ext4")
    await machine.volumes.set_up(pod)


async def test_unknown_data_and_unknown_file_systems_are_never_written_over(machine: Machine) -> None:
    machine.machine.disks[Path("/dev/sdb")].dirty = True
    machine.lookup.offer("/dev/sdb")
    assert (await refused(machine, a_pod(claim_volume()))).reason == "NotBlank"
    machine.machine.make_file_system("/dev/sdb", kind="ntfs")
    assert (await refused(machine, a_pod(claim_volume()))).reason == "WrongFileSystem"
    assert not any(line.startswith("mkfs") for line in machine.log)


async def test_a_busy_device_is_told_and_the_pod_goes_on_when_it_is_free(machine: Machine) -> None:
    machine.machine.make_file_system("/dev/sdb")
    machine.machine.mount("/dev/sdb", "/mnt/elsewhere")
    machine.lookup.offer("/dev/sdb")
    pod = a_pod(claim_volume())
    error = await refused(machine, pod)
    assert error.reason == "DeviceBusy" and "/mnt/elsewhere" in error.message
    machine.machine.unmount("/mnt/elsewhere")
    await machine.volumes.set_up(pod)


async def test_a_hung_device_stops_only_the_pod_that_needs_it(machine: Machine) -> None:
    machine.lookup.offer("/dev/sdb", name="hung")
    machine.lookup.offer("/dev/sdc", name="well")
    machine.machine.hung.add(Path("/dev/sdb"))
    error = await refused(machine, a_pod(claim_volume("hung")))
    assert error.reason == "NoAnswer"
    await machine.volumes.set_up(a_pod(claim_volume("well")))


async def test_a_mount_point_that_is_not_mounted_is_refused(machine: Machine) -> None:
    machine.machine.make_file_system("/dev/sdb")
    mount = machine.machine.mount("/dev/sdb", "/mnt/disks/vol2")
    identity = await machine.host.devices.behind(mount)
    machine.lookup.offer("/mnt/disks/vol2", identity=identity)
    await machine.volumes.set_up(a_pod(claim_volume()))
    machine.machine.unmount("/mnt/disks/vol2")
    pod = a_pod(claim_volume())
    error = await refused(machine, pod)
    assert error.reason == "NotMounted" and "mount" in error.hint
    machine.machine.mount("/dev/sdc", "/mnt/disks/vol2")
    assert (await refused(machine, pod)).reason == "DeviceChanged"
    machine.machine.unmount("/mnt/disks/vol2")
    machine.machine.mount("/dev/sdb", "/mnt/disks/vol2")
    await machine.volumes.set_up(pod)


async def test_a_directory_over_which_something_was_mounted_is_refused(machine: Machine) -> None:
    table = await machine.host.mounts.table()
    identity = await machine.host.devices.behind(table.mounts[0])
    volume = machine.lookup.offer("/mnt/disks/vol1", identity=dataclasses.replace(identity, mount_id=0))
    assert volume.metadata.annotations
    await machine.volumes.set_up(a_pod(claim_volume()))
    machine.machine.mount("/dev/sdb", "/mnt/disks/vol1")
    assert (await refused(machine, a_pod(claim_volume()))).reason == "MountedOver"


@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
async def test_another_disk_in_the_place_of_the_published_one_is_refused(machine: Machine, mode: str) -> None:
    machine.machine.link("/mnt/disks/disk", "/dev/sdb")
    identity = (await machine.host.devices.describe(Path("/dev/sdb"))).identity
    machine.lookup.offer("/mnt/disks/disk", mode=mode, identity=identity)
    machine.machine.link("/mnt/disks/disk", "/dev/sdc")
    pod = a_pod(claim_volume(), devices=["data"] if mode == "Block" else [])
    error = await refused(machine, pod)
    assert error.reason == "DeviceChanged" and "serial" in error.message
    assert not machine.holding.held_now and not any(line.startswith("mkfs") for line in machine.log)
    machine.machine.link("/mnt/disks/disk", "/dev/sdb")
    await machine.volumes.set_up(pod)


@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
async def test_while_pods_use_a_disk_no_other_one_takes_its_place(machine: Machine, mode: str) -> None:
    machine.machine.link("/mnt/disks/disk", "/dev/sdb")
    machine.lookup.offer("/mnt/disks/disk", mode=mode)
    names = ["data"] if mode == "Block" else []
    first = a_pod(claim_volume(), devices=names)
    await machine.volumes.set_up(first)
    machine.machine.link("/mnt/disks/disk", "/dev/sdc")
    second = a_pod(claim_volume(), devices=names)
    assert (await refused(machine, second)).reason == "DeviceChanged"
    await machine.volumes.tear_down(first.metadata.uid)
    await machine.volumes.tear_down(second.metadata.uid)
    await machine.volumes.set_up(second)


async def test_a_device_that_pods_use_is_looked_at_without_a_claim(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims: list[bool] = []
    real = machine.machine.describe

    def describe(path: Path, *, exclusive: bool) -> BlockDevice:
        claims.append(exclusive)
        return real(path, exclusive=exclusive)

    monkeypatch.setattr(machine.machine, "describe", describe)
    machine.lookup.offer("/dev/sdb")
    await machine.volumes.set_up(a_pod(claim_volume()))
    assert True in claims, "one that nobody has yet is tried"
    claims.clear()
    await machine.volumes.set_up(a_pod(claim_volume()))
    assert claims and True not in claims


async def test_two_pods_never_have_two_things_as_one_volume(machine: Machine) -> None:
    machine.machine.make_folder("/mnt/disks/vol2")
    machine.machine.link("/mnt/disks/link", "/mnt/disks/vol1")
    machine.lookup.offer("/mnt/disks/link")
    first, second = a_pod(claim_volume()), a_pod(claim_volume())
    await machine.volumes.set_up(first)
    for other in ("/mnt/disks/vol2", "/dev/sdb"):
        machine.machine.link("/mnt/disks/link", other)
        assert (await refused(machine, second)).reason == "DeviceChanged"
    assert not any(line.startswith("mkfs") for line in machine.log)
    await machine.volumes.set_up(first)  # it keeps what it has
    machine.machine.link("/mnt/disks/link", "/mnt/disks/vol1")
    await machine.volumes.set_up(second)
    for pod in (first, second):
        await machine.volumes.tear_down(pod.metadata.uid)
    machine.machine.link("/mnt/disks/link", "/mnt/disks/vol2")
    await machine.volumes.set_up(second)


@pytest.mark.parametrize(("path", "mode"), [("/mnt/disks/vol1", "Filesystem"), ("/dev/sdb", "Block")])
async def test_a_volume_for_one_pod_is_given_to_the_next_one_when_the_first_is_gone(
    machine: Machine, path: str, mode: str
) -> None:
    machine.lookup.offer(path, mode=mode, access_modes=["ReadWriteOncePod"])
    devices = ["data"] if mode == "Block" else []
    first, second = a_pod(claim_volume(), devices=devices), a_pod(claim_volume(), devices=devices)
    await machine.volumes.set_up(first)

    refusal = await refused(machine, second)
    await machine.volumes.set_up(first)

    assert refusal.reason == "InUseByAnotherPod"
    assert refusal.event == ("FailedMapVolume" if mode == "Block" else "FailedMount")
    assert await machine.volumes.leftovers() == {first.metadata.uid}
    await machine.volumes.tear_down(first.metadata.uid)
    await machine.volumes.set_up(second)
    await machine.volumes.tear_down(second.metadata.uid)
    assert machine.left() == []


@pytest.mark.seed("PLG-11")
async def test_the_group_is_given_by_the_first_pod_and_told_to_one_that_wants_another(machine: Machine) -> None:
    machine.lookup.offer("/mnt/disks/vol1")
    first, second = a_pod(claim_volume(), group=7), a_pod(claim_volume(), group=8)
    await machine.volumes.set_up(first)
    await machine.volumes.set_up(second)
    assert machine.ownership.given == {Path("/mnt/disks/vol1"): 7}
    assert [reason for reason, _ in machine.warnings] == ["AlreadyMountedVolume"]
    await machine.volumes.tear_down(first.metadata.uid)
    await machine.volumes.tear_down(second.metadata.uid)
    await machine.volumes.set_up(a_pod(claim_volume(), group=8, policy="OnRootMismatch"))
    assert machine.ownership.given == {Path("/mnt/disks/vol1"): 8}


async def test_a_read_only_volume_is_not_given_to_a_group(machine: Machine) -> None:
    machine.lookup.offer("/mnt/disks/vol1")
    await machine.volumes.set_up(a_pod(claim_volume(read_only=True), group=7))
    assert machine.ownership.given == {}


async def test_a_volume_that_somebody_works_in_stays_until_he_is_done(machine: Machine) -> None:
    machine.lookup.offer("/dev/sdb")
    pod = a_pod(claim_volume())
    place = (await machine.volumes.set_up(pod))["data"].path
    machine.mounting.busy.add(place)
    with pytest.raises(errors.DeviceBusy):
        await machine.volumes.tear_down(pod.metadata.uid)
    assert place.exists() and await machine.volumes.leftovers() == {pod.metadata.uid}
    machine.mounting.busy.clear()
    await machine.volumes.tear_down(pod.metadata.uid)
    assert machine.left() == []


async def test_one_volume_that_cannot_go_keeps_none_of_the_others(machine: Machine) -> None:
    machine.lookup.offer("/dev/sdb", name="disk")
    machine.lookup.offer("/dev/sdc", name="raw", mode="Block")
    machine.lookup.offer("/mnt/disks/vol1", name="dir")
    pod = a_pod(
        claim_volume("disk", name="a"),
        claim_volume("raw", name="b"),
        claim_volume("dir", name="c"),
        Volume(name="d", empty_dir=EmptyDirVolumeSource()),
        devices=["b"],
    )
    prepared = await machine.volumes.set_up(pod)
    machine.mounting.busy.add(prepared["a"].path)
    with pytest.raises(errors.DeviceBusy):
        await machine.volumes.tear_down(pod.metadata.uid)
    assert [prepared[name].path.exists() for name in "acd"] == [True, False, False]
    assert not machine.holding.held_now and await machine.volumes.leftovers() == {pod.metadata.uid}
    machine.mounting.busy.clear()
    await machine.volumes.tear_down(pod.metadata.uid)
    assert machine.left() == []


async def test_data_in_the_folder_of_a_volume_that_is_not_mounted_is_never_removed(machine: Machine) -> None:
    machine.lookup.offer("/mnt/disks/vol1")
    pod = a_pod(claim_volume())
    path = (await machine.volumes.set_up(pod))["data"].path
    (path / "stray").write_text("whose is it?")
    with pytest.raises(errors.HostError, match="not empty"):
        await machine.volumes.tear_down(pod.metadata.uid)
    assert (path / "stray").exists()


async def test_folder_of_a_pod_stays_while_it_holds_more_than_volumes(machine: Machine) -> None:
    machine.lookup.offer("/dev/sdb")
    pod = a_pod(claim_volume())
    await machine.volumes.set_up(pod)
    (folder,) = [path for path in machine.volumes.layout.folders(pod.metadata.uid) if path.exists()]
    (folder / "etc-hosts").touch()
    await machine.volumes.tear_down(pod.metadata.uid)
    assert [path.name for path in folder.iterdir()] == ["etc-hosts"]
    (folder / "etc-hosts").unlink()
    await machine.volumes.tear_down(pod.metadata.uid)
    assert not folder.exists() and machine.left() == []


async def test_pods_that_come_and_go_at_once_leave_nothing(machine: Machine) -> None:
    machine.lookup.offer("/dev/sdb", name="disk")
    machine.lookup.offer("/dev/sdc", name="raw", mode="Block")

    async def live() -> None:
        pod = a_pod(claim_volume("disk", name="a"), claim_volume("raw", name="b"), devices=["b"])
        await machine.volumes.set_up(pod)
        await asyncio.sleep(0)
        await machine.volumes.tear_down(pod.metadata.uid)

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(live())
    assert machine.left() == []
    assert machine.log.count("mkfs.ext4 sdb") == 1


# -- dying -------------------------------------------------------------------------------------------------------------


def dying_after(machine: Machine, steps: int) -> None:
    machine.restarted(dying_hands(machine.host, steps))


def everything() -> Pod:
    """A pod with a volume of each sort."""
    return a_pod(
        claim_volume("disk", name="a"),
        claim_volume("raw", name="b"),
        claim_volume("dir", name="c", read_only=True),
        Volume(name="d", empty_dir=EmptyDirVolumeSource(medium="Memory")),
        Volume(name="e", config_map=ConfigMapVolumeSource(name="settings")),
        devices=["b"],
        group=7,
    )


def offering_everything(folder: Path) -> Machine:
    machine = Machine(folder)
    machine.machine.make_folder("/mnt/disks/vol1")
    machine.machine.add_disk("/dev/sdb")
    machine.machine.add_disk("/dev/sdc")
    machine.lookup.offer("/dev/sdb", name="disk")
    machine.lookup.offer("/dev/sdc", name="raw", mode="Block")
    machine.lookup.offer("/mnt/disks/vol1", name="dir")
    machine.lookup.config_maps["default/settings"] = {"key": b"value"}
    return machine


@pytest.mark.seed("RAW-10")
@pytest.mark.parametrize("then", ["goes", "comes back"])
async def test_dying_after_any_step_of_setting_up_loses_and_leaves_nothing(tmp_path: Path, then: str) -> None:
    finished = 0
    for steps in range(1, 100):
        machine = offering_everything(tmp_path / str(steps))
        pod = everything()
        dying_after(machine, steps)
        try:
            await machine.volumes.set_up(pod)
            finished = steps
        except Died:
            assert await machine.restarted().leftovers() == {pod.metadata.uid}, f"unknown after step {steps}"
        volumes = machine.restarted()
        if then == "comes back":
            prepared = await volumes.set_up(pod)
            assert set(prepared) == {"a", "b", "c", "d", "e"}
            table = await machine.host.mounts.table()
            assert table.at(prepared["c"].path).read_only  # type: ignore[union-attr]
            assert await machine.holding.held(volumes.layout.lock_name("raw"))
            assert machine.machine.disks[Path("/dev/sdb")].device.fs_type == "ext4"
            assert not volumes.layout.making("disk").exists()
        await volumes.tear_down(pod.metadata.uid)
        assert machine.left() == [], f"left after death at step {steps}"
        if finished:
            break
    assert finished > 15


async def test_dying_after_any_step_of_tearing_down_leaves_nothing_after_the_next_try(tmp_path: Path) -> None:
    finished = 0
    for steps in range(1, 100):
        machine = offering_everything(tmp_path / str(steps))
        pod = everything()
        prepared = await machine.volumes.set_up(pod)
        await machine.volumes.sub_path(pod.metadata.uid, "main", 0, prepared["a"], "part", read_only=False)
        dying_after(machine, steps)
        try:
            await machine.volumes.tear_down(pod.metadata.uid)
            finished = steps
        except Died:
            if machine.left():
                assert pod.metadata.uid in await machine.restarted().leftovers(), f"unknown after step {steps}"
        for uid in await machine.restarted().leftovers():
            await machine.volumes.tear_down(uid)
        assert machine.left() == [], f"left after death at step {steps}"
        if finished:
            break
    assert finished > 15


async def test_a_making_that_was_cut_short_is_finished_and_one_of_somebody_else_is_not(machine: Machine) -> None:
    machine.lookup.offer("/dev/sdb")
    pod = a_pod(claim_volume())
    machine.file_systems.failures.append(errors.HostTimeout("killed"))
    assert (await refused(machine, pod)).reason == "NoAnswer"
    assert machine.machine.disks[Path("/dev/sdb")].dirty
    await machine.restarted().set_up(pod)
    assert machine.log.count("mkfs.ext4 sdb") == 2
    await machine.volumes.tear_down(pod.metadata.uid)
    assert machine.left() == []
    # The note is gone: what is on the device from now on is somebody's data.
    disk = machine.machine.disks[Path("/dev/sdb")]
    disk.device = dataclasses.replace(disk.device, signatures=())
    assert (await refused(machine, pod)).reason == "NotBlank"


async def test_wrong_mount_options_make_no_file_system_anew(machine: Machine) -> None:
    machine.mounting.unknown_options.add("nonsense")
    machine.lookup.offer("/dev/sdb", mount_options=["nonsense"])
    pod = a_pod(claim_volume())
    for _ in range(3):
        error = await refused(machine, pod)
        assert error.reason == "ToolFailed" and "bad option" in error.message
    assert machine.log.count("mkfs.ext4 sdb") == 1
    machine.mounting.unknown_options.clear()
    await machine.restarted().set_up(pod)
    assert machine.log.count("mkfs.ext4 sdb") == 1


async def test_a_file_system_that_was_not_finished_is_made_anew_once(machine: Machine) -> None:
    machine.lookup.offer("/dev/sdb", mount_options=["nonsense"])
    machine.mounting.unknown_options.add("nonsense")
    pod = a_pod(claim_volume())
    await refused(machine, pod)
    # It has its signature, but the rest was never written.
    machine.mounting.unknown_options.clear()
    machine.mounting.broken.add(Path("/dev/sdb"))
    make = machine.file_systems.make

    async def mends(*args: object, **options: object) -> None:
        await make(*args, **options)  # type: ignore[arg-type]
        machine.mounting.broken.clear()

    machine.file_systems.make = mends  # type: ignore[method-assign]
    await machine.volumes.set_up(pod)
    assert machine.log.count("mkfs.ext4 sdb") == 2
    await machine.volumes.tear_down(pod.metadata.uid)
    # Now there is data: a file system that cannot be mounted any more is for a person to look at.
    machine.mounting.broken.add(Path("/dev/sdb"))
    assert (await refused(machine, pod)).reason == "ToolFailed"
    assert machine.log.count("mkfs.ext4 sdb") == 2


async def test_a_note_about_another_disk_or_volume_counts_for_nothing(machine: Machine) -> None:
    machine.machine.link("/mnt/disks/disk", "/dev/sdb")
    machine.lookup.offer("/mnt/disks/disk")
    pod = a_pod(claim_volume())
    machine.file_systems.failures.append(errors.HostTimeout("killed"))
    await refused(machine, pod)
    machine.machine.link("/mnt/disks/disk", "/dev/sdc")
    machine.machine.disks[Path("/dev/sdc")].dirty = True
    assert (await refused(machine, pod)).reason == "NotBlank"
    machine.machine.link("/mnt/disks/disk", "/dev/sdb")
    machine.lookup.offer("/mnt/disks/disk")  # the same name, but another volume
    assert (await refused(machine, pod)).reason == "NotBlank"
