"""Nodes with pools in the real engine, an agent that makes and wipes as it is told, and whoever provisions."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.unit.engine.binder import engines
from tests.unit.engine.binder.engines import SPACE, Engine
from tests.unit.volume.pools import GI, MI, NOW, pool

from localpv import errors
from localpv.api import crds, well_known
from localpv.api.kinds.cluster import Event, Node
from localpv.api.kinds.localpool import LocalPool, PoolVolume
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.api.resources import Resource
from localpv.client.client import Client
from localpv.client.transport import Answer, Request, Transport
from localpv.config.settings import Configuration
from localpv.disk import labels
from localpv.manager.provision.controller import Provisioning
from localpv.runtime.clock import SystemClock
from localpv.testing.waiting import PATIENCE_SECONDS
from localpv.volume import pool_names
from localpv.volume.informers import VolumeInformers

DEFINITIONS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    singular="customresourcedefinition",
    namespaced=False,
    schema="",
)
CLASS = "fast"
Refusal = tuple[str, str]


class Dies:
    """Lets so many writes through, and then nothing: the next is lost on its way, or only its answer is."""

    def __init__(self, inner: Transport, writes: int, *, answered: bool) -> None:
        self._inner = inner
        self._left = writes
        self._answered = answered
        self.dead = asyncio.Event()

    async def request(self, request: Request) -> Answer:
        if request.method != "GET" and "/events" not in request.path:
            if self._left == 0 and not self.dead.is_set():
                self.dead.set()
                if self._answered:
                    await self._inner.request(request)
            if self.dead.is_set():
                await asyncio.get_running_loop().create_future()
            self._left -= 1
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)


@dataclass
class FakeAgent:
    """Serves the PoolVolumes of all nodes; what it holds is what disks would hold."""

    client: Client
    held: dict[str, int] = field(default_factory=dict)
    """Volumes by name, and their bytes."""

    wiped: Counter[str] = field(default_factory=Counter)
    refuse: Callable[[PoolVolume], Refusal | None] = lambda order: None
    paused: bool = False
    most: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By pool, the most bytes that were held at once."""

    async def run(self) -> None:
        objects = self.client.objects(PoolVolume)
        while True:
            for order in (await objects.list()).items:
                if not self.paused:
                    with contextlib.suppress(errors.Conflict, errors.NotFound):
                        await self._serve(order)
            await asyncio.sleep(0.01)

    async def _serve(self, order: PoolVolume) -> None:
        objects, meta, name = self.client.objects(PoolVolume), order.metadata, order.key
        same = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        if meta.deleting:
            if labels.PROTECTED in meta.finalizers or labels.POOL_VOLUME not in meta.finalizers:
                return
            if self.held.pop(name, None) is not None:
                self.wiped[name] += 1
            left = [each for each in meta.finalizers if each != labels.POOL_VOLUME] or None
            await objects.patch(name, {"metadata": same | {"finalizers": left}})
            return
        if self.held.get(name, 0) >= order.spec.size_bytes and order.status.phase == "Ready":
            return
        status: dict[str, Any] = {"observedGeneration": meta.generation}
        if (refusal := self.refuse(order)) is not None:
            # As an agent does it: what can help by itself is tried again, and what was Ready stays so.
            final = refusal[0] == "RESOURCE_EXHAUSTED"
            phase = order.status.phase or ("Failed" if final else "Pending")
            status |= {"phase": phase, "code": refusal[0], "message": refusal[1]}
            if (order.status.code, order.status.observed_generation) == (refusal[0], meta.generation):
                return
        else:
            self.held[name] = max(order.spec.size_bytes, self.held.get(name, 0))
            key = (order.spec.node_name, order.spec.pool_name)
            orders = {one.key: one for one in (await objects.list()).items}
            here = [one for one in self.held if one in orders and _place(orders[one]) == key]
            self.most[key] = max(self.most[key], sum(self.held[one] for one in here))
            status |= {"phase": "Ready", "sizeBytes": self.held[name], "code": None, "message": None}
        await objects.patch(name, {"metadata": same, "status": status}, subresource="status")


def _place(order: PoolVolume) -> tuple[str, str]:
    return order.spec.node_name, order.spec.pool_name


@dataclass
class PoolWorld:
    engine: Engine

    def __post_init__(self) -> None:
        self.client = self.engine.client
        self.agent = FakeAgent(self.client)

    async def set_up(self) -> None:
        definitions = self.client.untyped(DEFINITIONS)
        for name in ("localpools", "poolvolumes", "poolsnapshots"):
            await definitions.create(crds.load(name))
        await self.engine.until(self._serves_pools, "pools are served")

    async def _serves_pools(self) -> bool:
        try:
            for kind in (LocalPool, PoolVolume):
                await self.client.objects(kind).list()
        except errors.NotFound:
            return False
        return True

    # What an administrator and a cluster bring.

    async def storage_class(self, name: str = CLASS, *, waits: bool = False, **fields: Any) -> None:
        await self.client.objects(StorageClass).create(
            StorageClass(
                metadata=ObjectMeta(name=name),
                provisioner=pool_names.DRIVER,
                volume_binding_mode="WaitForFirstConsumer" if waits else "Immediate",
                allow_volume_expansion=True,
                **fields,
            )
        )

    async def node_with_pool(
        self, node: str = "node-1", *, size: int = 100 * GI, node_labels: dict[str, str] | None = None, **status: Any
    ) -> None:
        with contextlib.suppress(errors.AlreadyExists):
            meta = ObjectMeta(name=node, labels={pool_names.TOPOLOGY: node, **(node_labels or {})})
            await self.client.objects(Node).create(Node(metadata=meta))
        made = pool(node)
        await self.client.objects(LocalPool).create(made)
        await self.measures(node, capacityBytes=size, **status)

    async def measures(self, node: str = "node-1", **status: Any) -> None:
        whole = {"extentBytes": MI, "minimumBytes": MI, "observedAt": NOW} | status
        await self.client.objects(LocalPool).patch(
            pool_names.local_pool_name(node, "fast"), {"status": whole}, subresource="status"
        )

    async def claim(self, name: str = "data", *, size: str = "1Gi", node: str = "", **spec: Any) -> None:
        whole = {
            "storageClassName": CLASS,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        } | spec
        annotations = {well_known.SELECTED_NODE: node} if node else {}
        made = {"metadata": {"name": name, "namespace": SPACE, "annotations": annotations}, "spec": whole}
        await self.client.objects(PersistentVolumeClaim).create_from(made)

    async def select(self, name: str, node: str) -> None:
        """The scheduler chooses a node for the pod of a claim."""
        patch = {"metadata": {"annotations": {well_known.SELECTED_NODE: node}}}
        await self.client.objects(PersistentVolumeClaim).patch(name, patch, SPACE)

    async def delete_claim(self, name: str = "data") -> None:
        await self.client.objects(PersistentVolumeClaim).delete(name, SPACE)

    async def request(self, size: str, name: str = "data") -> None:
        patch = {"spec": {"resources": {"requests": {"storage": size}}}}
        await self.client.objects(PersistentVolumeClaim).patch(name, patch, SPACE)

    # Who works.

    @asynccontextmanager
    async def provisioning(
        self, transport: Transport | None = None, *, configuration: Configuration | None = None, capacity_in: str = ""
    ) -> AsyncIterator[None]:
        """A manager's part at work until the with-block ends, however it ends."""
        client = self.engine.client_over(transport) if transport is not None else self.client
        informers = VolumeInformers(client, clock=SystemClock())
        worker = Provisioning(
            client,
            informers=informers,
            configuration=lambda: configuration or Configuration(),
            clock=SystemClock(),
            capacity_in=capacity_in,
        )
        async with at_work(informers.run()), at_work(worker.run()):
            yield

    @asynccontextmanager
    async def everybody(self, **provisioning: Any) -> AsyncIterator[None]:
        """Binder, agent and whoever provisions."""
        async with self.cluster(), self.provisioning(**provisioning):
            yield

    @asynccontextmanager
    async def cluster(self) -> AsyncIterator[None]:
        """Binder and agent."""
        async with engines.binding(self.client), at_work(self.agent.run()):
            yield

    # What is there.

    async def claims(self) -> dict[str, PersistentVolumeClaim]:
        return await self.engine.claims()

    async def get_claim(self, name: str = "data") -> PersistentVolumeClaim:
        return await self.client.objects(PersistentVolumeClaim).get(name, SPACE)

    async def volumes(self) -> dict[str, PersistentVolume]:
        return await self.engine.volumes()

    async def orders(self) -> dict[str, PoolVolume]:
        return {one.key: one for one in (await self.client.objects(PoolVolume).list()).items}

    async def events(self, name: str = "data", reason: str = "ProvisioningFailed") -> list[Event]:
        return [one for one in await self.engine.events() if one.involved_object.name == name and one.reason == reason]

    async def until_event(self, words: str, *, name: str = "data", reason: str = "ProvisioningFailed") -> str:
        found: list[str] = []

        async def told() -> bool:
            found[:] = [one.message for one in await self.events(name, reason) if words in one.message]
            return bool(found)

        await self.until(told, lambda: f"{reason} with {words!r}")
        return found[0]

    async def until(self, condition: Callable[[], Coroutine[Any, Any, bool]], what: Callable[[], str] | str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    if await condition():
                        return
                    await asyncio.sleep(0.02)
        except TimeoutError:
            said = [(one.involved_object.name, one.reason, one.message) for one in await self.engine.events()]
            claims = [(one.key, one.status, one.metadata.annotations) for one in (await self.claims()).values()]
            orders = [(one.key, one.spec, one.status) for one in (await self.orders()).values()]
            shown = what if isinstance(what, str) else what()
            raise AssertionError(f"not in time: {shown}; {said}; {claims}; {orders}") from None

    async def bound(self, name: str = "data") -> PersistentVolume:
        await self.engine.until_bound(name)
        claim = await self.get_claim(name)
        return (await self.volumes())[claim.spec.volume_name]

    async def until_empty(self) -> None:
        """Nothing is left of any volume, and nothing that was made was not wiped."""

        async def empty() -> bool:
            return not await self.volumes() and not await self.orders()

        await self.until(empty, "no volume and no PoolVolume is left")
        assert self.agent.held == {}


@asynccontextmanager
async def at_work(run: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(run)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
