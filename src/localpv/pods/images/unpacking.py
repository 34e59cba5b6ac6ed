"""Layers of an image, laid over each other in one folder.

A layer is a tar file. A file `.wh.NAME` in it removes NAME of the layers below, and `.wh..wh..opq` everything that they
have in its folder. Nothing is ever written outside the folder: every path is taken step by step from the folder's
descriptor, and no step follows a link.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from localpv import errors

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEVICES = {tarfile.CHRTYPE: stat.S_IFCHR, tarfile.BLKTYPE: stat.S_IFBLK, tarfile.FIFOTYPE: stat.S_IFIFO}


class Unpacker:
    """Puts layers into one folder, lowest first."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, _FOLDER)
        self._as_root = os.geteuid() == 0

    def close(self) -> None:
        os.close(self._root)

    def add(self, layer: BinaryIO) -> None:
        """Lay one more layer, compressed or not, on top."""
        mine: set[str] = set()
        """What this layer has brought: its whiteouts mean the layers below only."""

        folders: dict[str, tarfile.TarInfo] = {}
        try:
            with tarfile.open(fileobj=layer, mode="r|*") as tar:
                for member in tar:
                    path = _inside(member.name)
                    if not path:
                        folders[""] = member
                        continue
                    name = path.rpartition("/")[2]
                    if name == OPAQUE:
                        self._clear(path.rpartition("/")[0], mine)
                    elif name.startswith(WHITEOUT):
                        self._remove(f"{path.rpartition('/')[0]}/{name.removeprefix(WHITEOUT)}".lstrip("/"))
                    else:
                        self._put(tar, member, path)
                        mine.add(path)
                        if member.isdir():
                            folders[path] = member
        except tarfile.TarError as error:
            raise errors.ConfigurationError(f"a layer of the image cannot be read: {error}") from error
        # Last: writing into a folder changes its time, and a mode without w would keep others than root out.
        for path, member in folders.items():
            self._finish(path, member)

    def _put(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        with self._parent(path) as (parent, name):
            there = _kind(name, parent)
            if member.isdir():
                if there is not None and not stat.S_ISDIR(there):
                    os.unlink(name, dir_fd=parent)
                    there = None
                if there is None:
                    os.mkdir(name, 0o755, dir_fd=parent)
                return
            if there is not None:
                _delete(name, parent)
            if member.islnk():
                self._link(member, name, parent)
                return
            if member.issym():
                os.symlink(member.linkname, name, dir_fd=parent)
            elif member.isreg():
                content = tar.extractfile(member)
                assert content is not None
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(os.open(name, flags, 0o600, dir_fd=parent), "wb") as target:
                    shutil.copyfileobj(content, target, 1 << 20)
            elif member.type in _DEVICES:
                if not self._as_root and member.type != tarfile.FIFOTYPE:
                    return
                device = os.makedev(member.devmajor, member.devminor)
                os.mknod(name, _DEVICES[member.type] | 0o600, device, dir_fd=parent)
            else:
                return
            self._settle(name, parent, member)

    def _link(self, member: tarfile.TarInfo, name: str, parent: int) -> None:
        target = _inside(member.linkname)
        with self._parent(target) as (folder, original):
            try:
                os.link(original, name, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError:
                raise errors.ConfigurationError(
                    f"a layer of the image links {member.name} to {member.linkname}, which is not in it"
                ) from None

    def _finish(self, path: str, member: tarfile.TarInfo) -> None:
        if not path:
            os.fchmod(self._root, member.mode & 0o7777)
            return
        with self._parent(path) as (parent, name), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            kind = _kind(name, parent)
            if kind is not None and stat.S_ISDIR(kind):
                self._settle(name, parent, member)

    def _settle(self, name: str, parent: int, member: tarfile.TarInfo) -> None:
        if self._as_root:
            os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
        if not member.issym():
            os.chmod(name, member.mode & 0o7777, dir_fd=parent)
        os.utime(name, (member.mtime, member.mtime), dir_fd=parent, follow_symlinks=False)

    def _remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, errors.OutsideFolder), self._parent(path, make=False) as place:
            _delete(place[1], place[0])

    def _clear(self, path: str, mine: set[str]) -> None:
        """Remove what layers below have in a folder."""
        names: list[str] = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._folder(path, make=False) as folder:
            names = os.listdir(folder)
        for name in names:
            inside = f"{path}/{name}".lstrip("/")
            if not any(one == inside or one.startswith(f"{inside}/") for one in mine):
                self._remove(inside)

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool = True) -> Iterator[tuple[int, str]]:
        before, _, name = path.rpartition("/")
        with self._folder(before, make=make) as parent:
            yield parent, name

    @contextlib.contextmanager
    def _folder(self, path: str, *, make: bool = True) -> Iterator[int]:
        """The folder at a path, opened step by step."""
        fd = os.dup(self._root)
        try:
            for step in filter(None, path.split("/")):
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(step, 0o755, dir_fd=fd)
                try:
                    below = os.open(step, _FOLDER, dir_fd=fd)
                except OSError as error:
                    if isinstance(error, FileNotFoundError):
                        raise
                    raise errors.OutsideFolder(
                        f"the image has {path} below something that is no folder", hint="it may try to write elsewhere"
                    ) from error
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)


def _inside(name: str) -> str:
    """A path of a layer without its first slash; OutsideFolder when it leads out."""
    steps = [step for step in name.split("/") if step not in ("", ".")]
    if ".." in steps or "\0" in name:
        raise errors.OutsideFolder(f'the image has a file "{name}", which leads out of it', hint="do not use it")
    return "/".join(steps)


def _kind(name: str, parent: int) -> int | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


def _delete(name: str, parent: int) -> None:
    kind = _kind(name, parent)
    if kind is not None and stat.S_ISDIR(kind):
        shutil.rmtree(name, dir_fd=parent)
    elif kind is not None:
        os.unlink(name, dir_fd=parent)
