"""Small images for tests, as archives of both kinds."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Entry = bytes | str | None | tarfile.TarInfo
"""A file with this content, a link to this path, a folder, or anything else."""


def layer(files: Mapping[str, Entry]) -> bytes:
    """A layer as a tar file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.mode = 0o755
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
            elif content is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            elif isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def config(layers: Sequence[bytes], **words: Any) -> bytes:
    rootfs = {"type": "layers", "diff_ids": [digest(one) for one in layers]}
    whole = {
        "architecture": "amd64",
        "os": "linux",
        "config": words,
        "rootfs": rootfs,
        "created": "2026-01-02T00:00:00Z",
    }
    return json.dumps(whole).encode()


def docker(path: Path, layers: Sequence[bytes], *, names: Sequence[str] = ("localhost/app:1",), **words: Any) -> Path:
    """As `docker save` writes it."""
    described = config(layers, **words)
    manifest = [
        {"Config": "config.json", "RepoTags": list(names), "Layers": [f"{n}/layer.tar" for n in range(len(layers))]}
    ]
    files: dict[str, Entry] = {f"{number}/layer.tar": one for number, one in enumerate(layers)}
    path.write_bytes(layer({"config.json": described, **files, "manifest.json": json.dumps(manifest).encode()}))
    return path


def oci(path: Path, layers: Sequence[bytes], *, name: str = "localhost/app:1", **words: Any) -> Path:
    """An OCI layout, its layers compressed."""
    blobs: dict[str, Entry] = {}

    def blob(content: bytes, kind: str) -> dict[str, Any]:
        blobs[f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"] = content
        return {"mediaType": kind, "digest": digest(content), "size": len(content)}

    manifest = {
        "schemaVersion": 2,
        "config": blob(config(layers, **words), "application/vnd.oci.image.config.v1+json"),
        "layers": [blob(gzip.compress(one), "application/vnd.oci.image.layer.v1.tar+gzip") for one in layers],
    }
    entry = blob(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": name} if name else {}
    index = {"schemaVersion": 2, "manifests": [entry]}
    layout = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode()}
    path.write_bytes(layer({**layout, **blobs}))
    return path
