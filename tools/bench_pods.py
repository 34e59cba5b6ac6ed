"""Measures pods on local volumes: from created to Running, and from deleted to gone, by `localpv up` and by a kubelet.

Both take place in one run on this machine, as root. The pods are the same: one container, one claim that waits for its
first consumer, a directory behind it. The figures are saved in `.bench/`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import bench
from bench import Figure

sys.path.insert(0, str(bench.ROOT))
builders, wire, places, pods, spaces, cluster, images = map(
    import_module,
    (
        "tests.contract.builders",
        "tests.contract.wire",
        "tests.e2e.place",
        "tests.e2e.pods",
        "tests.contract.spaces",
        "tests.kubernetes.cluster",
        "tests.kubernetes.images",
    ),
)

PODS = 12
WARM_UP = 2


def measure(here: Any, node: str, folder: str, run: Callable[..., str], count: int) -> tuple[float, float]:
    """Medians in seconds: created to Running, deleted to gone."""
    started, ended = [], []
    for number in range(count + WARM_UP):
        path = f"{folder}/{builders.unique('bench')}"
        run("mkdir", path)
        claim = here.volume_on(node, path)
        mounts = [{"name": "disk", "mountPath": "/data"}]
        with here.api.watch(here.space.core("pods")) as watch:
            begun = time.monotonic()
            spec = {**pods.claimed(claim), "terminationGracePeriodSeconds": 1}
            name = here.start("sleep", "3600", spec=spec, volumeMounts=mounts)
            _until(watch, lambda kind, pod: pod["status"].get("phase") == "Running")
            running = time.monotonic()
            here.api.delete(here.space.core("pods", name))
            _until(watch, lambda kind, pod: kind == "DELETED")
            gone = time.monotonic()
        if number >= WARM_UP:
            started.append(running - begun)
            ended.append(gone - running)
        run("rmdir", path)
    return statistics.median(started), statistics.median(ended)


def _until(watch: Any, seen: Callable[[str, Any], bool]) -> None:
    while True:
        event = watch.next()
        if seen(event.type, event.object):
            return


def on_this_machine(count: int) -> tuple[float, float]:
    with places.on_this_machine() as place:
        return _at(place.target, place.image, place.hosts[0], place.folder, count)


def on_kubernetes(count: int) -> tuple[float, float] | None:
    if lack := cluster.missing():
        print(f"bench: no comparison with a kubelet: {lack}", file=sys.stderr)
        return None
    with cluster.running(nodes=1) as made:
        target = wire.read_kubeconfig(made.kubeconfig, controllers=True)
        return _at(target, images.BUSYBOX, made.nodes[0], "/mnt", count)


def _at(target: Any, image: str, host: Any, folder: str, count: int) -> tuple[float, float]:
    api = wire.Api(target, target.token)
    space = spaces.Space(api.post("/api/v1/namespaces", builders.namespace())["metadata"]["name"])
    wire.eventually(lambda: _has_account(api, space), "pods can be made in the namespace")
    here = pods.Here(api=api, space=space, image=image)
    try:
        return measure(here, host.name, folder, host.run, count)
    finally:
        api.close()


def _has_account(api: Any, space: Any) -> bool:
    return bool(api.send("GET", space.core("serviceaccounts", "default")).code == 200)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=PODS, help="pods, one after the other")
    options = parser.parse_args()
    if lack := places.why_not_here():
        print(f"bench: pods are not measured: {lack}", file=sys.stderr)
        return
    ours, theirs = on_this_machine(options.count), on_kubernetes(options.count)
    figures = [Figure("pod created to Running, median", ours[0], "s", 0.3, "less")]
    if theirs is not None:
        figures += [
            Figure("how much longer a kubelet takes to start it", theirs[0] / ours[0], "x", 1, "more"),
            Figure("how much longer a kubelet takes to end it", theirs[1] / ours[1], "x", 1, "more"),
        ]
    bench.tell("pods", figures)


if __name__ == "__main__":
    main()
