"""Directory volumes: everything inside removed, nothing outside touched.

The walk goes by directory descriptors and never by path: links are unlinked and never followed, and no step enters
another mount. It needs no memory that grows with the number of files and no stack that grows with their depth, and can
be cut off and begun again at any point.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import attributes, commands, openat
from localpv.host.mounts import KernelMounts
from localpv.host.workers import Control, Report, Workers

BATCH = 20_000
"""Names read before they are removed, in the order of their inodes: that is the order in which they lie on the disk."""

KEPT_OPEN = 32
"""Directories above the present one that stay open; further up they are found again by .. and checked."""

LOOK_SECONDS = 10.0
COMMAND_SECONDS = 24 * 3600.0
THREADS = min(4, os.cpu_count() or 1)
"""Directories emptied at once. Within one directory the kernel lets only one remove at a time."""

ROUNDS = 100
"""How often a directory is read again when new files keep appearing in it."""


class Trees(Protocol):
    """Contents of directory volumes."""

    async def empty(
        self, path: Path, *, inside: Path, expected: openat.Numbers | None = None, on_progress: Report | None = None
    ) -> int:
        """Remove all that is in the directory `path`, which must lie inside the folder `inside`; returns how many.

        DeviceChanged, before anything is removed, when it is not the `expected` directory.

        The directory itself becomes what a new one would be, in owner, mode, access control lists and the like.
        DeviceBusy when something is mounted below, OutsideFolder when the path leads elsewhere, NotClean when
        something is left. A `lost+found` of the volume's own stays, empty.
        """

    async def empty_with(
        self, argv: Sequence[str], path: Path, *, inside: Path, expected: openat.Numbers | None = None
    ) -> None:
        """As `empty`, by a command of the administrator that finds the path in LOCAL_PV_FILESYSTEM; then look."""


class KernelTrees:
    """Directories, emptied in worker threads."""

    def __init__(self, *, workers: Workers, mounts: KernelMounts) -> None:
        self._workers, self._mounts = workers, mounts

    async def empty(
        self, path: Path, *, inside: Path, expected: openat.Numbers | None = None, on_progress: Report | None = None
    ) -> int:
        await self._refuse_mounts_below(path, inside=inside)

        def run(control: Control) -> int:
            root = openat.open_directory(inside, path)
            try:
                _refuse_another(root, expected, path)
                return empty_directory(root, control)
            finally:
                os.close(root)

        return await self._workers.long(run, key=str(path), on_progress=on_progress)

    async def empty_with(
        self, argv: Sequence[str], path: Path, *, inside: Path, expected: openat.Numbers | None = None
    ) -> None:
        await self._refuse_mounts_below(path, inside=inside)

        def check() -> None:
            root = openat.open_directory(inside, path)
            try:
                _refuse_another(root, expected, path)
            finally:
                os.close(root)

        await self._workers.call(check, key=str(path), timeout=LOOK_SECONDS)
        await commands.run(argv, timeout=COMMAND_SECONDS, env={"LOCAL_PV_FILESYSTEM": str(path)})

        def look() -> None:
            root = openat.open_directory(inside, path)
            try:
                _refuse_another(root, expected, path)
                keep = "lost+found" if _is_whole_file_system(root) else ""
                _verify_empty(root, keep)
                _restore(root, keep)
            finally:
                os.close(root)

        await self._workers.call(look, key=str(path), timeout=LOOK_SECONDS)

    async def _refuse_mounts_below(self, path: Path, *, inside: Path) -> None:
        real = Path(os.path.realpath(inside)).joinpath(*openat.names_below(inside, path))
        if below := (await self._mounts.table()).below(real):
            raise errors.DeviceBusy(
                f"{below[0].mount_point} is mounted inside the volume", hint=f"unmount {below[0].mount_point}"
            )


def _refuse_another(root: int, expected: openat.Numbers | None, path: Path) -> None:
    """By the descriptor that is worked with: what was looked at a moment ago may have been unmounted or moved away,
    and below it lies somebody else's directory."""
    if expected is not None and openat.Numbers.of(root) != expected:
        raise errors.DeviceChanged(
            f"{path} became another directory just before it was to be emptied", hint="it is tried again by itself"
        )


def empty_directory(root: int, control: Control) -> int:
    """Remove all below an open directory; for callers that run in a worker thread."""
    counter = _Counter(control)
    keep = "lost+found" if _is_whole_file_system(root) else ""
    try:
        _Walk(root, counter).empty(keep=keep)
        if keep:
            _empty_lost_and_found(root, keep, counter)
        _verify_empty(root, keep)  # before the mark goes with the other attributes: it says that data is left
        _restore(root, keep)
        _verify_empty(root, keep)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise errors.DeviceBusy(f"something is mounted inside the volume, at {error.filename}") from error
        raise errors.NotClean(f"{error.filename or 'the directory'} cannot be removed: {error.strerror}") from error
    control.report(counter.removed, last=True)
    return counter.removed


def _verify_empty(root: int, keep: str) -> None:
    with os.scandir(root) as left:
        names = [entry.name for entry in islice(left, 3) if entry.name != keep]
    if names:
        raise errors.NotClean(f"the directory still holds {', '.join(names)}", hint="something still writes to it")


class _Counter:
    def __init__(self, control: Control) -> None:
        self._control = control
        self.removed = 0

    def add(self, count: int) -> None:
        self.removed += count  # a little wrong when two threads meet here: it is for people to look at
        self._control.report(self.removed, step="removing")

    def check(self) -> None:
        self._control.check()


@dataclass(slots=True)
class _Level:
    """A directory on the way down to the present one."""

    fd: int
    """Closed (-1) when it is far above."""

    inode: tuple[int, int]
    name: str
    """Its own name in the directory above."""

    subdirectories: list[str]
    rounds: int = 0


class _Walk:
    """Empties one directory, depth first."""

    def __init__(self, top: int, counter: _Counter) -> None:
        self._top = top
        self._counter = counter
        self._levels: list[_Level] = []

    def empty(self, *, keep: str = "") -> None:
        """Remove everything in the top directory except what has the name `keep`."""
        for _ in range(ROUNDS):
            subdirectories = [name for name in self._remove_files(self._top) if name != keep]
            if not subdirectories:
                return
            if len(subdirectories) > 1:
                self._in_parallel(subdirectories)
            else:
                self._remove_tree(subdirectories[0])

    def _in_parallel(self, names: list[str]) -> None:
        with ThreadPoolExecutor(THREADS, thread_name_prefix="tree") as pool:
            parts = [names[start::THREADS] for start in range(THREADS)]
            jobs = [pool.submit(_remove_trees, self._top, part, self._counter) for part in parts if part]
            wait(jobs)
        for job in jobs:
            job.result()

    def _remove_tree(self, name: str) -> None:
        if _remove_directory(self._top, name):
            self._counter.add(1)
            return
        self._enter(self._top, name)
        try:
            while self._levels:
                level = self._levels[-1]
                if level.subdirectories:
                    child = level.subdirectories.pop()
                    if _remove_directory(level.fd, child):
                        self._counter.add(1)
                    else:
                        self._enter(level.fd, child)
                    continue
                self._leave()
        finally:
            for level in self._levels:
                if level.fd >= 0:
                    os.close(level.fd)
            self._levels.clear()

    def _enter(self, parent: int, name: str) -> None:
        self._counter.check()
        try:
            fd = openat.directory(name, parent=parent)
        except FileNotFoundError:
            return
        status = os.fstat(fd)
        level = _Level(fd=fd, inode=(status.st_dev, status.st_ino), name=name, subdirectories=[])
        self._levels.append(level)
        if len(self._levels) > KEPT_OPEN:
            far = self._levels[-1 - KEPT_OPEN]
            os.close(far.fd)
            far.fd = -1
        level.subdirectories = self._remove_files(fd)

    def _leave(self) -> None:
        """The present directory has been emptied: step up and remove it."""
        level = self._levels[-1]
        if len(self._levels) > 1:
            above = self._levels[-2]
            if above.fd < 0:
                above.fd = self._up(level, above)
            parent = above.fd
        else:
            parent = self._top
        if _remove_directory(parent, level.name):
            self._counter.add(1)
        elif level.rounds < ROUNDS:
            level.rounds += 1
            level.subdirectories = self._remove_files(level.fd)
            return
        else:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), level.name)
        self._levels.pop()
        os.close(level.fd)

    def _up(self, level: _Level, above: _Level) -> int:
        fd = openat.directory("..", parent=level.fd)
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) != above.inode:
            # Somebody moved the directory while we were in it; what is above it now may be anything.
            os.close(fd)
            raise OSError(errno.EBUSY, "moved while it was being emptied", level.name)
        return fd

    def _remove_files(self, fd: int) -> list[str]:
        """Remove all that is no directory; returns the names of directories, as many as one batch has."""
        directories: list[str] = []
        while True:
            files = []
            with os.scandir(fd) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if len(directories) < BATCH:
                            directories.append(entry.name)
                    else:
                        files.append((entry.inode(), entry.name))
                        if len(files) == BATCH:
                            break
            files.sort()
            directories += self._unlink(fd, [name for _, name in files])
            if len(files) < BATCH:
                return directories
            directories.clear()

    def _unlink(self, fd: int, names: list[str]) -> list[str]:
        """Returns the names of those that became directories meanwhile."""
        unlink, count = os.unlink, 0
        directories: list[str] = []
        for name in names:
            try:
                unlink(name, dir_fd=fd)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno == errno.EISDIR:
                    directories.append(name)
                    continue
                if error.errno != errno.EPERM or not _loosen(fd, name):
                    raise
                unlink(name, dir_fd=fd)
            count += 1
            if count == 256:
                self._counter.add(count)
                count = 0
        self._counter.add(count)
        return directories


def _remove_trees(top: int, names: list[str], counter: _Counter) -> None:
    walk = _Walk(top, counter)
    for name in names:
        walk._remove_tree(name)


def _remove_directory(parent: int, name: str) -> bool:
    """Whether the directory is gone; False when it holds something."""
    for attempt in range(2):
        try:
            os.rmdir(name, dir_fd=parent)
            return True
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            if error.errno == errno.ENOTDIR:  # became a file or a link meanwhile
                os.unlink(name, dir_fd=parent)
                return True
            if error.errno == errno.EBUSY:
                raise OSError(errno.EXDEV, "something is mounted there", name) from error
            if error.errno != errno.EPERM or attempt or not _loosen(parent, name):
                raise
    return False


def _loosen(parent: int, name: str) -> bool:
    """Take the flags away that forbid to remove an entry, from it and from its directory; whether there were any."""
    loosened = attributes.clear_flags(parent)
    entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        mode = os.fstat(entry).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            return loosened  # others have no flags, and opening a device could do anything
        # By this way it is the very file just looked at, whatever has its name now.
        fd = os.open(f"/proc/self/fd/{entry}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return attributes.clear_flags(fd) or loosened
        finally:
            os.close(fd)
    finally:
        os.close(entry)


def _is_whole_file_system(root: int) -> bool:
    """Whether the directory is the top of a file system: only there lost+found belongs to the file system itself."""
    return os.fstat(root).st_ino == 2


def _empty_lost_and_found(root: int, name: str, counter: _Counter) -> None:
    try:
        fd = openat.directory(name, parent=root)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            os.unlink(name, dir_fd=root)
            return
        raise
    try:
        attributes.clear_flags(fd)
        _Walk(fd, counter).empty()
        with os.scandir(fd) as left:
            if entry := next(left, None):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), f"{name}/{entry.name}")
    finally:
        os.close(fd)


def _restore(root: int, keep: str) -> None:
    """What the last user made of the directory itself would be handed to the next one."""
    attributes.restore(root, attributes.fresh(root))
    if keep:
        try:
            fd = openat.directory(keep, parent=root)
        except FileNotFoundError:
            return
        try:
            attributes.restore(fd, attributes.LOST_AND_FOUND)
        finally:
            os.close(fd)
