"""Containers of this machine and processes in them, as those who run pods see them; `host.runc` is the real side."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol


class Process(Protocol):
    """A command that runs, for example inside a container."""

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """What it writes, as (1, stdout) and (2, stderr), until it has closed both."""

    async def write(self, data: bytes) -> None:
        """Give it input, and wait until it can take more."""

    async def close_input(self) -> None: ...

    async def resize(self, width: int, height: int) -> None:
        """Its terminal has another size now."""

    async def wait(self) -> int:
        """Its exit code."""

    async def close(self) -> None:
        """Nobody listens any more: end it if it still runs, and let go of everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A container that is to be: its folder holds config.json."""

    id: str
    folder: Path
    log: Path
    stdin: bool = False
    terminal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What the runtime can do beyond what every one can."""

    seccomp: bool = False
    recursive_read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A container as it is now. Neither running nor ended: it was never begun, or nobody saw its end."""

    exists: bool = False
    """Whether the runtime knows it."""

    started: bool = False
    running: bool = False
    exit_code: int | None = None
    ended_at: datetime | None = None
    out_of_memory: bool = False


class Containers(Protocol):
    """Containers of this machine."""

    def missing(self) -> tuple[str, ...]:
        """The programs that would have to be installed first."""

    async def create(self, bundle: Bundle) -> None:
        """Make a container that waits to be started; CommandFailed with the runtime's words."""

    async def start(self, bundle: Bundle) -> None: ...

    def look(self, bundle: Bundle) -> Seen: ...

    async def settled(self, bundle: Bundle) -> Seen:
        """What is there when nobody makes or starts the container any more: a runtime may outlive the process of ours
        that called it. HostTimeout when it takes too long to wait for that: ask again."""

    def watch(self, bundle: Bundle, ended: Callable[[], None]) -> Callable[[], None]:
        """Call back once when the container has ended, at once if it has already; the answer stops that."""

    async def signal(self, bundle: Bundle, number: int) -> None:
        """Send a signal to the first process; nothing happens when it has ended."""

    async def delete(self, bundle: Bundle) -> None:
        """Kill what still runs and forget the container; nothing happens when it is gone. HostTimeout while a runtime
        still makes or starts it."""

    async def ids(self) -> frozenset[str]:
        """The containers that the runtime knows."""

    async def reopen_log(self, bundle: Bundle) -> None:
        """Go on in a new file, after the log was renamed."""

    async def exec(self, bundle: Bundle, command: Sequence[str], *, stdin: bool, tty: bool) -> Process:
        """Start one more process in a running container."""
