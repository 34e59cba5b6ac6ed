"""Work on the event loop is done in turns: whoever has much to do lets others in between.

A count of objects is no bound on time, for objects differ a thousandfold in size; so turns are measured by the clock.
"""

from __future__ import annotations

import asyncio
import time

TURN_SECONDS = 0.01
"""How long a loop over many objects works before other requests get their turn."""


class Turn:
    """Ask `over` after each piece of work; it gives way when the turn has been long enough."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends = time.monotonic() + TURN_SECONDS

    async def over(self) -> None:
        if time.monotonic() >= self._ends:
            await asyncio.sleep(0)
            self._ends = time.monotonic() + TURN_SECONDS
