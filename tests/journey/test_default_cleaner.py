"""What a tenant of a raw device leaves, the next one cannot read, unless somebody chose otherwise; then it is told."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import forked_programs
from tests.contract import wire
from tests.journey.test_circle import DISKS, MIB, SECRET, VOLUMES, Node
from tests.journey.test_programs import CLASS, api, program

from localpv.host import loop

__all__ = ["api"]  # a fixture

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices and mounts")

EVENTS = "/api/v1/namespaces/default/events"
SIZE = 24 * MIB
DEEP = 10 * MIB
"""Far from where file systems keep what they write first."""


def device_of(node: Node) -> Path:
    """A device that cannot discard, as most hard disks: on others mkfs, and with it fs-reset, discards everything."""
    folder = node.folder / "ram"
    folder.mkdir()
    # A file system that cannot punch holes into files, so that a loop device on it can neither discard nor zero.
    subprocess.run(["mount", "-t", "ramfs", "localpv-test", str(folder)], check=True)
    node._undo.callback(subprocess.run, ["umount", str(folder)], check=True)
    (folder / "raw.img").write_bytes(bytes(SIZE))
    device = loop.attach(folder / "raw.img")
    node._undo.callback(loop.detach, device)
    (node.disks / "raw").symlink_to(device)
    assert int(Path(f"/sys/class/block/{device.name}/queue/discard_max_bytes").read_text()) == 0
    return device


@pytest.fixture
def raw(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    """A machine with one class of raw devices, and the settings that the test gives it."""
    node = Node(tmp_path, volumeMode="Block", **getattr(request, "param", {}))
    yield node
    node.close()


def fill(device: Path) -> None:
    """A tenant leaves data near both ends and in the middle."""
    size = int(subprocess.check_output(["blockdev", "--getsize64", device]))
    with device.open("r+b") as disk:
        for place in (0, DEEP, size - len(SECRET)):
            disk.seek(place)
            disk.write(SECRET)
        os.fsync(disk.fileno())


def read(device: Path) -> bytes:
    subprocess.run(["blockdev", "--flushbufs", device], check=True)
    return device.read_bytes()


def warnings(api: Any, kind: str, name: str) -> list[str]:
    found = api.get(f"{EVENTS}?fieldSelector=involvedObject.kind={kind},involvedObject.name={name},type=Warning")
    return [event["message"] for event in found["items"] if event["reason"] == "DataReadable"]


def test_raw_device_without_a_configured_cleaner_comes_back_as_zeroes(raw: Node) -> None:
    device = device_of(raw)
    raw.start()
    volume = raw.volume("raw")
    raw.claim(volume)
    fill(device)
    raw.release(volume)
    raw.offered_again("raw", volume)
    assert read(device) == bytes(SIZE)
    assert raw.disk("raw")["status"]["cleaning"]["method"] == ["zeroout"]
    assert warnings(raw.api, "StorageClass", "fast") == []


def test_mode_of_the_volume_decides_where_one_class_has_both(tmp_path: Path) -> None:
    node = Node(tmp_path, volumeMode="Auto")
    try:
        device, place = device_of(node), node.mount("mounted")
        node.start()
        for entry in ("raw", "mounted"):
            node.claim(node.volume(entry))
        fill(device)
        (place / "file").write_bytes(SECRET)
        before = {entry: node.volume(entry) for entry in ("raw", "mounted")}
        for volume in before.values():
            node.release(volume)
        for entry, volume in before.items():
            node.offered_again(entry, volume)
        assert read(device) == bytes(SIZE)
        assert list(place.iterdir()) == []
    finally:
        node.close()


@pytest.mark.parametrize("raw", [{"blockCleanerCommand": "[fs-reset]"}], indirect=True)
def test_fs_reset_of_raw_devices_is_honoured_and_told_on_the_class_and_in_explain(raw: Node) -> None:
    device = device_of(raw)
    raw.start()
    volume = raw.volume("raw")
    (message,) = wire.eventually(lambda: warnings(raw.api, "StorageClass", "fast"), "the class is warned of")
    assert "the next user of a disk can read what the last one wrote" in message
    assert "blockCleanerCommand: [zeroout]" in message
    said = wire.eventually(lambda: _explained(raw, "caution"), "explain warns of it")
    assert "fs-reset" in said
    raw.claim(volume)
    fill(device)
    raw.release(volume)
    raw.offered_again("raw", volume)
    assert SECRET in read(device), "as it was asked for"

    raw.configure(volumeMode="Block", blockCleanerCommand="[zeroout]")
    wire.eventually(lambda: not _explained(raw, "caution"), "with another cleaner there is nothing to warn of")


@pytest.mark.seed("CLN-3")
def test_disk_that_was_reset_for_a_file_system_is_not_offered_raw_before_it_is_wiped(tmp_path: Path) -> None:
    node = Node(tmp_path, volumeMode="Filesystem")
    try:
        device = device_of(node)
        node.start()
        volume = node.volume("raw")
        node.claim(volume)
        fill(device)
        node.release(volume)
        again = node.offered_again("raw", volume)
        assert SECRET in read(device), "a file system hides it"

        node.kill()
        node.configure(volumeMode="Block")
        node.start()
        node.api.send("DELETE", f"{VOLUMES}/{again['metadata']['name']}")
        wire.eventually(
            lambda: "it would show" in (why := _explained(node, "why")) and "localpv wipe" in why,
            "it is said why it is not offered",
        )
        wire.eventually(lambda: node.api.get(VOLUMES)["items"] == [], "the volume for a file system is gone")

        _localpv(node, "wipe", "raw", "--yes")
        assert node.volume("raw")["spec"]["volumeMode"] == "Block"
        assert read(device) == bytes(SIZE)
    finally:
        node.close()


def test_drop_in_keeps_the_classic_default_and_warns(api: wire.Api, tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(SIZE))
    device = loop.attach(image)
    try:
        (tmp_path / "raw").mkdir()
        (tmp_path / "raw" / "disk").symlink_to(device)
        api.post("/apis/storage.k8s.io/v1/storageclasses", {**CLASS, "metadata": {"name": "raw"}})
        classes = {"raw": {"hostDir": str(tmp_path / "raw"), "volumeMode": "Block"}}
        (tmp_path / "config" / "storageClassMap").write_text(json.dumps(classes))
        options = ("--kubeconfig", str(tmp_path / "data" / "kubeconfig"), "--config", str(tmp_path / "config"))
        with program("provisioner", *options, "--state", str(tmp_path / "state"), folder=tmp_path):
            (message,) = wire.eventually(lambda: warnings(api, "StorageClass", "raw"), "the class is warned of")
            assert "cleaned with fs-reset" in message
    finally:
        loop.detach(device)


def _explained(node: Node, label: str) -> str:
    lines = [line.strip() for line in _localpv(node, "explain", "raw").splitlines()]
    return next((line.removeprefix(label).strip() for line in lines if line.startswith(label + " ")), "")


def _localpv(node: Node, *words: str) -> str:
    assert node.api.get(DISKS)
    done = forked_programs.run(*words, "--kubeconfig", f"{node.data}/kubeconfig")
    done.check_returncode()
    return done.stdout
