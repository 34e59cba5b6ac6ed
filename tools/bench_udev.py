"""Measures the way of a disk that comes: uevent, link by a rule of a LocalStorage, LocalDisk, PersistentVolume.

Needs root and systemd-udevd, which runs in a mount namespace of this program with rules, database and links of its own;
disks are loop devices. Engine, manager, agent and discoverer run as processes, as on a cluster. The figures are saved
in `.bench/udev.json`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import bench
from bench import Connection, Figure, Server
from bench_circle import program
from localpv.api import crds
from localpv.api.kinds.cluster import Namespace
from localpv.api.kinds.localdisk import LOCAL_DISKS
from localpv.api.kinds.localstorage import DeviceGroup, LocalStorage, LocalStorageSpec, NodeGroup
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import StorageClass
from localpv.api.resources import BUILT_IN
from localpv.client import client as clients
from localpv.client import config as connections
from localpv.config import local_storage
from localpv.host import loop

UDEVD = Path("/lib/systemd/systemd-udevd")
PRIVATE = ("/run/udev", "/etc/udev/rules.d", "/usr/lib/udev/rules.d", "/dev/disk")
INSIDE = "LOCALPV_BENCH_UDEV"
TIMES = 60
DISKS = f"{LOCAL_DISKS.path}/{LOCAL_DISKS.plural}"
SPACE, NODE = "localpv-system", "node-1"
LINKS = Path("/dev/disk/kubernetes-local-storage/fast/block")
DEFINITIONS = next(each for each in BUILT_IN if each.kind == "CustomResourceDefinition")
PATIENCE_SECONDS = 60.0


@contextmanager
def udev() -> Iterator[None]:
    """A udev for the devices of this bench, in the mount namespace of this process."""
    for folder in PRIVATE:
        Path(folder).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "localpv-bench", folder], check=True)
    daemon = subprocess.Popen([UDEVD], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while not Path("/run/udev/control").exists():
            if time.monotonic() > until:
                raise SystemExit("bench: udevd did not start")
            time.sleep(0.01)
        yield
    finally:
        daemon.terminate()
        daemon.wait()


class Seen:
    """Objects of one resource as a watcher sees them: their paths, and since when."""

    def __init__(self, path_of: Callable[[Any], str]) -> None:
        self._path_of = path_of
        self.at: dict[str, float] = {}

    async def watch(self, server: Server, address: str) -> None:
        connection = await Connection.open(server)
        connection.send("GET", f"{address}?watch=true&timeoutSeconds=600")
        await connection.head()
        rest = b""
        async for chunk in connection.chunks():
            now = time.perf_counter()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["type"] != "BOOKMARK":
                    self.at.setdefault(self._path_of(event["object"]), now)


async def until(condition: Callable[[], object], what: str) -> float:
    """When it came true, to a millisecond."""
    end = time.perf_counter() + PATIENCE_SECONDS
    while not condition():
        if time.perf_counter() > end:
            raise SystemExit(f"bench: {what} did not come")
        await asyncio.sleep(0.001)
    return time.perf_counter()


async def prepare(kubeconfig: Path, folder: Path) -> LocalStorage:
    """The kinds, the class and a LocalStorage that means the disks of this bench."""
    rule = f'KERNEL=="loop*", ATTR{{loop/backing_file}}=="{folder}/*.img"'
    group = DeviceGroup(storage_class_name="fast", volume_mode="Block", udev_rules=(rule,))
    async with clients.connect(connections.load(kubeconfig), component="bench") as client:
        for kind in ("localdisks", "localstorages", "localstoragenodes"):
            await client.untyped(DEFINITIONS).create(crds.load(kind))
        await client.objects(StorageClass).create(
            StorageClass(metadata=ObjectMeta(name="fast"), provisioner="kubernetes.io/no-provisioner")
        )
        await client.objects(Namespace).create(Namespace(metadata=ObjectMeta(name=SPACE)))
        return await client.objects(LocalStorage).create(
            LocalStorage(
                metadata=ObjectMeta(name="bench", namespace=SPACE),
                spec=LocalStorageSpec(nodes=(NodeGroup(devices=(group,)),)),
            )
        )


async def measure(folder: Path, progress: Callable[[str], None]) -> list[Figure]:
    config, classes = folder / "config", folder / "classes"
    config.mkdir()
    classes.mkdir()
    (classes / "storageClassMap").write_text("{}\n")
    stages: dict[str, list[float]] = {"link": [], "LocalDisk": [], "PV": []}
    with ExitStack() as stack:
        stack.enter_context(udev())
        engine = stack.enter_context(
            program("apiserver", "--data", str(folder / "data"), "--listen", "127.0.0.1:0", "--node", NODE)
        )
        kubeconfig = folder / "data" / "kubeconfig"
        server = Server.from_kubeconfig(kubeconfig, [engine.pid])
        storage = await prepare(kubeconfig, folder)
        # What the kubelet mounts of the operator's ConfigMap.
        told = local_storage.node_configuration(storage, local_storage.groups(storage))
        (config / local_storage.KEY).write_text(told.text())
        disks = Seen(lambda disk: str(disk["spec"]["path"]))
        volumes = Seen(lambda volume: str(volume["spec"]["local"]["path"]))
        watching = [
            asyncio.create_task(disks.watch(server, DISKS)),
            asyncio.create_task(volumes.watch(server, bench.PVS)),
        ]
        common = ("--kubeconfig", str(kubeconfig))
        state = ("--state", str(folder / "state"))
        stack.enter_context(program("manager", *common, "--config", str(classes), "--namespace", SPACE))
        discoverer = stack.enter_context(program("discoverer", *common, "--config", str(config), *state, node=NODE))
        stack.enter_context(program("agent", *common, "--local-storage", *state, node=NODE))
        for number in range(TIMES + 1):
            progress(f"disks that come {number}/{TIMES}")
            file = folder / f"disk-{number}.img"
            with file.open("wb") as image:
                image.truncate(16 << 20)
            began = time.perf_counter()
            device = await asyncio.to_thread(loop.attach, file)
            stack.callback(loop.detach, device)
            path = str(LINKS / device.name)
            linked = await until(lambda path=path: os.path.lexists(path), "the link")  # type: ignore[misc]
            await until(lambda path=path: path in volumes.at, "the PersistentVolume")  # type: ignore[misc]
            if number:  # the first one waits for the agent to have heard of the class
                stages["link"].append(linked - began)
                stages["LocalDisk"].append(disks.at[path] - began)
                stages["PV"].append(volumes.at[path] - began)
            await asyncio.sleep(0.05)
        figures = [
            Figure(f"uevent -> {stage}, {which}", _part(times, part), "s", 0.5, "less")
            for stage, times in stages.items()
            for which, part in (("p50", 0.5), ("p99", 0.99))
        ]
        figures.append(Figure("discoverer memory", bench.memory_mb([discoverer.pid]), "MB", 40, "less"))
        for task in watching:
            task.cancel()
    return figures


def _part(times: list[float], part: float) -> float:
    return sorted(times)[min(int(len(times) * part), len(times) - 1)]


def main() -> None:
    if os.geteuid() != 0 or not UDEVD.exists() or shutil.which("udevadm") is None:
        print("bench: disks that come need root and udev (tools/setup_vm.sh): left out", file=sys.stderr)
        return
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    with bench.scratch() as folder:
        figures = asyncio.run(measure(folder, bench.progress))
    bench.progress("")
    bench.tell("udev", figures)


if __name__ == "__main__":
    main()
