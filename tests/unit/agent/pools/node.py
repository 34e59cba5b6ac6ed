"""A node with a pool of files in a real engine, and its agent, which can be ended and started anew."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from tests.unit.engine.binder.engines import Engine
from tests.unit.volume import pools as samples

from localpv import errors
from localpv.agent.pools.pools import Pools
from localpv.agent.pools.service import PoolService
from localpv.api import crds
from localpv.api.kinds.localpool import LocalPool, PoolSnapshot, PoolSource, PoolVolume
from localpv.api.resources import Resource
from localpv.client.client import Client
from localpv.config.pools import PoolSettings
from localpv.config.settings import ClassSettings, Configuration
from localpv.disk import labels
from localpv.host.workers import Workers
from localpv.runtime.clock import SystemClock

NODE, POOL = "node-1", "fast"
MIB = 1024 * 1024
DEFINITIONS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    singular="customresourcedefinition",
    namespaced=False,
    schema="",
)
KINDS = {"localpools": LocalPool, "poolvolumes": PoolVolume, "poolsnapshots": PoolSnapshot}


@dataclass
class PoolNode:
    engine: Engine
    directory: Path

    @property
    def client(self) -> Client:
        return self.engine.client

    async def set_up(self) -> None:
        for name in KINDS:
            await self.client.untyped(DEFINITIONS).create(crds.load(name))
        for kind in KINDS.values():
            await self.engine.until(lambda kind=kind: self._serves(kind), f"{kind} is served")  # type: ignore[misc]

    async def _serves(self, kind: Any) -> bool:
        with contextlib.suppress(errors.NotFound):
            await self.client.objects(kind).list()
            return True
        return False

    def configuration(self, *, size: int = 64 * MIB) -> Configuration:
        pool = PoolSettings(name=POOL, kind="file", directory=str(self.directory), size_bytes=size)
        return Configuration(classes={"fast": ClassSettings(name="fast", pool=pool)})

    @asynccontextmanager
    async def agent(
        self, configuration: Configuration | None = None, *, client: Client | None = None
    ) -> AsyncIterator[Pools]:
        pools = Pools(workers=Workers())
        pools.configure(configuration or self.configuration())
        service = PoolService(node=NODE, pools=pools, client=client or self.client, clock=SystemClock())
        task = asyncio.create_task(service.run())
        try:
            yield pools
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def ask(self, name: str, size: int, *, source: PoolSource | None = None, node: str = NODE) -> None:
        """Write a PoolVolume as the manager does."""
        made = samples.volume(name, size, node=node)
        meta = msgspec.structs.replace(made.metadata, finalizers=(labels.POOL_VOLUME,))
        spec = msgspec.structs.replace(made.spec, source=source)
        await self.client.objects(PoolVolume).create(msgspec.structs.replace(made, metadata=meta, spec=spec))

    async def ask_snapshot(self, name: str, size: int) -> None:
        made = samples.snapshot(name, size)
        meta = msgspec.structs.replace(made.metadata, finalizers=(labels.POOL_VOLUME,))
        await self.client.objects(PoolSnapshot).create(msgspec.structs.replace(made, metadata=meta))

    async def volume(self, name: str) -> PoolVolume | None:
        return await self.client.objects(PoolVolume).find(name)

    async def until(self, name: str, condition: Callable[[PoolVolume], bool], kind: Any = PoolVolume) -> Any:
        found: list[Any] = []

        async def holds() -> bool:
            now = await self.client.objects(kind).find(name)
            found[:] = [now]
            return now is not None and condition(now)

        await self.engine.until(holds, f"{name}: {found}")
        return found[0]

    async def until_ready(self, name: str, kind: Any = PoolVolume) -> Any:
        return await self.until(name, lambda one: one.status.phase == "Ready", kind)

    async def until_gone(self, name: str, kind: Any = PoolVolume) -> None:
        async def gone() -> bool:
            return await self.client.objects(kind).find(name) is None

        await self.engine.until(gone, f"{name} is gone")

    async def until_pool(self, condition: Callable[[LocalPool], bool]) -> LocalPool:
        found: LocalPool = await self.until(f"{NODE}-{POOL}", condition, LocalPool)  # type: ignore[arg-type]
        return found

    def folders(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()} if self.directory.exists() else set()

    def data(self, name: str) -> Path:
        return self.directory / name / "data"
