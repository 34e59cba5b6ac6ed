"""One disk, the full circle, with the programs as users run them: found, offered, used, released, wiped, offered again.

Claims name their volume, so the engine binds them as they come.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import forked_programs
from tests.contract import wire

from localpv.host import loop
from localpv.testing.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices and mounts")

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
SECRET = b"the old tenant's secret "
MIB = 1 << 20


class Node:
    """A data folder, a folder of disks, and `localpv up` over them, which can be killed and started again."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.data, self.disks, self.config = folder / "data", folder / "disks", folder / "config"
        self.folder = folder
        self.disks.mkdir()
        self.config.mkdir()
        self.configure(**settings)
        (self.config / "class.yaml").write_text(
            "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, "
            "provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}"
        )
        self._undo = contextlib.ExitStack()
        self._process: forked_programs.Program | None = None
        self.api: Any = None

    def configure(self, **settings: Any) -> None:
        lines = [f"  {key}: {value}" for key, value in {"hostDir": self.disks, **settings}.items()]
        (self.config / "storageClassMap").write_text("\n".join(["fast:", *lines]) + "\n")

    def start(self) -> None:
        options = ["--listen", "127.0.0.1:0", "--data", str(self.data), "--config", str(self.config)]
        with (self.folder / "up.log").open("a") as log:
            self._process = forked_programs.start("up", "--node", "node-1", *options, stderr=log)
        line = self._process.stdout.readline()
        assert line.startswith(b"ready "), (self.folder / "up.log").read_text()[-3000:]
        target = wire.read_kubeconfig(self.data / "kubeconfig", controllers=True)
        self.api = wire.Api(target, target.token)

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE_SECONDS)
            self._process.stdout.close()
            self._process = None
        if self.api is not None:
            self.api.close()
            self.api = None

    def close(self) -> None:
        try:
            self.kill(signal.SIGTERM)
        finally:
            self._undo.close()

    def device(self, name: str, size: int = 24 * MIB) -> Path:
        """A blank loop device, linked into the folder of disks."""
        file = self.folder / f"{name}.img"
        file.write_bytes(bytes(size))
        device = loop.attach(file)
        self._undo.callback(loop.detach, device)
        (self.disks / name).symlink_to(device)
        return device

    def mount(self, name: str) -> Path:
        place = self.disks / name
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "localpv-test", str(place)], check=True)
        self._undo.callback(subprocess.run, ["umount", str(place)], check=True)
        return place

    # What users do.

    def volume(self, entry: str) -> Any:
        """The PV that offers an entry, once there is one."""
        path = str(self.disks / entry)

        def offered() -> Any:
            found = [pv for pv in self.api.get(VOLUMES)["items"] if pv["spec"]["local"]["path"] == path]
            return found[0] if len(found) == 1 and not found[0]["metadata"].get("deletionTimestamp") else None

        return wire.eventually(offered, f"{entry} is offered")

    def claim(self, volume: Any) -> None:
        """Somebody claims the volume, and has it."""
        spec, name = volume["spec"], volume["metadata"]["name"]
        wanted = {
            "storageClassName": "fast",
            "volumeName": name,
            "volumeMode": spec["volumeMode"],
            "accessModes": spec["accessModes"],
            "resources": {"requests": {"storage": "1Mi"}},
        }
        self.api.post(CLAIMS, {"metadata": {"name": name}, "spec": wanted})
        wire.eventually(lambda: self.api.get(f"{VOLUMES}/{name}")["status"]["phase"] == "Bound", f"{name} is bound")

    def release(self, volume: Any) -> None:
        """The claim goes."""
        self.api.send("DELETE", f"{CLAIMS}/{volume['metadata']['name']}")

    def released(self, volume: Any) -> None:
        """The claim goes, and the volume shows it."""
        path = f"{VOLUMES}/{volume['metadata']['name']}"
        self.release(volume)
        wire.eventually(lambda: self.api.get(path)["status"]["phase"] == "Released", "the volume is released")

    def disk(self, entry: str) -> Any:
        """Its LocalDisk, as soon as there is one."""

        def found() -> Any:
            return next((disk for disk in self.api.get(DISKS)["items"] if disk["spec"]["entry"] == entry), None)

        return wire.eventually(found, f"{entry} has a LocalDisk")

    def offered_again(self, entry: str, before: Any) -> Any:
        def another() -> Any:
            volume = self.volume(entry)
            return volume if volume["metadata"]["uid"] != before["metadata"]["uid"] else None

        return wire.eventually(another, f"{entry} comes back as another volume")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()


@pytest.mark.seed("DSC-1", "DSC-3", "DSC-9", "DSC-12", "E2E-9")
def test_directories_mounts_and_devices_of_one_folder_are_offered_each_in_its_way(node: Node) -> None:
    (node.disks / "plain").mkdir()
    node.mount("mounted")
    node.device("device")
    (node.disks / "notes.txt").write_text("neither a directory nor a device")
    node.start()
    kinds = {}
    for entry in ("plain", "mounted", "device"):
        volume = node.volume(entry)
        assert volume["spec"]["storageClassName"] == "fast"
        kinds[entry] = node.disk(entry)["status"]["kind"]
    assert kinds == {"plain": "Directory", "mounted": "MountPoint", "device": "BlockDevice"}
    (node.disks / "later").mkdir()
    node.volume("later")
    assert len(node.api.get(VOLUMES)["items"]) == 4


@pytest.mark.seed("DEL-1", "DEL-6", "CLN-8")
def test_released_directory_comes_back_empty_as_a_new_volume(node: Node) -> None:
    place = node.mount("data")
    node.start()
    volume = node.volume("data")
    node.claim(volume)
    (place / "deep" / "er").mkdir(parents=True)
    (place / "deep" / "er" / "secret").write_bytes(SECRET)
    (place / "link").symlink_to("/etc/passwd")
    node.release(volume)
    node.offered_again("data", volume)
    assert list(place.iterdir()) == []
    assert Path("/etc/passwd").exists()


@pytest.mark.seed("DEL-1", "CLN-1")
def test_released_device_comes_back_without_a_trace_of_the_old_data(tmp_path: Path) -> None:
    node = Node(tmp_path, volumeMode="Block", blockCleanerCommand='["/scripts/dd_zero.sh", "1"]')
    try:
        device = node.device("raw")
        node.start()
        volume = node.volume("raw")
        assert volume["spec"]["volumeMode"] == "Block"
        node.claim(volume)
        device.write_bytes(SECRET * 1000)
        subprocess.run(["sync"], check=True)
        node.release(volume)
        node.offered_again("raw", volume)
        assert SECRET not in device.read_bytes()
    finally:
        node.close()


@pytest.mark.seed("DEL-2")
def test_a_volume_in_any_other_phase_is_neither_cleaned_nor_deleted(node: Node) -> None:
    place = node.disks / "data"
    place.mkdir()
    node.start()
    volume = node.volume("data")
    node.claim(volume)
    (place / "kept").write_bytes(SECRET)
    for phase in ("Failed", "Pending", "Available"):
        node.api.merge(f"{VOLUMES}/{volume['metadata']['name']}/status", {"status": {"phase": phase}})
    (node.disks / "other").mkdir()
    node.volume("other")  # the circle has turned for others meanwhile
    assert (place / "kept").exists()
    assert node.volume("data")["metadata"]["uid"] == volume["metadata"]["uid"]


@pytest.mark.parametrize("by_force", [False, True], ids=["deleted", "deleted by force"])
@pytest.mark.seed("DEL-9")
def test_a_used_volume_that_somebody_deletes_by_hand_comes_back_only_clean(node: Node, by_force: bool) -> None:
    place = node.disks / "data"
    place.mkdir()
    node.start()
    volume = node.volume("data")
    node.claim(volume)
    (place / "secret").write_bytes(SECRET)
    path = f"{VOLUMES}/{volume['metadata']['name']}"
    node.api.send("DELETE", path)
    node.release(volume)
    if by_force:
        node.api.send("PATCH", path, {"metadata": {"finalizers": None}}, content_type=wire.MERGE_PATCH)
    node.offered_again("data", volume)
    assert list(place.iterdir()) == []


@pytest.mark.seed("DEL-8")
def test_killed_at_any_moment_of_the_circle_it_never_offers_what_is_not_clean(node: Node) -> None:
    place = node.disks / "data"
    place.mkdir()
    node.start()
    volume, chance = node.volume("data"), random.Random(11)
    for _ in range(8):
        node.claim(volume)
        for number in range(300):
            (place / f"file-{number}").write_bytes(SECRET)
        node.release(volume)
        time.sleep(chance.uniform(0, 0.2))  # the moment of death is the point of this test
        node.kill()
        before = volume
        node.start()
        volume = node.offered_again("data", before)
        assert list(place.iterdir()) == [], "an offered volume holds the old tenant's files"


def test_a_mount_point_that_is_gone_is_missing_and_its_volume_is_not_offered_anew(node: Node) -> None:
    place = node.mount("data")
    node.start()
    volume = node.volume("data")
    node.claim(volume)
    (place / "secret").write_bytes(SECRET)
    # Lazily, for the agent may be looking at it.
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    node._undo.pop_all()
    wire.eventually(lambda: node.disk("data")["status"]["phase"] == "Missing", "the disk is missing")
    node.released(volume)
    (node.disks / "other").mkdir()
    node.volume("other")
    assert node.volume("data")["metadata"]["uid"] == volume["metadata"]["uid"], "not offered from the root disk"
