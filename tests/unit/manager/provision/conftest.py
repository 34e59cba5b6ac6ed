"""The world of one test: the real engine, its binder, pools and an agent that serves them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.engine.binder import engines
from tests.unit.manager.provision.pool_world import PoolWorld


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[PoolWorld]:
    async with engines.running(tmp_path / "data") as engine:
        made = PoolWorld(engine)
        await made.set_up()
        yield made
