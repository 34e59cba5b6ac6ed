"""Agent, manager and API server as processes of their own, killed at moments of chance, again and again, while tenants
come and go on real directories, mounts and loop devices: no disk offered unclean, none lost, none wiped that was bound.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import forked_programs
from tests.journey.crash_tenants import VOLUMES, Device, Folder, Server, Tenants, attach, mount

from localpv.api import crds
from localpv.host import loop
from localpv.testing.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices and mounts")

ROUNDS = 60
KILLS = 8
STEPS_BETWEEN = (1, 40)
"""Steps of all tenants together between two deaths: by steps and not by time, so that a slow machine gets on too."""

LONGEST_DELAY = 0.2
"""Seconds after such a step: what the programs do next is not seen from outside."""

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/localpv-manager"
CLASSES = """\
fast: {{hostDir: {folder}/fast}}
cycle: {{hostDir: {folder}/cycle, reclaim: Recycle}}
kept: {{hostDir: {folder}/kept, reclaim: Retain}}
raw: {{hostDir: {folder}/raw, volumeMode: Block, blockCleanerCommand: [/scripts/dd_zero.sh, "1"]}}
"""


class Cluster:
    """The three programs, and what they work on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "config").mkdir()
        (folder / "config" / "storageClassMap").write_text(CLASSES.format(folder=folder))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{probe.getsockname()[1]}"
        self._running: dict[str, forked_programs.Program] = {}
        self.kills = 0

    def start(self, name: str) -> None:
        shared = ("--kubeconfig", str(self.folder / "data" / "kubeconfig"), "--config", str(self.folder / "config"))
        options = {
            "apiserver": ("--data", str(self.folder / "data"), "--listen", self._address, "--node", "node-1"),
            "manager": shared,
            "agent": (*shared, "--state", str(self.folder / "state")),
        }
        with (self.folder / f"{name}.log").open("a") as log:
            environment = {**os.environ, "MY_NODE_NAME": "node-1"}
            self._running[name] = forked_programs.start(name, *options[name], stderr=log, env=environment)

    def wait_ready(self, name: str) -> None:
        stdout = self._running[name].stdout
        assert stdout.readline().startswith(b"ready"), self.tail(name)

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        assert process.poll() is None, f"{name} ended by itself: {self.tail(name)}"
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_SECONDS)
        process.stdout.close()
        self.kills += 1

    def tail(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-3000:]

    def close(self) -> None:
        for name in [*self._running]:
            process = self._running.pop(name)
            process.kill()
            process.wait()
            process.stdout.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[tuple[str, Folder | Device]]]:
    """Disks of every kind, each with its class."""
    found: list[tuple[str, Folder | Device]] = []
    with contextlib.ExitStack() as undo:
        for name, count in (("fast", 6), ("cycle", 4), ("kept", 3)):
            for number in range(count):
                place = tmp_path / name / f"{name}-{number}"
                place.mkdir(parents=True)
                if number % 2:
                    mount(place)
                    undo.callback(subprocess.run, ["umount", "-l", str(place)], check=True)
                found.append((name, Folder(place)))
        (tmp_path / "raw").mkdir()
        for number in range(4):
            device = attach(tmp_path / f"raw-{number}.img")
            undo.callback(loop.detach, device)
            link = tmp_path / "raw" / f"raw-{number}"
            link.symlink_to(device)
            found.append(("raw", Device(link)))
        yield found


def install(server: Server) -> None:
    server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crds.load("localdisks"))
    for name in ("fast", "cycle", "kept", "raw"):
        body = {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner"}
        assert server.ask("POST", "/apis/storage.k8s.io/v1/storageclasses", body)


@pytest.mark.timeout(900)  # it goes on until there were enough rounds, which on a busy machine are minutes
@pytest.mark.seed("DEL-8", "DEL-6", "DSC-7")
def test_killed_again_and_again_nothing_is_offered_unclean_lost_or_wiped_while_bound(
    cluster: Cluster, disks: list[tuple[str, Folder | Device]]
) -> None:
    cluster.start("apiserver")
    cluster.wait_ready("apiserver")
    server = Server(cluster.folder / "data" / "kubeconfig")
    install(server)
    for name in ("manager", "agent"):
        cluster.start(name)
    tenants = [Tenants(disk.path.name, name, disk, server, lambda: cluster.kills) for name, disk in disks]
    chance = random.Random(7)
    next_death = chance.randint(*STEPS_BETWEEN)
    while sum(each.rounds for each in tenants) < ROUNDS or min(each.rounds for each in tenants) < 1:
        listed = server.ask("GET", VOLUMES)
        if listed is not None:
            volumes = _by_path(listed["items"])
            for each in tenants:
                each.look(volumes.get(each.path))
        if (steps := sum(each.steps for each in tenants)) >= next_death:
            time.sleep(chance.uniform(0, LONGEST_DELAY))
            name = chance.choice(["agent", "agent", "manager", "manager", "apiserver"])
            cluster.kill(name)
            if name == "manager":
                # Nobody else leads, so the next one need not wait until the time of the dead one is over.
                server.ask("DELETE", LEASE)
            cluster.start(name)
            next_death = steps + chance.randint(*STEPS_BETWEEN)
        time.sleep(0.01)
    server.close()
    assert cluster.kills >= KILLS


def _by_path(volumes: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for volume in volumes:
        path = volume["spec"]["local"]["path"]
        assert path not in found, f"{path} is offered twice"
        found[path] = volume
    return found
