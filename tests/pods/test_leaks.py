"""A hundred pods come and go, in every way that pods end, and nothing of them stays."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from tests.pods.machine import PODS, Machine

PODS_IN_ALL, AT_ONCE = 100, 20


def test_nothing_is_left_after_a_hundred_pods(new_machine: Callable[[], Machine]) -> None:
    machine, choice = new_machine(), random.Random(7)
    before = _mounts(machine), _loops(machine)
    assert machine.process is not None
    machine.run("first", "true")
    machine.until_phase("first", "Succeeded")
    machine.delete("first")
    machine.eventually(machine.is_clean, "nothing is left")
    files = len(os.listdir(f"/proc/{machine.process.pid}/fd"))
    for start in range(0, PODS_IN_ALL, AT_ONCE):
        names = [f"pod-{number}" for number in range(start, start + AT_ONCE)]
        for name in names:
            _create(machine, name, choice.randrange(4))
        for name in names:
            machine.until(name, lambda pod: pod["status"]["phase"] != "Pending", f"{name} runs")
        for name in choice.sample(names, len(names)):
            machine.delete(name, grace=choice.choice((0, 1)), wait=False)
        machine.eventually(lambda: not machine.api.get(PODS)["items"], "all pods are gone")
    machine.eventually(machine.is_clean, "nothing is left")
    assert (_mounts(machine), _loops(machine)) == before, "mounts and loop devices of these pods"
    machine.eventually(
        lambda: machine.process is not None and len(os.listdir(f"/proc/{machine.process.pid}/fd")) <= files + 5,
        "the engine holds no more files than before",
    )


def _create(machine: Machine, name: str, kind: int) -> None:
    """One that ends, one that fails, one that stays, one with several containers and volumes."""
    if kind < 3:
        script = ("exit 0", "exit 1", "sleep 1000")[kind]
        machine.remember(machine.run(name, script, restart=("Never", "Always", "Always")[kind]))
        return
    mounts = [{"name": "data", "mountPath": "/data"}, {"name": "memory", "mountPath": "/m", "subPath": "part"}]
    containers = [
        {"name": one, "image": "busybox", "command": ["sleep", "1000"], "volumeMounts": mounts} for one in ("a", "b")
    ]
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}]
    init = {"name": "init", "image": "busybox", "command": ["touch", "/data/x"], "volumeMounts": mounts}
    machine.remember(machine.create({"containers": containers, "initContainers": [init], "volumes": volumes}, name))


def _mounts(machine: Machine) -> list[str]:
    """Other programs of this machine have mounts of their own."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(machine.data) in line]


def _loops(machine: Machine) -> list[str]:
    return [path.name for path in Path("/sys/block").glob("loop*") if str(machine.data) in _backing_file(path)]


def _backing_file(device: Path) -> str:
    try:
        return (device / "loop" / "backing_file").read_text()
    except OSError:  # somebody else's that goes at this moment, or one that nobody has
        return ""
