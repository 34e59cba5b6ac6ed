"""Is it really inside? Paths of volumes, walked component by component from the folder that we may touch.

Every step opens the next component relative to the one before, links never followed, so nothing can be swapped in
between; only the last one may be a link, and only to a block device below /dev.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from localpv import errors
from localpv.host.model.devices import DeviceNumber

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A device inside a managed folder."""

    path: Path
    device_path: Path
    device: DeviceNumber


def names_below(folder: Path, path: Path) -> tuple[str, ...]:
    """The components of a path below a folder; OutsideFolder unless there is at least one and none is special."""
    own, theirs = PurePosixPath(folder), PurePosixPath(path)
    parts = os.fspath(path).split("/")
    if not own.is_absolute() or own == PurePosixPath("/") or ".." in own.parts:
        raise errors.OutsideFolder(f"{folder} cannot be managed", hint="name a folder of its own, such as /mnt/disks")
    if ".." in parts or "." in parts or "\0" in os.fspath(path) or theirs == own or not theirs.is_relative_to(own):
        raise errors.OutsideFolder(f"{path} does not lie inside {folder}")
    return theirs.relative_to(own).parts


def open_directory(folder: Path, path: Path) -> int:
    """A descriptor of a directory volume inside the folder; the caller closes it."""
    names = names_below(folder, path)
    parent = _open_parent(folder, path, names)
    try:
        return _step(parent, names[-1], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, path)
    finally:
        os.close(parent)


def locate_device(folder: Path, path: Path) -> Located:
    """The block device at a path inside the folder: its node, or a link to one below /dev."""
    names = names_below(folder, path)
    parent = _open_parent(folder, path, names)
    try:
        found = _step(parent, names[-1], _STEP, path)
        try:
            status = os.fstat(found)
        finally:
            os.close(found)
        device_path = path
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(names[-1], dir_fd=parent)
            device_path = Path(os.path.realpath(os.path.join(os.path.realpath(folder), *names[:-1], target)))
            if not device_path.is_relative_to("/dev"):
                raise errors.OutsideFolder(f"{path} is a link to {device_path}, which is not below /dev")
            status = os.stat(device_path, follow_symlinks=False)
    except OSError as error:
        raise errors.OutsideFolder(f"{path} leads nowhere: {error.strerror}") from error
    finally:
        os.close(parent)
    if not stat.S_ISBLK(status.st_mode):
        raise errors.OutsideFolder(f"{path} is no block device")
    number = DeviceNumber(os.major(status.st_rdev), os.minor(status.st_rdev))
    return Located(path=path, device_path=device_path, device=number)


def _open_parent(folder: Path, path: Path, names: tuple[str, ...]) -> int:
    try:
        # The folder is the administrator's own word: links on the way to it are meant.
        current = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise errors.OutsideFolder(f"{folder} cannot be opened: {error.strerror}") from error
    for name in names[:-1]:
        try:
            after = _step(current, name, _STEP | os.O_DIRECTORY, path)
        finally:
            os.close(current)
        current = after
    return current


def _step(parent: int, name: str, flags: int, path: Path) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise errors.OutsideFolder(
                f"{path} leads through {name}, which is a link or no directory", hint="use the directory itself"
            ) from error
        if error.errno in (errno.ENOENT, errno.EACCES, errno.ENAMETOOLONG):
            raise errors.OutsideFolder(f"{path} cannot be opened at {name}: {error.strerror}") from error
        raise
