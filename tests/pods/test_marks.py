"""Disks that pods had before the data folder was lost are known by their marks, and not offered as clean."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import forked_programs
from tests.pods.machine import Machine

from localpv.host import loop

MIB = 1024 * 1024
NewMachine = Callable[[], Machine]
DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


class Node:
    """A machine with a class of file systems and one of raw devices, and a disk of each kind."""

    def __init__(self, folder: Path) -> None:
        self.machine = Machine(folder / "data")
        self.folder, self.config = folder, folder / "config"
        self.config.mkdir()
        self.files, self.raw = folder / "files", folder / "raw"
        lines = []
        for name, place, mode in (("files", self.files, "Filesystem"), ("raw", self.raw, "Block")):
            place.mkdir()
            lines.append(f"{name}: {{hostDir: {place}, volumeMode: {mode}, fsType: ext4}}")
            (self.config / f"{name}.yaml").write_text(
                f"{{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: {name}}}, "
                "provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}"
            )
        (self.config / "storageClassMap").write_text("\n".join(lines) + "\n")
        self._loops: list[Path] = []

    def start(self) -> None:
        self.machine.start("--config", str(self.config))

    def device(self, entry: Path) -> Path:
        file = self.folder / f"{entry.name}.img"
        file.write_bytes(bytes(32 * MIB))
        device = loop.attach(file)
        self._loops.append(device)
        entry.symlink_to(device)
        return device

    def offered(self, entry: Path) -> str:
        """The volume that offers an entry, once there is one."""
        self.machine.eventually(lambda: self._volumes(entry), f"{entry.name} is offered")
        return str(self._volumes(entry)[0]["metadata"]["name"])

    def _volumes(self, entry: Path) -> list[Any]:
        found = self.machine.api.get(VOLUMES)["items"]
        return [one for one in found if one["spec"]["local"]["path"] == str(entry)]

    def disk(self, entry: Path) -> Any:
        found = [one for one in self.machine.api.get(DISKS)["items"] if one["spec"]["path"] == str(entry)]
        return {"status": {}} | (found[0] if found else {})

    def use(self, entry: Path, script: str, *, block: bool = False) -> None:
        """Run a pod on the volume of an entry to its end."""
        name, volume = entry.name, self.offered(entry)
        claim = {
            "storageClassName": entry.parent.name,
            "volumeName": volume,
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block" if block else "Filesystem",
            "resources": {"requests": {"storage": "1Mi"}},
        }
        self.machine.api.post(CLAIMS, {"metadata": {"name": name}, "spec": claim})
        one = {"name": "main", "image": "busybox", "command": ["sh", "-ec", script]}
        if block:
            one |= {"volumeDevices": [{"name": "data", "devicePath": "/dev/data"}]}
        else:
            one |= {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        spec = {"containers": [one], "volumes": volumes, "restartPolicy": "Never"}
        self.machine.create(spec, name, on_node=False)
        self.machine.until_phase(name, "Succeeded")
        self.machine.delete(name)
        self.machine.eventually(self.machine.is_clean, "it is unmounted")

    def lose_the_data_folder(self) -> None:
        self.machine.kill()
        shutil.rmtree(self.machine.data)
        self.start()

    def until_refused(self, entry: Path, reason: str = "UsedBefore") -> Any:
        self.machine.eventually(
            lambda: self.disk(entry)["status"].get("reason") == reason,
            f"{entry.name} is {reason}: {json.dumps(self.disk(entry)['status'])}",
        )
        assert not self._volumes(entry)
        return self.disk(entry)["status"]

    def wipe(self, entry: Path) -> None:
        name = self.disk(entry)["metadata"]["name"]
        done = forked_programs.run("wipe", name, "--yes", "--kubeconfig", f"{self.machine.data}/kubeconfig")
        assert done.returncode == 0, done.stdout + done.stderr

    def close(self) -> None:
        self.machine.close()
        for device in self._loops:
            loop.detach(device)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()


def test_raw_device_with_zero_head_and_tail_is_known_by_its_mark(node: Node) -> None:
    entry = node.raw / "disk"
    device = node.device(entry)
    node.start()
    # Where nobody looks who does not read all of it.
    node.use(entry, "echo secret | dd of=/dev/data bs=1 seek=3000001 conv=notrunc,fsync", block=True)
    assert not any(device.read_bytes()[:MIB])

    node.lose_the_data_folder()

    status = node.until_refused(entry)
    assert "volume local-pv-" in status["message"] and "localpv wipe" in status["message"]
    # A script that makes the links anew at each start does not take the mark along.
    entry.unlink()
    entry.symlink_to(device)
    other = node.raw / "other"
    entry.rename(other)
    node.until_refused(other)

    node.wipe(other)
    node.offered(other)
    assert not any(device.read_bytes()), "nothing is left of the old data"
    assert not list(node.raw.glob(".localpv-*"))


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in-its-place", "in-another-directory"])
def test_device_whose_file_system_looks_empty_is_known_by_its_mark(node: Node, elsewhere: bool) -> None:
    entry = node.files / "disk"
    node.device(entry)
    node.start()
    node.use(entry, "echo secret > /data/file; sync; rm /data/file; rmdir /data/lost+found")
    if elsewhere:
        for mark in node.files.glob(".localpv-used-*"):
            mark.unlink()  # the file system carries one too

    node.lose_the_data_folder()

    node.until_refused(entry)
    node.wipe(entry)
    node.offered(entry)


def test_directory_that_was_used_and_emptied_is_known_by_its_mark(node: Node) -> None:
    entry = node.files / "directory"
    entry.mkdir()
    node.start()
    node.use(entry, "echo secret > /data/file; rm /data/file; test $(ls -A /data | wc -l) = 0")
    assert "trusted.localpv.volume" in os.listxattr(entry)

    node.lose_the_data_folder()

    node.until_refused(entry)
    node.wipe(entry)
    node.offered(entry)
    assert not os.listxattr(entry)


def test_disk_that_was_only_offered_is_offered_again(node: Node) -> None:
    directory, raw = node.files / "directory", node.raw / "disk"
    directory.mkdir()
    node.device(raw)
    node.start()
    for entry in (directory, raw):
        node.offered(entry)
    node.lose_the_data_folder()
    for entry in (directory, raw):
        node.offered(entry)


def test_another_disk_in_the_place_of_a_used_one_is_offered(node: Node) -> None:
    entry = node.raw / "disk"
    node.device(entry)
    node.start()
    node.use(entry, "echo secret | dd of=/dev/data bs=1 seek=3000001 conv=notrunc,fsync", block=True)
    node.machine.kill()
    shutil.rmtree(node.machine.data)
    entry.unlink()
    (node.folder / "disk.img").rename(node.folder / "old.img")
    node.device(entry)
    node.start()
    node.offered(entry)
