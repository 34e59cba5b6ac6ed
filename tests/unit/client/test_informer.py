"""The cache against a server that misbehaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from localpv import errors
from localpv.api.kinds.cluster import Node
from localpv.client.client import Client
from localpv.client.informer import SharedInformer
from localpv.runtime.backoff import Backoff
from localpv.testing.api import FakeApi
from localpv.testing.clock import FakeClock, settle

NODES = "/api/v1/nodes"


def a_node(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    yield FakeClock()


def a_cache(api: FakeApi, clock: FakeClock, **options: Any) -> SharedInformer[Node]:
    nodes = Client(api, field_manager="test").objects(Node)
    return SharedInformer(nodes, clock=clock, backoff=Backoff(first=1, most=8, jitter=0), **options)


@asynccontextmanager
async def running(cache: SharedInformer[Any]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(cache.run())
    try:
        await settle()
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


def names(cache: SharedInformer[Node]) -> list[str]:
    return sorted(node.metadata.name for node in cache.list())


def told(cache: SharedInformer[Node]) -> list[tuple[str, str]]:
    """What handlers hear, as words."""
    heard: list[tuple[str, str]] = []

    def handler(old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None
        word = "came" if old is None else "went" if new is None else "changed"
        heard.append((word, node.metadata.name))

    cache.add_event_handler(handler)
    return heard


@pytest.mark.parametrize("stream", [True, False])
async def test_cache_shows_what_exists_and_what_changes(api: FakeApi, clock: FakeClock, stream: bool) -> None:
    api.put(f"{NODES}/a", a_node())
    cache = a_cache(api, clock, stream=stream)
    heard = told(cache)
    assert not cache.has_synced
    async with running(cache):
        assert cache.has_synced
        api.put(f"{NODES}/b", a_node())
        api.put(f"{NODES}/a", a_node(x="y"))
        api.remove(f"{NODES}/b")
        await settle()
        assert names(cache) == ["a"]
        found = cache.get("a")
        assert found is not None and found.metadata.labels == {"x": "y"}
        assert heard == [("came", "a"), ("came", "b"), ("changed", "a"), ("went", "b")]


async def test_list_is_read_in_pages(api: FakeApi, clock: FakeClock) -> None:
    for number in range(1100):
        api.put(f"{NODES}/n{number}", a_node())
    cache = a_cache(api, clock, stream=False)
    async with running(cache):
        assert len(cache) == 1100
    assert [request.query.get("continue") for request in api.requests[:3]] == [None, "500", "1000"]


async def test_server_that_cannot_stream_the_beginning_is_listed(api: FakeApi, clock: FakeClock) -> None:
    api.initial_events = False
    api.put(f"{NODES}/a", a_node())
    cache = a_cache(api, clock)
    async with running(cache):
        assert cache.has_synced
        assert names(cache) == ["a"]
        assert clock.pending == 0


async def test_cut_watch_resumes_where_it_was_without_a_new_list(api: FakeApi, clock: FakeClock) -> None:
    api.put(f"{NODES}/a", a_node())
    cache = a_cache(api, clock)
    heard = told(cache)
    async with running(cache):
        api.cut()
        await settle()
        assert isinstance(cache.trouble, errors.ConnectionLost)
        api.put(f"{NODES}/b", a_node())
        api.remove(f"{NODES}/a")
        await clock.advance(1)
        assert heard == [("came", "a"), ("came", "b"), ("went", "a")]
        assert cache.trouble is None
    assert [request.query.get("resourceVersion") for request in api.requests] == [None, "1"]


async def test_resuming_starts_from_the_last_bookmark(api: FakeApi, clock: FakeClock) -> None:
    cache = a_cache(api, clock)
    async with running(cache):
        api.put("/api/v1/persistentvolumes/elsewhere", a_node())
        api.bookmark()
        await settle()
        api.cut()
        api.compact()
        api.put(f"{NODES}/late", a_node())
        await clock.advance(1)
        assert names(cache) == ["late"]
    assert api.requests[-1].query["resourceVersion"] == "1"


@pytest.mark.parametrize("stream", [True, False])
async def test_forgotten_past_is_loaded_again_and_told_as_changes(api: FakeApi, clock: FakeClock, stream: bool) -> None:
    for name in "abc":
        api.put(f"{NODES}/{name}", a_node())
    cache = a_cache(api, clock, stream=stream)
    heard = told(cache)
    async with running(cache):
        heard.clear()
        api.cut()
        api.remove(f"{NODES}/a")
        api.put(f"{NODES}/b", a_node(x="y"))
        api.put(f"{NODES}/d", a_node())
        api.compact()
        await clock.advance(1)
        assert heard == [("went", "a"), ("changed", "b"), ("came", "d")]
        assert names(cache) == ["b", "c", "d"]


async def test_version_of_the_future_is_loaded_again(api: FakeApi, clock: FakeClock) -> None:
    api.put(f"{NODES}/a", a_node())
    cache = a_cache(api, clock)
    async with running(cache):
        await clock.advance(60)
        api.objects.clear()
        api.cut(errors.GatewayTimeout("Too large resource version"))
        await settle()
        assert names(cache) == []
        assert cache.has_synced


async def test_waits_grow_while_the_server_is_down_and_start_anew_after_it_worked(
    api: FakeApi, clock: FakeClock
) -> None:
    cache = a_cache(api, clock)
    api.down = errors.ConnectionLost("down")
    async with running(cache):
        for wait in (1, 2, 4, 8, 8):
            before = len(api.requests)
            await clock.advance(wait - 0.1)
            assert len(api.requests) == before
            await clock.advance(0.1)
            assert len(api.requests) == before + 1
        api.down = None
        await clock.advance(8)
        assert cache.has_synced
        api.cut()
        before = len(api.requests)
        await clock.advance(1)
        assert len(api.requests) == before + 1


@pytest.mark.parametrize("error", [errors.Forbidden("no"), errors.NotFound("no such kind"), errors.Unavailable("busy")])
async def test_refusal_is_waited_out(api: FakeApi, clock: FakeClock, error: errors.ApiError) -> None:
    api.failures = [error]
    cache = a_cache(api, clock)
    async with running(cache):
        assert cache.trouble is error
        await clock.advance(1)
        assert cache.has_synced


async def test_watch_that_ends_in_time_is_opened_again_at_once(api: FakeApi, clock: FakeClock) -> None:
    cache = a_cache(api, clock)
    async with running(cache):
        await clock.advance(300)
        api.end()
        await settle()
        assert api.watchers == 1


async def test_watch_that_told_nothing_at_all_is_not_trusted(api: FakeApi, clock: FakeClock) -> None:
    """A server restored from a backup stays silent until its versions have caught up with ours."""
    api.put(f"{NODES}/a", a_node())
    cache = a_cache(api, clock)
    async with running(cache):
        await clock.advance(300)
        api.end()
        await settle()
        api.objects.clear()
        await clock.advance(300)
        api.end()
        await settle()
        assert names(cache) == []


async def test_watch_that_ends_at_once_again_and_again_is_slowed_down(api: FakeApi, clock: FakeClock) -> None:
    api.put(f"{NODES}/a", a_node())
    cache = a_cache(api, clock)
    async with running(cache):
        for _ in range(3):
            api.end()
            await settle()
        assert api.watchers == 0
        await clock.advance(1)
        assert api.watchers == 1


async def test_list_that_takes_too_long_in_pages_is_read_at_once(api: FakeApi, clock: FakeClock) -> None:
    for number in range(600):
        api.put(f"{NODES}/n{number}", a_node())
    api.failures = [errors.Gone("continue token expired")]
    cache = a_cache(api, clock, stream=False)
    async with running(cache):
        assert len(cache) == 600
    assert ["limit" in request.query for request in api.requests[:2]] == [True, False]


async def test_index_finds_objects_by_what_they_say_now(api: FakeApi, clock: FakeClock) -> None:
    api.put(f"{NODES}/a", a_node(zone="one"))
    api.put(f"{NODES}/b", a_node(zone="one"))
    cache = a_cache(api, clock, indexes={"zone": lambda node: [node.metadata.labels.get("zone", "")]})
    async with running(cache):
        assert [node.key for node in cache.find("zone", "one")] == ["a", "b"]
        api.put(f"{NODES}/a", a_node(zone="two"))
        api.remove(f"{NODES}/b")
        await settle()
        assert cache.find("zone", "one") == []
        assert [node.key for node in cache.find("zone", "two")] == ["a"]


async def test_late_handler_is_told_what_is_there(api: FakeApi, clock: FakeClock) -> None:
    api.put(f"{NODES}/a", a_node())
    cache = a_cache(api, clock)
    async with running(cache):
        assert told(cache) == [("came", "a")]


async def test_mistake_of_a_handler_ends_the_cache_and_is_not_hidden(api: FakeApi, clock: FakeClock) -> None:
    cache = a_cache(api, clock)

    def broken(old: Node | None, new: Node | None) -> None:
        raise ZeroDivisionError

    cache.add_event_handler(broken)
    async with running(cache) as task:
        api.put(f"{NODES}/a", a_node())
        await settle()
        assert isinstance(task.exception(), ZeroDivisionError)
