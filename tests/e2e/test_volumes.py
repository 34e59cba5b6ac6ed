"""Pods on local volumes that an administrator made by hand: a directory, a mount point, a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.contract import builders, wire
from tests.e2e import pods
from tests.e2e.place import Host, Place

FILES = [{"name": "disk", "mountPath": "/data"}]
DEVICE = [{"name": "disk", "devicePath": "/dev/data"}]
READ_RAW = "dd if=/dev/data bs=512 skip=8 count=1 2>/dev/null | head -c 4"
WRITE_RAW = "printf kept | dd of=/dev/data bs=512 seek=8 conv=fsync,notrunc"


@dataclass(frozen=True, slots=True)
class Disk:
    host: Host
    path: str


@pytest.fixture(params=["directory", "mount"])
def disk(request: pytest.FixtureRequest, place: Place) -> Iterator[Disk]:
    """A directory for a volume, on the last node: the first is where a careless scheduler would put its pods."""
    host, path = place.hosts[-1], f"{place.folder}/{builders.unique('disk')}"
    host.run("mkdir", path)
    if request.param == "mount":
        host.run("mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", path)
    yield Disk(host, path)
    if request.param == "mount":
        host.run("umount", path)
    host.run("rm", "-rf", "--one-file-system", path)


@pytest.fixture
def device(place: Place) -> Iterator[Path]:
    """A block device that is visible in all nodes."""
    with place.disk() as made:
        yield made


@pytest.mark.seed("E2E-1", "E2E-2", "E2E-4", "SCH-3", "LVD-3")
def test_pod_runs_where_its_volume_is_and_the_next_pod_finds_what_it_wrote(here: pods.Here, disk: Disk) -> None:
    claim = here.volume_on(disk.host.name, disk.path)
    mounts = {"spec": pods.claimed(claim), "volumeMounts": FILES}

    writer, _ = here.run("sh", "-c", "echo kept >/data/file", **mounts)
    here.delete(writer["metadata"]["name"])
    reader, said = here.run("cat", "/data/file", **mounts)

    assert [writer["spec"]["nodeName"], reader["spec"]["nodeName"]] == [disk.host.name, disk.host.name]
    assert said == "kept\n"
    assert disk.host.run("cat", f"{disk.path}/file") == "kept\n"
    here.delete(reader["metadata"]["name"])
    assert disk.host.run("cat", f"{disk.path}/file") == "kept\n"


@pytest.mark.seed("PLG-7")
def test_volume_that_a_pod_asks_for_read_only_is_read_and_cannot_be_written(here: pods.Here, disk: Disk) -> None:
    disk.host.run("sh", "-c", f"echo kept >{disk.path}/file")
    claim = here.volume_on(disk.host.name, disk.path)
    spec = pods.claimed(claim)
    spec["volumes"][0]["persistentVolumeClaim"]["readOnly"] = True
    script = "cat /data/file; if echo lost >/data/file; then echo written; else echo refused; fi 2>/dev/null"

    pod, said = here.run("sh", "-c", script, spec=spec, volumeMounts=FILES)

    assert said == "kept\nrefused\n"
    assert disk.host.run("cat", f"{disk.path}/file") == "kept\n"
    here.delete(pod["metadata"]["name"])


@pytest.mark.seed("E2E-3")
def test_two_pods_at_once_read_and_write_the_same_volume(here: pods.Here, disk: Disk) -> None:
    claim = here.volume_on(disk.host.name, disk.path)
    mounts = {"spec": pods.claimed(claim), "volumeMounts": FILES}
    script = "echo $0 >/data/$0; until test -e /data/$1; do sleep 0.1; done; cat /data/$1"

    names = [here.start("sh", "-c", script, *words, **mounts) for words in (("a", "b"), ("b", "a"))]
    ended = [here.wait(name, "Succeeded", "Failed") for name in names]

    assert [pod["status"]["phase"] for pod in ended] == ["Succeeded", "Succeeded"]
    assert [here.log(name) for name in names] == ["b\n", "a\n"]
    for name in names:
        here.delete(name)


def test_volume_for_one_pod_is_given_to_a_second_one_only_when_the_first_is_gone(here: pods.Here, disk: Disk) -> None:
    claim = here.volume_on(disk.host.name, disk.path, access="ReadWriteOncePod")
    mounts = {"volumeMounts": FILES}
    first = here.start("sleep", "3600", spec=pods.claimed(claim), **mounts)
    here.wait(first, "Running")

    # Whoever names the node himself goes past the scheduler, so the node must see to it as well.
    second = here.start("true", spec={**pods.claimed(claim), "nodeName": disk.host.name}, **mounts)
    here.until_told(second, "FailedMount", "ReadWriteOncePod")

    assert here.get(second)["status"]["phase"] == "Pending"
    here.delete(first)
    here.wait(second, "Succeeded")
    here.delete(second)


@pytest.mark.seed("E2E-7")
def test_pod_whose_path_does_not_exist_waits_with_the_reason_and_runs_once_it_does(
    here: pods.Here, place: Place
) -> None:
    host, path = place.hosts[0], f"{place.folder}/{builders.unique('missing')}"
    claim = here.volume_on(host.name, path)
    name = here.start("true", spec=pods.claimed(claim), volumeMounts=FILES)

    here.until_told(name, "FailedMount", path)

    assert here.get(name)["status"]["phase"] == "Pending"
    host.run("mkdir", path)
    here.wait(name, "Succeeded")
    here.delete(name)
    host.run("rmdir", path)


@pytest.mark.seed("E2E-8")
def test_pod_with_the_name_of_a_node_that_cannot_serve_its_volume_never_runs(here: pods.Here, disk: Disk) -> None:
    claim = here.volume_on("elsewhere", disk.path, immediate=True)
    wire.eventually(
        lambda: here.claim(claim)["status"].get("phase") == "Bound", "the claim is bound", within=pods.POD_SECONDS
    )

    name = here.start("true", spec={**pods.claimed(claim), "nodeName": disk.host.name}, volumeMounts=FILES)

    def refused() -> bool:
        status = here.get(name)["status"]
        told = [event["message"] for event in here.events(name, "FailedMount")]
        # Something else may be told first: see until_told.
        return any("affinity" in why.lower() for why in [*told, status.get("message", "")])

    wire.eventually(refused, "the pod is refused for the affinity of its volume", within=pods.POD_SECONDS)
    assert here.get(name)["status"]["phase"] in ("Failed", "Pending")
    assert not here.get(name)["status"].get("containerStatuses", [{}])[0].get("state", {}).get("running")
    here.delete(name)


@pytest.mark.seed("AFF-5", "SCH-3")
def test_pod_whose_volume_is_on_no_node_stays_pending_and_says_why(here: pods.Here, disk: Disk) -> None:
    claim = here.volume_on("elsewhere", disk.path)

    name = here.start("true", spec=pods.claimed(claim), volumeMounts=FILES)
    here.until_told(name, "FailedScheduling", "nodes are available")

    assert here.get(name)["status"]["phase"] == "Pending"
    here.delete(name)


@pytest.mark.seed("E2E-12", "RAW-2", "RAW-3")
def test_what_one_pod_writes_to_a_raw_device_the_next_one_reads(here: pods.Here, place: Place, device: Path) -> None:
    host = place.hosts[-1]
    claim = here.volume_on(host.name, str(device), mode="Block")
    devices = {"spec": pods.claimed(claim), "volumeDevices": DEVICE}

    writer, _ = here.run("sh", "-c", WRITE_RAW, **devices)
    here.delete(writer["metadata"]["name"])
    reader, said = here.run("sh", "-c", READ_RAW, **devices)

    assert [writer["spec"]["nodeName"], reader["spec"]["nodeName"]] == [host.name, host.name]
    assert said == "kept"
    with device.open("rb") as content:
        assert content.read(4100)[4096:] == b"kept"
    here.delete(reader["metadata"]["name"])


@pytest.mark.seed("RAW-6", "RAW-7")
def test_raw_device_that_a_pod_asks_for_read_only_cannot_be_written(
    here: pods.Here, place: Place, device: Path
) -> None:
    with device.open("r+b") as content:
        content.seek(4096)
        content.write(b"kept")
    claim = here.volume_on(place.hosts[-1].name, str(device), mode="Block")
    spec = pods.claimed(claim)
    spec["volumes"][0]["persistentVolumeClaim"]["readOnly"] = True
    script = f"{READ_RAW}; if {WRITE_RAW.replace('kept', 'lost')} 2>/dev/null; then echo written; else echo refused; fi"

    pod, said = here.run("sh", "-c", script, spec=spec, volumeDevices=DEVICE)

    assert said == "keptrefused\n"
    with device.open("rb") as content:
        assert content.read(4100)[4096:] == b"kept"
    here.delete(pod["metadata"]["name"])


@pytest.mark.seed("RAW-5")
def test_one_pod_has_a_raw_device_in_one_container_and_a_file_system_in_the_other(
    here: pods.Here, place: Place, device: Path, disk: Disk
) -> None:
    raw = here.volume_on(disk.host.name, str(device), mode="Block")
    files = here.volume_on(disk.host.name, disk.path)
    volumes = [
        {"name": "raw", "persistentVolumeClaim": {"claimName": raw}},
        {"name": "files", "persistentVolumeClaim": {"claimName": files}},
    ]
    database = here.container("database", "sh", "-c", WRITE_RAW, volumeDevices=[{"name": "raw", **_at("/dev/data")}])
    web = here.container(
        "web", "sh", "-c", "echo page >/www/index", volumeMounts=[{"name": "files", "mountPath": "/www"}]
    )

    name = here.create({"containers": [database, web], "volumes": volumes})
    pod = here.wait(name, "Succeeded", "Failed")

    assert pod["status"]["phase"] == "Succeeded", pod["status"]
    assert disk.host.run("cat", f"{disk.path}/index") == "page\n"
    with device.open("rb") as content:
        assert content.read(4100)[4096:] == b"kept"
    here.delete(name)


@pytest.mark.seed("PLG-12", "PLG-11")
def test_blank_device_gets_its_file_system_once_and_pods_without_root_can_write(
    here: pods.Here, place: Place, device: Path
) -> None:
    claim = here.volume_on(place.hosts[-1].name, str(device), fs_type="ext4")
    spec = {
        **pods.claimed(claim),
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000, "runAsNonRoot": True},
    }
    mounts = {"spec": spec, "volumeMounts": FILES}

    writer, said = here.run("sh", "-c", "id -u; echo kept >/data/file; stat -c %g /data/file; sync", **mounts)
    here.delete(writer["metadata"]["name"])
    reader, again = here.run("sh", "-c", "cat /data/file; grep -w /data /proc/mounts", **mounts)

    assert said.split() == ["1000", "2000"]
    assert again.split()[0] == "kept"
    assert " ext4 " in again
    here.delete(reader["metadata"]["name"])


def test_device_with_another_file_system_than_announced_is_not_formatted(
    here: pods.Here, place: Place, device: Path
) -> None:
    host = place.hosts[-1]
    host.run("mkfs.ext4", "-q", str(device))
    before = _signature(host, device)
    claim = here.volume_on(host.name, str(device), fs_type="xfs")

    name = here.start("true", spec=pods.claimed(claim), volumeMounts=FILES)
    here.until_told(name, "FailedMount", str(device))

    assert here.get(name)["status"]["phase"] == "Pending"
    assert _signature(host, device) == before
    here.delete(name)


def _signature(host: Host, device: Path) -> str:
    """What kind of file system is on the device, and which one."""
    return host.run("blkid", "-p", "-o", "value", "-s", "TYPE", "-s", "UUID", str(device))


def _at(path: str) -> dict[str, str]:
    return {"devicePath": path}
