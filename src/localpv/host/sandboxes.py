"""What the containers of one pod stand on: network, IPC, host name and memory that they share, and their root folders.

The namespaces are pinned to files, so no process has to be there to keep them: a thread of ours moves into new ones,
binds them to the files and ends. What is pinned lives until it is unpinned or the machine restarts, whoever dies. The
root folder of a container is its image below, and what the container writes on top.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import shutil
import socket
import struct
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol, TypeVar

from localpv import errors
from localpv.host import mountcalls, mounts
from localpv.host.workers import Workers

T = TypeVar("T")

SECONDS = 30.0
SHM_BYTES = 64 * 1024 * 1024
"""Size of /dev/shm, as other container runtimes have it."""

_NAMESPACE_KIND = 0xB703
_SET_INTERFACE_FLAGS, _UP = 0x8914, 0x1

ROOT_SECONDS = 120.0

log = logging.getLogger(__name__)


class Sandboxes(Protocol):
    """Namespaces and shared memory of pods, each pod in a folder of its own."""

    async def make(self, folder: Path, *, namespaces: Collection[str], host_name: str) -> None:
        """Pin new namespaces ("net", "ipc", "uts") to files of these names and mount "shm"; what is there stays."""

    async def whole(self, folder: Path, *, namespaces: Collection[str]) -> bool:
        """Whether all of it is there; not after a restart of the machine."""

    async def remove(self, folder: Path) -> None:
        """Unpin everything and remove the folder; nothing happens when it is not there."""

    async def inside(self, folder: Path, function: Callable[[], T], *, seconds: float) -> T:
        """Run a short function in a thread that sees the network of the pod."""


class KernelSandboxes:
    """Namespaces of this machine."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers

    async def make(self, folder: Path, *, namespaces: Collection[str], host_name: str) -> None:
        def run() -> None:
            folder.mkdir(parents=True, exist_ok=True)
            missing = [name for name in namespaces if not _is_namespace(folder / name)]
            try:
                _pin(folder, missing, host_name)
                shm = folder / "shm"
                shm.mkdir(exist_ok=True)
                if not os.path.ismount(shm):
                    flags = mountcalls.NO_SUID | mountcalls.NO_DEVICES | mountcalls.NO_EXEC
                    mountcalls.mount("shm", shm, "tmpfs", flags, f"mode=1777,size={SHM_BYTES}")
            except OSError as error:
                raise errors.HostError(f"namespaces for {folder} cannot be made: {error.strerror}") from error

        await self._workers.call(run, key=f"sandbox {folder}", timeout=SECONDS)

    async def whole(self, folder: Path, *, namespaces: Collection[str]) -> bool:
        return os.path.ismount(folder / "shm") and all(_is_namespace(folder / name) for name in namespaces)

    async def remove(self, folder: Path) -> None:
        def run() -> None:
            try:
                for path in _entries(folder):
                    # Twice pinned by a run that died in between: each layer goes.
                    while mountcalls.unmount(path, mountcalls.LAZY):
                        pass
                    path.rmdir() if path.is_dir() else path.unlink()
                with contextlib.suppress(FileNotFoundError):
                    folder.rmdir()
            except OSError as error:
                raise errors.HostError(f"namespaces in {folder} cannot be removed: {error}") from error

        await self._workers.call(run, key=f"sandbox {folder}", timeout=SECONDS)

    async def inside(self, folder: Path, function: Callable[[], T], *, seconds: float) -> T:
        def run() -> T:
            net = folder / "net"
            if net.exists():  # else the pod has the network of the machine
                mountcalls.enter_namespace(net, mountcalls.NAMESPACES["net"])
            return function()

        return await self._workers.call(run, key=f"network {folder}", timeout=seconds)


def _pin(folder: Path, names: Collection[str], host_name: str) -> None:
    if not names:
        return
    mountcalls.leave_namespaces(sum(mountcalls.NAMESPACES[name] for name in names))
    if "uts" in names:
        mountcalls.set_host_name(host_name)
    if "net" in names:
        _loopback_up()
    for name in names:
        path = folder / name
        path.touch(mode=0o600)
        # Whatever was cut off here leaves a file without a namespace, which is no namespace at the next look.
        mountcalls.mount(f"/proc/thread-self/ns/{name}", path, "", mountcalls.BIND)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        fcntl.ioctl(control, _SET_INTERFACE_FLAGS, struct.pack("16sH22x", b"lo", _UP))


def _is_namespace(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.ioctl(fd, _NAMESPACE_KIND)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def _entries(folder: Path) -> list[Path]:
    try:
        return [*folder.iterdir()]
    except FileNotFoundError:
        return []


class Layers(Protocol):
    """Root folders, each below a folder of its own: `root`, and beside it what was written."""

    async def stack(self, image: Path, folder: Path) -> Path:
        """The root folder for a new container; the same again when it is there."""

    async def hide(self, folder: Path) -> None:
        """Take the root folder out of this machine's tree: a container that has begun keeps it."""

    async def remove(self, folder: Path) -> None:
        """Remove the folder and all in it; DeviceBusy, with nothing removed, while something is mounted below."""


class KernelLayers:
    """overlayfs; where the kernel refuses that, a copy of the image."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers

    async def stack(self, image: Path, folder: Path) -> Path:
        return await self._workers.call(lambda: _stack(image, folder), key=f"root {folder}", timeout=ROOT_SECONDS)

    async def hide(self, folder: Path) -> None:
        def run() -> None:
            mountcalls.unmount(folder / "root", mountcalls.LAZY)

        await self._workers.call(run, key=f"root {folder}", timeout=ROOT_SECONDS)

    async def remove(self, folder: Path) -> None:
        await self._workers.call(lambda: _remove(folder), key=f"root {folder}", timeout=ROOT_SECONDS)


def _stack(image: Path, folder: Path) -> Path:
    root, upper, work = folder / "root", folder / "upper", folder / "work"
    if os.path.ismount(root):
        return root
    for path in (root, upper, work):
        path.mkdir(parents=True, exist_ok=True)
    # The owner and mode of the top folder are those of the image.
    shutil.copystat(image, upper)
    os.chown(upper, image.stat().st_uid, image.stat().st_gid)
    lower, over, scratch = (_escaped(path) for path in (image, upper, work))
    try:
        mountcalls.mount("overlay", root, "overlay", 0, f"lowerdir={lower},upperdir={over},workdir={scratch}")
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENODEV, errno.EPERM, errno.EOPNOTSUPP):
            raise errors.HostError(f"{root} cannot be mounted: {error.strerror}") from error
        log.info("no overlay, the image is copied folder=%s reason=%s", folder, error.strerror)
        shutil.copytree(image, root, symlinks=True, dirs_exist_ok=True, copy_function=_copy)
    return root


def _copy(source: str, target: str) -> None:
    shutil.copy2(source, target, follow_symlinks=False)
    found = os.lstat(source)
    os.chown(target, found.st_uid, found.st_gid, follow_symlinks=False)


def _remove(folder: Path) -> None:
    # Only what we have mounted ourselves: volumes are mounted in the container's own tree, never in this one.
    while mountcalls.unmount(folder / "root", mountcalls.LAZY):
        pass
    with open("/proc/self/mountinfo", "rb") as table:
        mounted = mounts.parse(table.read())
    if mounted.below(folder):
        raise errors.DeviceBusy(f"something is mounted below {folder}", hint="unmount it; nothing was removed")
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _escaped(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
