"""Measures the circle: how fast a disk becomes a volume, what the agent costs, how fast volumes are emptied and wiped.

Engine, manager and agent run as processes of their own, as on a cluster. The figures are saved in `.bench/`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import bench
from bench import Connection, Figure, Server

VOLUMES = 200
LATENCIES = 100
ELSEWHERE = 10_000
FILES = 100_000
ZEROED = 1 << 30


@contextmanager
def program(*arguments: str, node: str = "") -> Iterator[subprocess.Popen[str]]:
    """A localpv program, ready when this returns."""
    process = subprocess.Popen(
        [sys.executable, "-m", "localpv", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "MY_NODE_NAME": node},
    )
    assert process.stdout is not None
    try:
        if not process.stdout.readline().startswith("ready"):
            raise SystemExit(f"bench: localpv {arguments[0]} did not start")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        process.stdout.close()


def run(*argv: str) -> None:
    """A tool to compare with; while it runs nothing else should."""
    subprocess.run(argv, check=True)


class Seen:
    """PVs as a watcher sees them: name of the entry -> when."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self._changed = asyncio.Event()

    async def watch(self, server: Server) -> None:
        connection = await Connection.open(server)
        connection.send("GET", f"{bench.PVS}?watch=true&timeoutSeconds=600")
        await connection.head()
        rest = b""
        async for chunk in connection.chunks():
            now = time.perf_counter()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                path = event["object"]["spec"]["local"]["path"]
                self.at.setdefault(path.rsplit("/", 1)[1], now)
            self._changed.set()

    async def until(self, names: set[str]) -> None:
        async with asyncio.timeout(120):
            while not names <= self.at.keys():
                self._changed.clear()
                await self._changed.wait()


async def measure(folder: Path, progress: Callable[[str], None]) -> list[Figure]:
    disks, config = folder / "disks", folder / "config"
    disks.mkdir()
    config.mkdir()
    (config / "storageClassMap").write_text(f"fast:\n  hostDir: {disks}\n")
    figures: list[Figure] = []
    with ExitStack() as stack:
        engine = stack.enter_context(
            program("apiserver", "--data", str(folder / "data"), "--listen", "127.0.0.1:0", "--node", "node-1")
        )
        kubeconfig = folder / "data" / "kubeconfig"
        server = Server.from_kubeconfig(kubeconfig, [engine.pid])
        await prepare(server)
        seen = Seen()
        watching = asyncio.create_task(seen.watch(server))
        common = ("--kubeconfig", str(kubeconfig), "--config", str(config))
        stack.enter_context(program("manager", *common))

        progress(f"{VOLUMES} volumes at start")
        names = {f"start-{number}" for number in range(VOLUMES)}
        for name in names:
            (disks / name).mkdir()
        began = time.perf_counter()
        agent = stack.enter_context(program("agent", *common, "--state", str(folder / "state"), node="node-1"))
        await seen.until(names)
        seconds = max(seen.at[name] for name in names) - began
        figures.append(Figure(f"{VOLUMES} volumes at start -> {VOLUMES} PVs", seconds, "s", 2, "less"))

        latencies = []
        for number in range(LATENCIES):
            progress(f"new volumes {number}/{LATENCIES}")
            name = f"new-{number}"
            (disks / name).mkdir()
            began = time.perf_counter()
            run("mount", "-t", "tmpfs", "-o", "size=1m", "localpv-bench", str(disks / name))
            stack.callback(run, "umount", str(disks / name))
            await seen.until({name})
            latencies.append(seen.at[name] - began)
            await asyncio.sleep(0.05)
        latencies.sort()
        figures.append(Figure("new mount -> PV, p50", latencies[len(latencies) // 2], "s", 0.1, "less"))
        figures.append(Figure("new mount -> PV, p99", latencies[int(len(latencies) * 0.99)], "s", 0.1, "less"))

        progress("the agent at rest")
        figures.append(Figure("agent memory, 300 volumes", bench.memory_mb([agent.pid]), "MB", 45, "less"))
        before = bench.cpu_seconds([agent.pid])
        await asyncio.sleep(20)
        idle = (bench.cpu_seconds([agent.pid]) - before) / 20 * 100
        figures.append(Figure("agent idle CPU", idle, "%", 0.1, "less"))
        progress(f"{ELSEWHERE} PVs of other nodes")
        await bench.creates(server, ELSEWHERE, 32, lambda _: None)
        title = f"agent memory with {ELSEWHERE} PVs elsewhere"
        figures.append(Figure(title, bench.memory_mb([agent.pid]), "MB", 45, "less"))
        watching.cancel()
    return figures


async def prepare(server: Server) -> None:
    """The kind LocalDisk and a class."""
    from localpv.api import crds

    connection = await Connection.open(server)
    for path, obj in (
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crds.load("localdisks")),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            {"metadata": {"name": "fast"}, "provisioner": "kubernetes.io/no-provisioner"},
        ),
    ):
        code, _ = await connection.call("POST", path, json.dumps(obj).encode())
        assert code == 201, (path, code)
    await connection.close()


async def emptying(folder: Path, progress: Callable[[str], None]) -> list[Figure]:
    """Our deletion beside rm -rf, on the same tree, in turns."""
    from localpv.host.mounts import KernelMounts
    from localpv.host.trees import KernelTrees
    from localpv.host.workers import Workers

    trees = KernelTrees(workers=Workers(), mounts=KernelMounts())
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(2):
        for which, times in (("ours", ours), ("rm", theirs)):
            progress(f"deleting {FILES} files, {which} {turn + 1}/2")
            volume = folder / f"{which}-{turn}"
            for number in range(100):
                (volume / f"d{number}").mkdir(parents=True)
            for number in range(FILES):
                (volume / f"d{number % 100}" / f"f{number}").touch()
            os.sync()
            began = time.perf_counter()
            if which == "ours":
                await trees.empty(volume, inside=folder)
            else:
                run("rm", "-rf", str(volume))
            times.append(time.perf_counter() - began)
    return [Figure(f"deleting {FILES} files, time against rm -rf", min(ours) / min(theirs), "x", 1.0, "less")]


async def zeroing(folder: Path, progress: Callable[[str], None]) -> list[Figure]:
    """Zeroing a loop device beside dd, in turns."""
    if os.geteuid() != 0:
        return []
    from localpv.host import loop
    from localpv.host.devices import KernelDevices
    from localpv.host.model.methods import Zero
    from localpv.host.wiper import KernelWiper
    from localpv.host.workers import Workers

    file = folder / "zeroed.img"
    run("fallocate", "-l", str(ZEROED), str(file))
    device = loop.attach(file)
    workers = Workers()
    devices = KernelDevices(workers=workers)
    wiper = KernelWiper(workers=workers, devices=devices)
    ours, theirs = [], []
    try:
        for turn in range(2):
            progress(f"zeroing 1 GiB {turn + 1}/2")
            expected = (await devices.describe(device)).identity
            began = time.perf_counter()
            await wiper.wipe(device, Zero(1), expected=expected)
            ours.append(time.perf_counter() - began)
            began = time.perf_counter()
            run("dd", "if=/dev/zero", f"of={device}", "bs=1M", f"count={ZEROED >> 20}", "oflag=direct", "status=none")
            theirs.append(time.perf_counter() - began)
    finally:
        loop.detach(device)
    return [Figure("zeroing and reading back 1 GiB, time against dd", min(ours) / min(theirs), "x", 2.0, "less")]


def main() -> None:
    with bench.scratch() as folder:
        measured = [asyncio.run(part(folder, bench.progress)) for part in (measure, emptying, zeroing)]
    bench.tell("circle", [figure for figures in measured for figure in figures])


if __name__ == "__main__":
    main()
