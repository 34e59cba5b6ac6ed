"""Paths of the node itself that a pod asks for."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from localpv.api import kinds
from localpv.engine.kubelet.volumes.results import NotReady
from localpv.host.volume_files import NodePaths


async def find(source: kinds.HostPathVolumeSource, *, node_paths: NodePaths) -> Path:
    """The path, if it is what the pod says it is; made where the pod asks for that."""
    if not source.path.startswith("/") or ".." in PurePosixPath(source.path).parts:
        raise NotReady("InvalidPath", f"hostPath {source.path} is not absolute or contains ..")
    path = Path(source.path)
    try:
        await node_paths.check(path, source.type or "")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotReady(
            "PathMissing", f"hostPath {source.path} does not exist on this node", hint="put it there, or change type"
        ) from error
    return path
