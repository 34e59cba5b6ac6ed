"""Paths of the machine that somebody names himself: are they what he says they are? Made, where he asks for that."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host.workers import Workers

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
