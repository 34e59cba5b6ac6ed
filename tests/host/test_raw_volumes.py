"""Raw block volumes on the real machine: links, the hold on the device, and who may do what."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.host.pod_world import Node
from tests.unit.engine.kubelet.volumes.world import a_pod, claim_volume

from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet.volumes import NotReady
from localpv.host import loop
from localpv.host.devices import KernelDevices, KernelOpeners
from localpv.host.workers import Workers

Disk = Callable[..., Path]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "node")
    yield node
    node.clear()


def raw_pod(uid: str = "", *, read_only: bool = False) -> Pod:
    return a_pod(claim_volume(read_only=read_only), devices=["data"], uid=uid)


@pytest.mark.seed("RAW-8", "RAW-9")
async def test_links_are_where_the_design_says_one_for_each_pod(node: Node, make_disk: Disk, tmp_path: Path) -> None:
    disk, root = make_disk(16), node.volumes.layout.root
    (tmp_path / "by-name").symlink_to(disk)
    node.lookup.offer(tmp_path / "by-name", mode="Block", name="local-pv-1")
    pods = [a_pod(claim_volume("local-pv-1"), devices=["data"], uid=uid) for uid in ("u-1", "u-2")]
    prepared = [(await node.volumes.set_up(pod))["data"] for pod in pods]
    links = root / "plugins/kubernetes.io/local-volume/volumeDevices/local-pv-1"
    assert sorted(os.listdir(links)) == ["u-1", "u-2"]
    for uid, one in zip(("u-1", "u-2"), prepared, strict=True):
        own = root / f"pods/{uid}/volumeDevices/kubernetes.io~local-volume/local-pv-1"
        assert one.path == own and os.readlink(own) == os.readlink(links / uid) == str(disk)
        assert one.number == (os.major(disk.stat().st_rdev), os.minor(disk.stat().st_rdev))
    assert node.held("local-pv-1")
    await node.volumes.tear_down("u-1")
    assert os.listdir(links) == ["u-2"] and node.held("local-pv-1")
    await node.volumes.tear_down("u-2")
    assert node.left() == []


@pytest.mark.seed("RAW-6", "RAW-7")
@pytest.mark.parametrize(
    ("modes", "read_only", "access"),
    [
        (("ReadWriteOnce",), False, "rwm"),
        (("ReadWriteOncePod",), False, "rwm"),
        (("ReadWriteOnce",), True, "r"),
        (("ReadOnlyMany",), False, "r"),
        (("ReadWriteOnce", "ReadOnlyMany"), False, "rwm"),
    ],
)
async def test_the_access_is_that_of_the_claim(
    node: Node, make_disk: Disk, modes: tuple[str, ...], read_only: bool, access: str
) -> None:
    node.lookup.offer(make_disk(16), mode="Block", access_modes=modes)
    pod = raw_pod(read_only=read_only)
    prepared = (await node.volumes.set_up(pod))["data"]
    assert (prepared.device, prepared.access, prepared.read_only) == (True, access, access == "r")
    await node.volumes.tear_down(pod.metadata.uid)


@pytest.mark.seed("RAW-5")
async def test_one_pod_has_a_raw_device_and_a_file_system(node: Node, make_disk: Disk) -> None:
    node.lookup.offer(make_disk(16), mode="Block", name="raw")
    node.lookup.offer(make_disk(16), name="files")
    pod = a_pod(claim_volume("raw", name="a"), claim_volume("files", name="b"), devices=["a"])
    prepared = await node.volumes.set_up(pod)
    assert prepared["a"].device and not prepared["b"].device
    (prepared["b"].path / "file").write_text("x")
    prepared["a"].path.open("rb+").close()
    await node.volumes.tear_down(pod.metadata.uid)
    assert node.left() == []


@pytest.mark.alone
@pytest.mark.seed("RAW-10")
async def test_mapping_and_unmapping_can_be_repeated_and_are_told_from_the_links_after_a_restart(
    node: Node, make_disk: Disk
) -> None:
    disk = make_disk(16)
    node.lookup.offer(disk, mode="Block")
    pod = raw_pod("u-1")
    first = await node.volumes.set_up(pod)
    holders = len(loops_over(disk))
    assert await node.restarted().set_up(pod) == first
    assert len(loops_over(disk)) == holders == 1
    # One of the two links is enough to find it again.
    (node.volumes.layout.devices("u-1") / "pv").unlink()
    assert await node.restarted().leftovers() == {"u-1"}
    await node.volumes.tear_down("u-1")
    await node.volumes.tear_down("u-1")
    assert node.left() == [] and not loops_over(disk)


def loops_over(disk: Path) -> list[str]:
    answer = subprocess.run(["losetup", "-j", disk, "-n", "-O", "NAME"], check=True, capture_output=True, text=True)
    return answer.stdout.split()


@pytest.mark.seed("RAW-12")
async def test_data_that_one_pod_writes_is_read_by_the_next_and_nothing_is_formatted(
    node: Node, make_disk: Disk
) -> None:
    disk = make_disk(16)
    node.lookup.offer(disk, mode="Block", fs_type="ext4")
    pod = raw_pod()
    (await node.volumes.set_up(pod))["data"].path.write_bytes(b"raw data of the first pod")
    await node.volumes.tear_down(pod.metadata.uid)
    pod = raw_pod()
    with (await node.volumes.set_up(pod))["data"].path.open("rb") as device:
        assert device.read(25) == b"raw data of the first pod"
    await node.volumes.tear_down(pod.metadata.uid)


@pytest.mark.alone
async def test_while_a_pod_has_the_device_others_see_that_it_is_in_use(
    node: Node, make_disk: Disk, devices: KernelDevices
) -> None:
    disk = make_disk(16)
    node.lookup.offer(disk, mode="Block")
    pod = raw_pod()
    number = (await node.volumes.set_up(pod))["data"].number
    assert number is not None
    assert (await devices.describe(disk)).holders, "cleaning would wipe it"
    assert any("loop" in opener for opener in await KernelOpeners(workers=Workers()).of(number))
    await node.volumes.tear_down(pod.metadata.uid)
    assert not await KernelOpeners(workers=Workers()).of(number)


async def test_another_device_does_not_take_the_place_of_one_that_pods_use(
    node: Node, make_disk: Disk, tmp_path: Path
) -> None:
    one, other, link = make_disk(16), make_disk(16), tmp_path / "disk"
    link.symlink_to(one)
    node.lookup.offer(link, mode="Block")
    first, second = raw_pod(), raw_pod()
    await node.volumes.set_up(first)
    link.unlink()
    link.symlink_to(other)
    for pod in (second, first):
        with pytest.raises(NotReady) as caught:
            await node.volumes.set_up(pod)
        assert (caught.value.reason, caught.value.event) == ("DeviceChanged", "FailedMapVolume")
    for pod in (first, second):
        await node.volumes.tear_down(pod.metadata.uid)
    await node.volumes.set_up(second)
    await node.volumes.tear_down(second.metadata.uid)
    assert node.left() == []


@pytest.mark.alone
async def test_the_hold_keeps_the_kernel_from_giving_the_number_away(node: Node, make_disk: Disk) -> None:
    disk = make_disk(16)
    node.lookup.offer(disk, mode="Block")
    pod = raw_pod()
    prepared = (await node.volumes.set_up(pod))["data"]
    loop.detach(disk)  # as if the disk were pulled
    assert Path(f"/sys/block/{disk.name}/loop/backing_file").exists(), "the device went although it is held"
    fresh = make_disk(16)
    assert fresh != disk and os.stat(fresh).st_rdev != os.makedev(*prepared.number)  # type: ignore[misc]
    await node.volumes.tear_down(pod.metadata.uid)
    assert not Path(f"/sys/block/{disk.name}/loop/backing_file").exists()


async def test_a_directory_a_busy_device_and_a_missing_one_are_told(
    node: Node, make_disk: Disk, tmp_path: Path, mount: Callable[..., None]
) -> None:
    disk = make_disk(16)
    node.lookup.offer(tmp_path, mode="Block", name="dir")
    node.lookup.offer(tmp_path / "missing", mode="Block", name="missing")
    node.lookup.offer(disk, mode="Block", name="busy")
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)  # noqa: ASYNC221
    (tmp_path / "elsewhere").mkdir()
    mount(disk, tmp_path / "elsewhere")
    for claim, reason in (("dir", "NotABlockDevice"), ("missing", "PathMissing"), ("busy", "DeviceBusy")):
        pod = a_pod(claim_volume(claim), devices=["data"])
        with pytest.raises(NotReady) as caught:
            await node.volumes.set_up(pod)
        assert (caught.value.reason, caught.value.event) == (reason, "FailedMapVolume")
        assert caught.value.hint
    assert node.left() == []


@pytest.mark.seed("API-9")
async def test_the_mode_of_the_volume_and_its_use_must_agree(node: Node, make_disk: Disk) -> None:
    node.lookup.offer(make_disk(16), mode="Block", name="raw")
    node.lookup.offer(make_disk(16), name="files")
    for pod, words in (
        (a_pod(claim_volume("raw")), "volumeMounts"),
        (a_pod(claim_volume("files"), devices=["data"]), "volumeDevices"),
    ):
        with pytest.raises(NotReady, match=words) as caught:
            await node.volumes.set_up(pod)
        assert caught.value.reason == "WrongVolumeMode"
    assert node.left() == []
