"""Volumes of pods on the real machine: directories, mount points and devices with a file system."""

from __future__ import annotations

import asyncio
import os
import random
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.host.pod_world import Node
from tests.unit.engine.kubelet.volumes.world import a_pod, claim_volume

from localpv import errors
from localpv.api.kinds.pods import ConfigMapVolumeSource, EmptyDirVolumeSource, Pod, SecretVolumeSource, Volume
from localpv.engine.kubelet.volumes import NotReady
from localpv.host import volume_files, workers
from localpv.host.devices import KernelDevices
from localpv.host.mounts import KernelMounts
from localpv.testing.waiting import PATIENCE_SECONDS

Disk = Callable[..., Path]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "node")
    yield node
    node.clear()


async def refused(node: Node, pod: Pod) -> NotReady:
    with pytest.raises(NotReady) as caught:
        await node.volumes.set_up(pod)
    return caught.value


async def test_a_directory_is_bound_and_its_data_stays_when_the_pod_goes(node: Node, tmp_path: Path) -> None:
    source = tmp_path / "vol1"
    source.mkdir()
    node.lookup.offer(source)
    pod = a_pod(claim_volume(), uid="u-1")
    prepared = (await node.volumes.set_up(pod))["data"]
    assert node.mounts() == ["pods/u-1/volumes/kubernetes.io~local-volume/pv"]
    (prepared.path / "file").write_text("hello")
    assert (await node.volumes.set_up(pod))["data"] == prepared
    assert await node.volumes.leftovers() == {"u-1"}
    await node.volumes.tear_down("u-1")
    assert (source / "file").read_text() == "hello"
    assert node.left() == [] and await node.volumes.leftovers() == frozenset()
    await node.volumes.tear_down("u-1")


async def test_a_link_to_a_directory_is_followed(node: Node, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    node.lookup.offer(tmp_path / "link")
    pod = a_pod(claim_volume(), group=4321)
    ((await node.volumes.set_up(pod))["data"].path / "file").touch()
    assert (tmp_path / "real" / "file").exists() and (tmp_path / "real").stat().st_gid == 4321
    await node.volumes.tear_down(pod.metadata.uid)


@pytest.mark.seed("PLG-12")
async def test_a_blank_device_is_formatted_mounted_once_and_bound_for_each_pod(node: Node, make_disk: Disk) -> None:
    node.lookup.offer(make_disk(16), mount_options=["noatime"])
    one, two = a_pod(claim_volume(), uid="one"), a_pod(claim_volume(read_only=True), uid="two")
    first, second = (await node.volumes.set_up(one))["data"], (await node.volumes.set_up(two))["data"]
    assert node.mounts() == [
        "plugins/kubernetes.io/local-volume/mounts/pv",
        "pods/one/volumes/kubernetes.io~local-volume/pv",
        "pods/two/volumes/kubernetes.io~local-volume/pv",
    ]
    (first.path / "file").write_text("hello")
    assert (second.path / "file").read_text() == "hello" and second.read_only
    with pytest.raises(OSError, match="Read-only"):
        (second.path / "file").write_text("no")
    assert all("noatime" in mount.options for mount in await KernelMounts().table() if mount.mount_point == first.path)
    await node.volumes.tear_down("one")
    assert (second.path / "file").read_text() == "hello"
    await node.volumes.tear_down("two")
    assert node.left() == []


@pytest.mark.seed("PLG-13")
async def test_the_volume_survives_restarts_of_pods_and_of_the_node(node: Node, make_disk: Disk) -> None:
    node.lookup.offer(make_disk(16))
    pod = a_pod(claim_volume())
    path = (await node.volumes.set_up(pod))["data"].path
    (path / "file").write_text("kept")
    # Our process dies and comes back: the pod still has its volume, and setting it up again changes nothing.
    mounts = node.mounts()
    assert (await node.restarted().set_up(pod))["data"].path == path
    assert node.mounts() == mounts and (path / "file").read_text() == "kept"
    # The pod is replaced by another one.
    await node.volumes.tear_down(pod.metadata.uid)
    again = a_pod(claim_volume())
    assert ((await node.volumes.set_up(again))["data"].path / "file").read_text() == "kept"
    # The machine starts anew: nothing is mounted any more, the folders are still there.
    for place in reversed(node.mounts()):
        subprocess.run(["umount", node.root / place], check=True)  # noqa: ASYNC221
    assert ((await node.restarted().set_up(again))["data"].path / "file").read_text() == "kept"
    await node.volumes.tear_down(again.metadata.uid)
    assert node.left() == []


async def test_after_the_machine_started_anew_a_pod_is_torn_down_from_its_folders_alone(
    node: Node, make_disk: Disk
) -> None:
    node.lookup.offer(make_disk(16))
    pod = a_pod(claim_volume())
    await node.volumes.set_up(pod)
    for place in reversed(node.mounts()):
        subprocess.run(["umount", node.root / place], check=True)  # noqa: ASYNC221
    assert await node.restarted().leftovers() == {pod.metadata.uid}
    await node.volumes.tear_down(pod.metadata.uid)
    assert node.left() == []


async def test_a_missing_path_is_told_and_the_pod_goes_on_when_it_is_there(node: Node, tmp_path: Path) -> None:
    node.lookup.offer(tmp_path / "later")
    pod = a_pod(claim_volume())
    error = await refused(node, pod)
    assert (error.reason, error.event) == ("PathMissing", "FailedMount") and error.hint
    (tmp_path / "later").mkdir()
    assert await node.volumes.set_up(pod)
    await node.volumes.tear_down(pod.metadata.uid)
    (tmp_path / "later").rmdir()
    (tmp_path / "later").touch()
    assert (await refused(node, pod)).reason == "WrongKind"


async def test_a_device_that_is_mounted_or_claimed_elsewhere_is_told_and_not_touched(
    node: Node, make_disk: Disk, mount: Callable[..., None], tmp_path: Path
) -> None:
    disk, place = make_disk(16), tmp_path / "elsewhere"
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)  # noqa: ASYNC221
    place.mkdir()
    node.lookup.offer(disk)
    pod = a_pod(claim_volume())
    mount(disk, place)
    error = await refused(node, pod)
    assert error.reason == "DeviceBusy" and str(place) in error.message
    subprocess.run(["umount", place], check=True)  # noqa: ASYNC221
    claim = os.open(disk, os.O_RDONLY | os.O_EXCL)
    assert (await refused(node, pod)).reason == "DeviceBusy"
    os.close(claim)
    await node.volumes.set_up(pod)
    await node.volumes.tear_down(pod.metadata.uid)


async def test_a_damaged_file_system_is_told(node: Node, make_disk: Disk) -> None:
    disk = make_disk(16)
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)  # noqa: ASYNC221
    subprocess.run(  # noqa: ASYNC221
        ["debugfs", "-w", "-R", "clri /lost+found", disk], check=True, capture_output=True
    )
    subprocess.run(["debugfs", "-w", "-R", "clri /", disk], check=True, capture_output=True)  # noqa: ASYNC221
    subprocess.run(  # noqa: ASYNC221
        ["tune2fs", "-E", "force_fsck", disk], check=False, capture_output=True
    )
    node.lookup.offer(disk)
    error = await refused(node, a_pod(claim_volume()))
    assert "damaged" in error.message and "e2fsck -n" in error.hint


@pytest.mark.seed("PLG-11")
async def test_a_pod_without_root_writes_to_a_volume_that_nobody_prepared(node: Node, make_disk: Disk) -> None:
    node.lookup.offer(make_disk(16))
    pod = a_pod(claim_volume(), group=4321)
    path = (await node.volumes.set_up(pod))["data"].path
    assert path.stat().st_gid == 4321 and stat.S_IMODE(path.stat().st_mode) & 0o2770 == 0o2770
    # Begun inside it, as in a container: the folders above are not there.
    user = ["setpriv", "--reuid", "4000", "--regid", "4321", "--clear-groups"]
    subprocess.run([*user, "touch", "file"], cwd=path, check=True)  # noqa: ASYNC221
    assert (path / "file").stat().st_gid == 4321
    await node.volumes.tear_down(pod.metadata.uid)


async def test_a_mount_point_that_is_not_mounted_is_refused_with_a_hint(
    node: Node, make_disk: Disk, mount: Callable[..., None], tmp_path: Path, devices: KernelDevices
) -> None:
    disk, place = make_disk(16), tmp_path / "point"
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)  # noqa: ASYNC221
    place.mkdir()
    mount(disk, place)
    point = (await KernelMounts().table()).at(place)
    assert point is not None
    node.lookup.offer(place, identity=await devices.behind(point))
    pod = a_pod(claim_volume())
    await node.volumes.set_up(pod)
    await node.volumes.tear_down(pod.metadata.uid)
    subprocess.run(["umount", place], check=True)  # noqa: ASYNC221
    error = await refused(node, pod)
    assert error.reason == "NotMounted" and "mount" in error.hint
    mount(disk, place)
    await node.volumes.set_up(pod)
    await node.volumes.tear_down(pod.metadata.uid)


async def test_a_volume_in_which_somebody_still_works_is_not_unmounted_nor_is_anything_removed(
    node: Node, make_disk: Disk
) -> None:
    node.lookup.offer(make_disk(16))
    pod = a_pod(claim_volume())
    path = (await node.volumes.set_up(pod))["data"].path
    (path / "file").write_text("precious")
    inside = os.open(path / "file", os.O_RDONLY)
    with pytest.raises(errors.DeviceBusy):
        await node.volumes.tear_down(pod.metadata.uid)
    assert await node.volumes.leftovers() == {pod.metadata.uid}
    os.close(inside)
    await node.volumes.tear_down(pod.metadata.uid)
    assert node.left() == []
    again = a_pod(claim_volume())
    assert ((await node.volumes.set_up(again))["data"].path / "file").read_text() == "precious"
    await node.volumes.tear_down(again.metadata.uid)


async def test_parts_of_a_volume_go_before_the_volume(node: Node, make_disk: Disk) -> None:
    node.lookup.offer(make_disk(16))
    pod = a_pod(claim_volume(), group=4321, uid="u-1")
    prepared = (await node.volumes.set_up(pod))["data"]
    (prepared.path / "file").write_text("x")
    folder = await node.volumes.sub_path("u-1", "main", 0, prepared, "logs/main", read_only=False)
    single = await node.volumes.sub_path("u-1", "main", 1, prepared, "file", read_only=True)
    (folder / "line").touch()
    assert (prepared.path / "logs" / "main" / "line").stat().st_gid == 4321
    assert single.read_text() == "x"
    with pytest.raises(NotReady) as caught:
        await node.volumes.sub_path("u-1", "main", 2, prepared, "../..", read_only=False)
    assert caught.value.reason == "PathOutside"
    await node.volumes.tear_down("u-1")
    assert node.left() == []


async def test_emptydirs_on_disk_and_in_memory_come_empty_and_go_whole(node: Node) -> None:
    disk = Volume(name="disk", empty_dir=EmptyDirVolumeSource())
    memory = Volume(name="memory", empty_dir=EmptyDirVolumeSource(medium="Memory", size_limit="1Mi"))
    pod = a_pod(disk, memory, group=4321)
    prepared = await node.volumes.set_up(pod)
    on_disk, in_memory = prepared["disk"].path, prepared["memory"].path
    for path in (on_disk, in_memory):
        assert stat.S_IMODE(path.stat().st_mode) == 0o2777 and path.stat().st_gid == 4321
    assert os.statvfs(in_memory).f_blocks * os.statvfs(in_memory).f_frsize == 1024 * 1024
    with pytest.raises(OSError, match="No space"):
        (in_memory / "large").write_bytes(bytes(2 * 1024 * 1024))
    (on_disk / "deep" / "er").mkdir(parents=True)
    (on_disk / "deep" / "file").write_text("x")
    on_disk.chmod(0o700)
    assert await node.volumes.set_up(pod) == prepared
    assert (on_disk / "deep" / "file").read_text() == "x"
    await node.volumes.tear_down(pod.metadata.uid)
    assert node.left() == []


async def test_no_other_user_of_the_machine_comes_to_the_files_of_pods(node: Node) -> None:
    node.lookup.secrets["default/keys"] = {"key": b"secret"}
    pod = a_pod(
        Volume(name="secret", secret=SecretVolumeSource(secret_name="keys")),
        Volume(name="scratch", empty_dir=EmptyDirVolumeSource()),
    )
    for prepared in (await node.volumes.set_up(pod)).values():
        above = [folder for folder in prepared.path.parents if folder == node.root or node.root in folder.parents]
        assert above and all(stat.S_IMODE(folder.stat().st_mode) & 0o007 == 0 for folder in above)
    await node.volumes.tear_down(pod.metadata.uid)


async def test_an_emptydir_with_a_mount_of_others_inside_is_not_deleted_through_it(
    node: Node, tmp_path: Path, mount: Callable[..., None]
) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    pod = a_pod(Volume(name="scratch", empty_dir=EmptyDirVolumeSource()))
    path = (await node.volumes.set_up(pod))["scratch"].path
    (path / "inside").mkdir()
    mount("--bind", tmp_path / "precious", path / "inside")
    await node.volumes.tear_down(pod.metadata.uid)
    assert (tmp_path / "precious" / "file").read_text() == "x"
    assert node.left() == []


async def test_files_from_the_api_follow_their_changes(node: Node) -> None:
    node.lookup.config_maps["default/settings"] = {"a": b"1", "b": b"2"}
    node.lookup.secrets["default/keys"] = {"key": b"secret"}
    pod = a_pod(
        Volume(name="config", config_map=ConfigMapVolumeSource(name="settings")),
        Volume(name="secret", secret=SecretVolumeSource(secret_name="keys", default_mode=0o400)),
        group=4321,
    )
    prepared = await node.volumes.set_up(pod)
    config, secret = prepared["config"].path, prepared["secret"].path
    assert prepared["config"].read_only and prepared["secret"].read_only
    assert (config / "a").read_text() + (config / "b").read_text() == "12"
    assert stat.S_IMODE((secret / "key").stat().st_mode) == 0o440 and (secret / "key").stat().st_gid == 4321
    assert [place.rsplit("/", 1)[-1] for place in node.mounts()] == ["secret"]
    node.lookup.config_maps["default/settings"] = {"a": b"changed"}
    del node.lookup.secrets["default/keys"]
    with pytest.raises(NotReady, match="secret default/keys not found"):
        await node.volumes.refresh(pod)
    assert (config / "a").read_text() == "changed" and not (config / "b").exists()
    assert (secret / "key").read_text() == "secret"
    await node.volumes.tear_down(pod.metadata.uid)
    assert node.left() == []


async def test_a_directory_that_was_replaced_is_not_a_second_volume_of_that_name(node: Node, tmp_path: Path) -> None:
    source = tmp_path / "vol1"
    source.mkdir()
    node.lookup.offer(source)
    first, second = a_pod(claim_volume()), a_pod(claim_volume())
    await node.volumes.set_up(first)
    source.rename(tmp_path / "moved")
    source.mkdir()
    assert (await refused(node, second)).reason == "DeviceChanged"
    await node.volumes.tear_down(first.metadata.uid)
    await node.volumes.set_up(second)
    await node.volumes.tear_down(second.metadata.uid)
    assert node.left() == []


async def test_a_hundred_pods_that_come_and_go_at_random_leave_nothing(
    node: Node, make_disk: Disk, tmp_path: Path
) -> None:
    (tmp_path / "dir").mkdir()
    node.lookup.offer(make_disk(16), name="disk")
    node.lookup.offer(make_disk(16), name="raw", mode="Block")
    node.lookup.offer(tmp_path / "dir", name="dir")
    chance, room = random.Random(4711), asyncio.Semaphore(8)

    async def live(number: int) -> None:
        chosen = chance.sample(["disk", "raw", "dir"], chance.randint(1, 3))
        pod = a_pod(*(claim_volume(name, name=name) for name in chosen), devices=["raw"] if "raw" in chosen else [])
        async with room:
            prepared = await node.volumes.set_up(pod)
            if "disk" in prepared:
                (prepared["disk"].path / f"file{number}").write_text(str(number))
            await asyncio.sleep(0)
            await node.volumes.tear_down(pod.metadata.uid)

    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(live(number))
    assert node.left() == []


async def test_a_disk_that_hangs_stops_only_the_pod_that_needs_it(
    node: Node, make_disk: Disk, mount: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume_files, "STALL_SECONDS", 5.0)  # which the well one must not come near on a busy machine
    monkeypatch.setattr(workers, "STOP_SECONDS", 0.1)
    disk, place = make_disk(16), tmp_path / "point"
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)  # noqa: ASYNC221
    for folder in (place, tmp_path / "well"):
        folder.mkdir()
    mount(disk, place)
    node.lookup.offer(place, name="hung")
    node.lookup.offer(tmp_path / "well", name="well")
    hangs, works = a_pod(claim_volume("hung"), group=4321), a_pod(claim_volume("well"), group=4321)
    subprocess.run(["fsfreeze", "-f", place], check=True)  # noqa: ASYNC221
    try:
        first = asyncio.create_task(node.volumes.set_up(hangs))
        await node.volumes.set_up(works)
        await node.volumes.tear_down(works.metadata.uid)
        with pytest.raises(NotReady) as caught:
            await first
        assert caught.value.reason == "NoAnswer" and caught.value.hint
        assert (await refused(node, hangs)).reason == "NoAnswer"  # at once, without one more thread that hangs
    finally:
        subprocess.run(["fsfreeze", "-u", place], check=True)  # noqa: ASYNC221
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                await node.volumes.set_up(hangs)
                break
            except NotReady:
                await asyncio.sleep(0.02)
    assert place.stat().st_gid == 4321
    await node.volumes.tear_down(hangs.metadata.uid)
    assert node.left() == []
