"""One cleaning per disk, also when two records lead to the same one, and also between processes.

A lock is a file that is locked by the kernel, so it ends with its process however that ends; the file itself stays,
which means nothing.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

from localpv import errors


class Held:
    """A lock that we have."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._left_to: asyncio.Task[None] | None = None

    def leave_to(self, act: asyncio.Task[None]) -> None:
        """Give up only when this act is over: it was told to stop and still may be writing."""
        self._left_to = act

    def give_up(self) -> None:
        if self._left_to is not None and not self._left_to.done():
            self._left_to.add_done_callback(lambda _: self._close())
            return
        self._close()

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class Locks:
    """Locks in one folder of the node."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, key: str, *, owner: str) -> Held:
        """The lock for a disk; DeviceBusy, with who has it, when it is taken."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self._folder / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise errors.StoreError(f"no lock can be taken in {self._folder}: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(fd, 0)
            os.pwrite(fd, owner.encode(), 0)
        except BlockingIOError as error:
            other = os.pread(fd, 256, 0).decode(errors="replace")
            os.close(fd)
            raise errors.DeviceBusy(f"the same disk is being cleaned already, for record {other}") from error
        except OSError as error:
            os.close(fd)
            raise errors.StoreError(f"no lock can be taken in {self._folder}: {error.strerror}") from error
        return Held(fd)
