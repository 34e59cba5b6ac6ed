"""Components that start in order, stop in reverse order and go down together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from localpv import errors
from localpv.runtime.group import Group
from localpv.testing.clock import FakeClock, settle


class Diary:
    """What happened, in order, and components that write it down."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def component(self, name: str, *, until: asyncio.Event | None = None, error: Exception | None = None) -> Any:
        async def run() -> None:
            self.entries.append(f"{name} starts")
            try:
                if until is None:
                    await asyncio.get_running_loop().create_future()
                else:
                    await until.wait()
                if error is not None:
                    raise error
            finally:
                self.entries.append(f"{name} stops")

        made: Callable[[], Coroutine[Any, Any, None]] = run
        return made


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def group(clock: FakeClock) -> Group:
    return Group(clock=clock)


async def stop(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.wait({running})


async def test_components_start_in_order_and_stop_in_reverse(group: Group, diary: Diary) -> None:
    for name in ("store", "server", "controller"):
        group.add(name, diary.component(name), ready=settle)
    running = asyncio.create_task(group.run(on_ready=lambda: diary.entries.append("ready")))
    while "ready" not in diary.entries:
        await settle()
    await stop(running)
    assert running.cancelled()
    assert diary.entries == [
        "store starts",
        "server starts",
        "controller starts",
        "ready",
        "controller stops",
        "server stops",
        "store stops",
    ]


async def test_next_component_waits_until_the_one_before_is_ready(group: Group, diary: Diary) -> None:
    ready = asyncio.Event()
    group.add("server", diary.component("server"), ready=ready.wait)
    group.add("controller", diary.component("controller"))
    running = asyncio.create_task(group.run())
    await settle()
    assert diary.entries == ["server starts"]
    ready.set()
    await settle()
    assert diary.entries == ["server starts", "controller starts"]
    await stop(running)


async def test_component_that_dies_takes_the_others_down_and_its_error_is_raised(group: Group, diary: Diary) -> None:
    die = asyncio.Event()
    group.add("server", diary.component("server"))
    group.add("broken", diary.component("broken", until=die, error=errors.StoreFull("no room")))
    group.add("controller", diary.component("controller"))
    running = asyncio.create_task(group.run())
    await settle()
    die.set()
    with pytest.raises(errors.StoreFull):
        await running
    assert diary.entries[3:] == ["broken stops", "controller stops", "server stops"]


async def test_component_that_just_ends_is_named(group: Group, diary: Diary) -> None:
    end = asyncio.Event()
    end.set()
    group.add("server", diary.component("server"))
    group.add("short", diary.component("short", until=end))
    with pytest.raises(errors.StartError, match="short ended by itself"):
        await group.run()


async def test_component_that_fails_to_start_stops_those_before_it(group: Group, diary: Diary) -> None:
    die = asyncio.Event()
    die.set()
    group.add("store", diary.component("store"))
    group.add("server", diary.component("server", until=die, error=errors.StartError("port in use")), ready=never)
    group.add("controller", diary.component("controller"))
    with pytest.raises(errors.StartError, match="port in use"):
        await group.run()
    assert diary.entries == ["store starts", "server starts", "server stops", "store stops"]


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def test_readiness_that_fails_stops_everything(group: Group, diary: Diary) -> None:
    async def failing() -> None:
        raise errors.ConnectionLost("no server")

    group.add("cache", diary.component("cache"), ready=failing)
    with pytest.raises(errors.ConnectionLost):
        await group.run()
    assert diary.entries == ["cache starts", "cache stops"]


async def test_stop_while_starting_stops_what_was_started(group: Group, diary: Diary) -> None:
    group.add("cache", diary.component("cache"), ready=never)
    group.add("controller", diary.component("controller"))
    running = asyncio.create_task(group.run())
    await settle()
    await stop(running)
    assert diary.entries == ["cache starts", "cache stops"]


async def test_component_that_does_not_stop_is_left_behind_and_named(
    diary: Diary, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    group = Group(clock=clock, stop_seconds=3)
    group.add("server", diary.component("server"))
    group.add("stubborn", stubborn)
    running = asyncio.create_task(group.run())
    await settle()
    running.cancel()
    with caplog.at_level(logging.ERROR):
        await clock.advance(2.9)
        assert "server stops" not in diary.entries
        await clock.advance(0.1)
    assert running.done()
    assert "server stops" in diary.entries
    assert "does not stop component=stubborn" in caplog.text
    release.set()
    await settle()
