"""Volumes inside containers; how they get onto the machine is shown where volumes are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pods.machine import NODE, Machine, main
from tests.pods.test_inside import run_once

VOLUMES, CLAIMS = "/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims"


def bound(machine: Machine, name: str, path: Path, *, mode: str = "Filesystem") -> dict[str, Any]:
    """A claim that is bound to a volume at a path of this machine."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    spec = {
        "capacity": {"storage": "16Mi"},
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": mode,
        "storageClassName": "",
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": str(path)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        "claimRef": {"namespace": "default", "name": name},
    }
    machine.api.post(VOLUMES, {"metadata": {"name": name}, "spec": spec})
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": mode,
        "storageClassName": "",
        "volumeName": name,
        "resources": {"requests": {"storage": "1Mi"}},
    }
    machine.api.post(CLAIMS, {"metadata": {"name": name}, "spec": claim})
    machine.eventually(
        lambda: machine.api.get(f"{CLAIMS}/{name}")["status"].get("phase") == "Bound", f"claim {name} is bound"
    )
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


@pytest.fixture(autouse=True)
def _no_volumes_left(machine: Machine) -> Iterator[None]:
    yield
    machine.delete_all()
    machine.eventually(machine.is_clean, "no pod is left")
    machine.api.clean_up()


@pytest.mark.seed("E2E-2", "E2E-4")
def test_what_one_pod_writes_the_next_one_reads(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    volumes = {"volumes": [bound(machine, "kept", folder)]}
    mounts = [{"name": "data", "mountPath": "/data"}]
    run_once(machine, "writer", "echo words > /data/file", volumes, volumeMounts=mounts)
    machine.delete("writer")
    assert run_once(machine, "reader", "cat /data/file", volumes, volumeMounts=mounts) == "words\n"
    assert (folder / "file").read_text() == "words\n"


def test_mount_that_is_read_only_and_part_of_a_volume(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file").write_text("there\n")
    mounts = [
        {"name": "data", "mountPath": "/all", "readOnly": True},
        {"name": "data", "mountPath": "/part", "subPath": "inner"},
        {"name": "data", "mountPath": "/own", "subPathExpr": "of-$(POD)"},
    ]
    text = run_once(
        machine,
        "parts",
        "touch /all/x; cat /part/file; touch /part/new /own/mine; ls /all",
        {"volumes": [bound(machine, "parts", folder)]},
        volumeMounts=mounts,
        env=[{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    )
    assert text == "touch: /all/x: Read-only file system\nthere\ninner\nof-parts\n"
    assert (folder / "inner" / "new").exists() and (folder / "of-parts" / "mine").exists()


@pytest.mark.seed("E2E-12", "RAW-7")
def test_raw_device_is_written_by_one_pod_and_read_by_the_next(machine: Machine, device: Path) -> None:
    volumes = {"volumes": [bound(machine, "raw", device, mode="Block")]}
    devices = [{"name": "data", "devicePath": "/dev/xvda"}]
    run_once(machine, "writes", "echo on the disk | dd of=/dev/xvda conv=fsync", volumes, volumeDevices=devices)
    machine.delete("writes")
    text = run_once(machine, "reads", "head -c 12 /dev/xvda", volumes, volumeDevices=devices)
    assert text == "on the disk\n"


@pytest.mark.seed("RAW-6")
def test_raw_device_that_is_read_only_cannot_be_written(machine: Machine, device: Path) -> None:
    volume = bound(machine, "fixed", device, mode="Block")
    volume["persistentVolumeClaim"]["readOnly"] = True
    text = run_once(
        machine,
        "readonly",
        "head -c 4 /dev/xvda | wc -c; dd if=/dev/zero of=/dev/xvda bs=1 count=1; true",
        {"volumes": [volume]},
        volumeDevices=[{"name": "data", "devicePath": "/dev/xvda"}],
    )
    assert text.splitlines()[0] == "4"
    assert "Operation not permitted" in text


@pytest.mark.seed("E2E-7")
def test_pod_waits_for_a_path_that_is_missing_and_goes_on_when_it_is_there(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "later"
    volumes = [bound(machine, "later", folder)]
    one = {"name": "main", "image": "busybox", "command": ["true"]}
    one["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]  # type: ignore[assignment]
    machine.create({"containers": [one], "volumes": volumes, "restartPolicy": "Never"}, "early")
    assert str(folder) in machine.until_event("early", "FailedMount")
    pod = machine.until_waiting("early", "ContainerCreating")
    assert pod["status"]["phase"] == "Pending" and main(pod)["restartCount"] == 0
    folder.mkdir()
    machine.until_phase("early", "Succeeded")


def test_config_maps_and_secrets_are_files(machine: Machine) -> None:
    machine.api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "files"}, "data": {"a": "A"}})
    text = run_once(
        machine,
        "files",
        "cat /config/a",
        {"volumes": [{"name": "config", "configMap": {"name": "files"}}]},
        volumeMounts=[{"name": "config", "mountPath": "/config"}],
    )
    assert text == "A"


def test_pod_goes_on_when_its_config_map_is_gone_also_for_an_engine_that_starts_anew(machine: Machine) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    machine.api.post(maps, {"metadata": {"name": "lent"}, "data": {"a": "A"}})
    script = "until test -e /own/end; do sleep 0.1; done; cat /config/a"
    one = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    volumes = [{"name": "config", "configMap": {"name": "lent"}}, {"name": "own", "emptyDir": {}}]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("config", "own")]
    spec = {"containers": [one | {"volumeMounts": mounts}], "volumes": volumes, "restartPolicy": "Never"}
    made = machine.create(spec, "reader")
    before = main(machine.until_ready("reader"))["containerID"]

    machine.api.delete(f"{maps}/lent")
    machine.kill()
    machine.start()

    assert "lent" in machine.until_event("reader", "FailedMount")
    pod = machine.until_ready("reader")
    assert (main(pod)["containerID"], main(pod)["restartCount"]) == (before, 0)
    (machine.inside(made, "own") / "end").touch()
    assert main(machine.until_phase("reader", "Succeeded"))["state"]["terminated"]["exitCode"] == 0
    assert machine.logs("reader") == "A"
