"""What all programs share: serve until somebody says stop."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import AsyncIterator

from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.errors import ConfigurationError
from localpv.observe.engine import Engine
from localpv.programs import memory
from localpv.programs.observing import Observed


def calm_the_collector() -> None:
    """Look for reference circles rarely: objects of the API have none, and looking costs a tenth of every write.

    Measured with `make bench`: 336 us of CPU for a create with Python's own thresholds, 303 us with these.
    """
    gc.set_threshold(20_000, 50, 100)


RESET_BEGUN = ".localpv-reset"
"""In a data folder from before a reset removes anything until it has removed all: what is left says that it was one."""


@contextlib.asynccontextmanager
async def engine(settings: Settings, observed: Observed) -> AsyncIterator[ApiServer]:
    """The API server, started and ready; stopped in order when the with-block ends, however it ends."""
    if (settings.data / RESET_BEGUN).exists():
        raise ConfigurationError(
            f"{settings.data} is half removed: a reset of it was cut off",
            hint=f"finish it with `localpv reset --data {settings.data}`, then start again",
        )
    calm_the_collector()
    memory.use_small_buffers()  # a connection costs 60 KB with them and 290 KB without, and there may be thousands
    metrics = Engine(observed.registry)
    server = ApiServer(settings, observer=metrics)
    await server.start()
    store = server.store
    metrics.ask(
        objects=lambda: {prefix: len(store.table(prefix).rows) for prefix in store.prefixes()},
        revision=lambda: store.revision,
    )
    try:
        with observed.watchdog.watching():
            yield server
    finally:
        await server.stop()


def say_ready(server: ApiServer) -> None:
    """The one line on stdout that scripts wait for."""
    print(f"ready {server.url} KUBECONFIG={server.kubeconfig}", flush=True)
