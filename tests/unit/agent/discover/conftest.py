"""Fixtures for tests of a running discovery."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.agent.discover.world import FOLDER, World, discovering

from localpv.testing.fake_host import FakeMachine


@pytest.fixture
def machine() -> FakeMachine:
    made = FakeMachine()
    made.make_folder(FOLDER)
    return made


@pytest.fixture
async def world(machine: FakeMachine, tmp_path: Path) -> AsyncIterator[World]:
    async with discovering(machine, tmp_path / "state") as made:
        yield made
