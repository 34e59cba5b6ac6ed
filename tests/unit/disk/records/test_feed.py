"""What one watcher of records hears: of each record the newest, and of none that it never knew."""

from __future__ import annotations

import asyncio

import pytest

from localpv import errors
from localpv.api.kinds import ObjectMeta
from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec
from localpv.client.watching import Changed, Deleted, Synced
from localpv.disk.records.feed import Feed
from localpv.disk.records.protocol import Event
from localpv.testing.waiting import PATIENCE_SECONDS


def a_disk(name: str, version: int = 1) -> LocalDisk:
    spec = LocalDiskSpec(node_name="n", storage_class_name="fast", entry=name, path=f"/{name}", volume_mode="Block")
    return LocalDisk(metadata=ObjectMeta(name=name, resource_version=str(version)), spec=spec)


async def heard(feed: Feed) -> list[Event]:
    """All that the watcher has not been told yet."""
    feed.synced("fence")
    found: list[Event] = []
    async for event in feed.events():
        if event == Synced("fence"):
            return found
        found.append(event)
    raise AssertionError("a feed ends with an error only")


async def test_record_that_came_and_went_unseen_is_not_told() -> None:
    feed = Feed()
    feed.tell(None, a_disk("a"))
    feed.tell(a_disk("a"), None)
    assert await heard(feed) == []


async def test_record_that_the_watcher_knows_is_told_as_gone_once() -> None:
    feed = Feed()
    feed.tell(None, a_disk("a"))
    assert await heard(feed) == [Changed(a_disk("a"))]
    feed.tell(a_disk("a"), a_disk("a", 2))
    feed.tell(a_disk("a", 2), None)
    assert await heard(feed) == [Deleted(a_disk("a", 2))]
    feed.tell(a_disk("a", 2), None)
    assert await heard(feed) == [], "the watcher knows that it is gone"


async def test_record_that_was_made_again_is_told_as_it_is_now() -> None:
    feed = Feed()
    feed.tell(None, a_disk("a"))
    await heard(feed)
    feed.tell(a_disk("a"), None)
    feed.tell(None, a_disk("a", 3))
    assert await heard(feed) == [Changed(a_disk("a", 3))]
    feed.tell(a_disk("a", 3), None)
    assert await heard(feed) == [Deleted(a_disk("a", 3))]


async def test_slow_watcher_hears_only_the_newest_of_each_record() -> None:
    feed = Feed()
    for version in (1, 2, 3):
        for name in ("a", "b"):
            feed.tell(None, a_disk(name, version))
    assert await heard(feed) == [Changed(a_disk("a", 3)), Changed(a_disk("b", 3))]


async def test_watcher_that_waits_is_woken_by_each_sort_of_news() -> None:
    feed = Feed()
    events = feed.events()
    for news, expected in [
        (lambda: feed.tell(None, a_disk("a")), Changed(a_disk("a"))),
        (lambda: feed.synced("7"), Synced("7")),
        (lambda: feed.tell(a_disk("a"), None), Deleted(a_disk("a"))),
    ]:
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        assert not waiting.done()
        news()
        assert await asyncio.wait_for(waiting, PATIENCE_SECONDS) == expected
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    feed.fail(errors.Gone("no more"))
    with pytest.raises(errors.Gone):
        await asyncio.wait_for(waiting, PATIENCE_SECONDS)


async def test_what_was_told_before_the_end_is_heard_first() -> None:
    feed = Feed()
    feed.tell(None, a_disk("a"))
    feed.fail(errors.Gone("no more"))
    events = feed.events()
    assert await anext(events) == Changed(a_disk("a"))
    with pytest.raises(errors.Gone):
        await anext(events)
