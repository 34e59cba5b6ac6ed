"""Several agents on one node, as processes of their own: exactly one works at any moment, and another one goes on."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests import forked_programs
from tests.journey.crash_tenants import Server

from localpv.agent.udev import rules_file
from localpv.api import crds
from localpv.api.kinds.localstorage import DeviceGroup
from localpv.config.local_storage import GroupDevices, NodeConfiguration
from localpv.host import loop
from localpv.testing.waiting import PATIENCE_SECONDS

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices and mounts"),
    pytest.mark.seed("OPR-7", "OPR-17"),
]

NODE = "node-1"
MAIN, FIRST, SECOND = "main", "first", "second"
"""The agent with a ConfigMap, and two of LocalStorages."""

CONFIGURATION = NodeConfiguration(
    namespace="localpv-system",
    name="fast",
    uid="11111111-2222-3333-4444-555555555555",
    created="2026-01-01T00:00:00Z",
    groups={
        "00000001": GroupDevices(
            index=0,
            generation=1,
            devices=(DeviceGroup(storage_class_name="ls", volume_mode="Block", device_names=("loop*",)),),
        )
    },
)
ROUNDS = 12
APART = 'mount --bind "$1/dev-disk" /dev/disk && mount --bind "$1/run-udev" /run/udev && echo mounted && read end'
"""Links and udev's database are this test's own."""

DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
SIZE = 512 << 20
EVENT = re.compile(r"^(\S+ \S+) INFO \S+ (works on this node|makes room|disk class=|record deleted)")


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.005)


class Node:
    """The agents of one node, their API server, and what each of them did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rules = folder / "rules.d"
        for made in (
            self.rules,
            folder / "config",
            folder / "disks",
            folder / "dev-disk",
            folder / "run-udev" / "data",
        ):
            made.mkdir(parents=True)
        for needed in (Path("/dev/disk"), Path("/run/udev")):
            needed.mkdir(exist_ok=True)
        (folder / "config" / "storageClassMap").write_text(f"plain: {{hostDir: {folder}/disks}}\n")
        self._processes: dict[str, forked_programs.Program] = {}
        self._apart = subprocess.Popen(
            ["unshare", "--mount", "--propagation=slave", "sh", "-c", APART, "sh", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._apart.stdout is not None
        assert self._apart.stdout.readline() == b"mounted\n"
        self._ended: dict[str, list[float]] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        self._start("apiserver", "apiserver", "--data", f"{folder}/data", "--listen", address, "--node", NODE)
        self.server = Server(folder / "data" / "kubeconfig")

    def start(self, name: str) -> None:
        shared = ("--kubeconfig", f"{self.folder}/data/kubeconfig", "--state", f"{self.folder}/state")
        own = ("--config", f"{self.folder}/config") if name == MAIN else ("--local-storage",)
        apart = Path(f"/proc/{self._apart.pid}/ns/mnt")
        self._start(name, "agent", *shared, *own, "--udev-rules", str(self.rules), mounts=apart)

    def _start(self, name: str, *argv: str, mounts: Path = forked_programs.MOUNTS) -> None:
        environment = {**os.environ, "MY_NODE_NAME": NODE}
        with (self.folder / f"{name}.log").open("a") as log:
            process = forked_programs.start(*argv, stderr=log, env=environment, mounts=mounts)
        self._processes[name] = process
        assert process.stdout.readline().startswith(b"ready"), self.log(name)

    def end(self, name: str, number: int = signal.SIGKILL) -> None:
        process = self._processes.pop(name)
        assert process.poll() is None, f"{name} ended by itself: {self.log(name)}"
        self._ended.setdefault(name, []).append(time.time())  # it cannot have worked for longer than it lived
        process.send_signal(number)
        process.wait(PATIENCE_SECONDS)
        process.stdout.close()

    def close(self) -> None:
        for name in [*self._processes]:
            self._processes[name].kill()
            self._processes[name].wait()
            self._processes.pop(name).stdout.close()
        self._apart.communicate()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def until_works(self, name: str) -> None:
        until(lambda: self.log(name).count("works on this node") > self.log(name).count("makes room"), what=name)

    def until_stands_by(self, name: str) -> None:
        until(lambda: "stands by" in self.log(name), what=f"{name} stands by: {self.log(name)}")

    def write_rules(self) -> None:
        for name, text in rules_file.files([CONFIGURATION], namespace="localpv-system").items():
            (self.rules / name).write_text(text)

    def link(self, device: Path) -> None:
        """What udev does for a device that the rules match."""
        known = os.stat(device).st_rdev
        place = (
            "KUBERNETES_STORAGE_CLASS_00=ls",
            "KUBERNETES_LOCAL_STORAGE_RULE_00=localpv-system/fast nodes[0].devices[0].deviceNames[0]",
        )
        data = self.folder / "run-udev" / "data" / f"b{os.major(known)}:{os.minor(known)}"
        data.write_text("".join(f"E:{each}\n" for each in place))
        folder = self.folder / "dev-disk" / "kubernetes-local-storage" / "ls" / "block"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / device.name).symlink_to(device)

    def unlink(self, device: Path) -> None:
        (self.folder / "dev-disk" / "kubernetes-local-storage" / "ls" / "block" / device.name).unlink()

    def events(self) -> list[tuple[float, str, str]]:
        """When who began and ended to work, and when who wrote a record."""
        found = [(ended, name, "end") for name, times in self._ended.items() for ended in times]
        for name in (MAIN, FIRST, SECOND):
            if not (self.folder / f"{name}.log").exists():
                continue
            for line in self.log(name).splitlines():
                if event := EVENT.match(line):
                    when = datetime.strptime(event[1], "%Y-%m-%d %H:%M:%S,%f").timestamp()
                    what = {"works on this node": "begin", "makes room": "end"}.get(event[2], "write")
                    found.append((when, name, what))
        return sorted(found)

    def disk(self, entry: str) -> dict[str, Any]:
        items = (self.server.ask("GET", DISKS) or {}).get("items", [])
        return next((each for each in items if each["spec"]["entry"] == entry), {})

    def phase(self, entry: str) -> str:
        return str(self.disk(entry).get("status", {}).get("phase", ""))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    try:
        definition = crds.load("localdisks")
        assert made.server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        until(lambda: made.server.ask("GET", DISKS), "LocalDisks are served")
        yield made
    finally:
        made.server.close()
        made.close()


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(SIZE)
    with loop.attached(image) as made:
        yield made


def assert_one_worked_at_a_time(node: Node) -> None:
    working = last = ""
    for when, name, what in node.events():
        match what:
            case "begin":
                assert working == "", f"{name} began at {when} while {working} worked"
                working = last = name
            case "end":
                working = "" if working == name else working
            case _:
                # One that was told to end may write until it has: the next one begins when it is gone.
                assert last == name, f"{name} wrote at {when} when it was the turn of {last or 'nobody'}"


def test_agent_with_a_config_map_comes_first_and_others_take_over_when_it_is_killed(node: Node, device: Path) -> None:
    node.write_rules()
    node.link(device)
    node.start(FIRST)
    node.until_works(FIRST)
    until(lambda: node.phase(device.name) == "Available", "the device is offered by the first agent")
    node.start(SECOND)
    node.until_stands_by(SECOND)

    node.start(MAIN)
    node.until_works(MAIN)
    assert "makes room for the agent with a ConfigMap" in node.log(FIRST)
    (node.folder / "disks" / "a").mkdir()
    until(lambda: node.phase("a") == "Available", "the class of the ConfigMap is served")
    assert node.phase(device.name) == "Available"  # and that of the LocalStorage still is

    node.end(MAIN)
    until(
        lambda: node.log(FIRST).count("works on this node") + node.log(SECOND).count("works on this node") == 2,
        "an agent of LocalStorages goes on",
    )
    node.unlink(device)
    until(lambda: not node.disk(device.name), "what is gone is noticed by the agent that works now")
    assert node.phase("a") == "Available"  # of a class that this one does not know, so nothing says that it is gone
    assert_one_worked_at_a_time(node)


@pytest.mark.timeout(600)
def test_two_agents_never_both_write_however_they_come_and_go(node: Node, device: Path) -> None:
    node.write_rules()
    node.link(device)
    chance = random.Random(12)
    running: set[str] = set()
    for number in range(ROUNDS):
        name = chance.choice([MAIN, FIRST, SECOND])
        if name in running:
            node.end(name, chance.choice([signal.SIGKILL, signal.SIGTERM]))
            running.remove(name)
        else:
            node.start(name)
            running.add(name)
        (node.folder / "disks" / f"disk-{number}").mkdir()
        if running:
            until(lambda: node.phase(device.name) == "Available", "somebody works")
            expected = MAIN if MAIN in running else ""
            if expected:
                until(lambda: node.phase(f"disk-{number}") == "Available", f"{number} is offered")  # noqa: B023
    assert_one_worked_at_a_time(node)
    assert sum(what == "write" for _, _, what in node.events()) > ROUNDS / 2


@pytest.mark.parametrize("successor", [SECOND, MAIN])
def test_wipe_that_was_running_is_taken_up_by_the_next_agent(node: Node, device: Path, successor: str) -> None:
    node.write_rules()
    node.link(device)
    node.start(FIRST)
    until(lambda: node.phase(device.name) == "Available", "the device is offered")
    if successor == SECOND:
        node.start(SECOND)
        node.until_stands_by(SECOND)
    disk = node.disk(device.name)
    with device.open("r+b") as file:
        file.write(b"secret of the last tenant")
    order = {"volumeName": "pv-1", "volumeUID": "uid-1", "method": ["shred", "8"]}
    spec = {"volume": {"name": "pv-1", "uid": "uid-1"}, "identity": disk["status"]["identity"], "clean": order}
    assert node.server.ask("PATCH", f"{DISKS}/{disk['metadata']['name']}", {"spec": spec})

    def cleaning() -> dict[str, Any]:
        found: dict[str, Any] = node.disk(device.name)["status"].get("cleaning", {})
        return found

    until(lambda: cleaning().get("bytesDone", 0) > 0, f"the wipe runs {node.log(FIRST)}")
    if successor == SECOND:
        node.end(FIRST)
    else:
        node.start(MAIN)  # the other one makes room in the middle of its wipe
    until(lambda: cleaning().get("state") == "Verified", f"the wipe ended {cleaning()}")

    assert cleaning()["attempt"] >= 2
    assert "works on this node" in node.log(successor)
    with device.open("rb") as file:
        assert b"secret" not in file.read(4096)
    assert_one_worked_at_a_time(node)


def test_damaged_header_takes_no_class_away_and_a_removed_file_does(node: Node, device: Path) -> None:
    node.write_rules()
    node.link(device)
    node.start(FIRST)
    until(lambda: node.phase(device.name) == "Available", "the device is offered")
    [file] = node.rules.iterdir()
    good = file.read_text()

    file.write_text(good.replace("localpv-system", "localpv_system", 1))
    until(lambda: "the last good one stays in force" in node.log(FIRST), "the log says what is wrong")
    (node.rules / "fence.rules").write_text("")
    assert node.phase(device.name) == "Available"

    file.unlink()
    until(lambda: not node.disk(device.name), "the class went with its file")
