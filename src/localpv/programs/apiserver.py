"""`localpv apiserver`: the API server alone."""

from __future__ import annotations

from localpv.engine.apiserver.server import Settings
from localpv.programs import serving, stopping
from localpv.programs.observing import Observed


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    stop = stopping.stop_signal()
    async with serving.engine(settings, Observed("apiserver")) as server:
        serving.say_ready(server)
        await stop.wait()
