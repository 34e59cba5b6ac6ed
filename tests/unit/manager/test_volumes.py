"""Volumes that may not be changed are looked after all the same; every change names what it was decided for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.volumes import PersistentVolume
from localpv.client.client import Client
from localpv.client.informer_factory import InformerFactory
from localpv.disk import labels
from localpv.manager import volumes
from localpv.manager.volumes import ApiVolumes
from localpv.testing.api import FakeApi
from localpv.testing.clock import FakeClock

PATH = "/api/v1/persistentvolumes/pv"


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def seen(api: FakeApi, clock: FakeClock) -> ApiVolumes:
    client = Client(api, field_manager="test")
    return ApiVolumes(client, informers=InformerFactory(client, clock=clock), clock=clock)


async def a_volume(api: FakeApi, **metadata: Any) -> PersistentVolume:
    api.put(PATH, {"metadata": metadata, "spec": {"local": {"path": "/mnt/disks/a"}, "claimRef": {"name": "data"}}})
    return await Client(api, field_manager="test").objects(PersistentVolume).get("pv")


@asynccontextmanager
async def following(seen: ApiVolumes) -> AsyncIterator[None]:
    task = asyncio.create_task(seen.follow_strays())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_volume_that_may_not_be_labelled_is_seen_and_followed(
    api: FakeApi, clock: FakeClock, seen: ApiVolumes
) -> None:
    volume = await a_volume(api)
    heard: list[tuple[Any, Any]] = []
    seen.add_event_handler(lambda old, new: heard.append((old, new)))
    api.failures = [errors.Forbidden("no")]
    assert await seen.take_over(volume, "n1") == volume
    assert seen.seen("pv") == volume
    assert seen.at("/mnt/disks/a") == [volume]
    async with following(seen):
        await clock.advance(volumes.LOOK_EVERY_SECONDS)
        assert heard == [], "nothing changed"
        api.put(PATH, {**api.objects[PATH], "status": {"phase": "Released"}})
        await clock.advance(volumes.LOOK_EVERY_SECONDS)
        found = seen.seen("pv")
        assert found is not None and found.status.phase == "Released"
        api.failures = [errors.ConnectionLost("cut")]
        await clock.advance(volumes.LOOK_EVERY_SECONDS)
        api.remove(PATH)
        await clock.advance(volumes.LOOK_EVERY_SECONDS)
    assert seen.seen("pv") is None
    assert [new.status.phase if new else None for _, new in heard] == ["Released", None]


async def test_volume_that_has_a_label_now_is_no_stray(api: FakeApi, clock: FakeClock, seen: ApiVolumes) -> None:
    volume = await a_volume(api)
    api.failures = [errors.Forbidden("no")]
    await seen.take_over(volume, "n1")
    api.put(PATH, {**api.objects[PATH], "metadata": {"labels": {labels.NODE: "n1"}}})
    async with following(seen):
        await clock.advance(volumes.LOOK_EVERY_SECONDS)
    assert seen.seen("pv") is None, "the cache has it"


async def test_changes_and_deletion_name_the_very_volume(api: FakeApi, seen: ApiVolumes) -> None:
    volume = await a_volume(api)
    same = {"uid": volume.metadata.uid, "resourceVersion": volume.metadata.resource_version}
    await seen.free(volume)
    patch = msgspec.json.decode(api.requests[-1].body or b"")
    assert patch == {"metadata": same, "spec": {"claimRef": None}}
    with pytest.raises(errors.Conflict):
        await seen.take_over(volume, "n1")
    with pytest.raises(errors.Conflict):
        await seen.delete(volume)
    options = msgspec.json.decode(api.requests[-1].body or b"")
    assert options["preconditions"] == same
    newest = await seen.find("pv")
    assert newest is not None and await seen.delete(newest)
    assert await seen.delete(volume), "that it is gone already is fine"


async def test_status_that_may_not_be_written_holds_nothing_up(api: FakeApi, seen: ApiVolumes) -> None:
    volume = await a_volume(api)
    api.failures = [errors.Forbidden("no")]
    await seen.explain(volume, "DiskMissing", "It is gone.")
    assert api.requests[-1].path == f"{PATH}/status"
    assert "status" not in api.objects[PATH]


NEW = {"metadata": {"name": "pv"}, "spec": {"local": {"path": "/mnt/disks/a"}}}


async def test_volume_is_held_from_the_request_that_makes_it(api: FakeApi, seen: ApiVolumes) -> None:
    await seen.learn_rights()
    assert seen.holds
    made = await seen.create(NEW)
    assert made.metadata.finalizers == (labels.FINALIZER,)
    assert "finalizers" not in NEW["metadata"]
    loose = await seen.let_go(made)
    assert not volumes.is_held(loose)
    count = len(api.requests)
    assert await seen.let_go(loose) == loose
    assert len(api.requests) == count, "nothing to do costs no call"


async def test_who_may_not_change_volumes_makes_them_without_a_finalizer(api: FakeApi, seen: ApiVolumes) -> None:
    api.failures = [errors.Forbidden("no")]
    assert await seen.learn_rights()
    assert not seen.holds
    request = api.requests[-1]
    assert (request.method, request.query["dryRun"]) == ("PATCH", "All")
    assert (await seen.create(NEW)).metadata.finalizers == ()
    assert await seen.learn_rights(), "the right was given meanwhile"
    assert seen.holds


async def test_right_that_is_lost_later_ends_the_holding(api: FakeApi, seen: ApiVolumes) -> None:
    volume = await a_volume(api, labels={labels.NODE: "n1"})
    api.failures = [errors.Forbidden("no")]
    assert await seen.take_over(volume, "n1") == volume
    assert not seen.holds
    assert seen.seen("pv") is None, "it has its label, so it is no stray"


async def test_letting_go_what_is_gone_already_is_fine(api: FakeApi, seen: ApiVolumes) -> None:
    volume = await a_volume(api, finalizers=[labels.FINALIZER])
    api.remove(PATH)
    assert (await seen.let_go(volume)).metadata.finalizers == ()


async def test_taking_over_keeps_the_finalizers_of_others_and_is_done_once(api: FakeApi, seen: ApiVolumes) -> None:
    volume = await a_volume(api, finalizers=["others/hold"], labels={"a": "b"})
    taken = await seen.take_over(volume, "n1")
    assert taken.metadata.finalizers == ("others/hold", labels.FINALIZER)
    assert taken.metadata.labels == {"a": "b", labels.NODE: "n1"}
    assert await seen.take_over(taken, "n1") is taken
    assert (await seen.let_go(taken)).metadata.finalizers == ("others/hold",)


async def test_volume_that_is_being_deleted_is_not_held_anew(api: FakeApi, seen: ApiVolumes) -> None:
    # A server refuses that.
    deleted = "2030-01-01T00:00:00Z"
    volume = await a_volume(api, finalizers=["others/hold"], deletionTimestamp=deleted)
    taken = await seen.take_over(volume, "n1")
    assert taken.metadata.finalizers == ("others/hold",)


async def test_freed_volume_forgets_that_the_cluster_had_bound_it(api: FakeApi, seen: ApiVolumes) -> None:
    volume = await a_volume(api, annotations={well_known.BOUND_BY_CONTROLLER: "yes", "kept": "yes"})
    await seen.free(volume)
    assert api.objects[PATH]["metadata"]["annotations"] == {"kept": "yes"}
    assert "claimRef" not in api.objects[PATH]["spec"]
