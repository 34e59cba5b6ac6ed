"""The real engine in the test's own process, and transports that die at a chosen moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract import builders
from tests.mortal import Mortal

from localpv.api.kinds.cluster import Event, Node
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.client import config as connections
from localpv.client.client import Client
from localpv.client.http import HttpTransport
from localpv.client.transport import Answer, Request, Transport
from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.engine.binder import binder
from localpv.engine.binder.binder import WORKERS
from localpv.manager.groups import placer
from localpv.programs.in_process_transport import InsideTransport
from localpv.runtime.clock import SystemClock
from localpv.testing.waiting import PATIENCE_SECONDS
from localpv.volume.informers import VolumeInformers

SPACE = "default"


def dies_after(inner: Transport, writes: int) -> Mortal:
    """Lets so many writes to volumes and claims through; the next is lost."""

    def counts(request: Request) -> bool:
        return request.method == "PATCH" and "/persistentvolume" in request.path

    return Mortal(inner, writes, takes_effect=False, counts=counts)


class Interrupts:
    """Does something between the answer to the first write of a claim's name into a volume and its receiver."""

    def __init__(self, inner: Transport, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._inner, self._act = inner, act
        self._done = False

    async def request(self, request: Request) -> Answer:
        answer = await self._inner.request(request)
        if not self._done and request.method == "PATCH" and b'"claimRef":{' in (request.body or b""):
            self._done = True
            await self._act()
        return answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)


class Elsewhere:
    """Watches another path than was asked for: the watch of somebody who has not heard of anything yet."""

    def __init__(self, inner: Transport, path: str, instead: str) -> None:
        self._inner, self._path, self._instead = inner, path, instead

    async def request(self, request: Request) -> Answer:
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        if request.path == self._path:
            request = Request(method=request.method, path=self._instead, query=request.query)
        return self._inner.stream(request)


@dataclass
class Engine:
    """A server with nobody at work on it."""

    transport: Transport
    client: Client

    def client_over(self, transport: Transport) -> Client:
        return Client(transport, field_manager="tests")

    async def volume(self, name: str, *, node: str = "node-1", **spec: Any) -> None:
        whole = {"persistentVolumeReclaimPolicy": "Retain", "nodeAffinity": builders.node_affinity(node)}
        made = builders.local_volume(name, **{**whole, **spec})
        await self.client.untyped(PersistentVolume.resource).create(made)

    async def claim(
        self, name: str, *, annotations: dict[str, str] | None = None, **spec: Any
    ) -> PersistentVolumeClaim:
        made = builders.claim(name, **spec)
        made["metadata"] |= {"namespace": SPACE, "annotations": annotations or {}}
        await self.client.untyped(PersistentVolumeClaim.resource).create(made)
        return await self.client.objects(PersistentVolumeClaim).get(name, SPACE)

    async def storage_class(self, **fields: Any) -> None:
        made = builders.storage_class("contract", volumeBindingMode="Immediate", **fields)
        await self.client.untyped(StorageClass.resource).create(made)

    async def node(self, name: str) -> None:
        made = builders.node(name)
        made["metadata"]["labels"] = {"kubernetes.io/hostname": name}
        await self.client.untyped(Node.resource).create(made)

    async def volumes(self) -> dict[str, PersistentVolume]:
        return {one.key: one for one in (await self.client.objects(PersistentVolume).list()).items}

    async def claims(self) -> dict[str, PersistentVolumeClaim]:
        found = (await self.client.objects(PersistentVolumeClaim).list()).items
        return {one.metadata.name: one for one in found}

    async def events(self) -> list[Event]:
        return (await self.client.objects(Event).list()).items

    async def until(self, condition: Callable[[], Coroutine[Any, Any, bool]], what: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    if await condition():
                        return
                    await asyncio.sleep(0.02)
        except TimeoutError:
            claims = [(one.key, one.status.phase, one.spec.volume_name) for one in (await self.claims()).values()]
            volumes = [(one.key, one.status.phase, one.spec.claim_ref) for one in (await self.volumes()).values()]
            raise AssertionError(f"not in time: {what}; {claims}; {volumes}") from None

    async def until_bound(self, *names: str) -> None:
        async def bound() -> bool:
            claims, volumes = await self.claims(), await self.volumes()
            return all(is_whole(claims[name], volumes) for name in names)

        await self.until(bound, f"{names} are bound")


def is_whole(claim: PersistentVolumeClaim, volumes: dict[str, PersistentVolume]) -> bool:
    """Whether all four writes of a binding are there."""
    volume = volumes.get(claim.spec.volume_name)
    return (
        volume is not None
        and claim.status.phase == volume.status.phase == "Bound"
        and volume.spec.claim_ref is not None
        and volume.spec.claim_ref.uid == claim.metadata.uid
        and "pv.kubernetes.io/bind-completed" in claim.metadata.annotations
        and claim.status.capacity == volume.spec.capacity
    )


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Engine]:
    server = ApiServer(Settings(data=folder, port=0, durable=False))
    await server.start()
    try:
        connection = connections.load(server.kubeconfig)
        async with HttpTransport(connection, component="tests") as outer:
            transport = InsideTransport(server, outer, connection=connection, component="tests")
            yield Engine(transport, Client(transport, field_manager="tests"))
    finally:
        await server.stop()


@asynccontextmanager
async def binding(client: Client, *, workers: int = WORKERS) -> AsyncIterator[None]:
    """A binder at work until the with-block ends, however it ends."""
    informers = VolumeInformers(client, clock=SystemClock())
    worker = binder.Binder(client, informers=informers, clock=SystemClock(), workers=workers)
    async with _at_work(informers.run()), _at_work(worker.run()):
        yield


@asynccontextmanager
async def placing(client: Client) -> AsyncIterator[None]:
    """A placer at work until the with-block ends, however it ends."""
    informers = VolumeInformers(client, clock=SystemClock())
    worker = placer.Placer(client, informers=informers, clock=SystemClock())
    async with _at_work(informers.run()), _at_work(worker.run()):
        yield


@asynccontextmanager
async def _at_work(run: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(run)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
