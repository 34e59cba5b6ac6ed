"""Mounting and unmounting: devices, parts of other file systems (bind), memory, and parts of volumes (subPath).

What is bound is first opened and looked at, and then bound by its descriptor: nobody can put another thing into its
place in between. What is mounted over lies in a folder of ours, which nobody else may write.

Whoever writes to a volume can put a link at any place in it, also at the moment when it is looked at. So a part of a
volume is opened below the volume's own descriptor, the kernel refusing every step that leads out of it, and what is
bound is that descriptor and never a path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import commands, mountcalls, openat
from localpv.host.folders import FileKind
from localpv.host.model.devices import DeviceNumber
from localpv.host.workers import Workers

CALL_SECONDS = 30.0
"""For one call to the kernel. Unmounting writes what is still in memory, which takes its time on a slow disk."""

MOUNT_SECONDS = 120.0
"""For mounting a device: a journal may have to be replayed first."""

_READ_ONLY, _REMOUNT, _BIND = 1, 32, mountcalls.BIND
_RELATIME = 1 << 21
_FLAGS = {"nosuid": 2, "nodev": 4, "noexec": 8, "sync": 16, "noatime": 1024, "nodiratime": 2048, "relatime": _RELATIME}
_ST_RELATIME = 4096
_ST_SAME = 2 | 4 | 8 | 16 | 1024 | 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Something that is open and can be bound elsewhere."""

    path: Path
    """As it was asked for."""

    real_path: Path
    """Links resolved, as a mount table has it."""

    kind: FileKind
    mount_id: int = 0
    """Number of the mount that it lies in."""

    device: DeviceNumber | None = None
    """Numbers of a block device."""

    mode: int = 0
    gid: int = 0
    fd: int = -1

    @property
    def own_path(self) -> Path:
        """A path that leads to what is open, whatever has its name by now."""
        return Path(f"/proc/self/fd/{self.fd}") if self.fd >= 0 else self.real_path


class Mounter(Protocol):
    """Changes to the mount table of this machine."""

    def opened(self, path: Path) -> AbstractAsyncContextManager[Source]:
        """What is at a path, links followed. FileNotFoundError or NotADirectoryError when nothing is."""

    async def bind(self, source: Source, at: Path, *, read_only: bool = False, options: Sequence[str] = ()) -> None:
        """Show a directory or file at another place too. Options that a bind mount cannot have mean nothing."""

    async def make_read_only(self, at: Path, *, read_only: bool) -> None:
        """Let what is bound there be written through that place or not, without a moment in which it is not there."""

    async def mount(self, device: Path, at: Path, *, fs_type: str, options: Sequence[str] = ()) -> None:
        """Mount the file system of a device. HostError says what the kernel had against it."""

    async def mount_memory(self, at: Path, *, size_bytes: int = 0, mode: int = 0o777) -> None:
        """Mount a file system in memory, as large as said or as half the memory."""

    async def unmount(self, at: Path) -> None:
        """Take away what is mounted there last. DeviceBusy while somebody works in it; nothing mounted is no error."""


class KernelMounter:
    """The mount table of this process."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers

    @contextlib.asynccontextmanager
    async def opened(self, path: Path) -> AsyncIterator[Source]:
        # Whoever waits may go, at any moment; then the descriptor is closed by him or, if it comes later, at once.
        guard, gone = threading.Lock(), threading.Event()
        kept: list[int] = []

        def look() -> Source:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            with guard:
                kept.append(fd)
                if gone.is_set():
                    os.close(fd)
                    raise errors.HostTimeout(f"{path} answered too late")
            return _source(path, fd)

        try:
            source = await self._workers.call(look, key=str(path), timeout=CALL_SECONDS)
        except BaseException:
            with guard:
                gone.set()
                for fd in kept:
                    os.close(fd)
            raise
        try:
            yield source
        finally:
            os.close(source.fd)

    async def bind(self, source: Source, at: Path, *, read_only: bool = False, options: Sequence[str] = ()) -> None:
        def act() -> None:
            _mount(str(source.own_path), at, _BIND)
            if read_only or any(option in _FLAGS or option == "ro" for option in options):
                _remount(at, read_only=read_only, options=options)

        await self._workers.call(act, key=str(at), timeout=CALL_SECONDS)

    async def make_read_only(self, at: Path, *, read_only: bool) -> None:
        await self._workers.call(lambda: _remount(at, read_only=read_only), key=str(at), timeout=CALL_SECONDS)

    async def mount(self, device: Path, at: Path, *, fs_type: str, options: Sequence[str] = ()) -> None:
        # The tool knows which options are the kernel's and which the file system's.
        chosen = ["-o", ",".join(options)] if options else []
        await commands.run(["mount", "-t", fs_type, *chosen, str(device), str(at)], timeout=MOUNT_SECONDS)

    async def mount_memory(self, at: Path, *, size_bytes: int = 0, mode: int = 0o777) -> None:
        data = f"mode={mode:o}" + (f",size={size_bytes}" if size_bytes else "")
        await self._workers.call(
            lambda: _mount("tmpfs", at, 0, fs_type="tmpfs", data=data), key=str(at), timeout=CALL_SECONDS
        )

    async def unmount(self, at: Path) -> None:
        await self._workers.call(lambda: unmount_now(at), key=str(at), timeout=CALL_SECONDS)


def bind_now(fd: int, at: Path, *, read_only: bool) -> None:
    """As `bind`, for callers that run in a worker thread."""
    _mount(f"/proc/self/fd/{fd}", at, _BIND)
    if read_only:
        _remount(at, read_only=True)


def unmount_now(at: Path) -> None:
    """As `unmount`, for callers that run in a worker thread."""
    try:
        mountcalls.unmount(at)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise errors.DeviceBusy(
                f"{at} cannot be unmounted: somebody works in it", hint="it is tried again by itself"
            ) from error
        raise errors.HostError(f"{at} cannot be unmounted: {error.strerror}") from error


def _mount(source: str, at: Path, flags: int, *, fs_type: str = "", data: str = "") -> None:
    try:
        mountcalls.mount(source, at, fs_type, flags, data)
    except OSError as error:
        raise errors.HostError(f"nothing can be mounted at {at}: {error.strerror}") from error


def _remount(at: Path, *, read_only: bool, options: Sequence[str] = ()) -> None:
    """Change the flags of a bind mount; those that it has from where it came stay."""
    has = os.statvfs(at).f_flag
    flags = has & _ST_SAME | (_RELATIME if has & _ST_RELATIME else 0)
    for option in options:
        flags |= _FLAGS.get(option, 0)
    if "noatime" in options:
        flags &= ~_RELATIME
    _mount("none", at, _BIND | _REMOUNT | flags | (_READ_ONLY if read_only or "ro" in options else 0))


def _source(path: Path, fd: int) -> Source:
    status = os.fstat(fd)
    device = None
    if stat.S_ISDIR(status.st_mode):
        kind = FileKind.DIRECTORY
    elif stat.S_ISBLK(status.st_mode):
        kind = FileKind.BLOCK_DEVICE
        device = DeviceNumber(os.major(status.st_rdev), os.minor(status.st_rdev))
    else:
        kind = FileKind.OTHER
    return Source(
        path=path,
        real_path=Path(os.readlink(f"/proc/self/fd/{fd}")),
        kind=kind,
        mount_id=openat.mount_id(fd),
        device=device,
        mode=status.st_mode,
        gid=status.st_gid,
        fd=fd,
    )


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
        subpath_names(part)
        try:
            await self._workers.call(lambda: _bind(volume, part, at, read_only), key=str(volume), timeout=CALL_SECONDS)
        except OSError as error:
            raise errors.HostError(f"{part} cannot be opened in the volume: {error.strerror}") from error


def subpath_names(part: str) -> tuple[str, ...]:
    """The components of a sub-path; OutsideFolder for one that is absolute or steps back."""
    found = tuple(name for name in part.split("/") if name not in ("", "."))
    if part.startswith("/") or ".." in found or "\0" in part:
        raise errors.OutsideFolder(f"{part} does not lie inside the volume", hint="use a relative path without ..")
    return found


def _bind(volume: Path, part: str, at: Path, read_only: bool) -> None:
    root = os.open(volume, os.O_PATH | os.O_CLOEXEC)
    try:
        source = _open(root, subpath_names(part))
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
                unmount_now(at)
        _make_place(at, directory=stat.S_ISDIR(wanted.st_mode))
        bind_now(source, at, read_only=read_only)
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
