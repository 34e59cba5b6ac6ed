"""The circle: disks that localpv finds, offers, wipes and offers again, with claims and pods on them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.contract import builders, wire
from tests.e2e import classes, pods
from tests.e2e.place import Host, Place

SECONDS = 60.0
"""For steps that take a few seconds on an idle machine: a new directory alone settles for five."""

MIB = 1 << 20
DISK_BYTES = 16 * MIB
FILES = [{"name": "disk", "mountPath": "/data"}]
DEVICE = [{"name": "disk", "devicePath": "/dev/data"}]


@pytest.mark.seed("E2E-5", "E2E-4", "DSC-3", "LIF-4")
@pytest.mark.parametrize("name", ["e2e-folder", "e2e-mount"])
def test_disk_that_came_later_is_offered_and_all_pods_of_its_claim_run_on_its_node(
    place: Place, here: pods.Here, name: str
) -> None:
    host = place.hosts[-1]
    path = _add_directory(place, host, name)

    volume = _offered(place, here, name)
    claim = _claim(here, name)
    mounts = {"spec": pods.claimed(claim), "volumeMounts": FILES}
    writer, _ = here.run("sh", "-c", "echo kept >/data/file", **mounts)
    here.delete(writer["metadata"]["name"])
    reader, said = here.run("cat", "/data/file", **mounts)

    assert volume["spec"]["local"]["path"] == path
    assert _disk(here, name)["spec"]["nodeName"] == host.name
    assert [writer["spec"]["nodeName"], reader["spec"]["nodeName"]] == [host.name, host.name]
    assert said == "kept\n"
    assert host.run("cat", f"{path}/file") == "kept\n"


@pytest.mark.seed("E2E-6", "DEL-1", "LVD-3")
@pytest.mark.parametrize("name", ["e2e-freed-folder", "e2e-freed-mount"])
def test_volume_of_a_deleted_claim_is_emptied_and_offered_anew(place: Place, here: pods.Here, name: str) -> None:
    host = place.hosts[0]
    path = _add_directory(place, host, name)
    old = _offered(place, here, name)
    claim = _claim(here, name)
    script = "mkdir /data/deep; echo secret >/data/deep/file"
    pod, _ = here.run("sh", "-c", script, spec=pods.claimed(claim), volumeMounts=FILES)
    here.delete(pod["metadata"]["name"])
    assert host.run("cat", f"{path}/deep/file") == "secret\n"

    here.api.delete(here.space.core("persistentvolumeclaims", claim))
    new = _offered(place, here, name, instead_of=old)

    assert new["spec"]["local"] == old["spec"]["local"]
    assert "claimRef" not in new["spec"]
    assert host.run("ls", "-A", path) == ""


@pytest.mark.seed("E2E-9", "E2E-10", "E2E-12", "RAW-3")
@pytest.mark.parametrize("method", classes.METHODS)
def test_block_volume_keeps_its_data_between_pods_and_is_wiped_when_released(
    place: Place, here: pods.Here, method: str
) -> None:
    host, name = place.hosts[-1], f"e2e-{method}"
    link = f"{place.folder}/{name}/disk"
    with place.disk(DISK_BYTES) as device:
        host.run("ln", "-s", str(device), link)
        try:
            old = _offered(place, here, name)
            assert (old["spec"]["volumeMode"], old["spec"]["capacity"]) == ("Block", {"storage": "16Mi"})
            claim = _claim(here, name, volumeMode="Block")
            devices = {"spec": pods.claimed(claim), "volumeDevices": DEVICE}
            # A file system is what a quick reset must not leave; the word is what an overwriting one must not.
            write = "mke2fs /dev/data >/dev/null && printf secret | dd of=/dev/data bs=1M seek=8 conv=fsync,notrunc"
            writer, _ = here.run("sh", "-c", write, **devices)
            here.delete(writer["metadata"]["name"])
            read = "dd if=/dev/data bs=1M skip=8 count=1 2>/dev/null | head -c 6"
            reader, said = here.run("sh", "-c", read, **devices)
            assert said == "secret"
            assert [writer["spec"]["nodeName"], reader["spec"]["nodeName"]] == [host.name, host.name]
            assert _has_file_system(device)

            here.delete(reader["metadata"]["name"])
            here.api.delete(here.space.core("persistentvolumeclaims", claim))
            _offered(place, here, name, instead_of=old)

            assert not _has_file_system(device)
            assert method == "fs-reset" or not any(_content(device))
        finally:
            host.run("rm", link)


@pytest.mark.seed("E2E-11")
def test_folder_and_device_in_one_place_are_both_file_systems_for_pods_and_each_is_cleaned_its_way(
    place: Place, here: pods.Here
) -> None:
    host, name = place.hosts[-1], "e2e-mixed"
    folder = f"{place.folder}/{name}"
    with place.disk(DISK_BYTES) as device:
        host.run("sh", "-c", f"mkdir {folder}/disk && ln -s {device} {folder}/device")
        try:
            old = [_offered(place, here, name, entry=entry) for entry in ("device", "disk")]
            assert [one["spec"].get("volumeMode") for one in old] == ["Filesystem", "Filesystem"]
            # Only the directory has a gigabyte, and the smallest volume that is large enough is taken.
            claims = [_claim(here, name, resources={"requests": {"storage": size}}) for size in ("8Mi", "1Gi")]
            both = {"volumes": [_volume(claim) for claim in claims]}
            mounts = [{"name": claim, "mountPath": path} for claim, path in zip(claims, ("/a", "/b"), strict=True)]
            write = "echo secret >/a/file; echo secret >/b/file; sync; grep -w /a /proc/mounts"
            pod, said = here.run("sh", "-c", write, spec=both, volumeMounts=mounts)
            assert said.split()[2] == "ext4"
            assert host.run("ls", f"{folder}/disk") == "file\n"

            here.delete(pod["metadata"]["name"])
            for claim in claims:
                here.api.delete(here.space.core("persistentvolumeclaims", claim))
            for entry, before in zip(("device", "disk"), old, strict=True):
                _offered(place, here, name, entry=entry, instead_of=before)

            assert not _has_file_system(device)
            assert host.run("ls", "-A", f"{folder}/disk") == ""
            # The next tenant gets a new file system on the device, with nothing of the last in it.
            claim = _claim(here, name, resources={"requests": {"storage": "8Mi"}})
            pod, said = here.run("ls", "-A", "/data", spec=pods.claimed(claim), volumeMounts=FILES)
            assert said == "lost+found\n"
            here.delete(pod["metadata"]["name"])
        finally:
            host.run("rm", f"{folder}/device")


@pytest.mark.seed("DEL-8")
def test_volume_comes_back_only_clean_when_localpv_is_killed_while_it_cleans(place: Place, here: pods.Here) -> None:
    host, name = place.hosts[0], classes.KILLED
    link, gate = f"{place.folder}/{name}/disk", classes.gate(place.folder)
    with place.disk(DISK_BYTES) as device:
        host.run("ln", "-s", str(device), link)
        try:
            old = _offered(place, here, name)
            claim = _claim(here, name, volumeMode="Block")
            devices = {"spec": pods.claimed(claim), "volumeDevices": DEVICE}
            # Not at its beginning, where a cleaning that runs a command puts a mark of its own first.
            write = "printf secret | dd of=/dev/data bs=1M seek=8 conv=fsync,notrunc"
            pod, _ = here.run("sh", "-c", write, **devices)
            here.delete(pod["metadata"]["name"])
            here.api.delete(here.space.core("persistentvolumeclaims", claim))
            wire.eventually(lambda: _attempt(here, name) == 1, "the cleaning has begun", within=SECONDS)

            place.kill_localpv(host)
            wire.eventually(lambda: _attempt(here, name) == 2, "the cleaning has begun again", within=SECONDS)

            assert [one["metadata"]["uid"] for one in _volumes(here, name)] == [old["metadata"]["uid"]]
            assert _content(device)[8 * MIB :].startswith(b"secret")
            host.run("touch", gate)
            _offered(place, here, name, instead_of=old)
            assert not any(_content(device))
        finally:
            host.run("rm", "-f", gate, link)


# -- doing -------------------------------------------------------------------------------------------------------------


def _add_directory(place: Place, host: Host, name: str) -> str:
    """A disk for the class: a plain directory, or one with a file system of its own."""
    path = f"{place.folder}/{name}/disk"
    if name.endswith("mount"):
        # One command: a directory is offered as a plain one when nothing is mounted on it for a few seconds.
        host.run("sh", "-c", f"mkdir {path} && mount -t tmpfs -o size=32m tmpfs {path}")
    else:
        host.run("mkdir", path)
    return path


def _claim(here: pods.Here, name: str, **spec: Any) -> str:
    wanted = {"storageClassName": name, "resources": {"requests": {"storage": "16Mi"}}, **spec}
    made = here.api.post(here.space.core("persistentvolumeclaims"), builders.claim(builders.unique("claim"), **wanted))
    return str(made["metadata"]["name"])


def _volume(claim: str) -> dict[str, Any]:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


# -- looking -----------------------------------------------------------------------------------------------------------


def _volumes(here: pods.Here, name: str) -> list[Any]:
    found = here.api.get("/api/v1/persistentvolumes")["items"]
    return [one for one in found if one["spec"].get("storageClassName") == name]


def _offered(place: Place, here: pods.Here, name: str, *, entry: str = "disk", instead_of: Any = None) -> Any:
    """The volume of an entry once it is there to be claimed, and another than before."""
    path = f"{place.folder}/{name}/{entry}"
    before = instead_of and instead_of["metadata"]["uid"]

    def look() -> Any:
        for volume in _volumes(here, name):
            there = volume["spec"]["local"]["path"] == path
            if there and volume["status"].get("phase") == "Available" and volume["metadata"]["uid"] != before:
                return volume
        return None

    try:
        return wire.eventually(look, f"the volume of {path} is available", within=SECONDS)
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
