"""Volumes whose nodes stand in the annotation of old: bound, scheduled and mounted where it says, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pods.machine import NODE, Machine, condition
from tests.pods.test_volumes import CLAIMS, VOLUMES

from localpv.api import volume_affinity

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
NODES = "/api/v1/nodes"
OTHER = "elsewhere"


@pytest.fixture(autouse=True)
def _nothing_left(machine: Machine) -> Iterator[None]:
    for mode in ("Immediate", "WaitForFirstConsumer"):
        machine.api.post(
            CLASSES,
            {
                "metadata": {"name": mode.lower()},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": mode,
            },
        )
    yield
    machine.delete_all()
    machine.eventually(machine.is_clean, "no pod is left")
    machine.api.clean_up()


def annotated(machine: Machine, name: str, folder: Path, *, node: str, mode: str, size: str = "16Mi") -> None:
    """A volume that only the annotation ties to a node."""
    folder.mkdir()
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    text = volume_affinity.annotation([{"matchExpressions": [here]}])
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": mode.lower(),
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": str(folder)},
    }
    metadata = {"name": name, "annotations": {volume_affinity.ANNOTATION: text}}
    machine.api.post(VOLUMES, {"metadata": metadata, "spec": spec})


def claim(machine: Machine, name: str, *, mode: str) -> None:
    resources = {"requests": {"storage": "1Mi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": mode.lower(), "resources": resources}
    machine.api.post(CLAIMS, {"metadata": {"name": name}, "spec": spec})


def until_bound(machine: Machine, name: str) -> None:
    """Wait until the binder has written all of it: who reads the claim before says that it is not bound."""
    machine.eventually(
        lambda: machine.api.get(f"{CLAIMS}/{name}")["status"].get("phase") == "Bound", f"claim {name} is bound"
    )


def volume_of(machine: Machine, name: str) -> str:
    return str(machine.api.get(f"{CLAIMS}/{name}")["spec"].get("volumeName", ""))


def a_pod(claim_name: str) -> dict[str, Any]:
    mounts = [{"name": "data", "mountPath": "/data"}]
    one = {"name": "main", "image": "busybox", "command": ["touch", "/data/file"], "volumeMounts": mounts}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    return {"containers": [one], "restartPolicy": "Never", "volumes": volumes}


@pytest.mark.seed("AFF-7")
def test_claim_gets_the_annotated_volume_of_the_node_its_pod_can_be_on(machine: Machine, tmp_path: Path) -> None:
    # The smaller one would be chosen, if it were taken for one that every node can use.
    annotated(machine, "theirs", tmp_path / "theirs", node=OTHER, mode="WaitForFirstConsumer", size="8Mi")
    annotated(machine, "ours", tmp_path / "ours", node=NODE, mode="WaitForFirstConsumer")
    claim(machine, "waiting", mode="WaitForFirstConsumer")
    machine.create(a_pod("waiting"), "placed", on_node=False)
    pod = machine.until_phase("placed", "Succeeded", "Failed")
    assert (pod["spec"]["nodeName"], pod["status"]["phase"]) == (NODE, "Succeeded")
    assert volume_of(machine, "waiting") == "ours"
    assert (tmp_path / "ours" / "file").exists() and not (tmp_path / "theirs" / "file").exists()


@pytest.mark.seed("AFF-7")
@pytest.mark.parametrize("mode", ["Immediate", "WaitForFirstConsumer"])
def test_pod_does_not_come_to_a_node_that_its_annotated_volume_does_not_name(
    machine: Machine, tmp_path: Path, mode: str
) -> None:
    annotated(machine, "theirs", tmp_path / "theirs", node=OTHER, mode=mode)
    claim(machine, "waiting", mode=mode)
    if mode == "Immediate":
        until_bound(machine, "waiting")
    machine.create(a_pod("waiting"), "nowhere", on_node=False)
    word = "node affinity" if mode == "Immediate" else "didn't find available persistent volumes"
    # A scheduler that has not seen the volume or its claim yet says that first.
    pod = machine.until(
        "nowhere",
        lambda pod: word in condition(pod, "PodScheduled").get("message", ""),
        f"nowhere cannot be scheduled: {word}",
    )
    assert condition(pod, "PodScheduled")["reason"] == "Unschedulable"
    assert volume_of(machine, "waiting") == ("theirs" if mode == "Immediate" else "")


@pytest.mark.seed("AFF-7")
def test_annotated_volume_of_another_node_is_not_mounted_here(machine: Machine, tmp_path: Path) -> None:
    annotated(machine, "theirs", tmp_path / "theirs", node=OTHER, mode="Immediate")
    claim(machine, "bound", mode="Immediate")
    until_bound(machine, "bound")
    assert volume_of(machine, "bound") == "theirs"
    machine.create(a_pod("bound"), "forced")  # with spec.nodeName, past the scheduler
    assert "node affinity of volume theirs" in machine.until_event("forced", "FailedMount")
    assert machine.pod("forced")["status"]["phase"] == "Pending" and not (tmp_path / "theirs" / "file").exists()
