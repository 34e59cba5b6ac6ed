"""How programs end: in order, at SIGTERM or Ctrl-C, or with the error of a component that died."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

from localpv.programs.health import Health
from localpv.programs.observing import Observed
from localpv.runtime.group import Group


def stop_signal() -> asyncio.Event:
    """Set at the first SIGTERM or Ctrl-C."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def until_stopped(group: Group, ready: str, *, probes: str, observed: Observed) -> None:
    """Run components until told to stop; the line on stdout says that all of them have started.

    `probes` is where /livez, /readyz and /metrics are answered, as HOST:PORT; empty for nowhere.
    """
    health = None
    if probes:
        health = Health(probes, registry=observed.registry, checks=observed.checks)
        await health.start()

    def started() -> None:
        print(ready, flush=True)
        if health is not None:
            health.ready = True

    try:
        with observed.watchdog.watching():
            await run_until(stop_signal(), group, started)
    finally:
        if health is not None:
            await health.stop()


async def run_until(stop: asyncio.Event, group: Group, on_ready: Callable[[], None] | None = None) -> None:
    """Run components until the event is set; a component that dies takes all down with its error."""
    running = asyncio.create_task(group.run(on_ready=on_ready))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not running.done():
        running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
