"""Own writes are seen at once, and forgotten as soon as the watch has told of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from localpv.api.kinds.cluster import ConfigMap
from localpv.client.client import Client
from localpv.client.informer import SharedInformer
from localpv.engine.controllers.cached_objects import CachedObjects
from localpv.testing.api import FakeApi
from localpv.testing.clock import FakeClock, settle

PATH = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def known(api: FakeApi, *, watching: bool = True) -> AsyncIterator[CachedObjects[ConfigMap]]:
    client = Client(api, field_manager="tests")
    informer = SharedInformer(client.objects(ConfigMap), clock=FakeClock())
    found = CachedObjects(client, ConfigMap, informer, indexes={"color": lambda obj: [obj.data.get("color", "")]})
    task = asyncio.create_task(informer.run()) if watching else None
    try:
        await settle()
        yield found
    finally:
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def body(name: str, color: str = "red") -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"color": color}}


async def test_what_was_made_is_there_before_the_watch_tells() -> None:
    async with known(FakeApi(), watching=False) as found:
        made = await found.create(body("one"))
        assert found.get("one", "default") == made
        assert found.find("color", "red") == [made] and found.find("color", "blue") == []
        assert found.list() == [made]


async def test_change_is_seen_in_place_of_what_was() -> None:
    async with known(FakeApi(), watching=False) as found:
        made = await found.create(body("one"))
        await found.patch(made, {"data": {"color": "blue"}})
        assert found.find("color", "red") == []
        assert [each.metadata.name for each in found.find("color", "blue")] == ["one"]


async def test_what_was_deleted_is_gone_before_the_watch_tells() -> None:
    async with known(FakeApi(), watching=False) as found:
        made = await found.create(body("one"))
        assert await found.delete(made)
        assert found.list() == [] and found.get("one", "default") is None
        assert not await found.delete(made), "there is nothing left to delete"


@pytest.mark.parametrize("collection", ["/api/v1/configmaps"])
async def test_watch_has_the_last_word(collection: str) -> None:
    api = FakeApi()
    async with known(api) as found:
        made = await found.create(body("one"))
        # The watch is that of all namespaces; it hears of the object, and of its end, which nobody here brought about.
        api.put(f"{collection}/one", {**api.objects[f"{PATH}/one"], "data": {"color": "green"}})
        await settle()
        assert [each.data["color"] for each in found.list()] == ["green"]
        api.remove(f"{collection}/one")
        await settle()
        assert found.list() == []
        assert made.metadata.name == "one"


async def test_object_that_came_and_went_unseen_is_forgotten_when_the_watch_is_past_it() -> None:
    api = FakeApi()
    async with known(api) as found:
        await found.create(body("one"))
        assert len(found.list()) == 1
        api.remove(f"{PATH}/one")
        api.bookmark()
        await settle()
        assert found.list() == []
