"""Events: the same happening counts up, and telling never waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.manager.worlds import a_node

from localpv import errors
from localpv.client.client import Client
from localpv.observe import events
from localpv.observe.events import ApiEvents
from localpv.testing.api import FakeApi
from localpv.testing.clock import FakeClock, settle


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@asynccontextmanager
async def running(api: FakeApi) -> AsyncIterator[ApiEvents]:
    teller = ApiEvents(Client(api, field_manager="test"), component="localpv-test", clock=FakeClock())
    task = asyncio.create_task(teller.run())
    try:
        yield teller
    finally:
        task.cancel()
        await asyncio.wait({task})


def written(api: FakeApi) -> list[dict[str, Any]]:
    return [each for path, each in api.objects.items() if "/events/" in path]


async def test_event_says_what_happened_to_which_object(api: FakeApi) -> None:
    async with running(api) as teller:
        teller.tell(a_node(), "DiskMissing", "It is gone.", warning=True)
        await settle()
    (event,) = written(api)
    assert (event["reason"], event["message"], event["type"], event["count"]) == (
        "DiskMissing",
        "It is gone.",
        "Warning",
        1,
    )
    about = event["involvedObject"]
    assert (about["kind"], about["apiVersion"], about["name"], about["uid"]) == (
        "Node",
        "v1",
        "n1",
        a_node().metadata.uid,
    )
    assert event["metadata"]["namespace"] == "default"


@pytest.mark.seed("DEL-10")
async def test_same_happening_counts_up_also_after_a_restart(api: FakeApi) -> None:
    async with running(api) as teller:
        teller.tell(a_node(), "CleaningFailed", "one")
        await settle()
        teller.tell(a_node(), "CleaningFailed", "two")
        teller.tell(a_node(), "CleaningFailed", "three")
        await settle()
    async with running(api) as teller:
        teller.tell(a_node(), "CleaningFailed", "four")
        teller.tell(a_node(), "CleaningStarted", "another")
        await settle()
    counts = {event["reason"]: (event["count"], event["message"]) for event in written(api)}
    assert counts == {"CleaningFailed": (4, "four"), "CleaningStarted": (1, "another")}


async def test_event_that_cannot_be_written_holds_nothing_up(api: FakeApi) -> None:
    async with running(api) as teller:
        api.failures = [errors.Forbidden("no")]
        teller.tell(a_node(), "One", "lost")
        teller.tell(a_node(), "Two", "written")
        await settle()
    assert [event["reason"] for event in written(api)] == ["Two"]


async def test_oldest_is_dropped_when_too_many_wait(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_WAITING", 2)
    async with running(api) as teller:
        for reason in ("One", "Two", "Three"):
            teller.tell(a_node(), reason, "")
        await settle()
    assert {event["reason"] for event in written(api)} == {"Two", "Three"}
