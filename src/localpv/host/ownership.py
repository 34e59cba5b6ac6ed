"""Files given to a group, so that every pod of that group can read and write them, whoever made them.

The walk goes by directory descriptors, follows no links and enters no other mount. The top directory comes last: when
it belongs to the group, all below it does, and a walk that was cut short is begun again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import openat
from localpv.host.workers import Control, Workers

STALL_SECONDS = 60.0
"""How long not a single file may come along before the disk is taken for dead; the whole walk has no limit."""

_READ_WRITE, _READ, _ENTER, _INHERIT = 0o660, 0o440, 0o110, stat.S_ISGID


class Ownership(Protocol):
    """Groups of files."""

    async def give(self, path: Path, *, group: int, read_only: bool = False, unless_root_has_it: bool = False) -> bool:
        """Give a directory and all in it to a group that may read, and unless `read_only` write, it.

        `unless_root_has_it` leaves everything as it is when the directory itself is given already. Returns whether
        anything was looked at.
        """


class KernelOwnership:
    """Real directories."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers

    async def give(self, path: Path, *, group: int, read_only: bool = False, unless_root_has_it: bool = False) -> bool:
        def act(control: Control) -> bool:
            return give_now(
                path, group=group, read_only=read_only, unless_root_has_it=unless_root_has_it, control=control
            )

        try:
            async with asyncio.timeout(STALL_SECONDS) as limit:

                def moved(_: object) -> None:
                    with contextlib.suppress(RuntimeError):  # told just after the end
                        limit.reschedule(asyncio.get_running_loop().time() + STALL_SECONDS)

                return await self._workers.long(act, key=str(path), on_progress=moved)
        except TimeoutError:
            raise errors.HostTimeout(
                f"nothing moved in {path} for {STALL_SECONDS:g} s",
                hint="look at the kernel log for errors of that disk",
            ) from None
        except OSError as error:
            raise errors.HostError(f"{path} cannot be given to group {group}: {error.strerror}") from error


def give_now(
    path: Path, *, group: int, control: Control, read_only: bool = False, unless_root_has_it: bool = False
) -> bool:
    """As `give`, for callers that run in a worker thread."""
    root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        mask = _READ if read_only else _READ_WRITE
        if unless_root_has_it and _has(os.fstat(root), group, mask | _ENTER | _INHERIT):
            return False
        _Walk(root, group, mask, control).run()
        return True
    finally:
        os.close(root)


def _has(status: os.stat_result, group: int, bits: int) -> bool:
    return status.st_gid == group and status.st_mode & bits == bits


class _Walk:
    """Depth first with one directory open at a time, so that neither memory nor descriptors grow with the depth."""

    def __init__(self, root: int, group: int, mask: int, control: Control) -> None:
        self._root, self._group, self._mask, self._control = root, group, mask, control
        self._done = 0

    def run(self) -> None:
        fd = os.dup(self._root)
        levels: list[tuple[tuple[int, int], list[str]]] = []
        try:
            levels.append((_inode(fd), self._files(fd)))
            while True:
                self._control.report(self._done, step="setting the group")
                _, below = levels[-1]
                if below:
                    child = self._enter(fd, below.pop())
                    if child >= 0:
                        os.close(fd)
                        fd = child
                        levels.append((_inode(fd), self._files(fd)))
                    continue
                self._give_directory(fd)
                levels.pop()
                if not levels:
                    return
                above = openat.directory("..", parent=fd)
                os.close(fd)
                fd = above
                if _inode(fd) != levels[-1][0]:
                    raise OSError(errno.EBUSY, "a directory was moved while it was walked through")
        finally:
            os.close(fd)

    def _enter(self, parent: int, name: str) -> int:
        try:
            return openat.directory(name, parent=parent)
        except OSError as error:
            # Gone, swapped for a link, or another mount, whose files are not this volume's.
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV):
                return -1
            raise

    def _files(self, fd: int) -> list[str]:
        """Give everything in a directory that is no directory; returns the names of those."""
        below = []
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
                else:
                    self._give_file(fd, entry.name)
                    self._done += 1
                    if self._done % 256 == 0:
                        self._control.report(self._done, step="setting the group")
        return below

    def _give_file(self, parent: int, name: str) -> None:
        try:
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        except FileNotFoundError:
            return
        try:
            status = os.fstat(fd)
            if stat.S_ISLNK(status.st_mode):
                if status.st_gid != self._group:
                    os.chown(name, -1, self._group, dir_fd=parent, follow_symlinks=False)
                return
            self._give(fd, status, self._mask)
        except FileNotFoundError:
            return
        finally:
            os.close(fd)

    def _give_directory(self, fd: int) -> None:
        self._give(fd, os.fstat(fd), self._mask | _ENTER | _INHERIT)
        self._done += 1

    def _give(self, fd: int, status: os.stat_result, bits: int) -> None:
        if _has(status, self._group, bits):
            return
        # By this way it is the very file just looked at, whatever has its name now.
        path = f"/proc/self/fd/{fd}"
        if status.st_gid != self._group:
            os.chown(path, -1, self._group)
        # After the change of the group, which takes set-user-ID bits away.
        os.chmod(path, stat.S_IMODE(status.st_mode) | bits)


def _inode(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
