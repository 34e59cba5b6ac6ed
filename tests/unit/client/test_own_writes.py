"""An informer also knows what was written here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from msgspec import structs
from tests.unit.volume.samples import volume

from localpv import errors
from localpv.api.kinds.volumes import PersistentVolume
from localpv.client.client import Client
from localpv.client.codec import TypedCodec
from localpv.client.informer import Informer, SharedInformer
from localpv.client.informer_factory import InformerFactory
from localpv.client.objects import EVERYTHING, Objects, Selection
from localpv.client.watching import Bookmark, Changed, Deleted, Event, Synced
from localpv.testing.api import FakeApi
from localpv.testing.clock import FakeClock, settle

OURS = Selection(labels="ours")


class Watched:
    """What the watch brings, when it does."""

    codec = TypedCodec(PersistentVolume)
    resource = PersistentVolume.resource

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.lines: asyncio.Queue[Event[PersistentVolume] | errors.LocalpvError] = asyncio.Queue()

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[Event[PersistentVolume], None]:
        while True:
            line = await self.lines.get()
            if isinstance(line, errors.LocalpvError):
                raise line
            yield line

    async def starts(self, *there: PersistentVolume, at: str = "0") -> None:
        """All that exists, for the first time or over again."""
        for line in (*map(Changed, there), Synced(at)):
            self.lines.put_nowait(line)
        await settle()

    async def forgets(self) -> None:
        """The watch ends, and the server does not know any more what was."""
        self.lines.put_nowait(errors.Gone("too old"))
        await settle()
        await self.clock.advance(60)

    async def brings(self, new: PersistentVolume) -> None:
        self.lines.put_nowait(Changed(new))
        await settle()

    async def takes(self, gone: PersistentVolume) -> None:
        self.lines.put_nowait(Deleted(gone))
        await settle()

    async def passes(self, version: str) -> None:
        self.lines.put_nowait(Bookmark(version))
        await settle()


Both = tuple[Watched, SharedInformer[PersistentVolume], list[tuple[str, str]]]


@asynccontextmanager
async def both(selection: Selection = EVERYTHING) -> AsyncIterator[Both]:
    watched, told = Watched(), list[tuple[str, str]]()
    objects = cast(Objects[PersistentVolume], watched)
    newest = SharedInformer(objects, clock=watched.clock, selection=selection)
    newest.add_event_handler(lambda old, new: told.append((_version(old), _version(new))))
    async with newest.following():
        await watched.starts()
        yield watched, newest, told


def _version(volume: PersistentVolume | None) -> str:
    return volume.metadata.resource_version if volume is not None else ""


def another(version: str) -> PersistentVolume:
    """A volume that has the name of one that is gone."""
    made = volume(version=version)
    return structs.replace(made, metadata=structs.replace(made.metadata, uid="another"))


async def test_what_was_written_is_seen_at_once_and_told_once() -> None:
    async with both() as (watched, newest, told):
        await watched.brings(volume(version="1"))
        newest.wrote(volume(version="3"))
        assert _version(newest.get("pv")) == "3"
        await watched.brings(volume(version="2"))
        assert _version(newest.get("pv")) == "3"
        await watched.brings(volume(version="3"))
        await watched.brings(volume(version="4"))
        assert _version(newest.get("pv")) == "4"
        assert told == [("", "1"), ("1", "3"), ("3", "4")]
        assert [_version(one) for one in newest.list()] == ["4"]


async def test_an_answer_that_comes_after_the_object_has_gone_does_not_bring_it_back() -> None:
    async with both() as (watched, newest, told):
        await watched.brings(volume(version="1"))
        await watched.takes(volume(version="5"))
        newest.wrote(volume(version="4"))
        assert newest.get("pv") is None
        assert told == [("", "1"), ("1", "")]


async def test_what_was_written_goes_with_the_object() -> None:
    async with both() as (watched, newest, told):
        await watched.brings(volume(version="1"))
        newest.wrote(volume(version="3"))
        await watched.takes(volume(version="5"))
        assert newest.get("pv") is None
        assert told[-1] == ("3", "")


async def test_answers_that_cross_leave_the_newer_one() -> None:
    async with both() as (watched, newest, told):
        newest.wrote(volume(version="4"))
        newest.wrote(volume(version="3"))
        assert _version(newest.get("pv")) == "4"
        await watched.brings(volume(version="3"))
        assert told == [("", "4")]


async def test_what_was_deleted_is_gone_at_once_and_does_not_come_back_with_the_watch() -> None:
    async with both() as (watched, newest, told):
        await watched.brings(volume(version="1"))
        newest.deleted(volume(version="1"))
        assert newest.get("pv") is None and newest.list() == []
        await watched.brings(volume(version="2"))
        assert newest.get("pv") is None
        await watched.takes(volume(version="3"))
        assert told == [("", "1"), ("1", "")]
        await watched.brings(another("4"))
        assert _version(newest.get("pv")) == "4"


async def test_that_an_object_is_gone_says_nothing_about_another_of_its_name() -> None:
    async with both() as (watched, newest, told):
        await watched.brings(volume(version="1"))
        newest.wrote(another("4"))
        newest.deleted(volume(version="1"))
        await watched.takes(volume(version="3"))
        assert _version(newest.get("pv")) == "4"
        await watched.brings(another("4"))
        assert told == [("", "1"), ("1", "4")]


async def test_a_list_from_before_a_write_does_not_take_it_back() -> None:
    async with both() as (watched, newest, _):
        await watched.brings(volume(version="1"))
        await watched.brings(volume("gone", version="2"))
        await watched.forgets()
        newest.wrote(volume(version="5"))
        newest.wrote(volume("new", version="6"))
        newest.deleted(volume("gone", version="2"))
        await watched.starts(volume(version="1"), volume("gone", version="2"), at="4")
        assert sorted((one.key, _version(one)) for one in newest.list()) == [("new", "6"), ("pv", "5")]
        await watched.forgets()
        await watched.starts(volume("new", version="6"), at="9")
        assert [(one.key, _version(one)) for one in newest.list()] == [("new", "6")], "the list is newer than the write"


async def test_what_was_written_before_a_backup_came_back_is_forgotten() -> None:
    async with both() as (watched, newest, _):
        await watched.passes("50")
        newest.wrote(volume(version="60"))
        await watched.forgets()
        await watched.starts(volume(version="7"), at="8")
        assert _version(newest.get("pv")) == "7"
        await watched.brings(volume(version="9"))
        assert _version(newest.get("pv")) == "9"


async def test_object_that_a_write_takes_out_of_the_selection_is_gone() -> None:
    async with both(OURS) as (watched, newest, told):
        await watched.brings(volume(version="1", labels={"ours": ""}))
        newest.wrote(volume(version="3"))
        assert newest.get("pv") is None
        await watched.brings(volume(version="2", labels={"ours": ""}))
        assert newest.get("pv") is None
        await watched.takes(volume(version="3"))
        newest.wrote(volume("other", version="5"))
        assert newest.list() == [], "it never was in the selection"
        newest.wrote(volume(version="6", labels={"ours": ""}))
        assert told == [("", "1"), ("1", ""), ("", "6")]


async def test_what_the_watch_passes_without_a_word_is_not_there() -> None:
    async with both() as (watched, newest, told):
        newest.wrote(volume(version="3"))
        await watched.passes("2")
        assert _version(newest.get("pv")) == "3"
        await watched.passes("3")
        assert newest.get("pv") is None
        assert told == [("", "3"), ("3", "")]


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


PATH = "/api/v1/persistentvolumes"


def _volume(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {"local": {"path": "/mnt/a"}}}


def watches(api: FakeApi) -> int:
    return sum(request.query.get("watch") == "true" for request in api.requests)


@pytest.mark.parametrize("whole", [True, False], ids=["as a whole", "selected"])
async def test_each_kind_and_selection_is_watched_once_and_a_selection_of_the_whole_not_at_all(
    api: FakeApi, whole: bool
) -> None:
    api.put(f"{PATH}/a", _volume(ours="x"))
    client, clock = Client(api, field_manager="test"), FakeClock()
    informers = InformerFactory(client, clock=clock, whole=(PersistentVolume,) if whole else ())
    selected: Informer[PersistentVolume] = informers.informer(PersistentVolume, Selection(labels="ours=x"))
    selected.add_indexers({"path": lambda each: [each.spec.local.path] if each.spec.local else []})
    heard: list[tuple[str, str]] = []
    selected.add_event_handler(lambda old, new: heard.append((old.key if old else "", new.key if new else "")))
    if whole:
        api.put(f"{PATH}/b", _volume())  # the server under test does not know selectors
        assert informers.informer(PersistentVolume) is informers.informer(PersistentVolume)
    task = asyncio.create_task(informers.run())
    try:
        await informers.wait_synced()
        assert selected.has_synced
        assert informers.informer(PersistentVolume, Selection(labels="ours=x")).get("a") == selected.get("a")
        await settle()
        assert watches(api) == 1
        assert [each.key for each in selected.list()] == ["a"] and selected.get("b") is None
        assert [each.key for each in selected.find("path", "/mnt/a")] == ["a"]
        there = selected.by_key("a")
        assert there is not None
        changed = await client.objects(PersistentVolume).patch("a", {"metadata": {"labels": None}})
        selected.wrote(changed)
        assert selected.list() == [] and heard == [("", "a"), ("a", "")]
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_informer_that_is_asked_for_later_is_followed_too(api: FakeApi) -> None:
    api.put(f"{PATH}/a", _volume())
    informers = InformerFactory(Client(api, field_manager="test"), clock=FakeClock())
    task = asyncio.create_task(informers.run())
    try:
        await settle()
        assert watches(api) == 0
        later = informers.informer(PersistentVolume)
        await later.wait_synced()
        assert [each.key for each in later.list()] == ["a"]
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_informer_is_followed_as_long_as_anybody_does(api: FakeApi) -> None:
    informer = SharedInformer(Client(api, field_manager="test").objects(PersistentVolume), clock=FakeClock())
    async with informer.following() as one:
        async with informer.following() as two:
            assert one is two
        await informer.wait_synced()
        api.put(f"{PATH}/a", _volume())
        await settle()
        assert informer.get("a") is not None and watches(api) == 1
    assert one.done()
    async with informer.following():
        api.put(f"{PATH}/b", _volume())
        await settle()
        assert len(informer.list()) == 2


def test_selection_means_what_the_server_means() -> None:
    there = volume(labels={"a": "b"})
    namespaced = Selection(namespace="other")
    for selection, meant in [
        (EVERYTHING, True),
        (Selection(labels="a"), True),
        (Selection(labels="a=b,!c"), True),
        (Selection(labels="a=c"), False),
        (Selection(fields="spec.storageClassName=local,metadata.name=pv"), True),
        (Selection(fields="spec.storageClassName!=local"), False),
        (namespaced, False),
    ]:
        assert selection.matches(there, there.metadata) is meant, selection


async def test_late_answers_do_not_go_back_while_everything_is_loaded_again() -> None:
    async with both() as (watched, newest, told):
        await watched.brings(volume(version="5"))
        await watched.forgets()
        newest.wrote(volume(version="3"))
        assert _version(newest.get("pv")) == "5"
        await watched.starts(volume(version="5"), at="6")
        assert told == [("", "5")]


async def test_an_answer_to_an_earlier_write_does_not_bring_back_what_was_deleted_since() -> None:
    async with both() as (watched, newest, told):
        await watched.brings(volume(version="1"))
        newest.deleted(volume(version="1"))
        newest.wrote(volume(version="2"))
        assert newest.get("pv") is None
        assert told == [("", "1"), ("1", "")]


async def test_a_server_that_has_gone_back_is_asked_for_everything() -> None:
    async with both() as (watched, newest, _):
        await watched.brings(volume(version="105"))
        await watched.passes("100")
        await watched.clock.advance(60)
        await watched.starts(volume(version="90"), at="101")
        assert _version(newest.get("pv")) == "90"


@pytest.mark.parametrize("what", ["wrote", "deleted"])
async def test_handler_that_fails_at_a_write_ends_the_informer_and_not_the_writer(what: str) -> None:
    """Who wrote has no part in it; and the handler has missed a change that the watch does not tell again."""
    async with both() as (watched, newest, _):
        await watched.brings(volume(version="1"))

        def fails(old: PersistentVolume | None, new: PersistentVolume | None) -> None:
            if old is not None:
                raise KeyError("a mistake")

        newest.add_event_handler(fails)
        async with newest.following() as running:
            if what == "wrote":
                newest.wrote(volume(version="3"))
            else:
                newest.deleted(volume(version="1"))
            await settle()
            assert running.done()
            with pytest.raises(KeyError):
                running.result()


async def test_same_version_of_a_server_that_was_restored_is_another_object() -> None:
    async with both() as (watched, newest, told):
        await watched.brings(volume(version="1"))
        await watched.brings(volume(version="9"))
        await watched.forgets()
        restored = another("9")
        await watched.starts(restored, at="9")
        assert newest.get("pv") == restored
        assert told[-1] == ("9", "9")
