"""Disks written into the pod itself, as in the draft: as they are on this machine, on Kubernetes translated first."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import builders, wire
from tests.e2e import pods
from tests.e2e.place import Place

from localpv.api.translate import inline, manifests

SCRIPT = "echo one >/mnt/disk1/file && echo two >/mnt/disk2/file"


@pytest.mark.seed("LVD-6", "LVD-7")
def test_pod_has_two_disks_for_as_long_as_it_lives(place: Place, here: pods.Here, pytestconfig: pytest.Config) -> None:
    host = place.hosts[-1]
    folders = [f"{place.folder}/{builders.unique('inline')}" for _ in range(2)]
    host.run("mkdir", *folders)
    names = [_volume(here, host.name, folder) for folder in folders]
    body = _pod(here)
    if pytestconfig.getoption("--on") == "kubernetes":
        body = manifests.translate(body).obj
    name = here.api.post(here.space.core("pods"), body)["metadata"]["name"]
    here.wait(name, "Succeeded")

    written = sorted(host.run("cat", f"{folder}/file").strip() for folder in folders)
    assert written == ["one", "two"]
    claims = here.api.get(here.space.core("persistentvolumeclaims"))["items"]
    assert sorted(claim["metadata"]["name"] for claim in claims) == [f"{name}-test-vol1", f"{name}-test-vol2"]
    assert {claim["spec"]["volumeName"] for claim in claims} == set(names)

    here.delete(name)
    wire.eventually(
        lambda: not here.api.get(here.space.core("persistentvolumeclaims"))["items"],
        "the claims go with their pod",
        within=pods.POD_SECONDS,
    )
    for volume in names:
        path = f"/api/v1/persistentvolumes/{volume}"
        released = _phase_is(here, path, "Released")
        wire.eventually(released, "the volume is released, and nobody else's yet", within=pods.POD_SECONDS)
    host.run("rm", "-rf", "--one-file-system", *folders)


def _volume(here: pods.Here, node: str, path: str) -> str:
    kind = inline.CLASSES["disk"]
    if here.api.gone(f"/apis/storage.k8s.io/v1/storageclasses/{kind}"):
        waits = {"volumeBindingMode": "WaitForFirstConsumer"}
        here.api.post("/apis/storage.k8s.io/v1/storageclasses", builders.storage_class(kind, **waits))
    volume = builders.local_volume(
        builders.unique("inline"),
        storageClassName=kind,
        local={"path": path},
        nodeAffinity=builders.node_affinity(node),
        persistentVolumeReclaimPolicy="Retain",
    )
    return str(here.api.post("/api/v1/persistentvolumes", volume)["metadata"]["name"])


def _pod(here: pods.Here) -> Any:
    mounts = [{"mountPath": f"/mnt/disk{number}", "name": f"test-vol{number}"} for number in (1, 2)]
    volumes = [{"localVolume": {"type": "disk"}, "name": f"test-vol{number}"} for number in (1, 2)]
    container = here.container("ld-test", "sh", "-c", SCRIPT, volumeMounts=mounts)
    spec = {"containers": [container], "volumes": volumes, "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    return builders.pod(builders.unique("ld-test"), spec=spec)


def _phase_is(here: pods.Here, path: str, phase: str) -> Any:
    return lambda: here.api.get(path)["status"].get("phase") == phase
