"""Volumes without a claim: emptyDir, other folders that belong to one pod and go with it, and paths of the node."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from localpv.api.kinds.pods import EmptyDirVolumeSource, HostPathVolumeSource, Pod
from localpv.api.quantity import Quantity
from localpv.engine.kubelet.paths import EMPTY_DIR, VOLUMES, Layout, escaped, plain
from localpv.engine.kubelet.volumes.host_parts import HostParts
from localpv.engine.kubelet.volumes.mounter import Group
from localpv.engine.kubelet.volumes.volume_spec import NotReady
from localpv.host.volume_files import NodePaths


class EphemeralVolumes:
    """Folders that begin empty."""

    def __init__(self, *, layout: Layout, host: HostParts) -> None:
        self._layout, self._host = layout, host

    async def empty_dir(self, source: EmptyDirVolumeSource, name: str, *, pod: Pod, group: Group | None) -> Path:
        """The emptyDir of a pod."""
        if source.medium not in ("", "Memory"):
            raise NotReady(
                "NotSupported",
                f"emptyDir {name} asks for the medium {source.medium}, which the embedded engine does not have",
                hint="leave medium out, or use Memory",
            )
        memory = source.medium == "Memory"
        limits = [Quantity.parse(source.size_limit).value] if source.size_limit else []
        if memory and (most := _memory_limit(pod)):
            limits.append(most)
        return await self.folder(
            pod.metadata.uid, EMPTY_DIR, name, memory=memory, size_bytes=min(limits, default=0), group=group
        )

    async def folder(
        self, pod_uid: str, plugin: str, name: str, *, memory: bool, size_bytes: int = 0, group: Group | None = None
    ) -> Path:
        """A folder of a pod that everybody in it may write, on the disk or in memory."""
        host, place = self._host, self._layout.scratch(pod_uid, plugin, name, memory=memory)
        host.folders.make(place)
        host.folders.open_to_all(place)
        if memory and not (await host.mounts.table()).is_mount_point(place):
            await host.mounter.mount_memory(place, size_bytes=size_bytes)
        if group is not None:
            await host.ownership.give(place, group=group.id, unless_root_has_it=True)
        return place

    async def remove(self, pod_uid: str, plugin: str, name: str) -> None:
        """Remove a folder with all that is in it; only when nothing is mounted there or below any more."""
        host = self._host
        for folder in self._layout.folders(pod_uid):
            place = folder / VOLUMES / escaped(plugin) / plain(name)
            if name in host.folders.names(place.parent):
                await host.unmount_all(place)
                await host.trees.empty(place, inside=folder / VOLUMES)
                host.folders.remove(place)


def _memory_limit(pod: Pod) -> int:
    """All memory that the containers of a pod may have together; 0 when one of them has no limit."""
    limits = [container.resources.limits.get("memory") for container in pod.spec.containers]
    return sum(Quantity.parse(limit).value for limit in limits if limit) if all(limits) else 0


async def host_path(source: HostPathVolumeSource, *, node_paths: NodePaths) -> Path:
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
