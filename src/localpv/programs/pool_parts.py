"""The parts that serve the pools of a node, from the first class with a pool on: most nodes have none, and pay nothing
for them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from localpv import errors
from localpv.agent.pools.pools import Pools
from localpv.client.client import Client
from localpv.client.objects import Selection
from localpv.host.workers import Workers
from localpv.programs.observing import Observed
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group


async def serve(
    pools: Pools,
    *,
    node: str,
    client: Client,
    clock: Clock,
    observed: Observed,
    workers: Workers,
    state: Path,
    kubelet: Path | None,
) -> None:
    """Serve the pools of this node until cancelled, also to the kubelet whose folder is given."""
    await _needed(pools, node=node, client=client)
    from localpv.agent.pools.service import PoolService

    parts = Group(clock=clock)
    parts.add("objects", PoolService(node=node, pools=pools, client=client, clock=clock, observe=observed.queues).run)
    if kubelet is not None:
        from localpv.agent.csi.plugin import Plugin

        parts.add("csi", Plugin(node=node, pools=pools, kubelet=kubelet, state=state, workers=workers).run)
    try:
        await parts.run()
    finally:
        parts.must_have_stopped()


async def _needed(pools: Pools, *, node: str, client: Client) -> None:
    """Wait until this node has a pool; one that it had, and that may have volumes still, counts too."""
    needed = asyncio.Event()

    def configured() -> None:
        if pools.list():
            needed.set()

    configured()
    pools.on_change(configured)
    if not needed.is_set():
        from localpv.api.kinds.localpool import LocalPool

        try:
            if (await client.objects(LocalPool).list(Selection(fields=f"spec.nodeName={node}"))).items:
                return
        except errors.LocalpvError:
            pass  # a server that knows no pools, or tells us of none, has none of ours
    await needed.wait()
