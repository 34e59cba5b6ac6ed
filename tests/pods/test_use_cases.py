"""The nine use cases of the document about raw devices: each works, or is refused by name with what to do instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract import builders, wire
from tests.pods.machine import NODE, Machine
from tests.pods.test_inside import run_once
from tests.pods.test_volumes import CLAIMS, VOLUMES

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
HERE = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
AFFINITY = {"required": {"nodeSelectorTerms": [{"matchExpressions": [HERE]}]}}
ONCE, MANY = ["ReadWriteOnce"], ["ReadWriteMany"]


@pytest.fixture(autouse=True)
def _nothing_left(machine: Machine) -> Iterator[None]:
    yield
    machine.delete_all()
    machine.eventually(machine.is_clean, "no pod is left")
    machine.api.clean_up()


def volume(machine: Machine, name: str, *, mode: str = "Block", modes: list[str] = ONCE, **spec: Any) -> wire.Answer:
    whole = {
        "volumeMode": mode,
        "capacity": {"storage": "16Mi"},
        "accessModes": modes,
        "persistentVolumeReclaimPolicy": "Retain",
        **spec,
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": whole}
    answer = machine.api.send("POST", VOLUMES, body)
    if answer.code == 201:
        machine.api.created.append(f"{VOLUMES}/{name}")
    return answer


def claim(machine: Machine, name: str, *, mode: str = "Block", modes: list[str] = ONCE, **spec: Any) -> dict[str, Any]:
    whole = {"volumeMode": mode, "accessModes": modes, "resources": {"requests": {"storage": "1Mi"}}, **spec}
    machine.api.post(CLAIMS, {"metadata": {"name": name}, "spec": {"storageClassName": "", **whole}})
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def pod(machine: Machine, *containers: dict[str, Any], volumes: list[dict[str, Any]]) -> str:
    name = builders.unique("my-db")
    made = [
        {"name": f"c{number}", "image": "busybox", "command": ["sleep", "60"], **each}
        for number, each in enumerate(containers)
    ]
    machine.create({"containers": made, "volumes": volumes}, name, on_node=False)
    return name


def refused(answer: wire.Answer) -> str:
    assert answer.code == 422, answer.raw
    return str(answer.body["message"])


@pytest.mark.seed("RAW-13", "RAW-2")
def test_uc1_volume_of_an_administrator_needs_its_node_and_then_serves(machine: Machine, device: Path) -> None:
    assert "spec.nodeAffinity" in refused(volume(machine, "local-raw-pv", local={"path": "/dev/xvdc"}))
    assert volume(machine, "local-raw-pv", local={"path": str(device)}, nodeAffinity=AFFINITY).code == 201
    volumes = {"volumes": [claim(machine, "raw-pvc")]}
    devices = [{"name": "raw-pvc", "devicePath": "/dev/xvda"}]
    assert run_once(machine, "uc1", "test -b /dev/xvda && echo raw", volumes, volumeDevices=devices) == "raw\n"


@pytest.mark.seed("RAW-13")
def test_uc2_iscsi_is_refused_by_name_where_the_pod_would_use_it(machine: Machine) -> None:
    target = {"targetPortal": "1.2.3.4:3260", "iqn": "iqn.2017-05.com.example:test", "lun": 0}
    assert volume(machine, "raw-pv", iscsi=target).code == 201
    used = claim(machine, "raw-pvc")
    name = pod(machine, {"volumeDevices": [{"name": "raw-pvc", "devicePath": "/dev/xvda"}]}, volumes=[used])
    said = machine.until_event(name, "FailedMapVolume")
    assert "has the source iscsi" in said and "iscsiadm" in said and "link its device" in said


@pytest.mark.seed("RAW-13", "RAW-3")
def test_uc4_class_without_a_provisioner_serves_volumes_that_name_their_node(machine: Machine, device: Path) -> None:
    machine.api.post(CLASSES, {"metadata": {"name": "block-volume"}, "provisioner": "no-provisioning"})
    local = {"storageClassName": "block-volume", "local": {"path": str(device)}}
    assert "spec.nodeAffinity" in refused(volume(machine, "pv-block-volume", **local))
    assert volume(machine, "pv-block-volume", **local, nodeAffinity=AFFINITY).code == 201
    volumes = {"volumes": [claim(machine, "of-class", storageClassName="block-volume")]}
    devices = [{"name": "of-class", "devicePath": "/dev/xvda"}]
    assert run_once(machine, "uc4", "test -b /dev/xvda && echo raw", volumes, volumeDevices=devices) == "raw\n"


@pytest.mark.seed("RAW-13")
def test_uc5_uc6_class_of_a_provisioner_that_there_is_not_is_refused_by_name(machine: Machine) -> None:
    provisioner = "kubernetes.io/local-block-ssd"
    machine.api.post(CLASSES, {"metadata": {"name": "local-fast"}, "provisioner": provisioner})
    claim(machine, "pvc-local-block", storageClassName="local-fast")
    said = machine.until_event("pvc-local-block", "ProvisioningFailed")
    assert provisioner in said


@pytest.mark.seed("RAW-13")
def test_uc7_disk_of_a_cloud_is_refused_by_name_where_the_pod_would_use_it(machine: Machine) -> None:
    assert volume(machine, "gce-disk-1", gcePersistentDisk={"pdName": "gce-disk-1"}).code == 201
    used = claim(machine, "raw-pvc")
    name = pod(machine, {"volumeDevices": [{"name": "raw-pvc", "devicePath": "/dev/xvda"}]}, volumes=[used])
    said = machine.until_event(name, "FailedMapVolume")
    assert "has the source gcePersistentDisk" in said and "attach the disk to this machine" in said


@pytest.mark.seed("RAW-13")
def test_uc8_gluster_beside_a_raw_device_is_refused_by_name(machine: Machine, device: Path) -> None:
    assert volume(machine, "raw-pv", local={"path": str(device)}, nodeAffinity=AFFINITY).code == 201
    gluster = {"endpoints": "glusterfs-cluster", "path": "glusterVol"}
    assert volume(machine, "gluster-pv", mode="Filesystem", modes=MANY, glusterfs=gluster).code == 201
    volumes = [claim(machine, "raw-pvc"), claim(machine, "gluster-pvc", mode="Filesystem", modes=MANY)]
    name = pod(
        machine,
        {"volumeDevices": [{"name": "raw-pvc", "devicePath": "/var/lib/mysql/data"}]},
        {"volumeMounts": [{"name": "gluster-pvc", "mountPath": "/usr/share/nginx/html"}]},
        volumes=volumes,
    )
    said = machine.until_event(name, "FailedMount")
    assert "has the source glusterfs" in said and "mount it on this machine" in said


@pytest.mark.seed("RAW-13")
@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ("gcePersistentDisk", {"pdName": "disk"}),
        ("iscsi", {"targetPortal": "1.2.3.4:3260", "iqn": "iqn.2017-05.com.example:test", "lun": 0}),
        ("nfs", {"server": "files", "path": "/"}),
        ("azureFile", {"secretName": "s", "shareName": "f"}),
    ],
)
def test_source_in_the_pod_itself_is_refused_by_name_too(machine: Machine, source: str, fields: dict[str, Any]) -> None:
    name = pod(machine, {"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, volumes=[{"name": "x", source: fields}])
    assert f"has the source {source}" in machine.until_event(name, "FailedMount")
