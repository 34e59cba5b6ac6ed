"""Writes inside one process: the same answers, the same rights, only no network."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract import builders
from tests.unit.engine.binder import engines
from tests.unit.engine.binder.engines import Engine

from localpv import errors
from localpv.api.kinds.cluster import ConfigMap
from localpv.client import config as connections
from localpv.client.client import Client
from localpv.client.credentials import Fixed
from localpv.client.http import HttpTransport
from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.programs.in_process_transport import InsideTransport


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with engines.running(tmp_path / "data") as made:
        yield made


async def test_what_is_written_inside_is_read_outside(engine: Engine) -> None:
    maps = engine.client.untyped(ConfigMap.resource)
    made = await maps.create(builders.config_map("one", data={"a": "1"}, namespace="default"))
    assert (await maps.get("one", "default"))["data"] == {"a": "1"}
    made["data"] = {"a": "2"}
    await maps.update(made)
    await maps.patch("one", {"data": {"b": "3"}}, "default")
    assert (await maps.get("one", "default"))["data"] == {"a": "2", "b": "3"}
    assert (await maps.get("one", "default"))["metadata"]["managedFields"][0]["manager"] == "tests"
    await maps.delete("one", "default")
    assert await maps.find("one", "default") is None


async def test_refusals_are_the_errors_that_a_client_knows(engine: Engine) -> None:
    maps = engine.client.untyped(ConfigMap.resource)
    made = await maps.create(builders.config_map("one", namespace="default"))
    with pytest.raises(errors.AlreadyExists):
        await maps.create(builders.config_map("one", namespace="default"))
    with pytest.raises(errors.NotFound):
        await maps.patch("two", {"data": {"b": "3"}}, "default")
    with pytest.raises(errors.Conflict):
        await maps.update(made | {"metadata": {**made["metadata"], "resourceVersion": "1"}})
    with pytest.raises(errors.Invalid):
        await maps.create(builders.config_map("No Name", namespace="default"))


async def test_who_has_no_token_may_write_nothing_from_inside_either(tmp_path: Path) -> None:
    server = ApiServer(Settings(data=tmp_path / "data", port=0, durable=False))
    await server.start()
    try:
        nobody = dataclasses.replace(connections.load(server.kubeconfig), credentials=Fixed())
        async with HttpTransport(nobody, component="tests") as outer:
            transport = InsideTransport(server, outer, connection=nobody, component="tests")
            with pytest.raises(errors.Unauthorized):
                await (
                    Client(transport, field_manager="tests")
                    .untyped(ConfigMap.resource)
                    .create(builders.config_map("one", namespace="default"))
                )
    finally:
        await server.stop()
