"""The processes beside containers, found again by their files and in the kernel's list of processes."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime
from pathlib import Path

RUNTIME, MONITOR = "runc", "conmon"
GOING_SECONDS = 5.0
"""How long a monitor may stay when its container is gone."""


def ended(folder: Path) -> tuple[int | None, datetime | None]:
    """The exit code that a monitor has left in the folder of its container, and when it did."""
    path = folder / "exit"
    code = number(path)
    if code is None:
        return None, None
    return code, datetime.fromtimestamp(path.stat().st_mtime, UTC)


def is_under_way(folder: Path) -> bool:
    """Whether the first process of a container has become what it is to run, and is the runtime no more."""
    try:
        name = Path(f"/proc/{number(folder / 'pid')}/comm").read_text()
    except OSError:
        return False
    return not name.startswith(f"{RUNTIME}:[")


def number(path: Path) -> int | None:
    """What stands in a file with one number; None while there is none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def is_monitor(pid: int, id_: str) -> bool:
    """Whether a process watches over this very container: numbers of processes are given again."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    # A process that has ended and waits to be reaped has no command line any more.
    return id_.encode() in words and words[0].endswith(MONITOR.encode())


def makers(id_: str) -> frozenset[str]:
    """The programs that have to do with a container, by name."""
    found = set()
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if id_.encode() in words:
            found.add(os.path.basename(words[0]).decode(errors="replace"))
    return frozenset(found & {RUNTIME, MONITOR})


def parent(pid: int) -> int | None:
    """Whose child a process is."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])


async def gone(monitor: int, id_: str) -> None:
    """Wait for a monitor whose container is gone; one that stays is ended."""
    try:
        fd = os.pidfd_open(monitor)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, ended.set)
    try:
        async with asyncio.timeout(GOING_SECONDS):
            await ended.wait()
    except TimeoutError:
        if is_monitor(monitor, id_):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    finally:
        loop.remove_reader(fd)
        os.close(fd)
