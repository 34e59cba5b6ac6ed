"""Layers of an image, laid over each other in one folder.

A layer is a tar file. A file `.wh.NAME` in it removes NAME of the layers below, and `.wh..wh..opq` everything that they
have in its folder. Nothing is ever written or removed outside the folder: every path is taken step by step from the
folder's descriptor, no step follows a link, and no name is `..`. What a layer may cost is bounded, because a few bytes
of it can stand for very many. Extended attributes are left out, so no layer can speak to the overlay file system."""

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

MOST_BYTES = 64 << 30
"""What the files of one image may take when unpacked."""

MOST_FILES = 2_000_000
"""Entries of all layers of one image: each may take an inode."""

MOST_STEPS, LONGEST_PATH = 256, 4096
"""How deep a path may be: whoever deletes an image opens one folder in the other. The kernel takes no longer path."""

MOST_HEADER = 1 << 20
"""Bytes of one extended header of a layer, which is read into memory as a whole."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEVICES = {tarfile.CHRTYPE: stat.S_IFCHR, tarfile.BLKTYPE: stat.S_IFBLK, tarfile.FIFOTYPE: stat.S_IFIFO}
_EXTENDED = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
_SPARSE = "it has sparse files, which the specification of images advises against"


class _Member(tarfile.TarInfo):
    """An entry whose extended headers are not read before their size is looked at."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        # The one step that every release goes through: from 3.11.2-6+deb12u9 of Debian on, `frombuf` is not called.
        if self.type in _EXTENDED and self.size > MOST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size} bytes is too long")
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError(_SPARSE)
        found: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        return found


class Unpacker:
    """Puts layers into one folder, lowest first."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, _FOLDER)
        self._as_root = os.geteuid() == 0
        self._bytes = self._files = 0

    def close(self) -> None:
        os.close(self._root)

    def add(self, layer: BinaryIO) -> None:
        """Lay one more layer, compressed or not, on top."""
        mine: set[str] = set()
        """What this layer has brought, with the folders above: its whiteouts mean the layers below only."""

        folders: dict[str, tarfile.TarInfo] = {}
        try:
            with tarfile.open(fileobj=layer, mode="r|*", tarinfo=_Member) as tar:
                for member in tar:
                    self._count(member)
                    # Which tarfile would keep, for millions of entries.
                    tar.members, member.pax_headers = [], {}  # type: ignore[attr-defined]
                    path = _inside(member.name)
                    if not path:
                        folders[""] = member
                        continue
                    above, _, name = path.rpartition("/")
                    if name == OPAQUE:
                        self._clear(above, mine)
                    elif name.startswith(WHITEOUT):
                        self._remove(f"{above}/{_whited_out(member.name, name)}".lstrip("/"))
                    else:
                        self._put(tar, member, path)
                        while path and path not in mine:
                            mine.add(path)
                            path = path.rpartition("/")[0]
                        if member.isdir():
                            folders[_inside(member.name)] = member
        except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
            # The last two: numbers that no file system takes, names with a zero in them.
            raise errors.ConfigurationError(f"a layer of the image cannot be read: {error}") from error
        # Last: writing into a folder changes its time, and a mode without w would keep others than root out.
        for path, member in folders.items():
            try:
                self._finish(path, member)
            except (ValueError, OverflowError) as error:
                raise errors.ConfigurationError(f"a layer of the image cannot be read: {error}") from error

    def _count(self, member: tarfile.TarInfo) -> None:
        """Before anything of it is written."""
        if member.sparse is not None:  # a few bytes that are written as very many
            raise tarfile.ReadError(_SPARSE)
        self._files += 1
        self._bytes += max(member.size, 0) if member.isreg() else 0
        if self._bytes > MOST_BYTES or self._files > MOST_FILES:
            raise errors.ConfigurationError(
                f"the image is too large: more than {MOST_BYTES >> 30} GiB or {MOST_FILES} files when unpacked",
                hint="it may be made to fill the disk; if it is yours, leave data out of it and mount a volume",
            )

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
            if inside not in mine:
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
    if len(steps) > MOST_STEPS or len(name) > LONGEST_PATH:
        raise errors.ConfigurationError(f'the image has a path that is too long or too deep: "{name[:80]}…"')
    return "/".join(steps)


def _whited_out(path: str, name: str) -> str:
    """The name that a whiteout removes; OutsideFolder when it is not the name of something beside it."""
    removed = name.removeprefix(WHITEOUT)
    if removed in ("", ".", ".."):
        raise errors.OutsideFolder(
            f'the image has a whiteout "{path}", which removes more than a file beside it', hint="do not use it"
        )
    return removed


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
