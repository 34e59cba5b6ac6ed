"""A machine that runs pods: `localpv up` as a process that can be killed, and what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests import forked_programs
from tests.contract import wire

from localpv.engine.kubelet.paths import KubeletPaths
from localpv.testing.waiting import PATIENCE_SECONDS

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
NODE = "here"
OFTEN = {"periodSeconds": 1, "timeoutSeconds": int(PATIENCE_SECONDS)}
"""For probes: on a busy machine a command in a container takes longer than the second that it has by default."""

Object = dict[str, Any]


class Machine:
    """`localpv up` over one data folder, started and killed as often as a test likes."""

    def __init__(self, folder: Path) -> None:
        self.settle_in(folder)
        self.log = self.data.parent / f"{self.data.name}.log"
        self.process: forked_programs.Program | None = None
        self.api: wire.Api
        self._uids: set[str] = set()

    def settle_in(self, folder: Path) -> None:
        """Use this data folder from the next start on."""
        self.data = Path(os.path.realpath(folder))
        self.node = self.data / "node"
        self.run_folder = KubeletPaths.of(self.data).run

    def start(self, *options: str) -> None:
        shared = ("--data", str(self.data), "--node", NODE, "--listen", "127.0.0.1:0")
        with self.log.open("ab") as log:
            self.process = forked_programs.start("up", *shared, *options, stderr=log)
        line = self.process.stdout.readline()
        assert line.startswith(b"ready "), f"not ready: {line!r} {self.log.read_text()[-3000:]}"
        target = wire.read_kubeconfig(self.data / "kubeconfig", controllers=True)
        self.api = wire.Api(target, target.token)

    def kill(self) -> None:
        """As the kernel does when memory runs out: without a word."""
        self.end(signal.SIGKILL)

    def stop(self) -> None:
        self.end(signal.SIGTERM)

    def end(self, number: int) -> None:
        if self.process is None:
            return
        self.api.close()
        self.process.send_signal(number)
        self.process.wait(PATIENCE_SECONDS)
        self.process.stdout.close()
        self.process = None

    # Pods.

    def create(self, spec: Object, name: str, *, on_node: bool = True, **metadata: Any) -> Object:
        whole = {"terminationGracePeriodSeconds": 1, **({"nodeName": NODE} if on_node else {}), **spec}
        made: Object = self.api.post(PODS, {"metadata": {"name": name, **metadata}, "spec": whole})
        return made

    def run(self, name: str, script: str, *, restart: str = "Never", **container: Any) -> Object:
        """A pod with one container that runs a script."""
        one = {"name": "main", "image": "busybox", "command": ["sh", "-c", script], **container}
        return self.create({"containers": [one], "restartPolicy": restart}, name)

    def pod(self, name: str) -> Object:
        found: Object = self.api.get(f"{PODS}/{name}")
        return found

    def until(self, name: str, condition: Callable[[Object], object], what: str) -> Object:
        """The pod, as soon as it is as a test wants it."""
        end, between = time.monotonic() + PATIENCE_SECONDS, wire.pauses()
        while True:
            pod = self.pod(name)
            if condition(pod):
                return pod
            assert time.monotonic() < end, (
                f"not in time: {what}; {json.dumps(pod.get('status'), indent=1)}"
                f"\nevents: {self.reasons(name)}\nlog: {self.log.read_text()[-3000:]}"
            )
            time.sleep(next(between))

    def until_phase(self, name: str, *phases: str) -> Object:
        return self.until(name, lambda pod: pod["status"]["phase"] in phases, f"{name} is {' or '.join(phases)}")

    def until_ready(self, name: str) -> Object:
        return self.until(name, lambda pod: condition(pod, "Ready")["status"] == "True", f"{name} is ready")

    def until_waiting(self, name: str, reason: str, container: str = "main") -> Object:
        def waits(pod: Object) -> bool:
            one = container_status(pod, container)
            return one is not None and one["state"].get("waiting", {}).get("reason") == reason

        return self.until(name, waits, f"{name} waits for {reason}")

    def delete(self, name: str, *, grace: int | None = None, wait: bool = True) -> None:
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self.api.delete(f"{PODS}/{name}", **options)
        if wait:
            self.until_gone(name)

    def until_gone(self, name: str) -> None:
        self.eventually(lambda: self.api.gone(f"{PODS}/{name}"), f"{name} is gone")

    def logs(self, name: str, **options: Any) -> str:
        answer = self.api.send("GET", f"{PODS}/{name}/log", **options)
        assert answer.code == 200, answer.raw
        return answer.raw.decode()

    def until_says(self, name: str, text: str, **options: Any) -> None:
        """Wait until a container has said this: one that runs has not begun with its script, let alone set a trap."""
        self.until_ready(name)
        self.eventually(lambda: text in self.logs(name, **options), f"{name} says {text!r}")

    def reasons(self, name: str) -> dict[str, str]:
        """Events of a pod: their reasons and messages."""
        found = self.api.get(EVENTS)["items"]
        return {one["reason"]: one["message"] for one in found if one["involvedObject"]["name"] == name}

    def until_event(self, name: str, reason: str) -> str:
        self.eventually(lambda: reason in self.reasons(name), f"{name} has an event {reason}")
        return self.reasons(name)[reason]

    def eventually(self, holds: Callable[[], object], what: str) -> None:
        end, between = time.monotonic() + PATIENCE_SECONDS, wire.pauses()
        while not holds():
            assert time.monotonic() < end, f"not in time: {what}; {self.left()}\n{self.log.read_text()[-3000:]}"
            time.sleep(next(between))

    # What is there of all that on the machine.

    def mounts(self) -> list[str]:
        table = Path("/proc/self/mountinfo").read_text().splitlines()
        own = (f"{self.node}/", f"{self.run_folder}/")
        return [point for line in table if (point := line.split()[4]).startswith(own)]

    def monitors(self) -> list[int]:
        """Processes that watch over containers of this machine."""
        return [pid for pid in _processes() if f"{self.node}/".encode() in _words(pid)]

    def groups(self) -> list[str]:
        """Control groups of containers of this machine."""
        known = {name.name for name in _entries(self.node / "containers")} | self._uids
        found = [path for path in Path("/sys/fs/cgroup").glob("*/localpv/*") if path.is_dir()]
        found += [path for path in Path("/sys/fs/cgroup/localpv").glob("*") if path.is_dir()]
        return [str(path) for path in found if path.name in known or path.name.partition(".")[0] in known]

    def inside(self, pod: Object, volume: str) -> Path:
        """An emptyDir of a pod, as seen from outside."""
        return self.node / "pods" / pod["metadata"]["uid"] / "volumes" / "kubernetes.io~empty-dir" / volume

    def remember(self, pod: Object) -> None:
        """Control groups of this pod are looked for also after its folders are gone."""
        self._uids = {*self._uids, pod["metadata"]["uid"]}

    def left(self) -> dict[str, list[str]]:
        """Everything of pods that is on the machine."""
        return {what: look() for what, look in self._looks().items()}

    def is_clean(self) -> bool:
        return not any(look() for look in self._looks().values())

    def _looks(self) -> dict[str, Callable[[], list[str]]]:
        """Where to look for what is left; what takes long comes last."""
        return {
            "containers": lambda: [path.name for path in _entries(self.node / "containers")],
            "runtime": lambda: [path.name for path in _entries(self.run_folder / "run")],
            "pods": lambda: [path.name for root in (self.node, self.run_folder) for path in _entries(root / "pods")],
            "mounts": self.mounts,
            "groups": self.groups,
            "monitors": lambda: [str(pid) for pid in self.monitors()],
        }

    def delete_all(self) -> None:
        for pod in self.api.get(PODS)["items"]:
            name = pod["metadata"]["name"]
            self.api.send("PATCH", f"{PODS}/{name}", {"metadata": {"finalizers": None}}, content_type=wire.MERGE_PATCH)
            self.api.send("DELETE", f"{PODS}/{name}", gracePeriodSeconds=0)

    def close(self) -> None:
        """End everything, by force where the engine does not do it any more."""
        with contextlib.suppress(Exception):
            if self.process is not None:
                self.delete_all()
                self.eventually(self.is_clean, "nothing is left")
        self.kill()
        for entry in _entries(self.run_folder / "run"):
            command = ["runc", "--root", str(self.run_folder / "run"), "delete", "--force", entry.name]
            subprocess.run(command, check=False, timeout=PATIENCE_SECONDS, capture_output=True)
        for pid in self.monitors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for point in reversed(self.mounts()):
            subprocess.run(["umount", "--lazy", point], check=False, timeout=PATIENCE_SECONDS, capture_output=True)
        if not self.mounts():
            shutil.rmtree(self.run_folder, ignore_errors=True)


def condition(pod: Object, kind: str) -> Object:
    found = (one for one in pod["status"].get("conditions", ()) if one["type"] == kind)
    return next(found, {"status": "missing"})


def container_status(pod: Object, name: str = "main") -> Object | None:
    status = pod["status"]
    every = (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ()))
    return next((one for one in every if one["name"] == name), None)


def main(pod: Object, name: str = "main") -> Object:
    """The status of a container that must have one."""
    found = container_status(pod, name)
    assert found is not None, pod["status"]
    return found


def restarts(pod: Object, name: str = "main") -> int:
    """How often a container was restarted, also when nothing is told of it yet."""
    found = container_status(pod, name)
    return found["restartCount"] if found is not None else 0


def state(pod: Object, name: str = "main") -> str:
    """running, waiting or terminated; empty when nothing is told yet."""
    found = container_status(pod, name)
    return next(iter(found["state"])) if found is not None else ""


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _words(pid: int) -> bytes:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
    return words if words.startswith((b"conmon", b"/usr/bin/conmon")) else b""


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
