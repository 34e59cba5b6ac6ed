"""Volumes with a file system: a directory, a mount point or a device becomes a folder of the pod, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localpv.engine.kubelet.volumes import identity_check as records
from localpv.engine.kubelet.volumes.global_mounts import GlobalMounts
from localpv.engine.kubelet.volumes.host_parts import Hands, Turns
from localpv.engine.kubelet.volumes.operations import Operation, Operations
from localpv.engine.kubelet.volumes.paths import LOCAL, Layout
from localpv.engine.kubelet.volumes.results import NotReady
from localpv.engine.kubelet.volumes.volume_spec import Spec
from localpv.host.folders import FileKind
from localpv.host.marks import Mark
from localpv.host.model.identity import Identity
from localpv.host.mounter import Source
from localpv.host.mounts import Mount, MountTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The group that a pod wants its volumes to belong to."""

    id: int
    unless_root_has_it: bool = False
    """fsGroupChangePolicy OnRootMismatch."""


Warn = Callable[[str, str], None]
"""Told a reason and a sentence that people should see, though the pod goes on."""


class Mounter:
    """Mounts local volumes for pods."""

    def __init__(self, *, layout: Layout, hands: Hands, turns: Turns, operations: Operations) -> None:
        self._layout, self._hands, self._turns, self._operations = layout, hands, turns, operations
        self._global = GlobalMounts(layout=layout, hands=hands)

    async def set_up(
        self, spec: Spec, *, pod_uid: str, recorded: Identity | None, group: Group | None, warn: Warn
    ) -> Path:
        """Show the volume in the pod's folder; returns where. What is there already stays as it is."""
        hands, place = self._hands, self._layout.volume(pod_uid, LOCAL, spec.name)
        async with self._turns.of(spec.name):
            if mount := (await hands.mounts.table()).at(place):
                if mount.read_only < spec.read_only:
                    await hands.mounting.make_read_only(place, read_only=True)  # died between bind and remount
                return place
            spec.refuse_second_pod(self._others(spec.name, pod_uid))
            async with hands.mounting.opened(Path(spec.path)) as source:
                table = await hands.mounts.table()
                if source.kind is FileKind.BLOCK_DEVICE:
                    self._refuse_second_source(spec, source, place, table)
                    # The folder comes first: it is what says that this pod uses the volume. Should we die from here
                    # on, tearing down the pod finds it and takes away whatever there is by then.
                    hands.folders.make(place)
                    if recorded is not None and not spec.read_only:
                        # The file system carries a mark too, but another one may be made on the device.
                        mark = Mark(volume=spec.name, uid=spec.uid, entry=Path(spec.path).name, identity=recorded)
                        await hands.marks.mark_device(Path(spec.path), mark)
                    with self._operations.measured(LOCAL, Operation.MOUNT_DEVICE):
                        at = await self._global.set_up(spec, source.real_path, recorded=recorded)
                    async with hands.mounting.opened(at) as mounted:
                        await self._mark(spec, mounted, recorded, warn)
                        await self._bind(spec, mounted, place, group, warn)
                    return place
                if source.kind is not FileKind.DIRECTORY:
                    raise NotReady(
                        "WrongKind",
                        f"{spec.path} of volume {spec.name} is neither a directory nor a block device",
                        hint="correct spec.local.path, or put the directory there",
                    )
                await records.refuse_another_directory(recorded, source, spec, table=table, devices=self._hands.devices)
                self._refuse_second_source(spec, source, place, table)
                hands.folders.make(place)
                await self._mark(spec, source, recorded, warn)
                await self._bind(spec, source, place, group, warn)
                return place

    async def tear_down(self, volume: str, *, pod_uid: str) -> None:
        """Take the volume out of the pod's folder; the last pod takes the device's mount along."""
        place = self._layout.volume(pod_uid, LOCAL, volume)
        async with self._turns.of(volume):
            await self._hands.unmount_all(place)
            if volume in self._hands.folders.names(self._layout.global_mounts) and not self._others(volume, pod_uid):
                with self._operations.measured(LOCAL, Operation.UNMOUNT_DEVICE):
                    await self._global.tear_down(volume)
            # Last: as long as it is there, somebody comes back to finish this.
            self._hands.folders.remove(place)

    async def mounted(self, pod_uid: str) -> frozenset[str]:
        """Volumes that a pod has."""
        folder, table = self._layout.volumes(pod_uid, LOCAL), await self._hands.mounts.table()
        return frozenset(name for name in self._hands.folders.names(folder) if table.is_mount_point(folder / name))

    async def _mark(self, spec: Spec, source: Source, recorded: Identity | None, warn: Warn) -> None:
        """Before a tenant can write: should all records be lost, the disk itself says that it is not clean."""
        if recorded is None or spec.read_only:
            return  # nobody offers it again by itself, or nobody writes there
        if not await self._hands.marks.mark_directory(source.own_path, Mark(volume=spec.name, uid=spec.uid)):
            warn(
                "VolumeNotMarked",
                f"The file system of volume {spec.name} has no extended attributes; after a loss of localpv's data"
                " folder only its files would tell that it was in use.",
            )

    async def _bind(self, spec: Spec, source: Source, place: Path, group: Group | None, warn: Warn) -> None:
        # The group first: a volume that is bound is finished, and is not looked through again.
        if group is not None and not spec.read_only:
            # While another pod works in it, its files are not given to another group under its feet.
            if self._bound_elsewhere(spec.name, place, await self._hands.mounts.table()):
                if source.gid != group.id:
                    warn(
                        "AlreadyMountedVolume",
                        f"The pod asks for fsGroup {group.id}, but other pods use volume {spec.name} with group"
                        f" {source.gid}; it may not be able to write there.",
                    )
            else:
                await self._hands.ownership.give(
                    source.real_path, group=group.id, unless_root_has_it=group.unless_root_has_it
                )
        await self._hands.mounting.bind(source, place, read_only=spec.read_only, options=spec.mount_options)

    def _refuse_second_source(self, spec: Spec, source: Source, place: Path, table: MountTable) -> None:
        """All pods that have a volume at the same time have the same one, whatever its path leads to by now."""
        others = self._bound_elsewhere(spec.name, place, table)
        if not others:
            return
        if source.kind is FileKind.BLOCK_DEVICE:
            # That it is the same device is for the global mount to say; without one they have a directory.
            same = table.is_mount_point(self._layout.global_mount(spec.name))
        else:
            same = all(_shows(other, source, table) for other in others)
        if not same:
            raise NotReady(
                "DeviceChanged",
                f"{spec.path} is not what other pods have as volume {spec.name}",
                hint="delete the pods that use it, or put back what was there",
            )

    def _bound_elsewhere(self, volume: str, place: Path, table: MountTable) -> list[Mount]:
        """The volume as other pods have it."""
        return [
            mount
            for mount in table.below(self._layout.pods)
            if mount.mount_point.name == volume
            and mount.mount_point.parent.name == place.parent.name
            and mount.mount_point != place
        ]

    def _others(self, volume: str, pod_uid: str) -> list[str]:
        """Other pods that have the volume, or are about to."""
        folders, layout = self._hands.folders, self._layout
        others = (uid for uid in folders.names(layout.pods) if uid != pod_uid)
        return [uid for uid in others if volume in folders.names(layout.volumes(uid, LOCAL))]


def _shows(mount: Mount, source: Source, table: MountTable) -> bool:
    """Whether a bind mount is one of this directory."""
    below = next((one for one in table if one.mount_id == source.mount_id), None)
    if below is None or not source.real_path.is_relative_to(below.mount_point):
        return False
    root = Path(below.root) / source.real_path.relative_to(below.mount_point)
    return mount.device == below.device and Path(mount.root) == root
