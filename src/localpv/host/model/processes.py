"""A process whose streams are carried elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
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
