"""Nodes, disks, claims and pods of one test at a real server, and schedulers that can be made to die or to fail."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from localpv import errors
from localpv.api.kinds.cluster import Namespace, Node
from localpv.api.kinds.meta import Kind
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.api.objects import Object
from localpv.client.client import Client
from localpv.client.config import Connection
from localpv.client.http import HttpTransport
from localpv.client.transport import Answer, Request, Transport
from localpv.engine.scheduler.scheduler import Scheduler
from localpv.programs import binding
from localpv.runtime.clock import Clock, SystemClock
from localpv.runtime.group import Group
from localpv.testing.waiting import PATIENCE_SECONDS

HOSTNAME = "kubernetes.io/hostname"


class Meddling:
    """A transport that can end or fail the writes that go through it."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.writes: list[Request] = []
        self.fate: Callable[[Request, int], Answer | errors.LocalpvError | None] = lambda request, number: None
        """What the write with this number meets instead of the server; None lets it through."""

        self.die_at: int | None = None
        """The write with this number never comes back."""

        self.dies_after = False
        """Whether the server gets it nevertheless."""

        self.died = asyncio.Event()

    async def request(self, request: Request) -> Answer:
        if request.method == "GET" or "/events" in request.path:
            return await self._inner.request(request)
        number = len(self.writes)
        self.writes.append(request)
        if (met := self.fate(request, number)) is not None:
            if isinstance(met, errors.LocalpvError):
                raise met
            return met
        if self.die_at is not None and number >= self.die_at:
            if number == self.die_at and self.dies_after:
                await self._inner.request(request)
            self.died.set()
            await asyncio.Event().wait()
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)


@dataclass
class Town:
    transport: Transport
    name: str = field(default_factory=lambda: f"town-{secrets.token_hex(4)}")

    def __post_init__(self) -> None:
        self.client = Client(self.transport, field_manager="town")

    @classmethod
    @asynccontextmanager
    async def found(cls, connection: Connection) -> AsyncIterator[Town]:
        async with HttpTransport(connection, component="town") as transport:
            town = cls(transport)
            await town.create(Namespace, town.name, {})
            try:
                yield town
            finally:
                await town.clear()

    async def clear(self) -> None:
        for pod in await self.pods():
            with contextlib.suppress(errors.NotFound):
                await self.client.objects(Pod).delete(pod.metadata.name, self.name, grace_seconds=0)
        kinds: tuple[tuple[type[Kind], str], ...] = (
            (PersistentVolumeClaim, self.name),
            (PersistentVolume, ""),
            (StorageClass, ""),
            (Node, ""),
        )
        for kind, namespace in kinds:
            objects = self.client.objects(kind)
            for each in (await objects.list()).items:
                if each.metadata.labels.get("town") == self.name:
                    with contextlib.suppress(errors.NotFound):
                        await objects.patch(each.metadata.name, {"metadata": {"finalizers": None}}, namespace)
                        await objects.delete(each.metadata.name, namespace)

    # Things in the town.

    async def create(self, kind: type[Kind], name: str, obj: Object, namespace: str = "", **metadata: Any) -> None:
        meta = {"name": name, "namespace": namespace, **metadata}
        meta["labels"] = {"town": self.name} | metadata.get("labels", {})
        await self.client.untyped(kind.resource).create({"metadata": meta, **obj})

    async def node(self, name: str, **room: str) -> str:
        full = f"{self.name}-{name}"
        await self.create(Node, full, {}, labels={HOSTNAME: full})
        capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"} | room
        status = {"status": {"capacity": capacity, "allocatable": capacity}}
        await self.client.objects(Node).patch(full, status, subresource="status")
        return full

    async def storage_class(self, **fields: Any) -> None:
        whole = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
        await self.create(StorageClass, self.name, whole | fields)

    async def disk(self, name: str, node: str, size: str = "10Gi") -> str:
        full = f"{self.name}-{name}"
        expression = {"key": HOSTNAME, "operator": "In", "values": [node]}
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": self.name,
            "local": {"path": f"/mnt/{full}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        }
        await self.create(PersistentVolume, full, {"spec": spec})
        # As the binder would.
        await self.client.objects(PersistentVolume).patch(
            full, {"status": {"phase": "Available"}}, subresource="status"
        )
        return full

    async def claim(self, name: str, size: str = "1Gi", **annotations: str) -> str:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.name,
            "resources": {"requests": {"storage": size}},
        }
        await self.create(PersistentVolumeClaim, name, {"spec": spec}, self.name, annotations=annotations)
        return name

    async def pod(self, name: str, *claims: str, cpu: str = "10m", **spec: Any) -> str:
        container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
        volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
        # Nodes of other tests may still be there.
        selector = {"town": self.name}
        whole = {"containers": [container], "volumes": volumes, "nodeSelector": selector} | spec
        await self.create(Pod, name, {"spec": whole}, self.name)
        return name

    # How things are.

    async def pods(self) -> Sequence[Pod]:
        found = await self.client.objects(Pod).list()
        return [pod for pod in found.items if pod.metadata.namespace == self.name]

    async def get_pod(self, name: str) -> Pod:
        return await self.client.objects(Pod).get(name, self.name)

    async def get_claim(self, name: str) -> PersistentVolumeClaim:
        return await self.client.objects(PersistentVolumeClaim).get(name, self.name)

    async def holder(self, disk: str) -> str:
        """The claim that a disk names; empty when it is free."""
        reference = (await self.client.objects(PersistentVolume).get(disk)).spec.claim_ref
        return "" if reference is None else reference.name

    async def until(self, look: Callable[[], Awaitable[object] | bool], what: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            seen = look()
            if seen if isinstance(seen, bool) else await seen:
                return
            assert time.monotonic() < end, f"not within {PATIENCE_SECONDS:g} s: {what}"
            await asyncio.sleep(0.02)

    async def until_node(self, name: str) -> str:
        async def look() -> str:
            return (await self.get_pod(name)).spec.node_name

        await self.until(look, f"{name} has a node")
        return await look()

    async def until_held(self, disk: str, by: str) -> None:
        async def look() -> bool:
            return await self.holder(disk) == by

        await self.until(look, f"{disk} is held by {by!r}")

    async def until_reserved(self, disks: int) -> None:
        """Wait until so many volumes of the town name a claim."""

        async def look() -> bool:
            found = (await self.client.objects(PersistentVolume).list()).items
            ours = [each for each in found if each.metadata.labels.get("town") == self.name]
            return sum(each.spec.claim_ref is not None for each in ours) >= disks

        await self.until(look, f"{disks} volumes are reserved")

    async def until_refused(self, name: str, words: str = "") -> None:
        async def look() -> bool:
            conditions = (await self.get_pod(name)).status.conditions
            return any(each.reason == "Unschedulable" and words in each.message for each in conditions)

        await self.until(look, f"{name} is refused: {words}")

    # Who works in it.

    @asynccontextmanager
    async def scheduler(
        self, meddling: Meddling | None = None, *, clock: Clock | None = None, **settings: Any
    ) -> AsyncIterator[Scheduler]:
        """A scheduler that dies with the block, as suddenly as a process does."""
        client = Client(meddling or self.transport, field_manager="scheduler")
        clock = clock or SystemClock()
        group = Group(clock=clock)
        informers = binding.add_informers(group, client=client, clock=clock)
        scheduler = Scheduler(client, informers=informers, clock=clock, **settings)
        group.add("scheduler", scheduler.run, ready=scheduler.ready)
        async with _running(group):
            yield scheduler

    @asynccontextmanager
    async def binder(self) -> AsyncIterator[None]:
        """Whoever binds claims, and reserves volumes for those that want to be together or apart."""
        group = Group(clock=SystemClock())
        informers = binding.add_informers(group, client=self.client, clock=SystemClock())
        binding.add_to(group, client=self.client, informers=informers, clock=SystemClock())
        async with _running(group):
            yield


@asynccontextmanager
async def _running(group: Group) -> AsyncIterator[None]:
    ready = asyncio.Event()
    task = asyncio.create_task(group.run(on_ready=ready.set))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ready.wait()
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
