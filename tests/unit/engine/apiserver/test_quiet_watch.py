"""A watch with nothing to tell costs nothing, however long it lasts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.responses import PLAIN
from localpv.engine.apiserver.selection import Revisions
from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.engine.apiserver.verbs import watch as watching


@pytest.mark.parametrize("bookmarks", ["true", "false"])
async def test_a_watch_sleeps_between_changes_also_after_the_time_of_a_bookmark(
    tmp_path: Path, bookmarks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "BOOKMARK_EVERY", 0.1)
    server = ApiServer(Settings(data=tmp_path, port=0, durable=False))
    await server.start()
    waits = 0

    class Counted(watching.Watch):
        async def _wait(self, seconds: float) -> None:
            nonlocal waits
            waits += 1
            assert seconds > 0
            await super()._wait(seconds)

    kind = server.kinds.find("", "v1", "secrets")
    assert kind is not None
    query = {"timeoutSeconds": "2", "allowWatchBookmarks": bookmarks, "resourceVersion": str(server.store.revision)}
    call = Call(kind=kind, namespace="default", query=query)
    watch = Counted(call, PLAIN, store=server.store, revisions=Revisions(server.store))
    told = [piece async for piece in watch.pieces(asyncio.Event())]
    await server.stop()
    assert waits < 40
    assert bool(told) is (bookmarks == "true")


async def test_a_watch_from_a_version_that_is_still_to_come_is_not_told_that_it_is_at_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "BOOKMARK_EVERY", 0.1)
    server = ApiServer(Settings(data=tmp_path, port=0, durable=False))
    await server.start()
    kind = server.kinds.find("", "v1", "secrets")
    assert kind is not None
    later = str(server.store.revision + 1000)
    query = {"timeoutSeconds": "2", "allowWatchBookmarks": "true", "resourceVersion": later}
    watch = watching.Watch(
        Call(kind=kind, namespace="default", query=query), PLAIN, store=server.store, revisions=Revisions(server.store)
    )
    told = [piece async for piece in watch.pieces(asyncio.Event())]
    await server.stop()
    assert told == []
