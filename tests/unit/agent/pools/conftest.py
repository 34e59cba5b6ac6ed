"""The world of one test: the real engine and a node with a pool of files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.agent.pools.node import PoolNode
from tests.unit.engine.binder import engines


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[PoolNode]:
    async with engines.running(tmp_path / "data") as engine:
        made = PoolNode(engine, tmp_path / "pool")
        await made.set_up()
        yield made
