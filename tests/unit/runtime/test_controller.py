"""The reconcile loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from localpv import errors
from localpv.runtime.backoff import KeyedBackoff
from localpv.runtime.controller import Controller, Done, LookAgain, Outcome
from localpv.runtime.queue import WorkQueue
from localpv.testing.clock import FakeClock

Reconcile = Callable[[str], Awaitable[Outcome]]


class World:
    """A clock, a queue, and what was looked at when."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.queue: WorkQueue[str] = WorkQueue(clock=self.clock, backoff=KeyedBackoff(first=1, most=4, jitter=0))
        self.looks: list[tuple[str, float]] = []

    @asynccontextmanager
    async def controlled(
        self, reconcile: Reconcile, *, workers: int = 1, timeout_seconds: float | None = None
    ) -> AsyncIterator[asyncio.Task[None]]:
        async def noted(key: str) -> Outcome:
            self.looks.append((key, self.clock.monotonic()))
            return await reconcile(key)

        controller = Controller(
            "test", noted, queue=self.queue, clock=self.clock, workers=workers, timeout_seconds=timeout_seconds
        )
        running = asyncio.create_task(controller.run())
        try:
            yield running
        finally:
            running.cancel()
            await asyncio.wait({running})


@pytest.fixture
def world() -> World:
    return World()


async def test_done_is_not_looked_at_again(world: World) -> None:
    async def reconcile(key: str) -> Outcome:
        return Done()

    world.queue.add("a")
    async with world.controlled(reconcile):
        await world.clock.advance(1000)
    assert world.looks == [("a", 0)]


async def test_look_again_is_looked_at_after_that_time(world: World) -> None:
    async def reconcile(key: str) -> Outcome:
        return LookAgain(after=5) if len(world.looks) < 3 else Done()

    world.queue.add("a")
    async with world.controlled(reconcile):
        await world.clock.advance(100)
    assert world.looks == [("a", 0), ("a", 5), ("a", 10)]


@pytest.mark.parametrize("error", [errors.ConnectionLost("gone"), errors.Conflict("changed"), ZeroDivisionError()])
async def test_error_is_tried_again_later_and_later_until_it_works(world: World, error: Exception) -> None:
    async def reconcile(key: str) -> Outcome:
        if len(world.looks) < 5:
            raise error
        return Done()

    world.queue.add("a")
    async with world.controlled(reconcile):
        await world.clock.advance(100)
    assert world.looks == [("a", 0), ("a", 1), ("a", 3), ("a", 7), ("a", 11)]
    assert world.queue.failures("a") == 0


async def test_failing_key_does_not_hold_up_others(world: World) -> None:
    async def reconcile(key: str) -> Outcome:
        if key == "bad":
            raise errors.ConfigurationError("wrong", hint="mend it")
        return Done()

    world.queue.add("bad")
    world.queue.add("good")
    async with world.controlled(reconcile):
        await world.clock.advance(0.5)
    assert world.looks == [("bad", 0), ("good", 0)]


async def test_message_and_hint_are_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def reconcile(key: str) -> Outcome:
        raise errors.ConfigurationError("wrong", hint="mend it")

    world.queue.add("a")
    with caplog.at_level(logging.WARNING):
        async with world.controlled(reconcile):
            await world.clock.advance(0)
    assert "controller=test key=a seconds=1.0 reason=wrong hint=mend it" in caplog.text


async def test_server_that_asks_for_more_time_gets_it(world: World) -> None:
    async def reconcile(key: str) -> Outcome:
        if len(world.looks) == 1:
            raise errors.TooManyRequests("busy", details={"retryAfterSeconds": 30})
        return Done()

    world.queue.add("a")
    async with world.controlled(reconcile):
        await world.clock.advance(100)
    assert world.looks == [("a", 0), ("a", 30)]


async def test_step_that_hangs_frees_its_worker(world: World) -> None:
    async def reconcile(key: str) -> Outcome:
        if key == "hangs":
            await asyncio.get_running_loop().create_future()
        return Done()

    world.queue.add("hangs")
    world.queue.add("waits")
    async with world.controlled(reconcile, timeout_seconds=10):
        await world.clock.advance(10.5)
    assert world.looks == [("hangs", 0), ("waits", 10)]
    assert world.queue.failures("hangs") == 1


async def test_no_more_steps_at_once_than_workers(world: World) -> None:
    at_once: list[int] = []
    running = 0

    async def reconcile(key: str) -> Outcome:
        nonlocal running
        running += 1
        at_once.append(running)
        await world.clock.sleep(1)
        running -= 1
        return Done()

    for key in "abcdefgh":
        world.queue.add(key)
    async with world.controlled(reconcile, workers=3):
        await world.clock.advance(100)
    assert len(world.looks) == 8
    assert max(at_once) == 3


async def test_cancelled_controller_cancels_its_step(world: World) -> None:
    ended: list[str] = []

    async def reconcile(key: str) -> Outcome:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(key)
        return Done()

    world.queue.add("a")
    async with world.controlled(reconcile):
        await world.clock.advance(0)
    assert ended == ["a"]


async def test_closed_queue_lets_a_step_finish(world: World) -> None:
    ended: list[str] = []

    async def reconcile(key: str) -> Outcome:
        await world.clock.sleep(5)
        ended.append(key)
        return Done()

    world.queue.add("a")
    world.queue.add("b")
    async with world.controlled(reconcile) as running:
        await world.clock.advance(1)
        world.queue.close()
        await world.clock.advance(5)
        assert running.done() and running.exception() is None
    assert ended == ["a"]
