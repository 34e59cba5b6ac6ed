"""Small files that only the server's own account may read: keys, tokens, the kubeconfig."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from localpv.errors import StartError


def read(path: Path) -> bytes | None:
    """The contents, or None when there is no such file. Access by others is taken away."""
    try:
        data = path.read_bytes()
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StartError(f"cannot read {path}: {error.strerror}", hint="run as the owner of the data folder") from error
    return data


def write(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace the file as a whole: after a crash there is the old one or the new one, never half of one."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise StartError(
            f"cannot write {path}: {error.strerror}", hint="choose a data folder that is writable and has room"
        ) from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
