"""The driver in this process, as an agent runs it, and a kubelet's calls to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
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

    async def start(self) -> None:
        self.plugin = self._plugin()
        self._task = asyncio.create_task(self.plugin.run())
        await self.plugin.ready.wait()

    async def stop(self) -> None:
        await self.channel.close()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def restart(self) -> None:
        """Another process in its place: all that is known is what lies on the disk."""
        await self.stop()
        await self.start()

    async def call(self, method: str, **request: Any) -> dict[str, Any]:
        service = "Node" if method.startswith("Node") else "Controller"
        return await self.channel.call(f"/csi.v1.{service}/{method}", request)

    async def refused(self, method: str, **request: Any) -> Code:
        with pytest.raises(RpcError) as raised:
            await self.call(method, **request)
        return raised.value.code
