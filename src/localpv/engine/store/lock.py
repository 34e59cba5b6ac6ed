"""One process to a data folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from localpv.errors import StartError, StoreLocked


class FolderLock:
    """Held for as long as the process lives: the kernel drops it with the process, however that ends."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lock"
        self._fd = -1

    def acquire(self) -> None:
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartError(
                f"cannot write in the data folder {self.path.parent}: {error.strerror}",
                hint="name another folder with --data, or make this one writable for this user",
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(fd, 200).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            raise StoreLocked(
                f"the data folder {self.path.parent} is in use by process {owner}",
                hint="stop that process first, or name another folder with --data",
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def owner(self) -> int | None:
        """The process that has the folder open; None when nobody has, or nobody that can be told apart."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(fd, 200).strip()
            return int(pid) if pid.isdigit() and _has_open(int(pid), os.fstat(fd)) else None
        finally:
            os.close(fd)
        return None

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _has_open(pid: int, file: os.stat_result) -> bool:
    """Whether a process has a file open: its number may be somebody else's by now."""
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            found = os.stat(f"/proc/{pid}/fd/{descriptor}")
            if (found.st_dev, found.st_ino) == (file.st_dev, file.st_ino):
                return True
    return False
