"""Volumes with a file system: a directory, a mount point or a device becomes a folder of the pod, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localpv.host.mounting import Source
from localpv.lifecycle.mount import recorded as records
from localpv.lifecycle.mount.global_mounts import GlobalMounts
from localpv.lifecycle.mount.hands import Hands, Turns
from localpv.lifecycle.mount.layout import LOCAL, Layout
from localpv.lifecycle.mount.specs import Spec
from localpv.lifecycle.mount.waiting import NotReady
from localpv.model.entries import FileKind
from localpv.model.identity import Identity


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

    def __init__(self, *, layout: Layout, hands: Hands, turns: Turns) -> None:
        self._layout, self._hands, self._turns = layout, hands, turns
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
            async with hands.mounting.opened(Path(spec.path)) as source:
                if source.kind is FileKind.BLOCK_DEVICE:
                    # The folder comes first: it is what says that this pod uses the volume. Should we die from here
                    # on, tearing down the pod finds it and takes away whatever there is by then.
                    hands.folders.make(place)
                    at = await self._global.set_up(spec, source.real_path, recorded=recorded)
                    async with hands.mounting.opened(at) as mounted:
                        await self._bind(spec, mounted, place, group, warn)
                    return place
                if source.kind is not FileKind.DIRECTORY:
                    raise NotReady(
                        "WrongKind",
                        f"{spec.path} of volume {spec.name} is neither a directory nor a block device",
                        hint="correct spec.local.path, or put the directory there",
                    )
                table = await hands.mounts.table()
                await records.refuse_another_directory(recorded, source, spec, table=table, devices=self._hands.devices)
                hands.folders.make(place)
                await self._bind(spec, source, place, group, warn)
                return place

    async def tear_down(self, volume: str, *, pod_uid: str) -> None:
        """Take the volume out of the pod's folder; the last pod takes the device's mount along."""
        place = self._layout.volume(pod_uid, LOCAL, volume)
        async with self._turns.of(volume):
            await self._hands.unmount_all(place)
            if not self._others(volume, pod_uid):
                await self._global.tear_down(volume)
            # Last: as long as it is there, somebody comes back to finish this.
            self._hands.folders.remove(place)

    async def _bind(self, spec: Spec, source: Source, place: Path, group: Group | None, warn: Warn) -> None:
        # The group first: a volume that is bound is finished, and is not looked through again.
        if group is not None and not spec.read_only:
            if await self._is_bound_elsewhere(spec.name, place):
                if source.gid != group.id:
                    warn(
                        "AlreadyMountedVolume",
                        f"The requested fsGroup is {group.id}, but the volume {spec.name} has GID {source.gid}."
                        " The volume may not be shareable.",
                    )
            else:
                await self._hands.ownership.give(
                    source.real_path, group=group.id, unless_root_has_it=group.unless_root_has_it
                )
        await self._hands.mounting.bind(source, place, read_only=spec.read_only, options=spec.mount_options)

    async def _is_bound_elsewhere(self, volume: str, place: Path) -> bool:
        """Whether another pod works in the volume: then its files are not given to another group under its feet."""
        kind = place.parent.name
        table = await self._hands.mounts.table()
        return any(
            mount.mount_point != place and mount.mount_point.name == volume and mount.mount_point.parent.name == kind
            for mount in table.below(self._layout.pods)
        )

    def _others(self, volume: str, pod_uid: str) -> bool:
        """Whether another pod has the volume, or is about to."""
        folders, layout = self._hands.folders, self._layout
        return any(
            volume in folders.names(layout.volumes(uid, LOCAL)) for uid in folders.names(layout.pods) if uid != pod_uid
        )
