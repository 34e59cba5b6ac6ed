"""`localpv up`: everything that exists so far, on this machine, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

from localpv.apiserver.server import Settings
from localpv.client import client as clients
from localpv.client import config as connections
from localpv.programs import demo, live, manifests, serving

log = logging.getLogger(__name__)


async def run(settings: Settings, *, config: Path | None, with_demo: bool, on_terminal: bool) -> None:
    """Serve until SIGTERM or Ctrl-C, with a live view on a terminal and log lines elsewhere."""
    stop = serving.stop_signal()
    wanted = manifests.read(config) if config is not None else []
    async with serving.engine(settings) as server:
        connection = connections.load(server.kubeconfig)
        async with clients.connect(connection, component="up") as client:
            if with_demo:
                await manifests.apply(demo.prepare(settings.data, settings.node_name), client, server.kinds)
            await manifests.apply(wanted, client, server.kinds)
            serving.say_ready(server)
            if not on_terminal:
                await stop.wait()
                return
            view = asyncio.create_task(live.show(client, server, with_demo=with_demo))
            await stop.wait()
            view.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await view
