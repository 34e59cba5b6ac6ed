"""The work queue."""

from __future__ import annotations

import asyncio
import random

import pytest

from localpv.runtime.backoff import KeyedBackoff
from localpv.runtime.queue import Closed, WorkQueue
from localpv.testing.clock import FakeClock, settle


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(clock: FakeClock) -> WorkQueue[str]:
    return WorkQueue(clock=clock, backoff=KeyedBackoff(first=1, most=4, jitter=0))


async def taken(queue: WorkQueue[str]) -> list[str]:
    """All that can be taken now, and done with at once."""
    keys = []
    while len(queue):
        keys.append(await queue.take())
        queue.done(keys[-1])
    return keys


async def test_key_that_is_added_many_times_is_taken_once(queue: WorkQueue[str]) -> None:
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert await taken(queue) == ["a", "b"]


async def test_key_added_while_taken_comes_again_only_when_done(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert await queue.take() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await taken(queue) == ["a"]


async def test_taker_waits_for_a_key(queue: WorkQueue[str]) -> None:
    taking = asyncio.create_task(queue.take())
    await settle()
    assert not taking.done()
    queue.add("a")
    assert await taking == "a"


async def test_delayed_key_comes_at_its_time(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add_after("a", 5)
    await clock.advance(4.9)
    assert await taken(queue) == []
    await clock.advance(0.1)
    assert await taken(queue) == ["a"]


async def test_earliest_of_several_delays_counts(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add_after("a", 5)
    queue.add_after("a", 2)
    queue.add_after("a", 9)
    await clock.advance(2)
    assert await taken(queue) == ["a"]
    await clock.advance(60)
    assert await taken(queue) == []


async def test_key_added_now_does_not_come_again_later(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add_after("a", 5)
    queue.add("a")
    assert await taken(queue) == ["a"]
    await clock.advance(60)
    assert await taken(queue) == []


async def test_each_key_has_its_own_growing_wait(queue: WorkQueue[str], clock: FakeClock) -> None:
    assert [queue.retry("a") for _ in range(4)] == [1, 2, 4, 4]
    assert queue.retry("b") == 1
    assert queue.failures("a") == 4
    queue.forget("a")
    assert queue.retry("a") == 1
    assert queue.retry("b", at_least=30) == 30


async def test_cancelled_taker_does_not_take_a_key_with_it(queue: WorkQueue[str]) -> None:
    first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
    await settle()
    queue.add("a")
    first.cancel()
    await settle()
    assert second.done() and second.result() == "a"


async def test_closed_queue_tells_its_takers_and_keeps_no_timer(queue: WorkQueue[str], clock: FakeClock) -> None:
    takers = [asyncio.create_task(queue.take()) for _ in range(3)]
    queue.add_after("a", 5)
    await settle()
    queue.close()
    await settle()
    assert [type(taker.exception()) for taker in takers] == [Closed] * 3
    queue.add("b")
    assert len(queue) == 0
    assert clock.pending == 0


async def test_observer_hears_waits_and_work(clock: FakeClock) -> None:
    class Heard:
        def __init__(self) -> None:
            self.depths: list[int] = []
            self.waits: list[float] = []
            self.works: list[float] = []
            self.retries: list[str] = []

        def depth(self, waiting: int) -> None:
            self.depths.append(waiting)

        def taken(self, waited_seconds: float) -> None:
            self.waits.append(waited_seconds)

        def done(self, worked_seconds: float) -> None:
            self.works.append(worked_seconds)

        def retried(self, why: str) -> None:
            self.retries.append(why)

    heard = Heard()
    queue: WorkQueue[str] = WorkQueue(clock=clock, observer=heard)
    queue.add("a")
    await clock.advance(2)
    await queue.take()
    await clock.advance(3)
    queue.retry("a", why="conflict")
    queue.done("a")
    assert (heard.depths, heard.waits, heard.works, heard.retries) == ([1, 0], [2], [3], ["conflict"])


async def test_last_change_of_every_key_is_always_looked_at(queue: WorkQueue[str], clock: FakeClock) -> None:
    """Many workers, many changes: no key is worked on twice at once, and none misses its last change."""
    chance = random.Random(1)
    world = dict.fromkeys("abcdefgh", 0)
    seen: dict[str, int] = {}
    busy: set[str] = set()

    async def worker() -> None:
        while True:
            key = await queue.take()
            assert key not in busy
            busy.add(key)
            seen[key] = world[key]
            await clock.sleep(chance.random())
            busy.discard(key)
            queue.done(key)

    workers = [asyncio.create_task(worker()) for _ in range(3)]
    for _ in range(300):
        key = chance.choice(sorted(world))
        world[key] += 1
        queue.add(key)
        await clock.advance(chance.random() / 5)
    await clock.advance(100)
    assert seen == world
    assert not any(worker.done() for worker in workers)
    for each in workers:
        each.cancel()
    await asyncio.wait(workers)
