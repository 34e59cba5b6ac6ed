"""The classes that a manager learns from LocalStorages: what it does not know it would withdraw."""

from __future__ import annotations

import asyncio

from localpv import errors
from localpv.client.client import Client
from localpv.programs.local_storages import LocalStorageClasses
from localpv.testing import waiting
from localpv.testing.api import FakeApi
from localpv.testing.clock import FakeClock

STORAGE = "/apis/local.storage.openshift.com/v1alpha1/localstorages/a"
AWAY = errors.ConnectionLost("nobody answers")


def an_api() -> FakeApi:
    api = FakeApi()
    metadata = {"name": "a", "namespace": "localpv-system", "creationTimestamp": "2026-01-01T00:00:00Z"}
    devices = [{"storageClassName": "fast", "deviceNames": ["sdb"]}]
    api.put(STORAGE, {"metadata": metadata, "spec": {"nodes": [{"devices": devices}]}})
    return api


async def test_a_manager_that_starts_before_its_server_waits_for_the_classes() -> None:
    api, clock = an_api(), FakeClock()
    classes = LocalStorageClasses(Client(api, field_manager="test"), namespace="localpv-system", clock=clock)
    api.down = AWAY
    asking = asyncio.create_task(classes.classes())
    await waiting.eventually(lambda: len(api.requests) > 0)
    api.down = None
    while not asking.done():
        await clock.advance(10)

    found, problems = await asking
    assert (set(found), problems) == ({"fast"}, ())


async def test_no_answer_is_not_taken_for_a_server_without_local_storages() -> None:
    api, clock = an_api(), FakeClock()
    classes = LocalStorageClasses(Client(api, field_manager="test"), namespace="localpv-system", clock=clock)
    api.down = AWAY
    following = asyncio.create_task(classes.run())
    await waiting.eventually(lambda: len(api.requests) > 0)
    api.down = None

    found, _ = await classes.classes()
    assert set(found) == {"fast"}
    following.cancel()
