"""The parts that serve the pools of a node, from the first class with a pool on: most nodes have none, and pay nothing
for them."""

from __future__ import annotations

import asyncio

from localpv import errors
from localpv.agent.pools.pools import Pools
from localpv.client.client import Client
from localpv.client.objects import Selection
from localpv.programs.observing import Observed
from localpv.runtime.clock import Clock


async def serve(pools: Pools, *, node: str, client: Client, clock: Clock, observed: Observed) -> None:
    """Serve the pools of this node until cancelled."""
    await _needed(pools, node=node, client=client)
    from localpv.agent.pools.service import PoolService

    await PoolService(node=node, pools=pools, client=client, clock=clock, observe=observed.queues).run()


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
