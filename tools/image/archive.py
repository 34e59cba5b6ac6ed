"""Writes layers and archives in the format of `docker save`, the same bytes for the same content."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
WHOLE_SECOND = 1
"""The time of every file of ours: what is in a layer should not depend on when it was made."""


def write(path: Path, *, tag: str, layers: Sequence[Path], config: Mapping[str, Any]) -> None:
    """Put layers (uncompressed tar files) together to an image of this name."""
    sums = [_sha256(layer) for layer in layers]
    described = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "created": "1970-01-01T00:00:01Z",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sum_}" for sum_ in sums]},
    }
    config_bytes = json.dumps(described, sort_keys=True).encode()
    config_name = f"{hashlib.sha256(config_bytes).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [tag], "Layers": [f"{sum_}/layer.tar" for sum_ in sums]}]
    # Renamed into place, so an interrupted build is never taken for an image.
    new = path.with_suffix(".new")
    with tarfile.open(new, "w") as tar:
        add_bytes(tar, config_name, config_bytes)
        for layer, sum_ in zip(layers, sums, strict=True):
            with layer.open("rb") as content:
                _add(tar, f"{sum_}/layer.tar", content, layer.stat().st_size, 0o644)
        add_bytes(tar, "manifest.json", json.dumps(manifest).encode())
    new.rename(path)


def add_bytes(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    """Add a file of root's."""
    _add(tar, name, io.BytesIO(content), len(content), mode)


def add_folder(tar: tarfile.TarFile, name: str, *, mode: int = 0o755) -> None:
    """Add an empty folder of root's."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime = tarfile.DIRTYPE, mode, WHOLE_SECOND
    tar.addfile(info)


def add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    """Add a symbolic link."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mtime = tarfile.SYMTYPE, target, WHOLE_SECOND
    tar.addfile(info)


def add_tree(tar: tarfile.TarFile, source: Path, name: str) -> None:
    """Add a folder of this machine with all that is in it, as root's, in a fixed order."""
    add_folder(tar, name)
    for path in sorted(source.rglob("*")):
        inside = f"{name}/{path.relative_to(source)}"
        if path.is_dir():
            add_folder(tar, inside)
        else:
            add_bytes(tar, inside, path.read_bytes(), mode=0o755 if path.stat().st_mode & 0o100 else 0o644)


def _add(tar: tarfile.TarFile, name: str, content: BinaryIO, size: int, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, mode, WHOLE_SECOND
    tar.addfile(info, content)


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
