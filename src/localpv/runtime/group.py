"""Components of one process: started in order, stopped in reverse order, and down together.

A component is a coroutine function that runs until it is cancelled. The group owns its task. When one component ends,
with an error or without, the others are stopped and the error is raised: half a process helps nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from localpv import errors
from localpv.runtime.clock import Clock

log = logging.getLogger(__name__)

STOP_SECONDS = 10.0
"""How long one component may take to stop before the next one is stopped; it is left behind then."""


@dataclass(frozen=True, slots=True)
class _Component:
    name: str
    run: Callable[[], Coroutine[Any, Any, None]]
    ready: Callable[[], Awaitable[object]] | None


class Group:
    """Add components, then `run`."""

    def __init__(self, *, clock: Clock, stop_seconds: float = STOP_SECONDS) -> None:
        self._clock = clock
        self._stop_seconds = stop_seconds
        self._components: list[_Component] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._left: list[asyncio.Task[None]] = []

    def add(
        self,
        name: str,
        run: Callable[[], Coroutine[Any, Any, None]],
        *,
        ready: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """Add a component; those after it start only when its `ready` has returned."""
        self._components.append(_Component(name, run, ready))

    async def run(self, *, on_ready: Callable[[], None] | None = None) -> None:
        """Start everything and stay until a component ends or the caller is cancelled; then stop everything."""
        try:
            for component in self._components:
                await self._start(component)
            if on_ready is not None:
                on_ready()
            await self._first_end(set(self._tasks))
        finally:
            await self._stop()

    async def _start(self, component: _Component) -> None:
        log.debug("starts component=%s", component.name)
        self._tasks.append(asyncio.create_task(component.run(), name=component.name))
        if component.ready is None:
            return
        becoming = asyncio.ensure_future(component.ready())
        try:
            await asyncio.wait({becoming, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            if becoming.done():
                becoming.result()
            else:
                await self._first_end(set(self._tasks))
        finally:
            becoming.cancel()
            await asyncio.wait({becoming})

    async def _first_end(self, tasks: set[asyncio.Task[None]]) -> None:
        """Wait for a component to end, and raise why."""
        if not tasks:
            await asyncio.get_running_loop().create_future()
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()
        ended = ", ".join(task.get_name() for task in self._tasks if task.done())
        raise errors.StartError(f"{ended} ended by itself", hint="the log says what it did last")

    async def _stop(self) -> None:
        for task in reversed(self._tasks):
            if task.done():
                continue
            log.debug("stops component=%s", task.get_name())
            task.cancel()
            await self._wait_stopped(task)
            if not task.done():
                log.error("does not stop component=%s seconds=%g", task.get_name(), self._stop_seconds)
                self._left.append(task)
            elif not task.cancelled() and (error := task.exception()) is not None:
                log.error("failed while it stopped component=%s", task.get_name(), exc_info=error)
        self._tasks.clear()

    def must_have_stopped(self) -> None:
        """StartError when a component that was left behind still runs: whoever comes next must not work beside it."""
        if left := ", ".join(task.get_name() for task in self._left if not task.done()):
            raise errors.StartError(f"{left} did not stop", hint="the process ends, and is started anew")

    async def _wait_stopped(self, task: asyncio.Task[None]) -> None:
        patience = asyncio.ensure_future(self._clock.sleep(self._stop_seconds))
        try:
            await asyncio.wait({task, patience}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            patience.cancel()
