"""Events: the same happening counts up, and telling never waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs
from tests.unit.manager.worlds import a_node

from localpv import errors
from localpv.api.kinds.meta import Kind
from localpv.client.client import Client
from localpv.observe import recorder as module
from localpv.observe.recorder import ApiRecorder, Notice, Recorder
from localpv.testing.api import FakeApi
from localpv.testing.clock import FakeClock, settle


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@asynccontextmanager
async def running(api: FakeApi) -> AsyncIterator[ApiRecorder]:
    teller = ApiRecorder(Client(api, field_manager="test"), component="localpv-test", clock=FakeClock())
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
        teller.event(a_node(), "DiskMissing", "It is gone.", warning=True)
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
        teller.event(a_node(), "CleaningFailed", "one")
        await settle()
        teller.event(a_node(), "CleaningFailed", "two")
        teller.event(a_node(), "CleaningFailed", "three")
        await settle()
    async with running(api) as teller:
        teller.event(a_node(), "CleaningFailed", "four")
        teller.event(a_node(), "CleaningStarted", "another")
        await settle()
    counts = {event["reason"]: (event["count"], event["message"]) for event in written(api)}
    assert counts == {"CleaningFailed": (4, "four"), "CleaningStarted": (1, "another")}


async def test_event_that_cannot_be_written_holds_nothing_up(api: FakeApi) -> None:
    async with running(api) as teller:
        api.failures = [errors.Forbidden("no")]
        teller.event(a_node(), "One", "lost")
        teller.event(a_node(), "Two", "written")
        await settle()
    assert [event["reason"] for event in written(api)] == ["Two"]


async def test_oldest_is_dropped_when_too_many_wait(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    async with running(api) as teller:
        for reason in ("One", "Two", "Three"):
            teller.event(a_node(), reason, "")
        await settle()
    assert {event["reason"] for event in written(api)} == {"Two", "Three"}


class Heard(Recorder):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[str] = []

    def event(self, about: Kind, reason: str, message: str, *, warning: bool = False, part: str = "") -> None:
        self.reasons.append(reason)


def test_what_was_said_last_of_an_object_is_not_said_again_until_it_is_forgotten() -> None:
    heard = Heard()
    recorder = Recorder(heard)
    one, two = Notice(reason="One", message="one"), Notice(reason="Two", message="two", warning=True)
    for notices in ((one,), (one,), (one, two), (one, two), (one,)):
        recorder.event_once(a_node(), *notices)
    assert heard.reasons == ["One", "One", "Two", "One"]
    assert recorder.was_told(a_node())
    recorder.forget(a_node().key)
    recorder.event_once(a_node(), one)
    assert heard.reasons[4:] == ["One"]


def test_another_object_of_the_same_name_has_been_told_nothing() -> None:
    heard = Heard()
    recorder = Recorder(heard)
    one = Notice(reason="One", message="one")
    recorder.event_once(a_node(), one)
    again = structs.replace(a_node(), metadata=structs.replace(a_node().metadata, uid="another"))
    assert not recorder.was_told(again)
    recorder.event_once(again, one)
    assert heard.reasons == ["One", "One"]
    assert recorder.was_told(again) and not recorder.was_told(a_node())
    recorder.forget_all()
    recorder.event_once(again, one)
    assert heard.reasons == ["One"] * 3


def test_whether_something_is_news_goes_by_what_it_is_about() -> None:
    recorder = Recorder()
    assert recorder.is_news("cleaning a", 1) and recorder.is_news("cleaning b", 1)
    assert not recorder.is_news("cleaning a", 1) and recorder.is_news("cleaning a", None)
    assert not recorder.is_news("cleaning a", None)
