"""Many pods on few volumes: each must get its turn, and none may see what another has left."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.contract import builders, wire
from tests.e2e import pods
from tests.e2e.place import Place

VOLUMES = 200
PODS = 210
"""With two claims each on average: twice as many claims as volumes."""

AT_ONCE = 90
"""Pods that exist at the same time; together they want nearly all volumes."""

SECONDS = 900.0
"""Half a minute is enough on an idle machine; a busy one must not fail it."""
SCRIPT = (
    'for disk in /disks/*; do test -z "$(ls -A $disk)" || exit 3; done;'
    " for disk in /disks/*; do echo secret >$disk/file; done; sleep $0"
)


@dataclass(slots=True)
class Crowd:
    """Pods with one to three claims each, which come, run and go; some are deleted before they have run."""

    here: pods.Here
    storage_class: str
    to_come: int
    dice: random.Random
    claims: dict[str, list[str]] = field(default_factory=dict)
    hasty: dict[str, int] = field(default_factory=dict)
    """Those that are deleted when they were looked at so often and have not ended: how many, says no clock."""

    ran: int = 0
    deleted_early: int = 0

    def come(self) -> None:
        count, name = self.dice.randint(1, 3), builders.unique("crowd")
        claims = [f"{name}-{number}" for number in range(count)]
        for claim in claims:
            wanted = {"storageClassName": self.storage_class, "resources": {"requests": {"storage": "1Mi"}}}
            self.here.api.post(self.here.space.core("persistentvolumeclaims"), builders.claim(claim, **wanted))
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        mounts = [{"name": claim, "mountPath": f"/disks/{claim}"} for claim in claims]
        seconds = f"{self.dice.random():.2f}"
        container = self.here.container("main", "sh", "-c", SCRIPT, seconds, volumeMounts=mounts)
        made = self.here.create({"containers": [container], "volumes": volumes})
        self.claims[made] = claims
        if self.dice.random() < 0.1:
            self.hasty[made] = self.dice.randint(1, 40)
        self.to_come -= 1

    def go(self, name: str) -> None:
        self.here.api.delete(self.here.space.core("pods", name), gracePeriodSeconds=0)
        for claim in self.claims.pop(name):
            self.here.api.delete(self.here.space.core("persistentvolumeclaims", claim))

    def turn(self) -> None:
        """Let some come and some go."""
        for _ in range(min(self.to_come, AT_ONCE - len(self.claims), 10)):
            self.come()
        for pod in self.here.api.get(self.here.space.core("pods"))["items"]:
            name, phase = pod["metadata"]["name"], pod["status"].get("phase")
            if name not in self.claims:
                continue  # on its way out
            assert phase != "Failed", f"pod {name} found data of another: {pod['status']}"
            if phase == "Succeeded":
                self.ran += 1
                self.go(name)
            elif name in self.hasty:
                self.hasty[name] -= 1
                if not self.hasty[name]:
                    self.deleted_early += 1
                    self.go(name)

    @property
    def over(self) -> bool:
        return self.to_come == 0 and not self.claims


@pytest.mark.seed("E2E-13")
@pytest.mark.timeout(2 * SECONDS)
def test_every_pod_of_a_crowd_gets_clean_disks_as_localpv_recycles_them(place: Place, here: pods.Here) -> None:
    folder = f"{place.folder}/e2e-stress"
    for index, host in enumerate(place.hosts):
        share = VOLUMES // len(place.hosts)
        host.run("sh", "-c", f"for n in $(seq {share}); do mkdir {folder}/{index}-$n; done")
    _wait(lambda: _free(here, "e2e-stress") == VOLUMES, "all volumes are offered")

    crowd = Crowd(here, "e2e-stress", PODS, random.Random(20))
    _drive(crowd)
    _wait(lambda: _free(here, "e2e-stress") == VOLUMES, "all volumes are free again")

    assert crowd.ran + crowd.deleted_early == PODS
    assert crowd.ran > PODS * 0.8
    _nothing_leaks(place)
    for host in place.hosts:
        assert host.run("find", folder, "-type", "f") == ""
        host.run("sh", "-c", f"rmdir {folder}/*")


@pytest.mark.seed("E2E-13")
@pytest.mark.timeout(2 * SECONDS)
def test_every_pod_of_a_crowd_gets_a_volume_when_an_administrator_recycles_them_by_hand(
    place: Place, here: pods.Here
) -> None:
    name, host = builders.unique("by-hand"), place.hosts[-1]
    folder = f"{place.folder}/{name}"
    waits = {"volumeBindingMode": "WaitForFirstConsumer"}
    here.api.post("/apis/storage.k8s.io/v1/storageclasses", builders.storage_class(name, **waits))
    disks = [f"disk-{number}" for number in range(20)]
    host.run("mkdir", folder, *(f"{folder}/{disk}" for disk in disks))

    def offer(disk: str) -> None:
        volume = builders.local_volume(
            f"{name}-{disk}",
            capacity={"storage": "1Mi"},
            storageClassName=name,
            local={"path": f"{folder}/{disk}"},
            nodeAffinity=builders.node_affinity(host.name),
            persistentVolumeReclaimPolicy="Retain",
        )
        here.api.post("/api/v1/persistentvolumes", volume)

    def recycle() -> None:
        """What localpv does by itself."""
        for volume in _volumes(here, name):
            if volume["status"].get("phase") == "Released":
                path = f"/api/v1/persistentvolumes/{volume['metadata']['name']}"
                # The pod is gone, but its node may still have the disk in hand.
                if host.run("grep", "-c", volume["metadata"]["name"], "/proc/mounts", check=False).strip() != "0":
                    continue
                here.api.delete(path)
                wire.eventually(lambda path=path: here.api.gone(path), "the volume is gone", within=SECONDS / 2)
                disk = volume["spec"]["local"]["path"].rpartition("/")[2]
                host.run("sh", "-c", f"rm -rf {folder}/{disk}/*")
                offer(disk)

    for disk in disks:
        offer(disk)
    crowd = Crowd(here, name, 30, random.Random(7))
    _drive(crowd, between=recycle)

    assert crowd.ran + crowd.deleted_early == 30
    _wait(lambda: not here.api.get(here.space.core("pods"))["items"], "all pods are gone")
    _nothing_leaks(place)
    host.run("rm", "-rf", "--one-file-system", folder)


def _drive(crowd: Crowd, between: Callable[[], None] = lambda: None) -> None:
    deadline = time.monotonic() + SECONDS
    while not crowd.over:
        crowd.turn()
        between()
        assert time.monotonic() < deadline, f"{crowd.to_come} to come, {len(crowd.claims)} there, {crowd.ran} ran"
        time.sleep(0.2)


def _wait(look: Callable[[], bool], what: str) -> None:
    wire.eventually(look, what, within=SECONDS / 2)


def _volumes(here: pods.Here, name: str) -> list[Any]:
    found = here.api.get("/api/v1/persistentvolumes")["items"]
    return [one for one in found if one["spec"].get("storageClassName") == name]


def _free(here: pods.Here, name: str) -> int:
    return sum(one["status"].get("phase") == "Available" for one in _volumes(here, name))


def _nothing_leaks(place: Place) -> None:
    """When no pod uses a local volume any more, no node keeps one mounted."""

    def mounted() -> list[str]:
        lines = [line for host in place.hosts for line in host.run("cat", "/proc/mounts").splitlines()]
        points = [line.split()[1] for line in lines]
        return [one for one in points if one.startswith(f"{place.kubelet}/") and "/kubernetes.io~local-volume/" in one]

    _wait(lambda: not mounted(), "nothing is mounted for pods")
