"""Files that change together: readers see all of the old ones or all of the new ones, never some of each.

A set lies in a folder of its own whose name begins with two dots. The link `..data` says which one counts, and each
name that people see is a link through it. To change the set, a new folder is written and the one link is switched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import ownership
from localpv.host.workers import Control, Workers

CALL_SECONDS = 30.0

_DATA, _NEXT = "..data", "..data_tmp"


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
            ownership.give_now(folder, group=group, read_only=True, control=Control())
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
