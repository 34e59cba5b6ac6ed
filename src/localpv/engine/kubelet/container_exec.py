"""Commands inside containers, run to their end: hooks and probes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from localpv import errors
from localpv.host.containers import Bundle, Containers

KEPT_BYTES = 10 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    exit_code: int
    output: str


async def run(containers: Containers, bundle: Bundle, command: Sequence[str], *, seconds: float) -> Answer:
    """Run a command in a container; HostTimeout when it takes longer, and it is ended then."""
    process = await containers.exec(bundle, command, stdin=False, tty=False)
    kept = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for _, chunk in process.output():
                if len(kept) < KEPT_BYTES:
                    kept += chunk
            code = await process.wait()
    except TimeoutError:
        raise errors.HostTimeout(f"command timed out after {seconds:g}s") from None
    finally:
        await process.close()
    return Answer(code, kept[:KEPT_BYTES].decode(errors="replace"))
