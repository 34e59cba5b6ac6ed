"""Local volumes as Kubernetes itself mounts them: the ground that localpv's own volumes stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract import builders
from tests.kubernetes import cluster, pods


@pytest.fixture
def disk(running: cluster.Cluster) -> Iterator[Path]:
    """A block device that is visible in all nodes."""
    with running.disk() as made:
        yield made


@pytest.mark.seed("E2E-1", "E2E-2", "SCH-3")
@pytest.mark.parametrize("index", [0, 1])
def test_pod_with_a_directory_volume_runs_on_its_node_and_finds_its_data_again(
    running: cluster.Cluster, here: pods.Here, index: int
) -> None:
    node = running.nodes[index]
    path = f"/mnt/{builders.unique('dir')}"
    node.run("mkdir", path)
    claim = here.volume_on(node.name, path)
    mounts = {"spec": pods.claimed(claim), "volumeMounts": [{"name": "disk", "mountPath": "/data"}]}

    writer, _ = here.run("sh", "-c", "echo kept >/data/file", **mounts)
    here.delete(writer["metadata"]["name"])
    reader, said = here.run("cat", "/data/file", **mounts)

    assert [writer["spec"]["nodeName"], reader["spec"]["nodeName"]] == [node.name, node.name]
    assert said == "kept\n"
    assert node.outside(f"{path}/file").read_text() == "kept\n"


@pytest.mark.seed("E2E-12", "RAW-2")
def test_pod_with_a_raw_block_volume_runs_on_its_node_and_finds_its_data_again(
    running: cluster.Cluster, here: pods.Here, disk: Path
) -> None:
    node = running.nodes[1]
    claim = here.volume_on(node.name, str(disk), mode="Block")
    devices = {"spec": pods.claimed(claim), "volumeDevices": [{"name": "disk", "devicePath": "/dev/data"}]}

    writer, _ = here.run("sh", "-c", "printf kept | dd of=/dev/data bs=512 seek=8 conv=fsync,notrunc", **devices)
    here.delete(writer["metadata"]["name"])
    reader, said = here.run("sh", "-c", "dd if=/dev/data bs=512 skip=8 count=1 2>/dev/null | head -c 4", **devices)

    assert [writer["spec"]["nodeName"], reader["spec"]["nodeName"]] == [node.name, node.name]
    assert said == "kept"
    with disk.open("rb") as content:
        assert content.read(4100)[4096:] == b"kept"
    here.delete(reader["metadata"]["name"])
