"""Ending a container gracefully: its hook, a word to it, some time, then by force."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from localpv.host.containers import Bundle, Containers
from localpv.runtime.clock import Clock

KILL_SECONDS = 10.0
"""How long a killed container may take to be gone before the runtime is asked to delete it."""

SHORTEST_SECONDS = 2.0
"""What is left for a container whose hook has used up the time."""

Hook = Callable[[float], Coroutine[Any, Any, bool]]
"""Told how many seconds there are; says whether all went well."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Stop:
    """One container that is being ended."""

    bundle: Bundle
    ended: asyncio.Event
    """Set when it has."""

    deadline: float
    """When patience ends, on the clock that never goes back."""

    signal: int = signal.SIGTERM
    """The word to it."""

    sooner: asyncio.Event = field(default_factory=asyncio.Event)

    def hurry(self, deadline: float) -> None:
        """Somebody wants it gone earlier."""
        if deadline < self.deadline:
            self.deadline = deadline
            self.sooner.set()


def signal_number(name: str) -> int:
    """What an image or a container calls a signal: SIGQUIT, QUIT, 3, SIGRTMIN+3; SIGTERM when nobody knows it."""
    word = name.strip().upper()
    if word.isdecimal():
        return int(word) if int(word) in {*signal.valid_signals()} else signal.SIGTERM
    word = word if word.startswith("SIG") else f"SIG{word}"
    base, sign, offset = word.partition("+") if "+" in word else word.partition("-")
    known = signal.Signals.__members__.get(base)
    if known is None or (sign and not offset.isdecimal()):
        return signal.SIGTERM
    number = known + (int(offset) if sign == "+" else -int(offset) if sign else 0)
    return number if number in {*signal.valid_signals()} else signal.SIGTERM


async def run(stop: Stop, hook: Hook | None, *, containers: Containers, clock: Clock) -> bool:
    """See it through; False when the hook failed."""
    content = True
    if hook is not None and not stop.ended.is_set():
        content = await _hook(stop, hook, clock=clock)
        stop.deadline = max(stop.deadline, clock.monotonic() + SHORTEST_SECONDS)
    if stop.deadline > clock.monotonic():
        await containers.signal(stop.bundle, stop.signal)
        while not stop.ended.is_set() and (left := stop.deadline - clock.monotonic()) > 0:
            stop.sooner.clear()
            await _first(stop, left)
    if not stop.ended.is_set():
        await containers.signal(stop.bundle, signal.SIGKILL)
        try:
            async with asyncio.timeout(KILL_SECONDS):
                await stop.ended.wait()
        except TimeoutError:
            log.warning("container does not end, the runtime deletes it id=%s", stop.bundle.id)
            await containers.delete(stop.bundle)
    return content


async def _hook(stop: Stop, hook: Hook, *, clock: Clock) -> bool:
    left = max(stop.deadline - clock.monotonic(), 0.1)
    work = asyncio.ensure_future(hook(left))
    ended = asyncio.ensure_future(stop.ended.wait())
    try:
        # Not longer than the container is there, nor than it has time.
        await asyncio.wait((work, ended), timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return not work.done() or work.result()
    finally:
        for task in (work, ended):
            task.cancel()


async def _first(stop: Stop, seconds: float) -> None:
    """Wait for the end, for a word to hurry, or for so many seconds."""
    waits = [asyncio.ensure_future(stop.ended.wait()), asyncio.ensure_future(stop.sooner.wait())]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
