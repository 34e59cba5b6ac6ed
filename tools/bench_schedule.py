"""Measures scheduling: pods placed by `localpv up` and, in the same run, by kube-scheduler.

Nodes are objects without anybody behind them, and no pod runs. The clock starts with the first pod that is created and
stops when a watcher has seen the last one with a node. Also whether one more pod costs the same however many are placed
already, and how it is with pods that each bring a claim. The figures are saved in `.bench/`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path

import bench
from bench import Connection, Figure, Server
from bench_bind import CLAIMS, CLIENTS, Phases, claim, create
from bench_circle import program

PODS = 1000
NODES = 100
CLAIMED = 300
"""Pods with a claim each."""

FEW, MANY = 200, 4000
MORE = 200
"""Pods that are measured when few and when many are placed."""

WATCHED = "/api/v1/namespaces/default/pods"


def node(name: str) -> bytes:
    room = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
    labels = {"kubernetes.io/hostname": name, "bench": "yes"}
    made = {"metadata": {"name": name, "labels": labels}, "status": {"capacity": room, "allocatable": room}}
    return json.dumps({"apiVersion": "v1", "kind": "Node", **made}, separators=(",", ":")).encode()


def pod(name: str, claimed: str = "") -> bytes:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "10m", "memory": "10Mi"}}}
    spec: dict[str, object] = {"containers": [container], "nodeSelector": {"bench": "yes"}}
    if claimed:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claimed}}]
    return json.dumps({"metadata": {"name": name}, "spec": spec}, separators=(",", ":")).encode()


class Watched(Phases):
    """Phases as seen by a watcher that comes back when the server has dropped it."""

    async def watch(self, server: Server) -> None:
        while True:
            await super().watch(server)


class Placed(Watched):
    """Pods that a watcher has seen with a node."""

    def __init__(self) -> None:
        super().__init__(WATCHED, "")

    def counts(self, line: bytes) -> bool:
        return b'"nodeName":"' in line


class Cluster:
    """Nodes and pods of one server, numbered on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._made = 0
        self._placed = Placed()
        self._available = Watched(bench.PVS, "Available")
        self._watches: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Cluster:
        self._watches = [asyncio.create_task(one.watch(self._server)) for one in (self._placed, self._available)]
        names = [f"bench-{number:03}" for number in range(NODES)]
        await create(self._server, "/api/v1/nodes", map(node, names))
        # Kubernetes taints new nodes until their kubelet says that it is ready.
        await replace(self._server, ((f"/api/v1/nodes/{name}", node(name)) for name in names))
        waits = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
        body = json.dumps({"metadata": {"name": "local-fast"}} | waits).encode()
        await create(self._server, "/apis/storage.k8s.io/v1/storageclasses", [body])
        return self

    async def __aexit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.cancel()

    async def place(self, count: int, *, with_claims: bool = False) -> tuple[float, float]:
        """So many more: (seconds, CPU seconds of the server for each)."""
        first, self._made = self._made, self._made + count
        names = [f"bench-{number:05}" for number in range(first, self._made)]
        if with_claims:
            volumes = (bench.volume(name, f"bench-{index % NODES:03}") for index, name in enumerate(names))
            await create(self._server, bench.PVS, volumes)
            await self._available.until(count)
            await create(self._server, CLAIMS, map(claim, names))
        pods = (pod(name, name if with_claims else "") for name in names)
        before, began = bench.cpu_seconds(self._server.pids), time.perf_counter()
        await create(self._server, WATCHED, pods)
        await self._placed.until(self._made)
        seconds = time.perf_counter() - began
        return seconds, (bench.cpu_seconds(self._server.pids) - before) / count


async def replace(server: Server, changes: Iterable[tuple[str, bytes]]) -> None:
    waiting = iter(changes)

    async def work() -> None:
        connection = await Connection.open(server)
        for path, body in waiting:
            code, _ = await connection.call("PUT", path, body)
            assert code == 200, code
        await connection.close()

    await asyncio.gather(*(work() for _ in range(CLIENTS)))


@asynccontextmanager
async def ours(folder: Path) -> AsyncIterator[Cluster]:
    with program("up", "--data", str(folder / "data"), "--listen", "127.0.0.1:0") as process:
        server = Server.from_kubeconfig(folder / "data" / "kubeconfig", [process.pid])
        async with Cluster(server) as cluster:
            yield cluster


@asynccontextmanager
async def kubernetes() -> AsyncIterator[Cluster]:
    sys.path.insert(0, str(bench.ROOT))
    control_plane = import_module("tests.kubernetes.control_plane")
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane.running(controllers=True, scheduler=True))
        async with Cluster(Server.from_kubeconfig(plane.kubeconfig, bench.children_of(os.getpid()))) as cluster:
            yield cluster


async def measure(folder: Path, count: int, progress: Callable[[str], None]) -> list[Figure]:
    figures = []
    progress(f"{count} pods, localpv up")
    async with ours(folder / "first") as cluster:
        seconds, cpu = await cluster.place(count)
        progress(f"{CLAIMED} pods with claims, localpv up")
        with_claims, _ = await cluster.place(CLAIMED, with_claims=True)
    plain, claimed = f"{count} pods placed on {NODES} nodes", f"{CLAIMED} pods with a claim each placed, claims bound"
    figures.append(Figure(plain, seconds, "s", 5 * count / PODS, "less"))
    figures.append(Figure("CPU of localpv up for one pod created and placed", cpu * 1e3, "ms", 5, "less"))
    figures.append(Figure(claimed, with_claims, "s", 5, "less"))
    async with ours(folder / "second") as cluster:
        await cluster.place(FEW)
        progress(f"{MORE} more when {FEW} are placed")
        _, few = await cluster.place(MORE)
        progress(f"{MORE} more when {MANY} are placed")
        await cluster.place(MANY - FEW - MORE)
        _, many = await cluster.place(MORE)
    figures.append(Figure(f"CPU for one more with {MANY} placed, against {FEW}", many / few, "x", 1.2, "less"))
    if not bench.has_kubernetes("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        return figures
    progress(f"{count} pods, kube-scheduler")
    async with kubernetes() as cluster:
        theirs, _ = await cluster.place(count)
        progress(f"{CLAIMED} pods with claims, kube-scheduler")
        theirs_with_claims, _ = await cluster.place(CLAIMED, with_claims=True)
    never = float("inf")
    figures.append(Figure(f"{plain}, kube-scheduler at 500 QPS", theirs, "s", never, "less"))
    figures.append(Figure(f"{claimed}, kube-scheduler at 500 QPS", theirs_with_claims, "s", never, "less"))
    figures.append(Figure("how much longer kube-scheduler takes", theirs / seconds, "x", 1, "more"))
    figures.append(Figure("how much longer with claims", theirs_with_claims / with_claims, "x", 1, "more"))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=PODS, help="pods of the comparison")
    options = parser.parse_args()
    with bench.scratch() as folder:
        bench.tell("schedule", asyncio.run(measure(folder, options.count, bench.progress)))


if __name__ == "__main__":
    main()
