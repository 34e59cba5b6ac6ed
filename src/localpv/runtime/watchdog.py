"""Sees when the event loop is held: while one piece of work runs on it, nobody else is served.

A thread asks the loop twice a second to answer. When it does not in time, what it is doing is written down, with its
stack: afterwards nobody could tell. Asking costs about a ten-thousandth of one processor.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

log = logging.getLogger(__name__)

LIMIT_SECONDS = 1.0
"""The event loop may be held this long; when it is held longer, the log says by what."""

ASK_EVERY = 0.5
"""Seconds between two questions. A hold that is longer than the limit by this much is always seen."""

REMIND_EVERY = 10.0
"""Seconds after which a loop that is still held is told of again: its stack may have moved on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The loop did not answer."""

    seconds: float
    cpu_seconds: float
    """Processor time that the loop's thread used meanwhile: little of it means that it waits for a disk or for its
    turn on a busy machine, much of it that it computes."""
    stack: str
    """What it was doing; empty in the report that it goes on."""


class Watchdog:
    """Watches one event loop at a time, and counts."""

    def __init__(self, *, on_held: Callable[[Held], None] | None = None, limit: float = LIMIT_SECONDS) -> None:
        self._tell = on_held or _write
        self._limit = limit
        self.times = 0
        """How often the loop was held, since the start."""
        self.seconds = 0.0
        """How long in all."""

    @contextlib.contextmanager
    def watching(self, loop: asyncio.AbstractEventLoop | None = None) -> Iterator[None]:
        """Watch the loop of this thread while the with-block runs."""
        stop = threading.Event()
        watched = loop or asyncio.get_running_loop()
        arguments = (watched, threading.get_ident(), stop)
        threading.Thread(target=self._watch, args=arguments, name="watchdog", daemon=True).start()
        try:
            yield
        finally:
            stop.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int, stop: threading.Event) -> None:
        clock = time.pthread_getcpuclockid(thread)
        while not stop.wait(ASK_EVERY):
            answered = threading.Event()
            asked, used = time.monotonic(), time.clock_gettime(clock)
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return  # the loop is closed
            patience = self._limit
            held = False
            while not answered.wait(patience) and not stop.is_set():
                held = True
                frame = sys._current_frames().get(thread)
                stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
                self._tell(Held(seconds=_since(asked), cpu_seconds=_used(clock, used), stack=stack))
                patience = REMIND_EVERY
            if held and answered.is_set():
                self.times += 1
                self.seconds += _since(asked)
                self._tell(Held(seconds=_since(asked), cpu_seconds=_used(clock, used), stack=""))


def _since(moment: float) -> float:
    return time.monotonic() - moment


def _used(clock: int, before: float) -> float:
    return time.clock_gettime(clock) - before


def _write(held: Held) -> None:
    if held.stack:
        message = "the event loop is held seconds=%.1f cpu_seconds=%.2f by:\n%s"
        log.error(message, held.seconds, held.cpu_seconds, held.stack)
    else:
        log.error("the event loop goes on seconds=%.1f cpu_seconds=%.2f", held.seconds, held.cpu_seconds)
