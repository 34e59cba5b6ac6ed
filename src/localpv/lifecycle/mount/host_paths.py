"""Paths of the node itself that a pod asks for."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

from localpv.api import kinds
from localpv.lifecycle.mount.waiting import NotReady

_KINDS = {
    "Directory": ("a directory", stat.S_ISDIR),
    "DirectoryOrCreate": ("a directory", stat.S_ISDIR),
    "File": ("a file", stat.S_ISREG),
    "FileOrCreate": ("a file", stat.S_ISREG),
    "Socket": ("a socket", stat.S_ISSOCK),
    "CharDevice": ("a character device", stat.S_ISCHR),
    "BlockDevice": ("a block device", stat.S_ISBLK),
}


def find(source: kinds.HostPathVolumeSource) -> Path:
    """The path, if it is what the pod says it is; made where the pod asks for that."""
    path, kind = Path(source.path), source.type or ""
    if not source.path.startswith("/") or ".." in PurePosixPath(source.path).parts:
        raise NotReady("InvalidPath", f"hostPath {source.path} is not absolute or contains ..")
    if kind == "DirectoryOrCreate" and not os.path.lexists(path):
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    if kind == "FileOrCreate" and not os.path.lexists(path):
        path.touch(mode=0o644)
    if not kind:
        return path
    if kind not in _KINDS:
        raise NotReady("NotSupported", f"hostPath {source.path} has the unknown type {kind}")
    word, test = _KINDS[kind]
    try:
        fits = test(os.stat(path).st_mode)
    except FileNotFoundError as error:
        raise NotReady("PathMissing", f"hostPath {source.path} does not exist", hint=f"put {word} there") from error
    if not fits:
        raise NotReady("WrongKind", f"hostPath {source.path} is not {word}", hint="correct the path or the type")
    return path
