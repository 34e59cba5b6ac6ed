"""Root folders of containers: an image below, what the container writes on top."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import mountcalls, mounts
from localpv.host.workers import Workers

SECONDS = 120.0

log = logging.getLogger(__name__)


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
        return await self._workers.call(lambda: _stack(image, folder), key=f"root {folder}", timeout=SECONDS)

    async def hide(self, folder: Path) -> None:
        def run() -> None:
            mountcalls.unmount(folder / "root", mountcalls.LAZY)

        await self._workers.call(run, key=f"root {folder}", timeout=SECONDS)

    async def remove(self, folder: Path) -> None:
        await self._workers.call(lambda: _remove(folder), key=f"root {folder}", timeout=SECONDS)


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
