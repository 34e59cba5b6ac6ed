"""The server in a dictionary answers clients as a real one does, in what it knows."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest
from tests.contract import wire

from localpv import errors
from localpv.api.kinds.cluster import ConfigMap
from localpv.api.kinds.meta import ObjectMeta
from localpv.client import client as clients
from localpv.client import config
from localpv.client.client import Client
from localpv.client.objects import Objects, Selection
from localpv.client.watching import Bookmark, Changed, Deleted, Synced
from localpv.testing.api import FakeApi
from localpv.testing.waiting import PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class Side:
    maps: Objects[ConfigMap]
    space: str

    def a_map(self, name: str, **data: str) -> ConfigMap:
        return ConfigMap(metadata=ObjectMeta(name=name, namespace=self.space), data=data)

    @property
    def all(self) -> Selection:
        return Selection(namespace=self.space)


@pytest.fixture(params=["fake", "api"])
async def side(request: pytest.FixtureRequest) -> AsyncIterator[Side]:
    if request.param == "fake":
        yield Side(Client(FakeApi(), field_manager="test").objects(ConfigMap), "default")
        return
    target: wire.Target = request.getfixturevalue("target")
    space = f"fake-{uuid.uuid4().hex[:8]}"
    api = wire.Api(target, target.token)
    api.send("POST", "/api/v1/namespaces", body={"metadata": {"name": space}})
    async with clients.connect(config.load(target.kubeconfig), component="test") as client:
        maps = client.objects(ConfigMap)
        try:
            yield Side(maps, space)
        finally:
            api.send("DELETE", f"/api/v1/namespaces/{space}")
            api.close()


def own(maps: list[ConfigMap]) -> list[str]:
    return sorted(each.metadata.name for each in maps if each.metadata.name != "kube-root-ca.crt")


async def test_object_is_found_as_it_was_created(side: Side) -> None:
    made = await side.maps.create(side.a_map("one", a="1"))
    assert made.metadata.uid and made.metadata.resource_version
    assert (await side.maps.get("one", side.space)).data == {"a": "1"}
    with pytest.raises(errors.AlreadyExists):
        await side.maps.create(side.a_map("one"))


async def test_what_is_not_there_is_not_found(side: Side) -> None:
    assert await side.maps.find("nothing", side.space) is None
    with pytest.raises(errors.NotFound):
        await side.maps.patch("nothing", {"data": {"a": "1"}}, side.space)
    with pytest.raises(errors.NotFound):
        await side.maps.delete("nothing", side.space)


async def test_merge_patch_changes_what_it_names_and_takes_off_nulls(side: Side) -> None:
    await side.maps.create(side.a_map("one", a="1", b="2"))
    patched = await side.maps.patch("one", {"data": {"a": None, "c": "3"}}, side.space)
    assert patched.data == {"b": "2", "c": "3"}


async def test_patch_for_an_older_version_is_a_conflict(side: Side) -> None:
    made = await side.maps.create(side.a_map("one", a="1"))
    await side.maps.patch("one", {"data": {"a": "2"}}, side.space)
    locked: Any = {"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {"a": "3"}}
    with pytest.raises(errors.Conflict):
        await side.maps.patch("one", locked, side.space)
    assert (await side.maps.get("one", side.space)).data == {"a": "2"}


async def test_delete_for_another_object_or_version_is_a_conflict(side: Side) -> None:
    made = await side.maps.create(side.a_map("one", a="1"))
    newer = await side.maps.patch("one", {"data": {"a": "2"}}, side.space)
    with pytest.raises(errors.Conflict):
        await side.maps.delete("one", side.space, uid="another")
    with pytest.raises(errors.Conflict):
        await side.maps.delete("one", side.space, resource_version=made.metadata.resource_version)
    await side.maps.delete("one", side.space, uid=newer.metadata.uid)
    assert await side.maps.find("one", side.space) is None


async def test_patch_that_changes_nothing_makes_no_version(side: Side) -> None:
    made = await side.maps.create(side.a_map("one", a="1"))
    same = await side.maps.patch("one", {"data": {"a": "1"}}, side.space)
    assert same.metadata.resource_version == made.metadata.resource_version


async def test_pages_are_all_there_is(side: Side) -> None:
    for number in range(5):
        await side.maps.create(side.a_map(f"n{number}"))
    pages = [page.items async for page in side.maps.pages(side.all, size=2)]
    assert all(len(page) <= 2 for page in pages)
    assert own([each for page in pages for each in page]) == [f"n{number}" for number in range(5)]


async def test_watch_tells_what_is_there_then_changes(side: Side) -> None:
    await side.maps.create(side.a_map("one", a="1"))
    async with aclosing(side.maps.watch(side.all, initial_events=True)) as events:

        async def heard() -> Any:
            while True:
                event = await asyncio.wait_for(anext(events), PATIENCE_SECONDS)
                if isinstance(event, Bookmark):
                    continue
                if isinstance(event, Synced) or event.object.metadata.name != "kube-root-ca.crt":
                    return event

        first = await heard()
        assert isinstance(first, Changed) and first.object.data == {"a": "1"}
        assert isinstance(await heard(), Synced)
        changed = await side.maps.patch("one", {"data": {"a": "2"}}, side.space)
        assert await heard() == Changed(changed)
        await side.maps.delete("one", side.space)
        gone = await heard()
        assert isinstance(gone, Deleted) and gone.object.metadata.name == "one"
