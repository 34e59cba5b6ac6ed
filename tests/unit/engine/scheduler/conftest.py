"""An engine without a scheduler, and a town in it where tests run one of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests import engine_process
from tests.unit.engine.scheduler.town import Town

from localpv.client import config

CLOSING_SECONDS = 0.1


@pytest.fixture(scope="session")
def kubeconfig() -> Iterator[Path]:
    with engine_process.running() as engine:
        yield engine.kubeconfig


@pytest.fixture
async def town(kubeconfig: Path) -> AsyncIterator[Town]:
    async with Town.found(config.load(kubeconfig)) as made:
        yield made
    # Encrypted connections take a moment to close, for which nobody waits.
    await asyncio.sleep(CLOSING_SECONDS)
