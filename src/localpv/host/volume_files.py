"""Files that pods are given: owned by their group, changed together, or of the machine itself (hostPath).

Given to a group, every pod of that group can read and write them, whoever made them. The walk goes by directory
descriptors, follows no links and enters no other mount. The top directory comes last: when it belongs to the group, all
below it does, and a walk that was cut short is begun again.

Files of a set change together: readers see all of the old ones or all of the new ones, never some of each. A set lies
in a folder of its own whose name begins with two dots. The link `..data` says which one counts, and each name that
people see is a link through it. To change the set, a new folder is written and the one link is switched.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import openat
from localpv.host.workers import Control, Workers

STALL_SECONDS = 60.0
"""How long not a single file may come along before the disk is taken for dead; the whole walk has no limit."""

_READ_WRITE, _READ, _ENTER, _INHERIT = 0o660, 0o440, 0o110, stat.S_ISGID

CALL_SECONDS = 30.0

_DATA, _NEXT = "..data", "..data_tmp"

LOOK_SECONDS = 10.0

KINDS: dict[str, tuple[str, Callable[[int], bool]]] = {
    "": ("anything", lambda mode: True),
    "Directory": ("a directory", stat.S_ISDIR),
    "DirectoryOrCreate": ("a directory", stat.S_ISDIR),
    "File": ("a file", stat.S_ISREG),
    "FileOrCreate": ("a file", stat.S_ISREG),
    "Socket": ("a socket", stat.S_ISSOCK),
    "CharDevice": ("a character device", stat.S_ISCHR),
    "BlockDevice": ("a block device", stat.S_ISBLK),
}
"""What a hostPath volume can ask for. Without a kind, what is missing becomes a directory, as container runtimes do."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of a set."""

    data: bytes
    mode: int = 0o644
    user: int | None = None
    """Whom it belongs to, if not us."""


class FileSets(Protocol):
    """Sets of files in folders of ours."""

    async def replace(self, folder: Path, files: Mapping[str, File], *, group: int | None = None) -> bool:
        """Let exactly these files, by their relative paths, be in a folder; returns whether anything changed.

        With a group, it can read them all.
        """


class DiskFileSets:
    """On the disk or in the memory of this machine."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers

    async def replace(self, folder: Path, files: Mapping[str, File], *, group: int | None = None) -> bool:
        for path in files:
            refuse_outside(path)
        return await self._workers.call(lambda: _replace(folder, files, group), key=str(folder), timeout=CALL_SECONDS)


def refuse_outside(path: str) -> None:
    """OutsideFolder for a path that leaves the folder, or looks like a name of ours."""
    parts = path.split("/")
    if not path or path.startswith("/") or ".." in parts or parts[0].startswith("..") or "\0" in path:
        raise errors.OutsideFolder(f"{path!r} cannot be the path of a file in a volume", hint="use a relative path")


def _replace(folder: Path, files: Mapping[str, File], group: int | None) -> bool:
    now = _current(folder)
    if now is not None and _is(now, files):
        # Dying after the switch leaves names that are not there yet, and folders that nobody needs any more.
        return _tidy(folder, now, files)
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    try:
        fresh.chmod(0o755)
        for path, file in files.items():
            _write(fresh, path, file)
        if group is not None:
            give_now(folder, group=group, read_only=True, control=Control())
        with contextlib.suppress(FileNotFoundError):
            (folder / _NEXT).unlink()
        (folder / _NEXT).symlink_to(fresh.name)
        os.replace(folder / _NEXT, folder / _DATA)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _tidy(folder, fresh, files)
    return True


def _current(folder: Path) -> Path | None:
    try:
        name = os.readlink(folder / _DATA)
    except OSError:
        return None
    return folder / os.path.basename(name)


def _is(now: Path, files: Mapping[str, File]) -> bool:
    found = {str(path.relative_to(now)): path for path in now.rglob("*") if not path.is_dir()}
    try:
        return found.keys() == files.keys() and all(
            found[name].read_bytes() == file.data for name, file in files.items()
        )
    except OSError:
        return False


def _write(fresh: Path, path: str, file: File) -> None:
    place = fresh / path
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as opened:
        opened.write(file.data)
        if file.user is not None:
            os.fchown(fd, file.user, -1)
        os.fchmod(fd, file.mode)


def _tidy(folder: Path, now: Path, files: Mapping[str, File]) -> bool:
    """Let the names that people see be those of the set, and remove what earlier sets left; returns whether it did."""
    names, changed = {path.split("/")[0] for path in files}, False
    for entry in os.scandir(folder):
        if entry.name in (_DATA, now.name):
            continue
        if entry.is_symlink() and entry.name not in names:
            os.unlink(entry.path)
            changed = True
        elif entry.name.startswith("..") and entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
    for name in names:
        if not os.path.islink(folder / name):
            os.symlink(f"{_DATA}/{name}", folder / name)
            changed = True
    return changed


class NodePaths(Protocol):
    """Paths of this machine."""

    async def check(self, path: Path, kind: str) -> None:
        """FileNotFoundError when nothing is there, HostError when it is something else."""


class KernelNodePaths:
    """Looked at in worker threads: a path of somebody else may hang."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers

    async def check(self, path: Path, kind: str) -> None:
        if kind not in KINDS:
            raise errors.NotSupported(f"{kind} is no type of a path", hint=f"use one of {', '.join(KINDS)}")
        await self._workers.call(lambda: _check(path, kind), key=str(path), timeout=LOOK_SECONDS)


def _check(path: Path, kind: str) -> None:
    if not os.path.lexists(path):
        if kind in ("", "DirectoryOrCreate"):
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        elif kind == "FileOrCreate":
            path.touch(mode=0o644)
    word, fits = KINDS[kind]
    if not fits(os.stat(path).st_mode):
        raise errors.HostError(f"{path} is not {word}", hint="correct the path or its type")
