"""The circle: disks that localpv finds, offers, wipes and offers again, with claims and pods on them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import wire
from tests.e2e import classes, disks, pods
from tests.e2e.place import Place

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
    path = disks.add_directory(place, host, name)

    volume = disks.offered(place, here, name)
    claim = disks.claim(here, name)
    mounts = {"spec": pods.claimed(claim), "volumeMounts": FILES}
    writer, _ = here.run("sh", "-c", "echo kept >/data/file", **mounts)
    here.delete(writer["metadata"]["name"])
    reader, said = here.run("cat", "/data/file", **mounts)

    assert volume["spec"]["local"]["path"] == path
    assert disks.of_class(here, name)["spec"]["nodeName"] == host.name
    assert [writer["spec"]["nodeName"], reader["spec"]["nodeName"]] == [host.name, host.name]
    assert said == "kept\n"
    assert host.run("cat", f"{path}/file") == "kept\n"


@pytest.mark.seed("E2E-6", "DEL-1", "CLN-8", "LVD-3")
@pytest.mark.parametrize("name", ["e2e-freed-folder", "e2e-freed-mount"])
def test_volume_of_a_deleted_claim_is_emptied_and_offered_anew(place: Place, here: pods.Here, name: str) -> None:
    host = place.hosts[0]
    path = disks.add_directory(place, host, name)
    old = disks.offered(place, here, name)
    claim = disks.claim(here, name)
    script = "mkdir /data/deep; echo secret >/data/deep/file"
    pod, _ = here.run("sh", "-c", script, spec=pods.claimed(claim), volumeMounts=FILES)
    here.delete(pod["metadata"]["name"])
    assert host.run("cat", f"{path}/deep/file") == "secret\n"

    here.api.delete(here.space.core("persistentvolumeclaims", claim))
    new = disks.offered(place, here, name, instead_of=old)

    assert new["spec"]["local"] == old["spec"]["local"]
    assert "claimRef" not in new["spec"]
    assert host.run("ls", "-A", path) == ""


@pytest.mark.seed("E2E-9", "E2E-10", "E2E-12", "DSC-12", "RAW-3")
@pytest.mark.parametrize(
    "method",
    [
        pytest.param("dd-zero", marks=pytest.mark.seed("CLN-1")),
        pytest.param("blkdiscard", marks=pytest.mark.seed("CLN-2")),
        pytest.param("fs-reset", marks=pytest.mark.seed("CLN-3")),
        pytest.param("shred", marks=pytest.mark.seed("CLN-4")),
    ],
)
def test_block_volume_keeps_its_data_between_pods_and_is_wiped_when_released(
    place: Place, here: pods.Here, method: str
) -> None:
    host, name = place.hosts[-1], f"e2e-{method}"
    link = f"{place.folder}/{name}/disk"
    with place.disk(DISK_BYTES) as device:
        host.run("ln", "-s", str(device), link)
        try:
            old = disks.offered(place, here, name)
            assert (old["spec"]["volumeMode"], old["spec"]["capacity"]) == ("Block", {"storage": "16Mi"})
            claim = disks.claim(here, name, volumeMode="Block")
            devices = {"spec": pods.claimed(claim), "volumeDevices": DEVICE}
            # A file system is what a quick reset must not leave; the word is what an overwriting one must not.
            write = "mke2fs /dev/data >/dev/null && printf secret | dd of=/dev/data bs=1M seek=8 conv=fsync,notrunc"
            writer, _ = here.run("sh", "-c", write, **devices)
            here.delete(writer["metadata"]["name"])
            read = "dd if=/dev/data bs=1M skip=8 count=1 2>/dev/null | head -c 6"
            reader, said = here.run("sh", "-c", read, **devices)
            assert said == "secret"
            assert [writer["spec"]["nodeName"], reader["spec"]["nodeName"]] == [host.name, host.name]
            assert disks.has_file_system(device)

            here.delete(reader["metadata"]["name"])
            here.api.delete(here.space.core("persistentvolumeclaims", claim))
            disks.offered(place, here, name, instead_of=old)

            assert not disks.has_file_system(device)
            assert method == "fs-reset" or not any(disks.content(device))
        finally:
            host.run("rm", link)


@pytest.mark.seed("E2E-10")
def test_device_of_a_class_that_wants_jobs_is_wiped_by_one_where_there_is_a_manager(
    place: Place, here: pods.Here
) -> None:
    host, name = place.hosts[-1], "e2e-in-job"
    link = f"{place.folder}/{name}/disk"
    with place.disk(DISK_BYTES) as device:
        host.run("ln", "-s", str(device), link)
        try:
            old = disks.offered(place, here, name)
            claim = disks.claim(here, name, volumeMode="Block")
            write = "printf secret | dd of=/dev/data bs=1M seek=8 conv=fsync,notrunc"
            pod, _ = here.run("sh", "-c", write, spec=pods.claimed(claim), volumeDevices=DEVICE)
            here.delete(pod["metadata"]["name"])
            with here.api.watch("/apis/batch/v1/jobs") as jobs:
                here.api.delete(here.space.core("persistentvolumeclaims", claim))
                if place.cleans_in_jobs:
                    events = [jobs.next() for _ in range(2)]
            disks.offered(place, here, name, instead_of=old)

            assert not any(disks.content(device))
            if place.cleans_in_jobs:
                assert events[0].type == "ADDED"
                assert {event.name for event in events} == {f"cleanup-{old['metadata']['name']}"}
                spec = events[0].object["spec"]["template"]["spec"]
                assert spec["nodeName"] == host.name
                path = f"/apis/batch/v1/namespaces/{events[0].object['metadata']['namespace']}/jobs/{events[0].name}"
                wire.eventually(lambda: here.api.gone(path), "the job is gone", within=disks.SECONDS)
        finally:
            host.run("rm", link)


@pytest.mark.seed("E2E-11")
def test_folder_and_device_in_one_place_are_a_file_system_and_a_raw_device_and_each_is_cleaned_its_way(
    place: Place, here: pods.Here
) -> None:
    host, name = place.hosts[-1], "e2e-mixed"
    folder = f"{place.folder}/{name}"
    with disks.linked(place, host, name, entry="device") as device:
        host.run("mkdir", f"{folder}/disk")
        old = {entry: disks.offered(place, here, name, entry=entry) for entry in ("device", "disk")}
        assert {entry: one["spec"]["volumeMode"] for entry, one in old.items()} == {
            "device": "Block",
            "disk": "Filesystem",
        }
        raw, files = disks.claim(here, name, volumeMode="Block"), disks.claim(here, name)
        write = (
            "printf secret | dd of=/dev/data bs=1M seek=8 conv=fsync,notrunc 2>/dev/null; echo secret >/data/file; sync"
        )
        pod, _ = here.run(
            *("sh", "-c", write),
            spec={"volumes": [_volume(raw), _volume(files)]},
            volumeDevices=[{"name": raw, "devicePath": "/dev/data"}],
            volumeMounts=[{"name": files, "mountPath": "/data"}],
        )
        assert disks.content(device)[8 * MIB :].startswith(b"secret")
        assert host.run("ls", f"{folder}/disk") == "file\n"

        here.delete(pod["metadata"]["name"])
        for claim in (raw, files):
            disks.give_back(here, claim)
        new = {entry: disks.offered(place, here, name, entry=entry, instead_of=before) for entry, before in old.items()}

        assert {entry: one["spec"]["volumeMode"] for entry, one in new.items()} == {
            "device": "Block",
            "disk": "Filesystem",
        }
        assert not any(disks.content(device))
        assert host.run("ls", "-A", f"{folder}/disk") == ""


@pytest.mark.seed("PLG-12")
def test_folder_and_device_in_one_place_are_both_file_systems_for_pods_and_each_is_cleaned_its_way(
    place: Place, here: pods.Here
) -> None:
    host, name = place.hosts[-1], "e2e-formatted"
    folder = f"{place.folder}/{name}"
    with place.disk(DISK_BYTES) as device:
        host.run("sh", "-c", f"mkdir {folder}/disk && ln -s {device} {folder}/device")
        try:
            old = [disks.offered(place, here, name, entry=entry) for entry in ("device", "disk")]
            assert [one["spec"].get("volumeMode") for one in old] == ["Filesystem", "Filesystem"]
            # Only the directory has a gigabyte, and the smallest volume that is large enough is taken.
            claims = [disks.claim(here, name, resources={"requests": {"storage": size}}) for size in ("8Mi", "1Gi")]
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
                disks.offered(place, here, name, entry=entry, instead_of=before)

            assert not disks.has_file_system(device)
            assert host.run("ls", "-A", f"{folder}/disk") == ""
            # The next tenant gets a new file system on the device, with nothing of the last in it.
            claim = disks.claim(here, name, resources={"requests": {"storage": "8Mi"}})
            pod, said = here.run("ls", "-A", "/data", spec=pods.claimed(claim), volumeMounts=FILES)
            assert said == "lost+found\n"
            here.delete(pod["metadata"]["name"])
            # A loop device has nothing but its number, and the next test may get the same: leave no volume on it.
            before = next(
                one for one in disks.volumes(here, name) if one["spec"]["local"]["path"] == f"{folder}/device"
            )
            disks.give_back(here, claim)
            disks.offered(place, here, name, entry="device", instead_of=before)
        finally:
            host.run("rm", f"{folder}/device")


@pytest.mark.seed("DEL-6", "DEL-7", "DEL-8")
def test_volume_comes_back_only_clean_when_localpv_is_killed_while_it_cleans(place: Place, here: pods.Here) -> None:
    host, name = place.hosts[0], classes.KILLED
    link, gate = f"{place.folder}/{name}/disk", classes.gate(place.folder)
    with place.disk(DISK_BYTES) as device:
        host.run("ln", "-s", str(device), link)
        try:
            old = disks.offered(place, here, name)
            claim = disks.claim(here, name, volumeMode="Block")
            devices = {"spec": pods.claimed(claim), "volumeDevices": DEVICE}
            # Not at its beginning, where a cleaning that runs a command puts a mark of its own first.
            write = "printf secret | dd of=/dev/data bs=1M seek=8 conv=fsync,notrunc"
            pod, _ = here.run("sh", "-c", write, **devices)
            here.delete(pod["metadata"]["name"])
            here.api.delete(here.space.core("persistentvolumeclaims", claim))
            started = classes.starts(place.folder, name)
            wire.eventually(lambda: "started" in host.run("cat", started, check=False), "it runs", within=disks.SECONDS)
            # Not always the first: one is refused while somebody else looks at the device.
            first = disks.attempt(here, name)
            assert first

            place.kill_localpv(host)
            wire.eventually(
                lambda: disks.attempt(here, name) > first, "the cleaning has begun again", within=disks.SECONDS
            )

            assert [one["metadata"]["uid"] for one in disks.volumes(here, name)] == [old["metadata"]["uid"]]
            assert disks.content(device)[8 * MIB :].startswith(b"secret")
            host.run("touch", gate)
            disks.offered(place, here, name, instead_of=old)
            assert not any(disks.content(device))
            # None met another.
            assert set(host.run("cat", started).split()) == {"started"}
        finally:
            host.run("rm", "-f", gate, link)


def _volume(claim: str) -> dict[str, Any]:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}
