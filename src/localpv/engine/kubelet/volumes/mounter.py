"""Volumes with a file system: a directory, a mount point or a device becomes a folder of the pod, and back.

A block device with a file system is mounted once for all pods that use it. Before a file system is made, its UUID and
the device are written down; the note goes when the file system is mounted for the first time, before any pod sees it.
So a note means: on this device is, at most, an unfinished file system of ours.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from localpv import errors
from localpv.api.kinds.localdisk import DiskIdentity
from localpv.disk import identity as identities
from localpv.engine.kubelet.paths import LOCAL, Layout
from localpv.engine.kubelet.volumes import identity_check as records
from localpv.engine.kubelet.volumes.host_parts import HostParts, Operation, Operations, Turns
from localpv.engine.kubelet.volumes.volume_spec import NotReady, Spec
from localpv.host import filesystems
from localpv.host.folders import FileKind
from localpv.host.marks import Mark
from localpv.host.model.devices import BlockDevice
from localpv.host.model.identity import Identity
from localpv.host.mounter import Source
from localpv.host.mounts import Mount, MountTable

Warn = Callable[[str, str], None]
"""Told a reason and a sentence that people should see, though the pod goes on."""


class Making(msgspec.Struct, frozen=True, kw_only=True):
    """The note about a file system that is being made."""

    uuid: str
    fs_type: str
    volume_uid: str
    device: DiskIdentity


class GlobalMounts:
    """Mounts of devices; callers see to it that each volume has one caller at a time."""

    def __init__(self, *, layout: Layout, host: HostParts) -> None:
        self._layout, self._host = layout, host

    async def set_up(self, spec: Spec, device_path: Path, *, recorded: Identity | None) -> Path:
        """Mount the device of a volume, with a new file system if it is blank; returns where."""
        host, at = self._host, self._layout.global_mount(spec.name)
        if mount := (await host.mounts.table()).at(at):
            device = await host.devices.describe(device_path, exclusive=False)
            if not _is_of(mount, device):
                raise NotReady(
                    "DeviceChanged",
                    f"{spec.path} is {device.path} now, but pods still use volume {spec.name} on {mount.source}",
                    hint="delete the pods that use it, then the right disk is mounted",
                )
            self._forget_note(spec)
            return at
        device = await host.devices.describe(device_path)
        records.refuse_another_device(recorded, device.identity, spec)
        if reason := device.in_use_by:
            raise NotReady(
                "DeviceBusy",
                f"{device.path} of volume {spec.name} cannot be mounted: {reason}",
                hint="it is tried again by itself",
            )
        host.folders.make(at)
        fs_type = await self._file_system(spec, device, at)
        if not _wants_read_only(spec):
            await host.file_systems.check(device, fs_type)
        await host.mounter.mount(device.path, at, fs_type=fs_type, options=spec.mount_options)
        mount = (await host.mounts.table()).at(at)
        if mount is None or not _is_of(mount, device):
            await host.unmount_all(at)
            raise errors.DeviceChanged(f"{device.path} became another disk while it was being mounted")
        # What if we die here? The note says "unfinished" about a whole file system. The next call finds it mounted,
        # or mounts it, and only then forgets the note; no pod can have written to it before.
        self._forget_note(spec)
        return at

    async def tear_down(self, volume: str) -> None:
        """Unmount the device of a volume that no pod uses any more."""
        at = self._layout.global_mount(volume)
        await self._host.unmount_all(at)
        self._host.folders.remove(at)

    async def _file_system(self, spec: Spec, device: BlockDevice, at: Path) -> str:
        """The type of the file system on a device, made now if the device is blank."""
        content = await self._host.file_systems.content(device)
        note = self._note(spec, device)
        if note is not None and (content.fs_type, content.uuid) == (note.fs_type, note.uuid):
            if not await self._is_whole(device, note.fs_type, at):
                await self._make(spec, device, note)
            return note.fs_type
        if content.blank or (note is not None and content.other == filesystems.UNKNOWN):
            return await self._make(spec, device, note)
        if content.other:
            raise NotReady(
                "NotBlank",
                f"{device.path} of volume {spec.name} has no file system that can be mounted: it holds {content.other}",
                hint="nothing is written over it; wipe the device if its content is not needed",
            )
        if spec.fs_type and content.fs_type != spec.fs_type:
            raise NotReady(
                "WrongFileSystem",
                f"{device.path} of volume {spec.name} holds {content.fs_type}, not {spec.fs_type} as the volume says",
                hint="nothing is written over it; correct fsType, or wipe the device if its content is not needed",
            )
        if content.fs_type not in filesystems.KNOWN:
            raise NotReady(
                "WrongFileSystem",
                f"{device.path} of volume {spec.name} holds {content.fs_type}, which pods are not given",
                hint=f"use one of {', '.join(filesystems.KNOWN)}",
            )
        return content.fs_type

    async def _make(self, spec: Spec, device: BlockDevice, note: Making | None) -> str:
        if device.read_only or _wants_read_only(spec):
            raise NotReady(
                "NotBlank",
                f"{device.path} of volume {spec.name} is read-only and has no file system",
                hint="make the file system by hand, or let the device be written",
            )
        unfinished = note is not None
        if note is None:
            note = Making(
                uuid=str(uuid.uuid4()),
                fs_type=spec.fs_type or filesystems.DEFAULT,
                volume_uid=spec.uid,
                device=identities.written(device.identity),
            )
            filesystems.making(device.path, note.fs_type, uuid=note.uuid, force=False)
            path = self._layout.making(spec.name)
            self._host.folders.make(path.parent)
            self._host.folders.write(path, msgspec.json.encode(note).decode())
        await self._host.file_systems.make(device, note.fs_type, uuid=note.uuid, unfinished=unfinished)
        return note.fs_type

    async def _is_whole(self, device: BlockDevice, fs_type: str, at: Path) -> bool:
        """Whether a file system of ours, which nobody has ever used, was finished before we died."""
        try:
            await self._host.file_systems.check(device, fs_type)
            await self._host.mounter.mount(device.path, at, fs_type=fs_type)
        except errors.HostTimeout:
            raise
        except errors.HostError:
            return False
        finally:
            await self._host.unmount_all(at)
        return True

    def _note(self, spec: Spec, device: BlockDevice) -> Making | None:
        """The note about this volume, if it is about this very device."""
        text = self._host.folders.read(self._layout.making(spec.name))
        if text is None:
            return None
        try:
            note = msgspec.json.decode(text, type=Making)
        except msgspec.DecodeError:
            return None
        same = identities.read(note.device).same_device(device.identity, contents=False)
        return note if same and note.volume_uid == spec.uid else None

    def _forget_note(self, spec: Spec) -> None:
        # Also after a power failure it must stay forgotten: from now on there is somebody's data.
        self._host.folders.unlink(self._layout.making(spec.name), lasting=True)


def _wants_read_only(spec: Spec) -> bool:
    return "ro" in spec.mount_options


def _is_of(mount: Mount, device: BlockDevice) -> bool:
    # Some file systems (btrfs) are not known by the number of their device but name it as their source.
    return mount.device == device.number or os.path.realpath(mount.source) == str(device.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The group that a pod wants its volumes to belong to."""

    id: int
    unless_root_has_it: bool = False
    """fsGroupChangePolicy OnRootMismatch."""


class VolumeMounter:
    """Mounts local volumes for pods."""

    def __init__(self, *, layout: Layout, host: HostParts, turns: Turns, operations: Operations) -> None:
        self._layout, self._host, self._turns, self._operations = layout, host, turns, operations
        self._global = GlobalMounts(layout=layout, host=host)

    async def set_up(
        self, spec: Spec, *, pod_uid: str, recorded: Identity | None, group: Group | None, warn: Warn
    ) -> Path:
        """Show the volume in the pod's folder; returns where. What is there already stays as it is."""
        host, place = self._host, self._layout.volume(pod_uid, LOCAL, spec.name)
        async with self._turns.of(spec.name):
            if mount := (await host.mounts.table()).at(place):
                if mount.read_only < spec.read_only:
                    await host.mounter.make_read_only(place, read_only=True)  # died between bind and remount
                return place
            spec.refuse_second_pod(self._others(spec.name, pod_uid))
            async with host.mounter.opened(Path(spec.path)) as source:
                table = await host.mounts.table()
                if source.kind is FileKind.BLOCK_DEVICE:
                    self._refuse_second_source(spec, source, place, table)
                    # The folder comes first: it is what says that this pod uses the volume. Should we die from here
                    # on, tearing down the pod finds it and takes away whatever there is by then.
                    host.folders.make(place)
                    if recorded is not None and not spec.read_only:
                        # The file system carries a mark too, but another one may be made on the device.
                        mark = Mark(volume=spec.name, uid=spec.uid, entry=Path(spec.path).name, identity=recorded)
                        await host.marks.mark_device(Path(spec.path), mark)
                    with self._operations.measured(LOCAL, Operation.MOUNT_DEVICE):
                        at = await self._global.set_up(spec, source.real_path, recorded=recorded)
                    async with host.mounter.opened(at) as mounted:
                        await self._mark(spec, mounted, recorded, warn)
                        await self._bind(spec, mounted, place, group, warn)
                    return place
                if source.kind is not FileKind.DIRECTORY:
                    raise NotReady(
                        "WrongKind",
                        f"{spec.path} of volume {spec.name} is neither a directory nor a block device",
                        hint="correct spec.local.path, or put the directory there",
                    )
                await records.refuse_another_directory(recorded, source, spec, table=table, devices=self._host.devices)
                self._refuse_second_source(spec, source, place, table)
                host.folders.make(place)
                await self._mark(spec, source, recorded, warn)
                await self._bind(spec, source, place, group, warn)
                return place

    async def tear_down(self, volume: str, *, pod_uid: str) -> None:
        """Take the volume out of the pod's folder; the last pod takes the device's mount along."""
        place = self._layout.volume(pod_uid, LOCAL, volume)
        async with self._turns.of(volume):
            await self._host.unmount_all(place)
            if volume in self._host.folders.names(self._layout.global_mounts) and not self._others(volume, pod_uid):
                with self._operations.measured(LOCAL, Operation.UNMOUNT_DEVICE):
                    await self._global.tear_down(volume)
            # Last: as long as it is there, somebody comes back to finish this.
            self._host.folders.remove(place)

    async def mounted(self, pod_uid: str) -> frozenset[str]:
        """Volumes that a pod has."""
        folder, table = self._layout.volumes(pod_uid, LOCAL), await self._host.mounts.table()
        return frozenset(name for name in self._host.folders.names(folder) if table.is_mount_point(folder / name))

    async def _mark(self, spec: Spec, source: Source, recorded: Identity | None, warn: Warn) -> None:
        """Before a tenant can write: should all records be lost, the disk itself says that it is not clean."""
        if recorded is None or spec.read_only:
            return  # nobody offers it again by itself, or nobody writes there
        if not await self._host.marks.mark_directory(source.own_path, Mark(volume=spec.name, uid=spec.uid)):
            warn(
                "VolumeNotMarked",
                f"The file system of volume {spec.name} has no extended attributes; after a loss of localpv's data"
                " folder only its files would tell that it was in use.",
            )

    async def _bind(self, spec: Spec, source: Source, place: Path, group: Group | None, warn: Warn) -> None:
        # The group first: a volume that is bound is finished, and is not looked through again.
        if group is not None and not spec.read_only:
            # While another pod works in it, its files are not given to another group under its feet.
            if self._bound_elsewhere(spec.name, place, await self._host.mounts.table()):
                if source.gid != group.id:
                    warn(
                        "AlreadyMountedVolume",
                        f"The pod asks for fsGroup {group.id}, but other pods use volume {spec.name} with group"
                        f" {source.gid}; it may not be able to write there.",
                    )
            else:
                await self._host.ownership.give(
                    source.real_path, group=group.id, unless_root_has_it=group.unless_root_has_it
                )
        await self._host.mounter.bind(source, place, read_only=spec.read_only, options=spec.mount_options)

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
        folders, layout = self._host.folders, self._layout
        others = (uid for uid in folders.names(layout.pods) if uid != pod_uid)
        return [uid for uid in others if volume in folders.names(layout.volumes(uid, LOCAL))]


def _shows(mount: Mount, source: Source, table: MountTable) -> bool:
    """Whether a bind mount is one of this directory."""
    below = next((one for one in table if one.mount_id == source.mount_id), None)
    if below is None or not source.real_path.is_relative_to(below.mount_point):
        return False
    root = Path(below.root) / source.real_path.relative_to(below.mount_point)
    return mount.device == below.device and Path(mount.root) == root
