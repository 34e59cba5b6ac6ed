"""The engine of one test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.engine.binder import engines
from tests.unit.engine.binder.engines import Engine


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with engines.running(tmp_path / "data") as made:
        yield made
