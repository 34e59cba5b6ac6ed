"""Volumes are let go by an administrator: ours off, those of others stay."""

from __future__ import annotations

from typing import Any

import pytest

from localpv import errors
from localpv.api.kinds.volumes import PersistentVolume
from localpv.client.client import Client
from localpv.client.objects import UntypedObjects
from localpv.disk import labels
from localpv.manager.migrate import finalizers
from localpv.manager.migrate.finalizers import Held
from localpv.testing.api import FakeApi

VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def volumes(api: FakeApi) -> UntypedObjects:
    return Client(api, field_manager="test").untyped(PersistentVolume.resource)


def put(api: FakeApi, name: str, *held_by: str, **metadata: Any) -> None:
    api.put(f"{VOLUMES}/{name}", {"metadata": {"finalizers": [*held_by], **metadata}, "status": {"phase": "Released"}})


async def found(volumes: UntypedObjects, *names: str) -> list[Held]:
    return [each async for each in finalizers.survey(volumes, names)]


async def test_only_volumes_that_we_hold_are_found_and_only_those_that_are_named(
    api: FakeApi, volumes: UntypedObjects
) -> None:
    put(api, "ours", labels.FINALIZER)
    put(api, "also-ours", "others/hold", labels.FINALIZER, deletionTimestamp="2030-01-01T00:00:00Z")
    put(api, "theirs", "others/hold")
    api.put(f"{VOLUMES}/free", {})
    assert {each.name for each in await found(volumes)} == {"ours", "also-ours"}
    (one,) = await found(volumes, "also-ours", "theirs")
    assert (one.name, one.others, one.deleting, one.phase) == ("also-ours", ("others/hold",), True, "Released")


async def test_ours_goes_and_those_of_others_stay(api: FakeApi, volumes: UntypedObjects) -> None:
    put(api, "pv", "others/hold", labels.FINALIZER)
    (one,) = await found(volumes)
    assert await finalizers.release(volumes, one) == ""
    assert api.objects[f"{VOLUMES}/pv"]["metadata"]["finalizers"] == ["others/hold"]
    assert await found(volumes) == []


async def test_volume_that_others_let_go_meanwhile_is_let_go_all_the_same(
    api: FakeApi, volumes: UntypedObjects
) -> None:
    """Of a volume that is being deleted the cluster takes its own finalizer off, between our look and our write."""
    put(api, "pv", "kubernetes.io/pv-protection", labels.FINALIZER, "others/hold")
    (one,) = await found(volumes)
    put(api, "pv", labels.FINALIZER, "others/hold", uid=one.uid)
    assert await finalizers.release(volumes, one) == ""
    assert api.objects[f"{VOLUMES}/pv"]["metadata"]["finalizers"] == ["others/hold"]


@pytest.mark.parametrize("how", ["is bound again", "is being deleted", "changes all the time"])
async def test_volume_that_is_not_what_was_shown_any_more_is_left_and_named(
    api: FakeApi, volumes: UntypedObjects, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(api, "pv", labels.FINALIZER)
    (one,) = await found(volumes)
    if how == "changes all the time":

        async def patch(name: str, patch: Any) -> Any:
            raise errors.Conflict("no")

        monkeypatch.setattr(volumes, "patch", patch)
    elif how == "is bound again":
        put(api, "pv", labels.FINALIZER, uid=one.uid)
        api.put(f"{VOLUMES}/pv", {**api.objects[f"{VOLUMES}/pv"], "status": {"phase": "Bound"}})
    else:
        put(api, "pv", labels.FINALIZER, uid=one.uid, deletionTimestamp="2030-01-01T00:00:00Z")
    assert "run again" in await finalizers.release(volumes, one)
    assert api.objects[f"{VOLUMES}/pv"]["metadata"]["finalizers"] == [labels.FINALIZER]


async def test_volume_that_is_gone_is_fine_and_what_is_not_allowed_is_said(
    api: FakeApi, volumes: UntypedObjects
) -> None:
    put(api, "pv", labels.FINALIZER)
    (one,) = await found(volumes)
    api.failures = [errors.Forbidden("may not")]
    assert "may not" in await finalizers.release(volumes, one)
    api.remove(f"{VOLUMES}/pv")
    assert await finalizers.release(volumes, one) == ""
