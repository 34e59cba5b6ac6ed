"""Controllers that die at any write, and others that go on: nothing is made twice, nothing counted twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.mortal import Mortal
from tests.workloads import crew

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.api.kinds.workloads import ControllerRevision, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from localpv.client import config as connections
from localpv.client.client import Client
from localpv.client.http import HttpTransport
from localpv.client.informer_factory import InformerFactory
from localpv.client.transport import Answer, Request, Transport
from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.engine.controllers import pods
from localpv.engine.controllers.controllers import Workloads
from localpv.runtime.clock import SystemClock
from localpv.testing.waiting import PATIENCE_SECONDS


class ResizesAtTheSecondSet:
    """Somebody changes the number of pods of a Deployment just when its second set was made."""

    def __init__(self, inner: Transport, replicas: int) -> None:
        self._inner = inner
        self._replicas = replicas
        self._sets = 0
        self.stream = inner.stream

    async def request(self, request: Request) -> Answer:
        answer = await self._inner.request(request)
        if request.method == "POST" and request.path.endswith("/replicasets"):
            self._sets += 1
            if self._sets == 2:
                people = Client(self._inner, field_manager="people").objects(Deployment)
                await people.patch("web", {"spec": {"replicas": self._replicas}}, "default")
        return answer


class World:
    """A real engine, and what is in its default namespace."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.client = Client(transport, field_manager="tests")

    async def create(self, kind: Any, body: dict[str, Any]) -> None:
        body["metadata"]["namespace"] = "default"
        await self.client.untyped(kind.resource).create(body)

    async def all(self, kind: Any) -> list[Any]:
        return (await self.client.objects(kind).list()).items

    async def end(self, phase: str) -> None:
        """Every pod comes to its end."""
        for pod in await self.all(Pod):
            if pods.is_active(pod):
                await self.client.objects(Pod).patch(
                    pod.metadata.name, {"status": {"phase": phase}}, "default", subresource="status"
                )

    async def until(self, condition: Callable[[], Coroutine[Any, Any, bool]], what: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    if await condition():
                        return
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"not in time: {what}") from None


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    server = ApiServer(Settings(data=tmp_path, port=0, durable=False))
    await server.start()
    try:
        async with HttpTransport(connections.load(server.kubeconfig), component="tests") as transport:
            yield World(transport)
    finally:
        await server.stop()


@asynccontextmanager
async def at_work(transport: Transport) -> AsyncIterator[Workloads]:
    client, clock = Client(transport, field_manager="tests"), SystemClock()
    informers = InformerFactory(client, clock=clock)
    workloads = Workloads(client, informers=informers, clock=clock)
    tasks = [asyncio.create_task(informers.run()), asyncio.create_task(workloads.run())]
    try:
        yield workloads
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def die_after(world: World, writes: int, done: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Work until so many writes are made, or all is done without that many."""
    mortal = Mortal(world.transport, writes, takes_effect=True)

    async def over() -> bool:
        return mortal.dead.is_set() or await done()

    async with at_work(mortal):
        await world.until(over, "dead or done")


@pytest.mark.parametrize("writes", range(7))
async def test_pods_and_claims_of_a_stateful_set_are_made_once(world: World, writes: int) -> None:
    body = crew.workload(
        "StatefulSet",
        "db",
        replicas=3,
        serviceName="db",
        podManagementPolicy="Parallel",
        volumeClaimTemplates=[crew.claim_template()],
    )
    await world.create(StatefulSet, body)

    async def done() -> bool:
        (stateful_set,) = await world.all(StatefulSet)
        return bool(stateful_set.status.get("updatedReplicas", 0) == 3)

    await die_after(world, writes, done)
    async with at_work(world.transport):
        await world.until(done, "three pods")
    assert sorted(pod.metadata.name for pod in await world.all(Pod)) == ["db-0", "db-1", "db-2"]
    assert len(await world.all(PersistentVolumeClaim)) == 3
    assert len(await world.all(ControllerRevision)) == 1


@pytest.mark.parametrize("writes", range(9))
async def test_sets_and_pods_of_a_deployment_are_made_once(world: World, writes: int) -> None:
    await world.create(Deployment, crew.workload("Deployment", "web", replicas=3))

    async def done() -> bool:
        (deployment,) = await world.all(Deployment)
        return bool(deployment.status.get("updatedReplicas", 0) == 3)

    await die_after(world, writes, done)
    async with at_work(world.transport):
        await world.until(done, "three pods")
    assert len(await world.all(ReplicaSet)) == 1
    assert len(await world.all(Pod)) == 3


async def test_a_deployment_that_is_resized_while_its_new_set_is_made_has_no_more_pods_than_it_may(
    world: World,
) -> None:
    limits = {"maxSurge": 4, "maxUnavailable": 0}
    strategy = {"type": "RollingUpdate", "rollingUpdate": limits}
    await world.create(Deployment, crew.workload("Deployment", "web", replicas=8, strategy=strategy))
    sizes: dict[str, int] = {}

    async def are(*wanted: int) -> bool:
        sizes.update({each.metadata.name: each.spec.replicas for each in await world.all(ReplicaSet)})
        assert sum(sizes.values()) <= 18
        return tuple(sorted(sizes.values())) == wanted

    async with at_work(ResizesAtTheSecondSet(world.transport, 14)):
        await world.until(lambda: are(8), "the first set")
        version = {"metadata": {"annotations": {"version": "2"}}}
        await world.client.objects(Deployment).patch("web", {"spec": {"template": version}}, "default")
        await world.until(lambda: are(6, 12), "both sets have grown by half")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("writes", range(8))
async def test_each_end_of_a_pod_is_counted_once(world: World, writes: int, phase: str) -> None:
    await world.create(Job, crew.job("work", completions=3, parallelism=3, backoffLimit=2))

    async def running() -> bool:
        return len([pod for pod in await world.all(Pod) if pods.is_active(pod)]) == 3

    async with at_work(world.transport):
        await world.until(running, "three pods")
    await world.end(phase)

    async def done() -> bool:
        (job,) = await world.all(Job)
        ends = [each["type"] for each in job.status.get("conditions", ())]
        return "Complete" in ends or "Failed" in ends

    await die_after(world, writes, done)
    async with at_work(world.transport):
        await world.until(done, "the job is over")
    (job,) = await world.all(Job)
    assert job.status.get(phase.lower()) == 3
    assert job.status["uncountedTerminatedPods"] == {}
    assert [pod for pod in await world.all(Pod) if pod.metadata.finalizers] == []


class CountsWrites:
    """Remembers every write."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.writes: list[str] = []

    async def request(self, request: Request) -> Answer:
        if request.method != "GET":
            self.writes.append(f"{request.method} {request.path} {request.body!r}")
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)


async def test_controllers_that_start_in_a_settled_world_write_nothing(world: World) -> None:
    claims = [crew.claim_template()]
    await world.create(Node, {"metadata": {"name": "n1"}})
    await world.create(Deployment, crew.workload("Deployment", "web", replicas=2))
    labels = {"selector": {"matchLabels": {"app": "db"}}, "template": crew.template(labels={"app": "db"})}
    spec = {"replicas": 2, "serviceName": "db", "podManagementPolicy": "Parallel", "volumeClaimTemplates": claims}
    await world.create(StatefulSet, crew.workload("StatefulSet", "db", **spec, **labels))
    labels = {"selector": {"matchLabels": {"app": "log"}}, "template": crew.template(labels={"app": "log"})}
    await world.create(DaemonSet, crew.workload("DaemonSet", "log", **labels))
    await world.create(Job, crew.job("work", completions=2, parallelism=1))

    async def settled() -> bool:
        (deployment,), (stateful_set,), (daemon_set,), (job,) = [
            await world.all(kind) for kind in (Deployment, StatefulSet, DaemonSet, Job)
        ]
        return bool(
            deployment.status.get("updatedReplicas", 0) == 2
            and stateful_set.status.get("updatedReplicas", 0) == 2
            and "observedGeneration" in daemon_set.status
            and job.status.get("active", 0) == 1
        )

    versions: list[list[str]] = []

    async def still() -> bool:
        everything = [await world.all(kind) for kind in (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, Pod)]
        versions.append([obj.metadata.resource_version for objects in everything for obj in objects])
        return len(versions) > 50 and all(each == versions[-1] for each in versions[-50:])

    async with at_work(world.transport):
        await world.until(settled, "everything is made")
        await world.until(still, "nothing changes any more")
    counting = CountsWrites(world.transport)
    async with at_work(counting) as workloads:
        await workloads.ready()
        await asyncio.sleep(1.0)
    assert counting.writes == []
