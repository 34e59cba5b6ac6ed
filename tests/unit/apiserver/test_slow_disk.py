"""While the disk takes its time, a refusal and what is read after it tell the same story."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests.contract import builders
from tests.unit.lifecycle.bind import engines
from tests.unit.lifecycle.bind.engines import Engine

from localpv import errors
from localpv.api.kinds import ConfigMap
from localpv.store.database import Database, LogRow


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Writes reach the disk while this is set."""
    goes_on, append = threading.Event(), Database.append

    def slowly(database: Database, rows: Sequence[LogRow]) -> None:
        assert goes_on.wait(10)
        append(database, rows)

    monkeypatch.setattr(Database, "append", slowly)
    goes_on.set()
    return goes_on


@pytest.fixture
async def engine(disk: threading.Event, tmp_path: Path) -> AsyncIterator[Engine]:
    async with engines.running(tmp_path / "data") as made:
        yield made
        disk.set()


async def test_after_a_conflict_the_newer_version_can_be_read(engine: Engine, disk: threading.Event) -> None:
    maps = engine.client.untyped(ConfigMap.resource)
    made = await maps.create(builders.config_map("one", data={"a": "1"}, namespace="default"))
    disk.clear()
    first = asyncio.create_task(maps.update(made | {"data": {"a": "2"}}))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(maps.update(made | {"data": {"a": "3"}}))
    refused, _ = await asyncio.wait([second], timeout=0.3)
    assert not refused, "nobody could read why"

    disk.set()
    with pytest.raises(errors.Conflict):
        await second
    assert (await maps.get("one", "default"))["data"] == {"a": "2"}
    await first


async def test_who_is_told_that_a_name_is_taken_finds_the_object(engine: Engine, disk: threading.Event) -> None:
    maps = engine.client.untyped(ConfigMap.resource)
    disk.clear()
    first = asyncio.create_task(maps.create(builders.config_map("one", namespace="default")))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(maps.create(builders.config_map("one", namespace="default")))
    await asyncio.sleep(0.1)
    disk.set()
    with pytest.raises(errors.AlreadyExists):
        await second
    assert await maps.find("one", "default") is not None
    await first
