"""Operations on volumes of pods are measured, as a kubelet measures them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pods.machine import Machine
from tests.pods.test_inside import run_once
from tests.pods.test_volumes import bound

LOCAL = "kubernetes.io/local-volume"
Counts = dict[tuple[str, str, str], int]


def counts(machine: Machine) -> Counts:
    """Operations so far, by plugin, operation and status."""
    answer = machine.api.send("GET", "/metrics")
    assert answer.code == 200, answer.raw
    found: Counts = {}
    for line in answer.raw.decode().splitlines():
        if line.startswith("storage_operation_duration_seconds_count{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            assert labels["migrated"] == "false"
            key = labels["volume_plugin"], labels["operation_name"], labels["status"]
            found[key] = int(line.rpartition(" ")[2])
    return found


def since(machine: Machine, before: Counts) -> Counts:
    return {key: more for key, count in counts(machine).items() if (more := count - before.get(key, 0))}


@pytest.fixture(autouse=True)
def _no_volumes_left(machine: Machine) -> Iterator[None]:
    yield
    machine.delete_all()
    machine.eventually(machine.is_clean, "no pod is left")
    machine.api.clean_up()


def used(machine: Machine, name: str, **container: object) -> Counts:
    """What is measured while a pod with one volume, and an emptyDir, comes and goes."""
    before = counts(machine)
    volumes = {"volumes": [container.pop("volume"), {"name": "scratch", "emptyDir": {}}]}
    mounts = [*container.pop("volumeMounts", ()), {"name": "scratch", "mountPath": "/scratch"}]  # type: ignore[misc]
    run_once(machine, name, "true", volumes, volumeMounts=mounts, **container)
    machine.delete(name)
    machine.eventually(machine.is_clean, "the pod is gone")
    found = since(machine, before)
    for operation in ("volume_mount", "volume_unmount"):
        assert found.pop(("kubernetes.io/empty-dir", operation, "success")) == 1
    return {key: count for key, count in found.items() if key[0] == LOCAL}


@pytest.mark.seed("MNT-1")
def test_mounts_of_a_directory_are_measured(machine: Machine, tmp_path: Path) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    found = used(machine, "directory", volume=bound(machine, "directory", tmp_path), volumeMounts=mounts)
    assert found == {(LOCAL, "volume_mount", "success"): 1, (LOCAL, "volume_unmount", "success"): 1}


@pytest.mark.seed("MNT-1")
def test_mounts_of_a_device_are_measured_apart(machine: Machine, device: Path) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    found = used(machine, "formatted", volume=bound(machine, "formatted", device), volumeMounts=mounts)
    names = ("volume_mount", "mount_device", "volume_unmount", "unmount_device")
    assert found == {(LOCAL, name, "success"): 1 for name in names}


@pytest.mark.seed("MNT-1")
def test_maps_of_a_raw_device_are_measured(machine: Machine, device: Path) -> None:
    devices = [{"name": "data", "devicePath": "/dev/xvda"}]
    found = used(machine, "raw", volume=bound(machine, "raw", device, mode="Block"), volumeDevices=devices)
    assert found == {(LOCAL, name, "success"): 1 for name in ("map_volume", "unmap_volume", "unmap_device")}


@pytest.mark.seed("MNT-1")
def test_errors_are_counted_by_plugin_and_operation(machine: Machine, tmp_path: Path) -> None:
    before = counts(machine)
    volume = bound(machine, "missing", tmp_path / "not-there")
    one = {"name": "main", "image": "busybox", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    machine.create({"containers": [one], "volumes": [volume]}, "waits")
    machine.until_event("waits", "FailedMount")
    found = since(machine, before)
    assert found.keys() == {(LOCAL, "volume_mount", "fail-unknown")}
