"""The driver in this process, as an agent runs it, and a kubelet's calls to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from localpv.agent.csi.plugin import Plugin
from localpv.agent.pools.pool import Pool
from localpv.csi.channel import Channel
from localpv.csi.status import Code, RpcError
from localpv.host.workers import Workers

MIB = 1024 * 1024
NODE = "node-1"


@dataclass
class OwnPools:
    pools: Sequence[Pool]

    def get(self, name: str) -> Pool | None:
        return next((pool for pool in self.pools if pool.name == name), None)

    def list(self) -> Sequence[Pool]:
        return self.pools


class Driver:
    """Start it, call it."""

    def __init__(self, *, folder: Path, pools: Sequence[Pool], workers: Workers) -> None:
        self.folder, self.pools, self.workers = folder, pools, workers
        self.kubelet = folder / "kubelet"
        self.plugin = self._plugin()
        self.channel = Channel(self.plugin.socket)

    def _plugin(self) -> Plugin:
        return Plugin(
            node=NODE,
            pools=OwnPools(self.pools),
            kubelet=self.kubelet,
            state=self.folder / "state",
            workers=self.workers,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.plugin = self._plugin()
        task = asyncio.create_task(self.plugin.run())
        ready = asyncio.create_task(self.plugin.ready.wait())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        try:
            yield
        finally:
            await self.channel.close()
            ready.cancel()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def call(self, method: str, **request: Any) -> dict[str, Any]:
        service = "Node" if method.startswith("Node") else "Controller"
        return await self.channel.call(f"/csi.v1.{service}/{method}", request)

    async def refused(self, method: str, **request: Any) -> Code:
        with pytest.raises(RpcError) as raised:
            await self.call(method, **request)
        return raised.value.code
