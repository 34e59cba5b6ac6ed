"""Measures binding: claims bound to volumes by `localpv up` and, in the same run, by kube-controller-manager.

The volumes are Available before the clock starts; it stops when a watcher has seen the last claim Bound. Also whether
one more binding costs the same however many volumes are bound already. The figures are saved in `.bench/`.
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
from bench_circle import program

COUNT = 1000
FEW, MANY = 100, 5000
MORE = 200
"""Bindings that are measured when few and when many are bound."""

TURNS = 3
"""The cheapest turn counts: whatever else the machine does makes the others dearer."""

CLIENTS = 16
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
PATIENCE_SECONDS = 180.0


def claim(name: str) -> bytes:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local-fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return json.dumps({"metadata": {"name": name}, "spec": spec}, separators=(",", ":")).encode()


class Phases:
    """How many objects of a path are in a phase, as a watcher sees it."""

    def __init__(self, path: str, phase: str) -> None:
        self._path, self._phase = path, phase
        self._names: set[str] = set()
        self._changed = asyncio.Event()

    async def watch(self, server: Server) -> None:
        connection = await Connection.open(server)
        connection.send("GET", f"{self._path}?watch=true&timeoutSeconds=600")
        await connection.head()
        rest = b""
        async for chunk in connection.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if self.counts(line):
                    self._names.add(json.loads(line)["object"]["metadata"]["name"])
            self._changed.set()

    def counts(self, line: bytes) -> bool:
        return b'"phase":"%b"' % self._phase.encode() in line

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self._names) < count:
                self._changed.clear()
                await self._changed.wait()


async def create(server: Server, path: str, bodies: Iterable[bytes]) -> None:
    waiting = iter(bodies)

    async def work() -> None:
        connection = await Connection.open(server)
        for body in waiting:
            code, _ = await connection.call("POST", path, body)
            assert code == 201, code
        await connection.close()

    await asyncio.gather(*(work() for _ in range(CLIENTS)))


class Binding:
    """Volumes and claims of one server, numbered on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._made = 0
        self._available = Phases(bench.PVS, "Available")
        self._bound = Phases(CLAIMS, "Bound")
        self._watches: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Binding:
        self._watches = [asyncio.create_task(one.watch(self._server)) for one in (self._available, self._bound)]
        fast = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate"}
        body = json.dumps({"metadata": {"name": "local-fast"}} | fast).encode()
        await create(self._server, "/apis/storage.k8s.io/v1/storageclasses", [body])
        return self

    async def __aexit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.cancel()

    async def bind(self, count: int) -> tuple[float, float]:
        """So many more: (seconds, CPU seconds of the server for each)."""
        first, self._made = self._made, self._made + count
        names = [f"bench-{number:05}" for number in range(first, self._made)]
        await create(self._server, bench.PVS, map(bench.volume, names))
        await self._available.until(self._made)
        before, began = bench.cpu_seconds(self._server.pids), time.perf_counter()
        await create(self._server, CLAIMS, map(claim, names))
        await self._bound.until(self._made)
        seconds = time.perf_counter() - began
        return seconds, (bench.cpu_seconds(self._server.pids) - before) / count


@asynccontextmanager
async def ours(folder: Path) -> AsyncIterator[Binding]:
    with program("up", "--data", str(folder / "data"), "--listen", "127.0.0.1:0") as process:
        server = Server.from_kubeconfig(folder / "data" / "kubeconfig", [process.pid])
        async with Binding(server) as binding:
            yield binding


@asynccontextmanager
async def kubernetes() -> AsyncIterator[Binding]:
    sys.path.insert(0, str(bench.ROOT))
    control_plane, programs = map(import_module, ("tests.kubernetes.control_plane", "tests.kubernetes.programs"))
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane.running())
        controllers = programs.Programs(logs=plane.folder)
        stack.callback(controllers.stop)
        # As in a cluster it looks through everything every 15 s, but may ask 25 times as often as by default.
        control_plane.start_controllers(plane, controllers, look_at_volumes_every="15s")
        async with Binding(Server.from_kubeconfig(plane.kubeconfig, bench.children_of(os.getpid()))) as binding:
            yield binding


async def measure(folder: Path, count: int, progress: Callable[[str], None]) -> list[Figure]:
    figures = []
    progress(f"{count} claims, localpv up")
    async with ours(folder / "first") as binding:
        seconds, cpu = await binding.bind(count)
    title = f"{count} claims bound to {count} volumes"
    figures.append(Figure(title, seconds, "s", 3 * count / COUNT, "less"))
    figures.append(Figure("CPU of localpv up for one claim created and bound", cpu * 1e3, "ms", 3, "less"))
    async with ours(folder / "second") as binding:
        await binding.bind(FEW)
        progress(f"{MORE} more when {FEW} are bound")
        few = min([(await binding.bind(MORE))[1] for _ in range(TURNS)])
        progress(f"{MORE} more when {MANY} are bound")
        await binding.bind(MANY - FEW - MORE * TURNS)
        many = min([(await binding.bind(MORE))[1] for _ in range(TURNS)])
    figures.append(Figure(f"CPU for one more with {MANY} bound, against {FEW}", many / few, "x", 1.2, "less"))
    if not bench.has_kubernetes("etcd", "kube-apiserver", "kube-controller-manager"):
        return figures
    progress(f"{count} claims, kube-controller-manager")
    async with kubernetes() as binding:
        theirs, _ = await binding.bind(count)
    figures.append(Figure(f"{title}, kube-controller-manager at 500 QPS", theirs, "s", float("inf"), "less"))
    figures.append(Figure("how much longer kube-controller-manager takes", theirs / seconds, "x", 1, "more"))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="claims and volumes of the comparison")
    options = parser.parse_args()
    with bench.scratch() as folder:
        bench.tell("bind", asyncio.run(measure(folder, options.count, bench.progress)))


if __name__ == "__main__":
    main()
