"""The two sides of Records and the fakes of other tests, behind one fixture."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.contract import custom, wire
from tests.unit.agent.clean import world as cleaning
from tests.unit.manager import worlds

from localpv.client import client as clients
from localpv.client import config
from localpv.disk.records import Records
from localpv.disk.records.api import ApiRecords
from localpv.disk.records.folder import FolderRecords

RESOURCE = "/apis/localpv.dev/v1alpha1/localdisks"


@dataclass(frozen=True, slots=True)
class Side:
    """Records as the agent of one node has them, and as the manager has them."""

    agent: Records
    manager: Records
    node: str


@pytest.fixture(scope="session")
def kind_installed(target: wire.Target) -> Iterator[None]:
    """The server under test knows LocalDisks, at least for the time of the tests."""
    with custom.installed(target, "localdisks"):
        yield


@contextlib.asynccontextmanager
async def _in_folder(folder: Path) -> AsyncIterator[Side]:
    records = FolderRecords(folder)
    records.open()
    try:
        yield Side(records, records, node="node-1")
    finally:
        records.close()


@contextlib.asynccontextmanager
async def _at_server(kubeconfig: Path) -> AsyncIterator[Side]:
    connection = config.load(kubeconfig)
    node = f"node-{uuid.uuid4().hex[:8]}"
    async with (
        clients.connect(connection, component="agent") as agent,
        clients.connect(connection, component="manager") as manager,
    ):
        side = Side(ApiRecords(agent, node=node), ApiRecords(manager, node=node), node=node)
        try:
            yield side
        finally:
            await asyncio.gather(*(side.agent.delete(disk) for disk in await side.agent.list()))


@contextlib.asynccontextmanager
async def _in_memory(records: Records) -> AsyncIterator[Side]:
    yield Side(records, records, node="node-1")


@pytest.fixture(params=["folder", "api", "fake of the manager", "fake of the cleaner"])
async def side(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Side]:
    if request.param == "fake of the manager":
        opened: Any = _in_memory(worlds.FakeRecords(worlds.Weather()))
    elif request.param == "fake of the cleaner":
        opened = _in_memory(cleaning.FakeRecords())
    elif request.param == "folder":
        opened = _in_folder(tmp_path / "state")
    else:
        request.getfixturevalue("kind_installed")
        opened = _at_server(request.getfixturevalue("target").kubeconfig)
    async with opened as made:
        yield made


@pytest.fixture
def at_server(kind_installed: None, target: wire.Target) -> Callable[[], contextlib.AbstractAsyncContextManager[Side]]:
    return lambda: _at_server(target.kubeconfig)
