"""The local volume plugin: which volumes it serves and what it can do with them.

It mounts and unmounts, maps and unmaps, and tells what it did from what is on the disk. It has no provisioner, recycler
or deleter: local volumes are made and cleaned elsewhere (`lifecycle.publish`, `lifecycle.clean`).
"""

from __future__ import annotations

from pathlib import Path

from localpv.api import kinds
from localpv.lifecycle.mount import specs
from localpv.lifecycle.mount.hands import Hands, Turns
from localpv.lifecycle.mount.layout import LOCAL, Layout
from localpv.lifecycle.mount.mapper import Mapper
from localpv.lifecycle.mount.mounter import Mounter
from localpv.lifecycle.mount.specs import Spec
from localpv.model.mounts import Mount, MountTable

READ_WRITE_ONCE = "ReadWriteOnce"


class LocalPlugin:
    """Local volumes of one node."""

    name = LOCAL
    access_modes = (READ_WRITE_ONCE,)
    """The disk is at one node, so many nodes cannot have it."""

    def __init__(self, *, layout: Layout, hands: Hands) -> None:
        self._layout, self._hands = layout, hands
        turns = Turns()
        self.mounter = Mounter(layout=layout, hands=hands, turns=turns)
        self.mapper = Mapper(layout=layout, hands=hands, turns=turns)

    def supports(self, source: kinds.PersistentVolume | kinds.Volume) -> bool:
        """Only PersistentVolumes: whoever may make a pod must not choose paths of the node."""
        return isinstance(source, kinds.PersistentVolume) and source.spec.local is not None

    def supports_access_mode(self, mode: str) -> bool:
        """ReadWriteOncePod is ReadWriteOnce for one pod instead of one node."""
        return mode in (*self.access_modes, specs.READ_WRITE_ONCE_POD)

    def volume_name(self, source: kinds.PersistentVolume) -> str:
        """What the folders of a volume are called."""
        return source.metadata.name

    def spec_of(self, source: kinds.PersistentVolume, *, read_only: bool = False) -> Spec:
        """The volume as the node sees it; NotReady for one that this plugin does not serve."""
        return specs.spec_of(source, read_only=read_only)

    async def reconstruct(self, pod_uid: str) -> tuple[Spec, ...]:
        """The volumes that a pod has, from what is on the disk and in the mount table; also after a restart."""
        layout, folders = self._layout, self._hands.folders
        table = await self._hands.mounts.table()
        found = []
        for name in folders.names(layout.volumes(pod_uid, LOCAL)):
            mount = table.at(layout.volume(pod_uid, LOCAL, name))
            path = self._shown(mount, table) if mount else ""
            found.append(Spec(name=name, path=path, read_only=mount is not None and mount.read_only))
        for name in sorted(self.mapper.mapped(pod_uid)):
            link = layout.devices(pod_uid) / name
            target = folders.target(link) or folders.target(layout.global_map(name) / pod_uid)
            found.append(Spec(name=name, path=str(target or ""), mode=specs.BLOCK))
        return tuple(found)

    def _shown(self, mount: Mount, table: MountTable) -> str:
        """What is bound: the device, of one that we have mounted ourselves, or else the directory."""
        elsewhere = [one for one in table.of(mount.device) if self._layout.root not in one.mount_point.parents]
        for one in elsewhere:
            if Path(mount.root).is_relative_to(one.root):
                return str(one.mount_point / Path(mount.root).relative_to(one.root))
        return mount.source
