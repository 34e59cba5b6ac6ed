"""The controllers of workloads alone, as a process beside an engine: no scheduler and no node take part.

python -m tests.workloads.controllers KUBECONFIG
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from localpv.client import client as clients
from localpv.client import config as connections
from localpv.client.informer_factory import InformerFactory
from localpv.programs import stopping, workloads
from localpv.runtime.clock import SystemClock
from localpv.runtime.group import Group


async def main(kubeconfig: Path) -> None:
    clock = SystemClock()
    async with clients.connect(connections.load(kubeconfig), component="workloads") as client:
        group = Group(clock=clock)
        informers = InformerFactory(client, clock=clock)
        group.add("informers", informers.run)
        workloads.add_to(group, client=client, informers=informers, clock=clock)
        await stopping.run_until(stopping.stop_signal(), group, lambda: print("ready workloads", flush=True))


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(main(Path(sys.argv[1])))
