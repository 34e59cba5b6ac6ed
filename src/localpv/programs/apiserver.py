"""`localpv apiserver`: the API server alone."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from localpv.apiserver.server import ApiServer, Settings

log = logging.getLogger(__name__)


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = ApiServer(settings)
    await server.start()
    print(f"ready {server.url} KUBECONFIG={server.kubeconfig}", flush=True)
    try:
        await stop.wait()
        print("stopping", file=sys.stderr)
    finally:
        await server.stop()
