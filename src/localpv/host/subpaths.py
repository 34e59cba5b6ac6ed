"""A part of a volume shown by itself, whatever the volume's own links say.

Whoever writes to a volume can put a link at any place in it, also at the moment when it is looked at. So the part is
opened below the volume's own descriptor, the kernel refusing every step that leads out of it, and what is bound is that
descriptor and never a path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import mounting, openat
from localpv.host.workers import Workers

CALL_SECONDS = 30.0


class SubPaths(Protocol):
    """Parts of volumes."""

    async def bind(self, volume: Path, part: str, at: Path, *, read_only: bool) -> None:
        """Show what is at `part` of a volume at another place; a directory that is not there is made.

        Once more is no error: what is shown then is what the part is now. OutsideFolder when it leads out of the
        volume.
        """


class KernelSubPaths:
    """Bind mounts of open descriptors."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers

    async def bind(self, volume: Path, part: str, at: Path, *, read_only: bool) -> None:
        names(part)
        try:
            await self._workers.call(lambda: _bind(volume, part, at, read_only), key=str(volume), timeout=CALL_SECONDS)
        except OSError as error:
            raise errors.HostError(f"{part} cannot be opened in the volume: {error.strerror}") from error


def names(part: str) -> tuple[str, ...]:
    """The components of a sub-path; OutsideFolder for one that is absolute or steps back."""
    found = tuple(name for name in part.split("/") if name not in ("", "."))
    if part.startswith("/") or ".." in found or "\0" in part:
        raise errors.OutsideFolder(f"{part} does not lie inside the volume", hint="use a relative path without ..")
    return found


def _bind(volume: Path, part: str, at: Path, read_only: bool) -> None:
    root = os.open(volume, os.O_PATH | os.O_CLOEXEC)
    try:
        source = _open(root, names(part))
    finally:
        os.close(root)
    try:
        wanted = os.fstat(source)
        with contextlib.suppress(FileNotFoundError):
            if _mount_id(at) != _mount_id(at.parent):
                now = os.stat(at)
                is_read_only = bool(os.statvfs(at).f_flag & os.ST_RDONLY)
                if (now.st_dev, now.st_ino) == (wanted.st_dev, wanted.st_ino) and is_read_only >= read_only:
                    return
                mounting.unmount_now(at)
        _make_place(at, directory=stat.S_ISDIR(wanted.st_mode))
        mounting.bind_now(source, at, read_only=read_only)
    finally:
        os.close(source)


def _open(root: int, parts: tuple[str, ...]) -> int:
    """A descriptor of a part; directories that are missing on the way are made as the volume's own is."""
    current = os.dup(root)
    mode = stat.S_IMODE(os.fstat(root).st_mode)
    try:
        for count in range(1, len(parts) + 1):
            try:
                # From the top again each time: a link may lead up, as long as it stays inside the volume.
                after = openat.beneath(os.path.join(*parts[:count]), root=root)
            except FileNotFoundError:
                after = _make(parts[count - 1], parent=current, mode=mode)
            os.close(current)
            current = after
    except OSError as error:
        os.close(current)
        if error.errno in (errno.EXDEV, errno.ELOOP):
            raise errors.OutsideFolder(f"{'/'.join(parts)} leads out of the volume") from error
        raise
    return current


def _make(name: str, *, parent: int, mode: int) -> int:
    # Should another container make it at the same moment, its one is taken; a link in its place is refused.
    made = False
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
        made = True
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.ELOOP, "a link that leads nowhere", name)
    if made:
        os.chmod(f"/proc/self/fd/{fd}", mode | os.fstat(fd).st_mode & stat.S_ISGID)
    return fd


def _mount_id(path: Path) -> int:
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return openat.mount_id(fd)
    finally:
        os.close(fd)


def _make_place(at: Path, *, directory: bool) -> None:
    at.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        if at.is_dir() != directory:
            at.rmdir() if at.is_dir() else at.unlink()
    if directory:
        at.mkdir(mode=0o750, exist_ok=True)
    else:
        at.touch(mode=0o640)
