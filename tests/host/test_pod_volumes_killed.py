"""Death after any step, on the real machine: nothing is lost, and nothing stays behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.host.pod_world import Node
from tests.unit.engine.kubelet.volumes.world import Died, a_pod, claim_volume, dying_hands

from localpv.api.kinds.pods import EmptyDirVolumeSource, Pod, SecretVolumeSource, Volume
from localpv.engine.kubelet import volumes as mounting
from localpv.host.filesystems import KernelFileSystems
from localpv.host.model.devices import BlockDevice
from localpv.host.workers import Workers

Disk = Callable[..., Path]
MOST = 60


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Callable[[], Node]]:
    made: list[Node] = []

    def make() -> Node:
        made.append(Node(tmp_path / f"node{len(made)}"))
        return made[-1]

    yield make
    for node in made:
        node.clear()


def everything() -> Pod:
    return a_pod(
        claim_volume("disk", name="a"),
        claim_volume("raw", name="b"),
        claim_volume("dir", name="c", read_only=True),
        Volume(name="d", empty_dir=EmptyDirVolumeSource(medium="Memory")),
        Volume(name="e", secret=SecretVolumeSource(secret_name="keys")),
        devices=["b"],
        group=4321,
    )


def offer(node: Node, disk: Path, raw: Path, folder: Path) -> None:
    node.lookup.offer(disk, name="disk")
    node.lookup.offer(raw, name="raw", mode="Block")
    node.lookup.offer(folder, name="dir")
    node.lookup.secrets["default/keys"] = {"key": b"secret"}


def blank(disk: Path) -> None:
    with open(disk, "rb+") as device:
        device.write(bytes(8 * 1024 * 1024))


def start_of(device: Path) -> bytes:
    with open(device, "rb") as opened:
        return opened.read(8)


async def test_dying_after_any_step_of_setting_up(nodes: Callable[[], Node], make_disk: Disk, tmp_path: Path) -> None:
    disk, raw = make_disk(8), make_disk(8)
    raw.write_bytes(b"raw data")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "file").write_text("precious")
    for steps in range(1, MOST):
        blank(disk)
        node, pod = nodes(), everything()
        offer(node, disk, raw, tmp_path / "dir")
        node.restarted(dying_hands(mounting.on_this_machine(), steps))
        died = False
        try:
            await node.volumes.set_up(pod)
        except Died:
            died = True
        volumes = node.restarted()
        assert await volumes.leftovers() == {pod.metadata.uid}
        if steps % 3:  # else the pod is deleted and never comes back
            prepared = await volumes.set_up(pod)
            (prepared["a"].path / "new").write_text("written")
            assert start_of(prepared["b"].path) == b"raw data"
            assert (prepared["c"].path / "file").read_text() == "precious"
            assert os.statvfs(prepared["c"].path).f_flag & os.ST_RDONLY
            assert (prepared["e"].path / "key").read_text() == "secret"
        await volumes.tear_down(pod.metadata.uid)
        assert node.left() == [], f"left after death at step {steps}"
        if not died:
            assert steps > 15
            return
    pytest.fail("it never came to its end")


async def test_dying_after_any_step_of_tearing_down(nodes: Callable[[], Node], make_disk: Disk, tmp_path: Path) -> None:
    disk, raw = make_disk(8), make_disk(8)
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "file").write_text("precious")
    for steps in range(1, MOST):
        node, pod = nodes(), everything()
        offer(node, disk, raw, tmp_path / "dir")
        prepared = await node.volumes.set_up(pod)
        (prepared["a"].path / f"file{steps}").write_text("x")
        await node.volumes.sub_path(pod.metadata.uid, "main", 0, prepared["a"], "part", read_only=False)
        node.restarted(dying_hands(mounting.on_this_machine(), steps))
        died = False
        try:
            await node.volumes.tear_down(pod.metadata.uid)
        except Died:
            died = True
        for uid in await node.restarted().leftovers():
            await node.volumes.tear_down(uid)
        assert node.left() == [], f"left after death at step {steps}"
        assert (tmp_path / "dir" / "file").read_text() == "precious"
        if not died:
            assert steps > 15
            # Everything that was ever written to the disk is still on it.
            pod = a_pod(claim_volume("disk"))
            path = (await node.volumes.set_up(pod))["data"].path
            assert {f"file{step}" for step in range(1, steps + 1)} <= set(os.listdir(path))
            await node.volumes.tear_down(pod.metadata.uid)
            return
    pytest.fail("it never came to its end")


class CutShort(KernelFileSystems):
    """Dies in the middle of making a file system: some of its tables are written, its signature is not."""

    async def make(self, device: BlockDevice, fs_type: str, *, uuid: str, unfinished: bool = False) -> None:
        fd = os.open(device.path, os.O_WRONLY)
        os.pwrite(fd, os.urandom(4096), 64 * 1024)
        os.close(fd)
        raise Died


async def test_a_file_system_whose_making_was_cut_short_is_finished(nodes: Callable[[], Node], make_disk: Disk) -> None:
    node, disk = nodes(), make_disk(8)
    node.lookup.offer(disk)
    pod = a_pod(claim_volume())
    node.restarted(replace(mounting.on_this_machine(), file_systems=CutShort(workers=Workers())))
    with pytest.raises(Died):
        await node.volumes.set_up(pod)
    (((await node.restarted().set_up(pod))["data"]).path / "file").write_text("x")
    assert not node.volumes.layout.making("pv").exists()
    await node.volumes.tear_down(pod.metadata.uid)
    # From now on there is data. The same bytes again are somebody's, and are left alone.
    fd = os.open(disk, os.O_WRONLY)
    os.pwrite(fd, bytes(64 * 1024) + os.urandom(4096), 0)
    os.close(fd)
    with pytest.raises(mounting.NotReady) as caught:
        await node.volumes.set_up(pod)
    assert caught.value.reason == "NotBlank"
