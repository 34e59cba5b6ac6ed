"""Volumes carved out of a pool of files: from the claim to a pod that writes, through restarts, to the last byte.

All parts are the real ones: manager, scheduler, binder, the agent with its pool and its CSI driver behind sockets, and
the kubelet of the engine as the driver's client.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pods.machine import EVENTS, Machine, Object

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
ORDERS = "/apis/localpv.dev/v1alpha1/poolvolumes"
POOLS = "/apis/localpv.dev/v1alpha1/localpools"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SECRET = "a tenant's secret, which nobody else may read"


class Pool:
    """`localpv up` with one class, whose pool is a folder of the test."""

    def __init__(self, folder: Path, *, size: str = "256Mi", classes: str = "") -> None:
        self.files, config = folder / "pool", folder / "config"
        self.files.mkdir(parents=True)
        config.mkdir()
        pool = f"{{kind: file, directory: {self.files}, size: {size}}}"
        (config / "storageClassMap").write_text(classes or f"fast:\n  pool: {pool}\n")
        self.options = ("--config", str(config))
        self.machine = Machine(folder / "data")

    def start(self) -> Machine:
        self.machine.start(*self.options)
        api = self.machine.api
        self.machine.eventually(lambda: not api.gone(f"{CLASSES}/fast"), "the class is there")
        self.machine.eventually(
            lambda: [pool for pool in api.get(POOLS)["items"] if pool.get("status", {}).get("capacityBytes")],
            "the pool is there",
        )
        return self.machine

    def claim(self, name: str, size: str = "32Mi", **spec: Any) -> Object:
        whole = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": size}},
        }
        made: Object = self.machine.api.post(CLAIMS, {"metadata": {"name": name}, "spec": whole | spec})
        return made

    def pod(self, name: str, script: str, *claims: str, devices: bool = False, **spec: Any) -> Object:
        """A pod that has each claim at `/CLAIM`, or as the device `/dev/CLAIM`."""
        uses: Object = {"volumeMounts": [{"name": claim, "mountPath": f"/{claim}"} for claim in claims]}
        if devices:
            uses = {"volumeDevices": [{"name": claim, "devicePath": f"/dev/{claim}"} for claim in claims]}
        main = {"name": "main", "image": "busybox", "command": ["sh", "-c", script], **uses}
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        whole = {"containers": [main], "volumes": volumes, "restartPolicy": "Never", **spec}
        return self.machine.create(whole, name, on_node=False)

    def bound(self, name: str) -> Object:
        api = self.machine.api
        self.machine.eventually(
            lambda: api.get(f"{CLAIMS}/{name}")["status"]["phase"] == "Bound", f"claim {name} is bound"
        )
        claim: Object = api.get(f"{CLAIMS}/{name}")
        return claim

    def remove_claim(self, name: str) -> None:
        api = self.machine.api
        volume = api.get(f"{CLAIMS}/{name}")["spec"]["volumeName"]
        api.delete(f"{CLAIMS}/{name}")
        self.machine.eventually(lambda: api.gone(f"{VOLUMES}/{volume}"), "the volume is gone")
        assert api.gone(f"{ORDERS}/{volume}"), "what reserved it goes first"

    def free(self) -> int:
        """Bytes that can be promised, as the pool's objects say."""
        api = self.machine.api
        (pool,) = api.get(POOLS)["items"]
        promised = sum(order["spec"]["sizeBytes"] for order in api.get(ORDERS)["items"])
        return int(pool["status"]["capacityBytes"]) - int(pool["status"].get("foreignBytes", 0)) - promised

    def holds(self, text: str) -> bool:
        """Whether these bytes are anywhere in the files of the pool."""
        found = (path for path in self.files.rglob("*") if path.is_file())
        return any(text.encode() in path.read_bytes() for path in found)

    def loops(self) -> str:
        return subprocess.run(["losetup", "--list"], capture_output=True, check=True, text=True).stdout

    def until_unused(self) -> None:
        self.machine.eventually(lambda: str(self.files) not in self.loops(), "no loop device has a file of the pool")

    def close(self) -> None:
        self.machine.close()
        for line in self.loops().splitlines():
            if str(self.files) in line:
                subprocess.run(["losetup", "--detach", line.split()[0]], check=False)


@pytest.fixture
def pools(tmp_path: Path) -> Iterator[Callable[..., Pool]]:
    made: list[Pool] = []

    def make(**options: Any) -> Pool:
        made.append(Pool(tmp_path / str(len(made)), **options))
        made[-1].start()
        return made[-1]

    yield make
    for pool in made:
        pool.close()


@pytest.mark.seed("LVD-3")
def test_a_claim_gets_a_volume_that_outlives_its_pods_and_the_engine_and_whose_bytes_go_with_it(
    pools: Callable[..., Pool],
) -> None:
    pool = pools()
    machine, room = pool.machine, pool.free()
    pool.claim("data")
    pool.pod("writer", f'echo "{SECRET}" > /data/file; sync; echo written; sleep 1000', "data")
    claim = pool.bound("data")
    assert claim["status"]["capacity"] == {"storage": "32Mi"}
    volume = machine.api.get(f"{VOLUMES}/{claim['spec']['volumeName']}")
    assert volume["spec"]["csi"]["driver"] == "localpv.dev"
    machine.until_says("writer", "written")
    assert pool.free() == room - (32 << 20)

    machine.kill()
    pool.start()
    assert machine.pod("writer")["status"]["phase"] == "Running"
    machine.delete("writer")
    pool.until_unused()
    assert pool.holds(SECRET), "the data stays"

    pool.pod("reader", "cat /data/file", "data")
    machine.until_phase("reader", "Succeeded")
    assert machine.logs("reader") == f"{SECRET}\n"
    machine.delete("reader")
    pool.remove_claim("data")
    assert not pool.holds(SECRET)
    assert pool.free() == room
    machine.eventually(machine.is_clean, "nothing is left of the pods")
    pool.until_unused()


def test_a_raw_device_of_a_pool_holds_what_its_pods_write_and_no_later_volume_shows_it(
    pools: Callable[..., Pool],
) -> None:
    pool = pools()
    machine = pool.machine
    pool.claim("raw", volumeMode="Block")
    pool.pod("writer", f'echo "{SECRET}" | dd of=/dev/raw bs=4096 conv=sync', "raw", devices=True)
    machine.until_phase("writer", "Succeeded")
    machine.delete("writer")
    machine.stop()
    pool.start()
    pool.pod("reader", "head -c 46 /dev/raw", "raw", devices=True)
    machine.until_phase("reader", "Succeeded")
    assert machine.logs("reader") == f"{SECRET}\n"
    machine.delete("reader")
    pool.remove_claim("raw")
    assert not pool.holds(SECRET)
    pool.claim("next", volumeMode="Block")
    pool.pod("looks", "tr -d '\\0' < /dev/next | wc -c", "next", devices=True)
    machine.until_phase("looks", "Succeeded")
    assert machine.logs("looks").strip() == "0", "the whole device reads as zeroes"


@pytest.mark.seed("LVM-7", "SCH-2")
def test_a_pod_whose_claims_do_not_fit_together_waits_and_says_what_is_missing_until_there_is_room(
    pools: Callable[..., Pool],
) -> None:
    pool = pools(size="128Mi")
    machine = pool.machine
    pool.claim("first", "64Mi")
    pool.pod("first", "sleep 1000", "first")
    machine.until_ready("first")
    for name in ("a", "b"):
        pool.claim(name, "48Mi")
    pool.pod("both", "sleep 1000", "a", "b")
    message = machine.until_event("both", "FailedScheduling")
    assert re.search(
        r"node\(s\) did not have enough free storage \(node here: pool pool has .* less than needed\)", message
    )
    assert [order["spec"]["claim"]["name"] for order in machine.api.get(ORDERS)["items"]] == ["first"], "none is made"
    machine.delete("first")
    pool.remove_claim("first")
    machine.until_ready("both")


def test_a_generic_ephemeral_volume_comes_and_goes_with_its_pod(pools: Callable[..., Pool]) -> None:
    pool = pools()
    machine, room = pool.machine, pool.free()
    template = {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "32Mi"}},
        }
    }
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    main = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", f'echo "{SECRET}" > /scratch/file; sync; echo written; sleep 1000'],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }
    machine.create({"containers": [main], "volumes": [volume]}, "short", on_node=False)
    machine.until_says("short", "written")
    assert pool.free() == room - (32 << 20)
    machine.delete("short")
    machine.eventually(lambda: machine.api.get(ORDERS)["items"] == [], "the volume goes with its pod")
    assert pool.free() == room
    assert not pool.holds(SECRET)


def test_the_group_of_a_pod_may_write_and_a_pod_that_only_reads_may_not(pools: Callable[..., Pool]) -> None:
    pool = pools()
    machine = pool.machine
    pool.claim("data")
    group = {"runAsUser": 1234, "runAsGroup": 1234, "fsGroup": 4321}
    pool.pod("writer", "echo mine > /data/file; stat -c %g /data/file", "data", securityContext=group)
    machine.until_phase("writer", "Succeeded")
    assert machine.logs("writer") == "4321\n"
    source = {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}
    pool.pod("reader", "cat /data/file; touch /data/new 2>/dev/null || echo refused", "data", volumes=[source])
    machine.until_phase("reader", "Succeeded")
    assert machine.logs("reader") == "mine\nrefused\n"


def test_a_volume_grows_under_its_pod(pools: Callable[..., Pool], tmp_path: Path) -> None:
    # xfs, since ext4 cannot be grown while it is mounted without CAP_SYS_RESOURCE; its smallest size is 300 MiB.
    pool = pools(size="2Gi")
    machine = pool.machine
    api = machine.api
    parameters = {"csi.storage.k8s.io/fstype": "xfs"}
    api.post(
        CLASSES,
        {
            "metadata": {"name": "fast-xfs"},
            "provisioner": "localpv.dev",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": True,
            "parameters": parameters,
        },
    )
    pool.machine.stop()
    config = Path(pool.options[1]) / "storageClassMap"
    pool_text = f"{{kind: file, directory: {pool.files}, size: 2Gi}}"
    config.write_text(f"fast:\n  pool: {pool_text}\nfast-xfs:\n  pool: {pool_text}\n")
    pool.start()
    pool.claim("data", "320Mi", storageClassName="fast-xfs")
    size = "$(df -m /data | tail -1 | awk '{print $2}')"
    pool.pod("grows", f"until test {size} -gt 400; do sleep 0.1; done; echo grown; sleep 1000", "data")
    machine.until_ready("grows")
    machine.api.merge(f"{CLAIMS}/data", {"spec": {"resources": {"requests": {"storage": "512Mi"}}}})
    machine.until_says("grows", "grown")
    machine.eventually(
        lambda: machine.api.get(f"{CLAIMS}/data")["status"]["capacity"]["storage"] == "512Mi", "the claim says so"
    )
    status = machine.api.get(f"{CLAIMS}/data")["status"]
    assert not status.get("allocatedResourceStatuses") and not status.get("conditions")
    assert "512Mi" in machine.until_event("grows", "FileSystemResizeSuccessful")
    refused = machine.api.merge(
        f"{CLAIMS}/data", {"spec": {"resources": {"requests": {"storage": "64Mi"}}}}, expect=422
    )
    assert "do not shrink" in refused["message"]


def test_localpv_down_unmounts_what_a_driver_has_mounted_and_the_next_start_serves_it_again(
    pools: Callable[..., Pool],
) -> None:
    pool = pools()
    machine = pool.machine
    pool.claim("data")
    pool.pod("writer", f'echo "{SECRET}" >> /data/file; sync; echo written; sleep 1000', "data", restartPolicy="Always")
    machine.until_says("writer", "written")
    machine.stop()
    command = ["localpv", "down", "--data", str(machine.data)]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(command, check=True, env=os.environ | {"PATH": path}, capture_output=True)
    assert machine.mounts() == []
    pool.start()
    machine.until_says("writer", "written")
    machine.delete("writer")
    pool.remove_claim("data")
    pool.until_unused()
    assert not pool.holds(SECRET)


def test_events_of_a_claim_tell_its_way(pools: Callable[..., Pool]) -> None:
    pool = pools()
    machine = pool.machine
    pool.claim("data")

    def reasons() -> set[str]:
        found = machine.api.get(EVENTS)["items"]
        return {one["reason"] for one in found if one["involvedObject"]["name"] == "data"}

    machine.eventually(lambda: "WaitForFirstConsumer" in reasons(), "it waits for a pod")
    pool.pod("user", "sleep 1000", "data")
    machine.until_ready("user")
    machine.eventually(
        lambda: {"ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"} <= reasons(), "all is told"
    )
    annotations = machine.api.get(f"{CLAIMS}/data")["metadata"]["annotations"]
    for key in ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"):
        assert annotations[key] == "localpv.dev"
    assert annotations["volume.kubernetes.io/selected-node"] == "here"
