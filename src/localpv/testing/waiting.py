"""Waiting for the world to be as a test expects, with an end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE_SECONDS = 120.0
"""How long tests wait for what must come. A wait ends when it has come, so a long one costs nothing; a short one fails
on a busy machine."""

LOOK_EVERY_SECONDS = 0.01


async def eventually(condition: Callable[[], object], *, within: float = PATIENCE_SECONDS, what: str = "") -> None:
    """Wait until the condition holds; an AssertionError says what did not come true in time."""
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not true within {within:g} s: {what or condition}")
        await asyncio.sleep(LOOK_EVERY_SECONDS)
