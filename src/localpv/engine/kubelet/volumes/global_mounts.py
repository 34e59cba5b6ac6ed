"""A block device with a file system, mounted once for all pods that use it.

Before a file system is made, its UUID and the device are written down; the note goes when the file system is mounted
for the first time, before any pod sees it. So a note means: on this device is, at most, an unfinished file system of
ours.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import msgspec

from localpv import errors
from localpv.api.kinds.localdisk import DiskIdentity
from localpv.disk import identity as identities
from localpv.engine.kubelet.volumes import identity_check as records
from localpv.engine.kubelet.volumes.host_parts import Hands
from localpv.engine.kubelet.volumes.paths import Layout
from localpv.engine.kubelet.volumes.results import NotReady
from localpv.engine.kubelet.volumes.volume_spec import Spec
from localpv.host import filesystems
from localpv.host.model.devices import BlockDevice
from localpv.host.model.identity import Identity
from localpv.host.mounts import Mount


class Making(msgspec.Struct, frozen=True, kw_only=True):
    """The note about a file system that is being made."""

    uuid: str
    fs_type: str
    volume_uid: str
    device: DiskIdentity


class GlobalMounts:
    """Mounts of devices; callers see to it that each volume has one caller at a time."""

    def __init__(self, *, layout: Layout, hands: Hands) -> None:
        self._layout, self._hands = layout, hands

    async def set_up(self, spec: Spec, device_path: Path, *, recorded: Identity | None) -> Path:
        """Mount the device of a volume, with a new file system if it is blank; returns where."""
        hands, at = self._hands, self._layout.global_mount(spec.name)
        if mount := (await hands.mounts.table()).at(at):
            device = await hands.devices.describe(device_path, exclusive=False)
            if not _is_of(mount, device):
                raise NotReady(
                    "DeviceChanged",
                    f"{spec.path} is {device.path} now, but pods still use volume {spec.name} on {mount.source}",
                    hint="delete the pods that use it, then the right disk is mounted",
                )
            self._forget_note(spec)
            return at
        device = await hands.devices.describe(device_path)
        records.refuse_another_device(recorded, device.identity, spec)
        if reason := device.in_use_by:
            raise NotReady(
                "DeviceBusy",
                f"{device.path} of volume {spec.name} cannot be mounted: {reason}",
                hint="it is tried again by itself",
            )
        hands.folders.make(at)
        fs_type = await self._file_system(spec, device, at)
        if not _wants_read_only(spec):
            await hands.file_systems.check(device, fs_type)
        await hands.mounting.mount(device.path, at, fs_type=fs_type, options=spec.mount_options)
        mount = (await hands.mounts.table()).at(at)
        if mount is None or not _is_of(mount, device):
            await hands.unmount_all(at)
            raise errors.DeviceChanged(f"{device.path} became another disk while it was being mounted")
        # What if we die here? The note says "unfinished" about a whole file system. The next call finds it mounted,
        # or mounts it, and only then forgets the note; no pod can have written to it before.
        self._forget_note(spec)
        return at

    async def tear_down(self, volume: str) -> None:
        """Unmount the device of a volume that no pod uses any more."""
        at = self._layout.global_mount(volume)
        await self._hands.unmount_all(at)
        self._hands.folders.remove(at)

    async def _file_system(self, spec: Spec, device: BlockDevice, at: Path) -> str:
        """The type of the file system on a device, made now if the device is blank."""
        content = await self._hands.file_systems.content(device)
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
            self._hands.folders.make(path.parent)
            self._hands.folders.write(path, msgspec.json.encode(note).decode())
        await self._hands.file_systems.make(device, note.fs_type, uuid=note.uuid, unfinished=unfinished)
        return note.fs_type

    async def _is_whole(self, device: BlockDevice, fs_type: str, at: Path) -> bool:
        """Whether a file system of ours, which nobody has ever used, was finished before we died."""
        try:
            await self._hands.file_systems.check(device, fs_type)
            await self._hands.mounting.mount(device.path, at, fs_type=fs_type)
        except errors.HostTimeout:
            raise
        except errors.HostError:
            return False
        finally:
            await self._hands.unmount_all(at)
        return True

    def _note(self, spec: Spec, device: BlockDevice) -> Making | None:
        """The note about this volume, if it is about this very device."""
        text = self._hands.folders.read(self._layout.making(spec.name))
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
        self._hands.folders.unlink(self._layout.making(spec.name), lasting=True)


def _wants_read_only(spec: Spec) -> bool:
    return "ro" in spec.mount_options


def _is_of(mount: Mount, device: BlockDevice) -> bool:
    # Some file systems (btrfs) are not known by the number of their device but name it as their source.
    return mount.device == device.number or os.path.realpath(mount.source) == str(device.path)
