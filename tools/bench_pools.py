"""Measures volumes carved out of a pool of files, by `localpv up` on this machine, as root.

A claim of a class that binds at once, from created to Bound; a pod with a claim that waits for it, from created to
Running; many claims at once, until all are Bound, and until all are gone again. The figures are saved in `.bench/`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import bench
from bench import Figure

sys.path.insert(0, str(bench.ROOT))
machines, places = map(import_module, ("tests.pods.machine", "tests.e2e.place"))

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
POOLS = "/apis/localpv.dev/v1alpha1/localpools"
ROUNDS = 12
WARM_UP = 2
AT_ONCE = 200


def started(folder: Path) -> Any:
    """An engine with two classes of one pool: `now` binds at once, `fast` waits for a pod."""
    files, config = folder / "pool", folder / "config"
    files.mkdir()
    config.mkdir()
    pool = f"{{kind: file, directory: {files}, size: 8Gi}}"
    (config / "storageClassMap").write_text(f"fast:\n  pool: {pool}\nnow:\n  pool: {pool}\n")
    immediate = (
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: now}\nprovisioner: localpv.dev\n"
        "volumeBindingMode: Immediate\n"
    )
    (config / "now.yaml").write_text(immediate)
    machine = machines.Machine(folder / "data")
    machine.start("--config", str(config))
    machine.eventually(lambda: machine.api.get(POOLS)["items"], "the pool is there")
    machine.eventually(lambda: not machine.api.gone(f"{CLASSES}/fast"), "the class is there")
    return machine


def claim(machine: Any, name: str, storage_class: str, size: str = "8Mi") -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    machine.api.post(CLAIMS, {"metadata": {"name": name}, "spec": spec})


def bound(machine: Any, rounds: int) -> float:
    """Median of seconds from a claim to its volume."""
    taken = []
    for number in range(rounds + WARM_UP):
        bench.progress(f"claim {number}")
        with machine.api.watch(CLAIMS) as watch:
            begun = time.monotonic()
            claim(machine, f"now-{number}", "now")
            _until(watch, lambda kind, seen: seen["status"].get("phase") == "Bound")
            taken.append(time.monotonic() - begun)
        _remove(machine)
    return statistics.median(taken[WARM_UP:])


def running(machine: Any, rounds: int) -> float:
    """Median of seconds from a pod with a new claim to Running."""
    taken = []
    for number in range(rounds + WARM_UP):
        bench.progress(f"pod {number}")
        name = f"pod-{number}"
        main = {
            "name": "main",
            "image": "busybox",
            "command": ["sleep", "3600"],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        with machine.api.watch(machines.PODS) as watch:
            begun = time.monotonic()
            claim(machine, name, "fast", "32Mi")
            machine.create({"containers": [main], "volumes": volumes}, name, on_node=False)
            _until(watch, lambda kind, seen: seen["status"].get("phase") == "Running")
            taken.append(time.monotonic() - begun)
        machine.delete(name, grace=0)
        _remove(machine)
    return statistics.median(taken[WARM_UP:])


def at_once(machine: Any, count: int) -> tuple[float, float, float]:
    """Volumes made, and removed, in a second, of many that are asked for at once; and processor time for one, in ms."""
    bench.progress(f"{count} claims at once")
    with machine.api.watch(CLAIMS) as watch:
        begun, spent = time.monotonic(), _processor_seconds(machine)
        for number in range(count):
            claim(machine, f"many-{number}", "now")
        waiting = {f"many-{number}" for number in range(count)}
        while waiting:
            seen = watch.next().object
            if seen["status"].get("phase") == "Bound":
                waiting.discard(seen["metadata"]["name"])
        made, spent = time.monotonic() - begun, _processor_seconds(machine) - spent
    begun = time.monotonic()
    _remove(machine)
    return count / made, count / (time.monotonic() - begun), spent / count * 1000


def _processor_seconds(machine: Any) -> float:
    """What the engine has used so far: on a machine that others use too it says more than the clock."""
    fields = Path(f"/proc/{machine.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _remove(machine: Any) -> None:
    with machine.api.watch(VOLUMES) as watch:
        left = {each["metadata"]["name"] for each in machine.api.get(VOLUMES)["items"]}
        for each in machine.api.get(CLAIMS)["items"]:
            machine.api.delete(f"{CLAIMS}/{each['metadata']['name']}")
        while left:
            event = watch.next()
            if event.type == "DELETED":
                left.discard(event.object["metadata"]["name"])


def _until(watch: Any, seen: Callable[[str, Any], bool]) -> None:
    while True:
        event = watch.next()
        if seen(event.type, event.object):
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=ROUNDS, help="claims, and pods, one after the other")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="claims at the same time")
    options = parser.parse_args()
    if lack := places.why_not_here():
        print(f"bench: pools are not measured: {lack}", file=sys.stderr)
        return
    with bench.scratch() as folder:
        machine = started(folder)
        try:
            to_bound, to_running = bound(machine, options.count), running(machine, options.count)
            created, removed, spent = at_once(machine, options.at_once)
        finally:
            machine.close()
    # Beside a poll of 1 s (TopoLVM) and 5 creates a second (OpenEBS LVM), as their documents have it.
    figures = [
        Figure("claim of a file pool to Bound, median", to_bound, "s", 0.1, "less"),
        Figure("pod with a new claim of a file pool to Running, median", to_running, "s", 0.3, "less"),
        Figure(f"volumes of a file pool made, {options.at_once} claims at once", created, "/s", 50, "more"),
        Figure("processor time of the engine for each of them", spent, "ms", 20, "less"),
        Figure("and removed again, wiped", removed, "/s", 20, "more"),
    ]
    bench.tell("pools", figures)


if __name__ == "__main__":
    main()
