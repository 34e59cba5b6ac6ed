"""Pods on a machine in memory: our own API server, a runner, and a fake runtime, side by side in one process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.unit.engine.kubelet.volumes.world import Machine

from localpv import errors
from localpv.api.kinds.pods import Pod
from localpv.client import config as connections
from localpv.client.client import Client
from localpv.client.http import HttpTransport
from localpv.client.informer_factory import InformerFactory
from localpv.client.objects import Selection
from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.engine.kubelet.container_start import ContainerRuntime, NodeFacts
from localpv.engine.kubelet.images import store
from localpv.engine.kubelet.images.store import Config, Image, Images
from localpv.engine.kubelet.paths import KubeletPaths
from localpv.engine.kubelet.runner import PodRunner
from localpv.engine.kubelet.volumes import PodVolumes
from localpv.engine.kubelet.volumes.volume_spec import Prepared
from localpv.observe.recorder import ApiRecorder
from localpv.programs.in_process_transport import InsideTransport
from localpv.runtime.clock import SystemClock
from localpv.testing.fake_containers import FakeContainers, FakeLayers, FakeSandboxes
from localpv.testing.waiting import PATIENCE_SECONDS, eventually

NODE = "here"


class NotedVolumes(PodVolumes):
    """The volumes of pods as they are, on a machine in memory, with a note of when they came and went."""

    def __init__(self, machine: Machine, journal: list[str]) -> None:
        super().__init__(root=machine.root, host=machine.host, lookup=machine.lookup, clock=machine.clock)
        self._journal = journal
        self._of: set[str] = set()
        """Pods that have theirs."""

    async def set_up(self, pod: Pod) -> Mapping[str, Prepared]:
        prepared = await super().set_up(pod)
        self._journal.append("volumes")
        self._of.add(pod.metadata.uid)
        return prepared

    async def tear_down(self, pod_uid: str) -> None:
        await super().tear_down(pod_uid)
        if pod_uid in self._of:
            self._journal.append("no volumes")
            self._of.discard(pod_uid)


class Nothing:
    async def config_map(self, namespace: str, name: str) -> None:
        return None

    async def secret(self, namespace: str, name: str) -> None:
        return None


class Town:
    """One machine and its API."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.pods = client.untyped(Pod.resource)
        self.journal: list[str] = []
        self.paths = KubeletPaths(folder / "node", folder / "run")
        self.containers = FakeContainers(self.journal)
        self.sandboxes = FakeSandboxes(self.journal)
        self.machine = Machine(folder / "volumes")
        self.volumes = NotedVolumes(self.machine, self.journal)
        self.boot = "boot-1"
        self.images = Images(self.paths.images)
        self.paths.images.mkdir(parents=True)
        box = Image(id="sha256:box", config=Config(cmd=("sh",)))
        self.images.add(box, [store.parse_reference("busybox")], lambda root: None)
        self.refusal: tuple[str, str] | None = None
        self.runner: PodRunner

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A runner is at work until the with-block ends, without a word then: as if it were killed."""
        clock = SystemClock()
        events = ApiRecorder(self.client, component="tests", clock=clock)

        async def admit(pod: Pod) -> tuple[str, str] | None:
            return self.refusal

        informers = InformerFactory(self.client, clock=clock)
        self.runner = PodRunner(
            self.client,
            informer=informers.informer(Pod, Selection(fields=f"spec.nodeName={NODE}")),
            node=NodeFacts(name=NODE, host_ip="192.0.2.7", boot=self.boot, capacity={"cpu": "2", "memory": "1Gi"}),
            runtime=ContainerRuntime(
                paths=self.paths,
                images=self.images,
                containers=self.containers,
                sandboxes=self.sandboxes,
                layers=FakeLayers(self.journal),
            ),
            volumes=self.volumes,
            sources=Nothing(),
            recorder=events,
            clock=clock,
            admit=admit,
        )
        tasks = [asyncio.create_task(run()) for run in (informers.run, self.runner.run, events.run)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def create(self, name: str = "pod", **spec: Any) -> str:
        """A pod with one container, or with those that are given; returns its uid."""
        whole = {"containers": [{"name": "main", "image": "busybox"}], "nodeName": NODE, **spec}
        made = await self.pods.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": whole}
        )
        return str(made["metadata"]["uid"])

    async def pod(self, name: str = "pod") -> dict[str, Any]:
        return await self.pods.get(name, "default")

    async def until(self, holds: Callable[[dict[str, Any]], object], name: str = "pod") -> dict[str, Any]:
        pod: dict[str, Any] = {}
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    if holds(pod := await self.pod(name)):
                        return pod
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"not in time: {pod.get('status')}; {self.journal}") from None

    async def until_phase(self, phase: str, name: str = "pod") -> dict[str, Any]:
        return await self.until(lambda pod: pod["status"]["phase"] == phase, name)

    async def until_gone(self, name: str = "pod") -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    await self.pod(name)
                except errors.NotFound:
                    return
                await asyncio.sleep(0.01)

    async def until_done(self, *words: str) -> None:
        """Wait for steps to be in the journal."""
        await eventually(lambda: all(word in self.journal for word in words), what=f"{words} of {self.journal}")


@asynccontextmanager
async def town(folder: Path) -> AsyncIterator[Town]:
    server = ApiServer(Settings(data=folder / "data", port=0, durable=False, node_name=NODE))
    await server.start()
    try:
        connection = connections.load(server.kubeconfig)
        async with HttpTransport(connection, component="tests") as outer:
            transport = InsideTransport(server, outer, connection=connection, component="tests")
            yield Town(Client(transport, field_manager="tests"), folder)
    finally:
        await server.stop()
