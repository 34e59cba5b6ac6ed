"""A walk that goes on for long is not given up as long as files come along."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localpv import errors
from localpv.host import ownership
from localpv.host.ownership import KernelOwnership


class Limit:
    """A time limit that a test can see, and end."""

    def __init__(self) -> None:
        self.moved: list[float] = []
        self.over = False

    async def __aenter__(self) -> Limit:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if self.over:
            raise TimeoutError

    def reschedule(self, when: float) -> None:
        self.moved.append(when)


class Walk:
    """Workers whose job tells of its progress and ends."""

    def __init__(self, tells: int) -> None:
        self.tells = tells

    async def long(self, function: object, *, key: str, on_progress: Callable[[Any], None]) -> bool:
        for _ in range(self.tells):
            on_progress(None)
        return True


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    made = Limit()
    monkeypatch.setattr(ownership.asyncio, "timeout", lambda _: made)
    return made


async def test_limit_moves_with_every_progress(limit: Limit) -> None:
    before = asyncio.get_running_loop().time()
    assert await KernelOwnership(workers=Walk(3)).give(Path("/v"), group=1)  # type: ignore[arg-type]
    assert len(limit.moved) == 3
    assert all(when >= before + ownership.STALL_SECONDS for when in limit.moved)


async def test_walk_in_which_nothing_moves_is_given_up(limit: Limit) -> None:
    limit.over = True
    with pytest.raises(errors.HostTimeout, match="nothing moved in /v"):
        await KernelOwnership(workers=Walk(0)).give(Path("/v"), group=1)  # type: ignore[arg-type]
