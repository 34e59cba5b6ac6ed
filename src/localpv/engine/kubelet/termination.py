"""How containers end: gracefully, by a hook, a signal, some time, then by force; and what is known of it afterwards."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localpv.api.kinds.containers import Container
from localpv.engine.kubelet import logs
from localpv.engine.kubelet.records import End
from localpv.host.containers import Bundle, Containers, Seen
from localpv.runtime.clock import Clock

MESSAGE_BYTES = 4096
LOG_BYTES, LOG_LINES = 2048, 80
"""The end of the log that stands for a message that a failed container did not leave."""

UNKNOWN = 255

KILL_SECONDS = 10.0
"""How long a killed container may take to be gone before the runtime is asked to delete it."""

SHORTEST_SECONDS = 2.0
"""What is left for a container whose hook has used up the time."""

Hook = Callable[[float], Coroutine[Any, Any, bool]]
"""Told how many seconds there are; says whether all went well."""

log = logging.getLogger(__name__)


def end_of(seen: Seen, *, message: str, now: str) -> End:
    """The end of a container that does not run any more."""
    if seen.exit_code is None:
        return End(exit_code=UNKNOWN, reason="Unknown", message="nobody saw how it ended", finished_at=now)
    reason = "Completed" if seen.exit_code == 0 else "Error"
    if seen.out_of_memory:
        reason = "OOMKilled"
    at = seen.ended_at.strftime("%Y-%m-%dT%H:%M:%SZ") if seen.ended_at is not None else now
    return End(exit_code=seen.exit_code, reason=reason, message=message, finished_at=at)


def end_message(folder: Path, log: Path, container: Container | None, *, failed: bool) -> str:
    """What the container wrote to its termination log, or the end of its log where the pod asks for that."""
    said = _tail(folder / "termination-log", MESSAGE_BYTES)
    policy = container.termination_message_policy if container is not None else ""
    if said or not failed or policy != "FallbackToLogsOnError":
        return said
    lines = logs.last_lines(log, LOG_LINES)
    return b"".join(lines)[-LOG_BYTES:].decode(errors="replace")


def _tail(path: Path, size: int) -> str:
    # A container may have put anything there; it is a plain file of ours, bound into the container, and stays one.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(fd, "rb") as file:
        return file.read(size).decode(errors="replace")


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
