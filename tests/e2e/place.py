"""Where the journeys take place: a real cluster, or this machine with our engine. A journey cannot tell which."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests import forked_programs
from tests.contract import builders, wire
from tests.e2e import classes
from tests.kubernetes import build, cluster, images
from tests.kubernetes.node import Node
from tests.pods.machine import Machine

from localpv.host import loop

NAMESPACE = "localpv-e2e"
START_SECONDS = 120.0


class Host(Protocol):
    """A node and what an administrator does on it."""

    @property
    def name(self) -> str: ...

    def run(self, *argv: str, check: bool = True) -> str:
        """Run a command as if logged in to the node; what it printed."""


class Place(Protocol):
    """An API server, its nodes, and localpv at work on them."""

    target: wire.Target
    hosts: tuple[Host, ...]
    image: str
    folder: str
    """Below it are the disks of every node; the same path on all."""

    cleans_in_jobs: bool
    """Whether localpv runs here as agents and a manager, which alone makes Jobs."""

    @property
    def kubelet(self) -> str:
        """Below it is all that a node mounts for its pods; the same path on all."""

    def disk(self, size: int = ...) -> contextlib.AbstractContextManager[Path]:
        """An empty block device, visible in all nodes, until the with-block ends."""

    def kill_localpv(self, host: Host) -> None:
        """End what discovers and cleans on a node as the kernel does when memory runs out; it is started again."""

    def log(self) -> str:
        """The end of what there is to read when a journey fails."""


# -- a real cluster ----------------------------------------------------------------------------------------------------


class OnKubernetes:
    """A cluster with localpv as `localpv manifests` installs it."""

    image = images.BUSYBOX
    folder = "/mnt"
    kubelet = "/var/lib/kubelet"
    cleans_in_jobs = True

    def __init__(self, running: cluster.Cluster, localpv_image: str) -> None:
        self._cluster = running
        self._classes = classes.of(self.folder)
        self.target = wire.read_kubeconfig(running.kubeconfig, controllers=True)
        self.hosts: tuple[Node, ...] = running.nodes
        self.disk = running.disk
        config = {
            "image": localpv_image,
            "imagePullPolicy": "Never",
            "namespace": NAMESPACE,
            "storageClassMap": self._classes,
        }
        command = [sys.executable, "-m", "localpv", "manifests", "-f", "-"]
        done = subprocess.run(command, input=json.dumps(config), capture_output=True, text=True, check=True)
        self._objects = done.stdout

    @contextlib.contextmanager
    def installed(self) -> Iterator[OnKubernetes]:
        self._api = wire.Api(self.target, self.target.token)
        self._kubectl("apply", "-f", "-")
        try:
            wire.eventually(self._all_run, "agents and managers are ready", within=START_SECONDS)
            yield self
        finally:
            self._kubectl("delete", "--timeout=100s", "--ignore-not-found", "-f", "-")
            for volume in self._api.get("/api/v1/persistentvolumes")["items"]:
                if volume["spec"].get("storageClassName") in self._classes:
                    path = f"/api/v1/persistentvolumes/{volume['metadata']['name']}"
                    # Nobody is left who would take the finalizers away.
                    finalizers = {"metadata": {"finalizers": None}}
                    self._api.send("PATCH", path, finalizers, content_type=wire.MERGE_PATCH)
                    self._api.send("DELETE", path)
            for node in self.hosts:
                for name in self._classes:
                    node.run("sh", "-c", f"umount {self.folder}/{name}/* 2>/dev/null", check=False)
                    node.run("rm", "-rf", "--one-file-system", f"{self.folder}/{name}")
            self._api.close()

    def kill_localpv(self, host: Host) -> None:
        agent = next(pod for pod in self._pods("agent") if pod["spec"]["nodeName"] == host.name)
        container = agent["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        node = next(node for node in self.hosts if node.name == host.name)
        address = ["--address", str(node.socket), "--namespace", "k8s.io"]
        node.run("ctr", *address, "tasks", "kill", "-s", "KILL", container)

    def log(self) -> str:
        return "\n".join(f"-- {name}\n{text}" for name, text in self._cluster.tails().items())

    def _kubectl(self, *arguments: str) -> None:
        command = [str(build.cache() / "kubectl"), "--kubeconfig", str(self._cluster.kubeconfig), *arguments]
        done = subprocess.run(
            command, input=self._objects, capture_output=True, text=True, check=False, timeout=2 * START_SECONDS
        )
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"

    def _all_run(self) -> bool:
        agents, managers = self._pods("agent"), self._pods("manager")
        ready = [pod for pod in (*agents, *managers) if _is_ready(pod)]
        return len(agents) == len(self.hosts) and len(managers) == 2 and len(ready) == len(agents) + len(managers)

    def _pods(self, component: str) -> list[Any]:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        return list(self._api.get(path, labelSelector=f"app.kubernetes.io/component={component}")["items"])


def _is_ready(pod: Any) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))


# -- this machine ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThisHost:
    name: str

    def run(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=START_SECONDS, check=False)
        assert not check or done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
        return done.stdout


@dataclass(slots=True, kw_only=True)
class OnThisMachine:
    """`localpv up` with a data folder of its own; it is the only node."""

    scratch: Path
    folder: str
    hosts: tuple[ThisHost, ...] = (ThisHost("here"),)
    image: str = "busybox"
    cleans_in_jobs: bool = False
    target: wire.Target = field(init=False)
    _process: forked_programs.Program | None = None

    @property
    def data(self) -> Path:
        return self.scratch / "data"

    @property
    def kubelet(self) -> str:
        return str(Machine(self.data).run_folder)

    def start(self) -> None:
        """Start the engine, on the port it had before if there was one."""
        port = self.target.port if self._process is not None else 0
        log = (self.scratch / "log").open("a")
        options = ["--data", str(self.data), "--config", str(self.scratch / "config"), "--node", self.hosts[0].name]
        with log:
            self._process = forked_programs.start("up", "--listen", f"127.0.0.1:{port}", *options, stderr=log)
        ready = self._process.stdout.readline().decode()
        assert ready.startswith("ready "), f"the engine did not start: {self.log()}"
        self.target = wire.read_kubeconfig(Path(ready.strip().partition("KUBECONFIG=")[2]), controllers=True)

    def stop(self, number: int = signal.SIGTERM) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(START_SECONDS)
        self._process.stdout.close()

    def kill_localpv(self, host: Host) -> None:
        self.stop(signal.SIGKILL)
        self.start()

    @contextlib.contextmanager
    def disk(self, size: int = 64 << 20) -> Iterator[Path]:
        content = self.scratch / f"disk-{secrets.token_hex(4)}"
        with content.open("wb") as file:
            file.truncate(size)
        # Not losetup, which may open the device that somebody else is just being given.
        try:
            with loop.attached(content) as device:
                yield device
        finally:
            content.unlink()

    def log(self) -> str:
        return (self.scratch / "log").read_text(errors="replace")[-6000:]


@contextlib.contextmanager
def on_this_machine() -> Iterator[OnThisMachine]:
    """An engine until the with-block ends; nothing of it stays on the machine."""
    with tempfile.TemporaryDirectory(prefix="localpv-e2e-") as name:
        scratch = Path(name)
        place = OnThisMachine(scratch=scratch, folder=str(scratch / "mnt"))
        config = scratch / "config"
        config.mkdir()
        found = classes.of(place.folder)
        for each, settings in found.items():
            (scratch / "mnt" / each).mkdir(parents=True)
            if "mountDir" in settings:
                seen = Path(settings["mountDir"])
                seen.parent.mkdir(exist_ok=True)
                seen.symlink_to(settings["hostDir"])
        (config / "storageClassMap").write_text(json.dumps(found))
        waits = {"volumeBindingMode": "WaitForFirstConsumer"}
        objects = [builders.storage_class(each, **waits) for each in found]
        (config / "classes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        place.start()
        try:
            yield place
        finally:
            try:
                _end_pods(place)
            finally:
                place.stop()
                Machine(place.data).close()
                _unmount_below(scratch)


def _end_pods(place: OnThisMachine) -> None:
    """The engine leaves pods running when it stops, as a kubelet does, so they are deleted first."""
    api = wire.Api(place.target, place.target.token)
    try:
        for pod in api.get("/api/v1/pods")["items"]:
            meta = pod["metadata"]
            api.send("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}?gracePeriodSeconds=1")
        wire.eventually(lambda: not api.get("/api/v1/pods")["items"], "all pods are gone", within=START_SECONDS)
        # A pod without a grace period is gone from the API at once, and from the machine a moment later.
        wire.eventually(Machine(place.data).is_clean, "nothing of them is left", within=START_SECONDS)
    finally:
        api.close()


def _unmount_below(folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        below = sorted((path for path in mounts if path.startswith(f"{folder}/")), reverse=True)
        if not below:
            return
        assert time.monotonic() < deadline, f"cannot unmount {below}"
        for path in below:
            subprocess.run(["umount", path], check=False, stderr=subprocess.DEVNULL)


def why_not_here() -> str | None:
    """What keeps this machine from running pods by itself; None when nothing does."""
    if os.geteuid() != 0:
        return "running pods needs root"
    return "running pods needs runc" if shutil.which("runc") is None else None
