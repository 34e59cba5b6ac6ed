"""The reconcile loop.

`reconcile(key)` reads the world, not the event that woke it, takes one small step and says what comes next: `Done`, or
`LookAgain` after some time. An error is tried again with a growing back-off, alone for its key. One key is never worked
on twice at the same time; different keys are, up to the number of workers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from localpv import errors
from localpv.runtime.clock import Clock, deadline
from localpv.runtime.queue import Closed, WorkQueue
from localpv.runtime.turns import Turn

K = TypeVar("K", bound=Hashable)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do until something changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAgain:
    """Waiting for something that tells nobody when it happens: look again after so many seconds."""

    after: float


Outcome = Done | LookAgain
Reconcile = Callable[[K], Awaitable[Outcome]]


class Controller(Generic[K]):
    """Workers that take keys from a queue and reconcile them."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        queue: WorkQueue[K],
        clock: Clock,
        workers: int = 1,
        timeout_seconds: float | None = None,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._queue = queue
        self._clock = clock
        self._workers = workers
        self._timeout = timeout_seconds
        """How long one step may take; a hung disk must not hold a worker for ever."""

    async def run(self) -> None:
        """Work until cancelled, which cancels steps under way, or until the queue is closed, which lets them finish."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name} {number}")

    async def _work(self) -> None:
        turn = Turn()
        while True:
            # A step that finds nothing to do waits for nothing: thousands of them in a row must let others in.
            await turn.over()
            try:
                key = await self._queue.take()
            except Closed:
                return
            try:
                await self._step(key)
            finally:
                self._queue.done(key)

    async def _step(self, key: K) -> None:
        try:
            if self._timeout is None:
                outcome = await self._reconcile(key)
            else:
                async with deadline(self._timeout, clock=self._clock):
                    outcome = await self._reconcile(key)
        except errors.Conflict as error:
            # Somebody else wrote first, which is no trouble: the next look sees what they wrote.
            wait = self._queue.retry(key, why="conflict")
            log.debug("conflict controller=%s key=%s seconds=%.1f reason=%s", self.name, key, wait, error)
        except errors.LocalpvError as error:
            asked = error.retry_after_seconds if isinstance(error, errors.ApiError) else 0
            wait = self._queue.retry(key, at_least=asked)
            log.warning(
                "failed controller=%s key=%s seconds=%.1f reason=%s hint=%s", self.name, key, wait, error, error.hint
            )
        except TimeoutError:
            wait = self._queue.retry(key, why="timeout")
            log.warning("too slow controller=%s key=%s limit=%s seconds=%.1f", self.name, key, self._timeout, wait)
        except Exception:
            # An error of ours with one object must not end the service for all others.
            wait = self._queue.retry(key, why="unexpected")
            log.exception("unexpected error controller=%s key=%s seconds=%.1f", self.name, key, wait)
        else:
            self._queue.forget(key)
            if isinstance(outcome, LookAgain):
                self._queue.add_after(key, outcome.after)
