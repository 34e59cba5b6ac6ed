"""One at a time: whoever changes our files of rules on a node reads and writes all of them together."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from localpv import errors
from localpv.runtime.clock import Clock

NAME = "local-storage.lock"
WAIT_SECONDS = 30.0
"""Others hold it for as long as some small files take to write."""

TRY_EVERY = 0.05


@asynccontextmanager
async def held(state: Path, *, clock: Clock) -> AsyncIterator[None]:
    """Have the lock of this node; the kernel takes it back from a process that dies."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(state / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise errors.StoreError(f"no lock can be taken in {state}: {error.strerror}") from error
    try:
        until = clock.monotonic() + WAIT_SECONDS
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if clock.monotonic() >= until:
                    raise errors.DeviceBusy(
                        f"another process has {state / NAME} for {WAIT_SECONDS:g} s",
                        hint="see which with `fuser -v` on that file",
                    ) from None
            await clock.sleep(TRY_EVERY)
        yield
    finally:
        os.close(fd)
