"""While the disk takes its time, a refusal and what is read after it tell the same story."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests.contract import builders
from tests.unit.engine.binder import engines
from tests.unit.engine.binder.engines import Engine

from localpv import errors
from localpv.api.kinds.cluster import ConfigMap
from localpv.engine.store.database import Database, LogRow
from localpv.testing.waiting import PATIENCE_SECONDS


class Disk:
    """Writes reach it unless it is held."""

    def __init__(self) -> None:
        self._goes_on, self._waits = threading.Event(), threading.Event()
        self._goes_on.set()

    def hold(self) -> None:
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()

    async def until_one_waits(self) -> None:
        """Wait until a write is held."""
        assert await asyncio.to_thread(self._waits.wait, PATIENCE_SECONDS)

    def passing(self) -> None:
        if not self._goes_on.is_set():
            self._waits.set()
        assert self._goes_on.wait(PATIENCE_SECONDS)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made, append = Disk(), Database.append

    def slowly(database: Database, rows: Sequence[LogRow]) -> None:
        made.passing()
        append(database, rows)

    monkeypatch.setattr(Database, "append", slowly)
    return made


@pytest.fixture
async def engine(disk: Disk, tmp_path: Path) -> AsyncIterator[Engine]:
    async with engines.running(tmp_path / "data") as made:
        yield made
        disk.go_on()


async def test_after_a_conflict_the_newer_version_can_be_read(engine: Engine, disk: Disk) -> None:
    maps = engine.client.untyped(ConfigMap.resource)
    made = await maps.create(builders.config_map("one", data={"a": "1"}, namespace="default"))
    disk.hold()
    first = asyncio.create_task(maps.update(made | {"data": {"a": "2"}}))
    await disk.until_one_waits()
    second = asyncio.create_task(maps.update(made | {"data": {"a": "3"}}))
    refused, _ = await asyncio.wait([second], timeout=0.3)
    assert not refused, "nobody could read why"

    disk.go_on()
    with pytest.raises(errors.Conflict):
        await second
    assert (await maps.get("one", "default"))["data"] == {"a": "2"}
    await first


async def test_who_is_told_that_a_name_is_taken_finds_the_object(engine: Engine, disk: Disk) -> None:
    maps = engine.client.untyped(ConfigMap.resource)
    disk.hold()
    first = asyncio.create_task(maps.create(builders.config_map("one", namespace="default")))
    await disk.until_one_waits()
    second = asyncio.create_task(maps.create(builders.config_map("one", namespace="default")))
    await asyncio.sleep(0.1)
    disk.go_on()
    with pytest.raises(errors.AlreadyExists):
        await second
    assert await maps.find("one", "default") is not None
    await first
