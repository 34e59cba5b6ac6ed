"""Measures what one operator costs that keeps the status of a LocalStorage on 1,000 nodes with 10 devices each.

The nodes are hollow: objects, and this program in place of their discoverers and agents, which all report at once. The
engine and the operator run as processes of their own. The figures are saved in `.bench/`.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any

import bench
from bench import Figure
from bench_circle import program
from localpv.api import crds
from localpv.api.kinds.localdisk import LOCAL_DISKS
from localpv.api.kinds.localstorage import LOCAL_STORAGE_NODES, LOCAL_STORAGES, LocalStorage
from localpv.api.kinds.meta import resource_of
from localpv.client import client as clients
from localpv.client import config
from localpv.client.client import Client
from localpv.client.watching import Changed

NODES = 1000
DEVICES = 10
AT_ONCE = 32
NAMESPACE = "localpv-system"
PATIENCE_SECONDS = 300.0


async def together(works: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """All of these, some at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(work: Coroutine[Any, Any, Any]) -> None:
        async with room:
            await work

    await asyncio.gather(*(one(work) for work in works))


class Writes:
    """How often the LocalStorage was written, as a watcher sees it, and what it says."""

    def __init__(self) -> None:
        self.count = 0
        self.last: LocalStorage | None = None
        self._changed = asyncio.Event()

    async def watch(self, client: Client) -> None:
        version = (await client.objects(LocalStorage).list()).resource_version
        while True:
            watch = client.objects(LocalStorage).watch(resource_version=version)
            async with aclosing(watch):
                async for event in watch:
                    if isinstance(event, Changed):
                        self.count += 1
                        self.last, version = event.object, event.object.metadata.resource_version
                        self._changed.set()

    async def until(self, is_so: Callable[[LocalStorage], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.last is None or not is_so(self.last):
                self._changed.clear()
                await self._changed.wait()


class Hollow:
    """A node that only talks."""

    def __init__(self, client: Client, number: int, uid: str) -> None:
        self.name = f"node-{number:04}"
        self._uid = uid
        self._reports = client.untyped(LOCAL_STORAGE_NODES)
        self._disks = client.untyped(LOCAL_DISKS)

    async def report(self) -> None:
        name = f"local.{self.name}"
        spec = {"nodeName": self.name, "localStorageName": "local", "localStorageUID": self._uid}
        await self._reports.create({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
        devices = [
            {
                "device": f"sd{letter}",
                "link": f"disk/kubernetes-local-storage/fast/block/sd{letter}",
                "storageClassName": "fast",
                "volumeMode": "Block",
                "rule": "nodes[0].devices[0].deviceNames[0]",
            }
            for letter in "bcdefghijk"[:DEVICES]
        ]
        status = {"generation": 1, "matched": DEVICES, "devices": devices}
        await self._reports.patch(name, {"status": status}, NAMESPACE, subresource="status")

    async def disk(self, number: int) -> None:
        name, path = f"{self.name}-{number}", f"/dev/disk/kubernetes-local-storage/fast/block/{number}"
        spec = {
            "nodeName": self.name,
            "storageClassName": "fast",
            "entry": str(number),
            "path": path,
            "volumeMode": "Block",
            "volume": {"name": f"pv-{name}", "uid": "u"},
        }
        await self._disks.create({"metadata": {"name": name}, "spec": spec})
        matched = f"{NAMESPACE}/local nodes[0].devices[0].deviceNames[0]"
        status = {"phase": "Published", "eligible": True, "matchedBy": matched}
        await self._disks.patch(name, {"status": status}, subresource="status")


async def measure(folder: Path, count: int, progress: Callable[[str], None]) -> list[Figure]:
    with ExitStack() as stack:
        stack.enter_context(program("apiserver", "--data", str(folder / "data"), "--listen", "127.0.0.1:0"))
        kubeconfig = folder / "data" / "kubeconfig"
        async with clients.connect(config.load(kubeconfig), component="bench", connections=AT_ONCE + 4) as client:
            progress("nodes")
            await prepare(client, count)
            operator = stack.enter_context(
                program("operator", "--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE, "--image", "localpv:1")
            )
            writes = Writes()
            watching = asyncio.create_task(writes.watch(client))
            devices = {"storageClassName": "fast", "deviceNames": ["sd[b-z]"]}
            # The engine has a node of its own, which is not hollow.
            spec = {"nodes": [{"nodeSelector": {"hollow": "yes"}, "devices": [devices]}]}
            metadata = {"name": "local", "namespace": NAMESPACE}
            made = await client.untyped(LOCAL_STORAGES).create({"metadata": metadata, "spec": spec})
            await writes.until(lambda storage: storage.status.node_count == count)
            nodes = [Hollow(client, number, made["metadata"]["uid"]) for number in range(count)]
            before, cpu, began = writes.count, bench.cpu_seconds([operator.pid]), time.perf_counter()
            progress("reports and disks")
            await together(node.report() for node in nodes)
            await together(node.disk(number) for number in range(DEVICES) for node in nodes)
            written = time.perf_counter()
            await writes.until(
                lambda storage: (
                    (storage.status.current_nodes, storage.status.published_devices) == (count, count * DEVICES)
                )
            )
            seconds = time.perf_counter() - began
            spent, pids = bench.cpu_seconds([operator.pid]) - cpu, [operator.pid]
            rate, each = (writes.count - before) / seconds, 1000 * spent / (count * (2 + 2 * DEVICES))
            watching.cancel()
            return [
                Figure("statuses written while all nodes report", rate, "/s", 1.5, "less"),
                Figure("operator's CPU for a report or disk", each, "ms", 1, "less"),
                Figure("last report -> status complete", time.perf_counter() - written, "s", 5, "less"),
                Figure(
                    f"operator's memory, {count} nodes with {DEVICES} devices", bench.memory_mb(pids), "MB", 90, "less"
                ),
            ]


async def prepare(client: Client, count: int) -> None:
    definitions = client.untyped(resource_of("CustomResourceDefinition", "apiextensions.k8s.io"))
    for name in crds.NAMES:
        await definitions.create(crds.load(name))
    await client.untyped(resource_of("Namespace")).create({"metadata": {"name": NAMESPACE}})
    nodes = client.untyped(resource_of("Node"))
    labels = {"kubernetes.io/os": "linux", "hollow": "yes"}
    await together(
        nodes.create({"metadata": {"name": f"node-{number:04}", "labels": labels}}) for number in range(count)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help="hollow nodes")
    options = parser.parse_args()
    with bench.scratch() as folder:
        bench.tell("operator", asyncio.run(measure(folder, options.nodes, bench.progress)))


if __name__ == "__main__":
    main()
