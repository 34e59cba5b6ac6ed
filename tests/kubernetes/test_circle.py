"""The circle on a real cluster: localpv as `localpv manifests` installs it, disks of nodes, claims and pods."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract import builders, wire
from tests.kubernetes import build, cluster, pods
from tests.kubernetes.node import Node

NAMESPACE = "circle"
SECONDS = 60.0
"""For steps that take a few seconds on an idle machine: a new directory alone settles for five."""

MIB = 1 << 20
DISK_BYTES = 16 * MIB
GATE = "/mnt/circle-killed/go-on"
WAITS_FOR_GATE = (
    f"until test -e {GATE}; do sleep 0.1; done;"
    f' exec dd if=/dev/zero of="$LOCAL_PV_BLKDEVICE" bs=1M count={DISK_BYTES // MIB} conv=fsync'
)

CLASSES: dict[str, dict[str, Any]] = {
    "circle-folder": {},
    "circle-mount": {},
    "circle-freed-folder": {},
    "circle-freed-mount": {},
    "circle-dd-zero": {"volumeMode": "Block", "blockCleanerCommand": ["dd-zero"]},
    "circle-fs-reset": {"volumeMode": "Block", "blockCleanerCommand": ["fs-reset"]},
    "circle-mixed": {"fsType": "ext4"},
    "circle-killed": {
        "volumeMode": "Block",
        "namePattern": "disk*",
        "blockCleanerCommand": ["/bin/sh", "-c", WAITS_FOR_GATE],
    },
}
"""One for each case, so that the claim of one cannot be given the disk of another."""


@pytest.fixture(scope="module")
def watcher(target: wire.Target) -> Iterator[wire.Api]:
    """A client that lives as long as the installation."""
    client = wire.Api(target, target.token)
    yield client
    client.close()


@pytest.fixture(scope="module", autouse=True)
def installed(running: cluster.Cluster, localpv_image: str, watcher: wire.Api) -> Iterator[None]:
    """Agents and two managers, as a user installs them."""
    classes = {name: {"hostDir": f"/mnt/{name}", **settings} for name, settings in CLASSES.items()}
    config = {"image": localpv_image, "imagePullPolicy": "Never", "namespace": NAMESPACE, "storageClassMap": classes}
    command = [sys.executable, "-m", "localpv", "manifests", "-f", "-"]
    objects = subprocess.run(command, input=json.dumps(config), capture_output=True, text=True, check=True).stdout
    _kubectl(running, "apply", "-f", "-", given=objects)
    try:
        wire.eventually(lambda: _all_run(running, watcher), "agents and managers are ready", within=SECONDS)
        yield
    finally:
        _kubectl(running, "delete", "--timeout=60s", "--ignore-not-found", "-f", "-", given=objects)
        for volume in watcher.get("/api/v1/persistentvolumes")["items"]:
            if volume["spec"].get("storageClassName") in CLASSES:
                watcher.delete(f"/api/v1/persistentvolumes/{volume['metadata']['name']}")
        for node in running.nodes:
            for name in CLASSES:
                node.run("umount", f"/mnt/{name}/disk", check=False)
                node.run("rm", "-rf", "--one-file-system", f"/mnt/{name}")


@pytest.mark.seed("E2E-5", "E2E-4", "DSC-3", "LIF-4")
@pytest.mark.parametrize(("name", "index"), [("circle-folder", 1), ("circle-mount", 0)], ids=["folder", "mount"])
def test_disk_that_came_later_is_offered_and_all_pods_of_its_claim_run_on_its_node(
    running: cluster.Cluster, here: pods.Here, name: str, index: int
) -> None:
    node = running.nodes[index]
    _add_directory(node, name)

    volume = _offered(here, name)
    claim = _claim(here, name)
    mounts = {"spec": pods.claimed(claim), "volumeMounts": [{"name": "disk", "mountPath": "/data"}]}
    writer, _ = here.run("sh", "-c", "echo kept >/data/file", **mounts)
    here.delete(writer["metadata"]["name"])
    reader, said = here.run("cat", "/data/file", **mounts)

    assert volume["spec"]["local"]["path"] == f"/mnt/{name}/disk"
    assert _disk(here, name)["spec"]["nodeName"] == node.name
    assert [writer["spec"]["nodeName"], reader["spec"]["nodeName"]] == [node.name, node.name]
    assert said == "kept\n"
    assert node.run("cat", f"/mnt/{name}/disk/file") == "kept\n"


@pytest.mark.seed("E2E-6", "DEL-1")
@pytest.mark.parametrize("name", ["circle-freed-folder", "circle-freed-mount"], ids=["folder", "mount"])
def test_volume_of_a_deleted_claim_is_emptied_and_offered_anew(
    running: cluster.Cluster, here: pods.Here, name: str
) -> None:
    node = running.nodes[0]
    _add_directory(node, name)
    old = _offered(here, name)
    claim = _claim(here, name)
    mounts = {"spec": pods.claimed(claim), "volumeMounts": [{"name": "disk", "mountPath": "/data"}]}
    pod, _ = here.run("sh", "-c", "mkdir /data/deep; echo secret >/data/deep/file", **mounts)
    assert node.run("cat", f"/mnt/{name}/disk/deep/file") == "secret\n"

    here.delete(pod["metadata"]["name"])
    here.api.delete(here.space.core("persistentvolumeclaims", claim))
    new = _offered(here, name, instead_of=old)

    assert new["spec"]["local"] == old["spec"]["local"]
    assert "claimRef" not in new["spec"]
    assert node.run("ls", "-A", f"/mnt/{name}/disk") == ""


@pytest.mark.seed("E2E-9", "E2E-10", "E2E-12")
@pytest.mark.parametrize("method", ["dd-zero", "fs-reset"])
def test_block_volume_keeps_its_data_between_pods_and_is_wiped_when_released(
    running: cluster.Cluster, here: pods.Here, method: str
) -> None:
    node, name = running.nodes[1], f"circle-{method}"
    with running.disk(DISK_BYTES) as device:
        node.run("ln", "-s", str(device), f"/mnt/{name}/disk")
        try:
            old = _offered(here, name)
            assert (old["spec"]["volumeMode"], old["spec"]["capacity"]) == ("Block", {"storage": "16Mi"})
            claim = _claim(here, name, volumeMode="Block")
            devices = {"spec": pods.claimed(claim), "volumeDevices": [{"name": "disk", "devicePath": "/dev/data"}]}
            # A file system is what a quick reset must not leave; the word is what an overwriting one must not.
            write = "mke2fs /dev/data >/dev/null && printf secret | dd of=/dev/data bs=1M seek=8 conv=fsync,notrunc"
            writer, _ = here.run("sh", "-c", write, **devices)
            here.delete(writer["metadata"]["name"])
            read = "dd if=/dev/data bs=1M skip=8 count=1 2>/dev/null | head -c 6"
            reader, said = here.run("sh", "-c", read, **devices)
            assert said == "secret"
            assert [writer["spec"]["nodeName"], reader["spec"]["nodeName"]] == [node.name, node.name]
            assert _has_file_system(device)

            here.delete(reader["metadata"]["name"])
            here.api.delete(here.space.core("persistentvolumeclaims", claim))
            _offered(here, name, instead_of=old)

            assert not _has_file_system(device)
            assert method != "dd-zero" or not any(_content(device))
        finally:
            node.run("rm", f"/mnt/{name}/disk")


@pytest.mark.seed("E2E-11")
def test_folder_and_device_in_one_place_are_both_file_systems_for_pods_and_each_is_cleaned_its_way(
    running: cluster.Cluster, here: pods.Here
) -> None:
    node, name = running.nodes[1], "circle-mixed"
    with running.disk(DISK_BYTES) as device:
        node.run("sh", "-c", f"mkdir /mnt/{name}/disk && ln -s {device} /mnt/{name}/device")
        try:
            old = [_offered(here, name, entry=entry) for entry in ("device", "disk")]
            assert [one["spec"].get("volumeMode") for one in old] == ["Filesystem", "Filesystem"]
            # Only the directory has a gigabyte, and the smallest volume that is large enough is taken.
            claims = [_claim(here, name, resources={"requests": {"storage": size}}) for size in ("8Mi", "1Gi")]
            both = {"volumes": [_volume(claim) for claim in claims]}
            mounts = [{"name": claim, "mountPath": path} for claim, path in zip(claims, ("/a", "/b"), strict=True)]
            write = "echo secret >/a/file; echo secret >/b/file; sync; grep -w /a /proc/mounts"
            pod, said = here.run("sh", "-c", write, spec=both, volumeMounts=mounts)
            assert said.split()[2] == "ext4"
            assert node.run("ls", f"/mnt/{name}/disk") == "file\n"

            here.delete(pod["metadata"]["name"])
            for claim in claims:
                here.api.delete(here.space.core("persistentvolumeclaims", claim))
            for entry, before in zip(("device", "disk"), old, strict=True):
                _offered(here, name, entry=entry, instead_of=before)

            assert not _has_file_system(device)
            assert node.run("ls", "-A", f"/mnt/{name}/disk") == ""
        finally:
            node.run("rm", f"/mnt/{name}/device")


@pytest.mark.seed("DEL-8")
def test_volume_comes_back_only_clean_when_its_agent_is_killed_while_it_cleans(
    running: cluster.Cluster, here: pods.Here
) -> None:
    node, name = running.nodes[0], "circle-killed"
    with running.disk(DISK_BYTES) as device:
        node.run("ln", "-s", str(device), f"/mnt/{name}/disk")
        try:
            old = _offered(here, name)
            claim = _claim(here, name, volumeMode="Block")
            devices = {"spec": pods.claimed(claim), "volumeDevices": [{"name": "disk", "devicePath": "/dev/data"}]}
            pod, _ = here.run("sh", "-c", "printf secret | dd of=/dev/data conv=fsync,notrunc", **devices)
            here.delete(pod["metadata"]["name"])
            here.api.delete(here.space.core("persistentvolumeclaims", claim))
            wire.eventually(lambda: _attempt(here, name) == 1, "the cleaning has begun", within=SECONDS)

            _kill_agent(here, node)
            wire.eventually(lambda: _attempt(here, name) == 2, "the cleaning has begun again", within=SECONDS)

            assert [one["metadata"]["uid"] for one in _volumes(here, name)] == [old["metadata"]["uid"]]
            assert _content(device).startswith(b"secret")
            node.run("touch", GATE)
            _offered(here, name, instead_of=old)
            assert not any(_content(device))
        finally:
            node.run("rm", "-f", GATE, f"/mnt/{name}/disk")


# -- doing -------------------------------------------------------------------------------------------------------------


def _kubectl(running: cluster.Cluster, *arguments: str, given: str) -> None:
    command = [str(build.cache() / "kubectl"), "--kubeconfig", str(running.kubeconfig), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"


def _add_directory(node: Node, name: str) -> None:
    """A disk for the class: a plain directory, or one with a file system of its own."""
    path = f"/mnt/{name}/disk"
    if name.endswith("mount"):
        # One command: a directory is offered as a plain one when nothing is mounted on it for a few seconds.
        node.run("sh", "-c", f"mkdir {path} && mount -t tmpfs -o size=32m tmpfs {path}")
    else:
        node.run("mkdir", path)


def _claim(here: pods.Here, name: str, **spec: Any) -> str:
    wanted = {"storageClassName": name, "resources": {"requests": {"storage": "16Mi"}}, **spec}
    made = here.api.post(here.space.core("persistentvolumeclaims"), builders.claim(builders.unique("claim"), **wanted))
    return str(made["metadata"]["name"])


def _volume(claim: str) -> dict[str, Any]:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


def _kill_agent(here: pods.Here, node: Node) -> None:
    """Kill the agent's process as the kernel does when memory runs out: nothing can be tidied up."""
    agent = next(pod for pod in _pods(here.api, "agent") if pod["spec"]["nodeName"] == node.name)
    container = agent["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    node.run("ctr", "--address", str(node.socket), "--namespace", "k8s.io", "tasks", "kill", "-s", "KILL", container)


# -- looking -----------------------------------------------------------------------------------------------------------


def _all_run(running: cluster.Cluster, api: wire.Api) -> bool:
    agents, managers = _pods(api, "agent"), _pods(api, "manager")
    up = [one for one in (*agents, *managers) if _is_ready(one)]
    return len(agents) == len(running.nodes) and len(managers) == 2 and len(up) == len(agents) + len(managers)


def _is_ready(pod: Any) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))


def _pods(api: wire.Api, component: str) -> list[Any]:
    found = api.get(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"app.kubernetes.io/component={component}")[
        "items"
    ]
    return list(found)


def _volumes(here: pods.Here, name: str) -> list[Any]:
    found = here.api.get("/api/v1/persistentvolumes")["items"]
    return [one for one in found if one["spec"].get("storageClassName") == name]


def _offered(here: pods.Here, name: str, *, entry: str = "disk", instead_of: Any = None) -> Any:
    """The volume of an entry once it is there to be claimed, and another than before."""
    before = instead_of and instead_of["metadata"]["uid"]

    def look() -> Any:
        for volume in _volumes(here, name):
            there = volume["spec"]["local"]["path"] == f"/mnt/{name}/{entry}"
            if there and volume["status"].get("phase") == "Available" and volume["metadata"]["uid"] != before:
                return volume
        return None

    try:
        return wire.eventually(look, f"the volume of /mnt/{name}/{entry} is available", within=SECONDS)
    except AssertionError as error:
        disks = [one for one in _disks(here) if one["spec"]["storageClassName"] == name]
        raise AssertionError(f"{error}\n{json.dumps([*disks, *_volumes(here, name)], indent=1)}") from None


def _disks(here: pods.Here) -> list[Any]:
    return list(here.api.get("/apis/localpv.dev/v1alpha1/localdisks")["items"])


def _disk(here: pods.Here, name: str) -> Any:
    return next(one for one in _disks(here) if one["spec"]["storageClassName"] == name)


def _attempt(here: pods.Here, name: str) -> int:
    """Which attempt of the cleaning runs; 0 when none does."""
    cleaning = _disk(here, name).get("status", {}).get("cleaning") or {}
    return int(cleaning["attempt"]) if cleaning.get("state") == "Running" else 0


def _content(device: Path) -> bytes:
    with device.open("rb") as file:
        return file.read()


def _has_file_system(device: Path) -> bool:
    return subprocess.run(["blkid", "-p", str(device)], capture_output=True, check=False).returncode == 0
