"""Folders and links of our own, in which stands what pods use. They lie on the machine's own disk, so nothing waits."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

_FRESH = ".new-"
_MODE = 0o750


class OwnFolders(Protocol):
    """Folders, links and small files that nobody else writes."""

    def make(self, folder: Path, *, mode: int = _MODE) -> None:
        """Make a folder and those above it; one that is there is no error."""

    def remove(self, folder: Path, *, of_links: bool = False) -> None:
        """Remove an empty folder. One that is not there is no error; one that is not empty is: OSError.

        `of_links`: what a death left half-written in it goes too. Never said of a place where things are mounted.
        """

    def remove_place(self, path: Path) -> None:
        """Remove an empty folder or an empty file, over which something was mounted."""

    def open_to_all(self, folder: Path) -> None:
        """Let everybody read and write a folder that is still as `make` made it."""

    def names(self, folder: Path) -> tuple[str, ...]:
        """Names in a folder, sorted; none when there is no folder. What a death left half-written is not told."""

    def link(self, path: Path, target: Path) -> None:
        """Make a link, or let an existing one lead elsewhere, in one step."""

    def target(self, path: Path) -> Path | None:
        """Where a link leads; None when there is no link."""

    def unlink(self, path: Path, *, lasting: bool = False) -> None:
        """Remove a link or file; one that is not there is no error. `lasting`: also after the power fails."""

    def write(self, path: Path, text: str) -> None:
        """Write a small file in one step; when this returns it is on the disk."""

    def read(self, path: Path) -> str | None:
        """What is in a small file; None when there is none."""


class DiskFolders:
    """On the disk of this machine."""

    def make(self, folder: Path, *, mode: int = _MODE) -> None:
        # Those above too are closed to others: inside are files of pods that everybody may read once he is there.
        for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            missing.mkdir(mode=mode, exist_ok=True)

    def remove(self, folder: Path, *, of_links: bool = False) -> None:
        # Never more than an empty folder: should something be mounted here after all, its content stays.
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(folder) if of_links else ():
                if name.startswith(_FRESH):
                    (folder / name).unlink()
            folder.rmdir()

    def remove_place(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            elif path.is_symlink() or path.stat().st_size == 0:
                path.unlink()
            else:
                raise OSError(errno.ENOTEMPTY, "holds data", str(path))

    def open_to_all(self, folder: Path) -> None:
        if stat.S_IMODE(folder.stat().st_mode) & ~_MODE == 0:
            folder.chmod(0o777)

    def names(self, folder: Path) -> tuple[str, ...]:
        try:
            return tuple(sorted(name for name in os.listdir(folder) if not name.startswith(_FRESH)))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def link(self, path: Path, target: Path) -> None:
        with _replacing(path) as fresh:
            os.symlink(target, fresh)

    def target(self, path: Path) -> Path | None:
        try:
            return Path(os.readlink(path))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINVAL, errno.ENOTDIR):
                return None
            raise

    def unlink(self, path: Path, *, lasting: bool = False) -> None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            if lasting:
                _write_through(path.parent)

    def write(self, path: Path, text: str) -> None:
        with _replacing(path) as fresh, open(fresh, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _write_through(path.parent)

    def read(self, path: Path) -> str | None:
        try:
            return path.read_text()
        except FileNotFoundError:
            return None


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A name beside the path; what is there at the end takes its place."""
    fresh = path.with_name(f"{_FRESH}{path.name}"[:255])
    fresh.unlink(missing_ok=True)
    yield fresh
    os.replace(fresh, path)


def _write_through(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
