"""What all programs share: serve until somebody says stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

from localpv.apiserver.server import ApiServer, Settings


@contextlib.asynccontextmanager
async def engine(settings: Settings) -> AsyncIterator[ApiServer]:
    """The API server, started and ready; stopped in order when the with-block ends, however it ends."""
    server = ApiServer(settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def stop_signal() -> asyncio.Event:
    """Set at the first SIGTERM or Ctrl-C."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def say_ready(server: ApiServer) -> None:
    """The one line on stdout that scripts wait for."""
    print(f"ready {server.url} KUBECONFIG={server.kubeconfig}", flush=True)
