"""Volumes of pods on the real machine: loop devices, mounts, links, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.lifecycle.mount.world import FakeLookup, a_pod, claim_volume

from localpv.host import loop
from localpv.host.devices import KernelDevices
from localpv.lifecycle import mount as mounting
from localpv.lifecycle.mount import NotReady, PodVolumes

Disk = Callable[..., Path]


def below(root: Path) -> list[str]:
    """Mount points below a folder."""
    return [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(root) in line]


@pytest.fixture
def lookup() -> FakeLookup:
    return FakeLookup()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "node"
    for place in reversed(below(tmp_path / "node")):
        subprocess.run(["umount", place], check=False)
    for loop_folder in Path("/sys/block").glob("loop*/loop"):
        if (loop_folder / "backing_file").read_text().startswith(str(tmp_path / "node")):
            loop.detach(Path("/dev") / loop_folder.parent.name)


@pytest.fixture
def volumes(root: Path, lookup: FakeLookup) -> PodVolumes:
    return PodVolumes(root=root, hands=mounting.on_this_machine(), lookup=lookup)


async def test_a_directory_is_bound_and_unbound(volumes: PodVolumes, lookup: FakeLookup, tmp_path: Path) -> None:
    source = tmp_path / "vol1"
    source.mkdir()
    lookup.offer(source)
    pod = a_pod(claim_volume())
    prepared = (await volumes.set_up(pod))["data"]
    assert prepared.path == volumes.layout.root / f"pods/{pod.metadata.uid}/volumes/kubernetes.io~local-volume/pv"
    (prepared.path / "file").write_text("hello")
    assert (await volumes.set_up(pod))["data"] == prepared
    assert await volumes.leftovers() == {pod.metadata.uid}
    await volumes.tear_down(pod.metadata.uid)
    assert (source / "file").read_text() == "hello"
    assert not prepared.path.exists() and not below(volumes.layout.root)
    assert await volumes.leftovers() == frozenset()
    await volumes.tear_down(pod.metadata.uid)


async def test_a_blank_device_is_formatted_once_and_shared(
    volumes: PodVolumes, lookup: FakeLookup, make_disk: Disk
) -> None:
    disk = make_disk(16)
    lookup.offer(disk, mount_options=["noatime"])
    one, two = a_pod(claim_volume()), a_pod(claim_volume(read_only=True))
    first, second = (await volumes.set_up(one))["data"], (await volumes.set_up(two))["data"]
    (first.path / "file").write_text("hello")
    assert (second.path / "file").read_text() == "hello" and second.read_only
    with pytest.raises(OSError, match="Read-only"):
        (second.path / "file").write_text("no")
    await volumes.tear_down(one.metadata.uid)
    assert (second.path / "file").read_text() == "hello"
    await volumes.tear_down(two.metadata.uid)
    assert not below(volumes.layout.root)
    again = a_pod(claim_volume())
    assert ((await volumes.set_up(again))["data"].path / "file").read_text() == "hello"
    await volumes.tear_down(again.metadata.uid)


async def test_a_raw_device_is_linked_and_held(
    volumes: PodVolumes, lookup: FakeLookup, make_disk: Disk, devices: KernelDevices
) -> None:
    disk = make_disk(16)
    lookup.offer(disk, mode="Block")
    pod = a_pod(claim_volume(), devices=["data"])
    prepared = (await volumes.set_up(pod))["data"]
    assert prepared.device and prepared.access == "rwm" and os.path.realpath(prepared.path) == str(disk)
    assert (await volumes.set_up(pod))["data"] == prepared
    assert (await devices.describe(disk)).holders
    await volumes.tear_down(pod.metadata.uid)
    assert loop.find(volumes.layout.lock_name("pv")) is None
    assert await volumes.leftovers() == frozenset()


async def test_a_missing_path_is_told_and_the_pod_goes_on_when_it_is_there(
    volumes: PodVolumes, lookup: FakeLookup, tmp_path: Path
) -> None:
    lookup.offer(tmp_path / "later")
    pod = a_pod(claim_volume())
    with pytest.raises(NotReady, match="does not exist") as caught:
        await volumes.set_up(pod)
    assert caught.value.reason == "PathMissing" and caught.value.hint
    (tmp_path / "later").mkdir()
    assert await volumes.set_up(pod)
    await volumes.tear_down(pod.metadata.uid)
