"""Devices of volumes mounted on this node, with a file system made where there is none, shown to pods, and taken away.

What a call does is told by the mount table and the device, not by what is remembered, so each can be repeated at any
time and after any crash. Never formatted is what is not blank, and never unmounted what is not the volume's.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from localpv import errors
from localpv.agent.csi.publications import Making, Publications
from localpv.agent.csi.requests import SINGLE_WRITER, Capability
from localpv.agent.csi.volumes import Known
from localpv.csi.status import Code, RpcError
from localpv.disk import identity as identities
from localpv.host import filesystems
from localpv.host.devices import KernelDevices
from localpv.host.filesystems import KernelFileSystems
from localpv.host.model.devices import BlockDevice
from localpv.host.mounter import KernelMounter
from localpv.host.mounts import KernelMounts, Mount
from localpv.host.own_folders import DiskFolders
from localpv.host.workers import Workers

MAX_STACKED: Final = 16
"""Mounts over each other at one place that are taken away."""

BUSY_TRIES: Final = 50
BUSY_SECONDS: Final = 0.1
"""Others look at a device for a moment when something about it has changed, and lock it: udev, a scan."""


@dataclass(frozen=True, slots=True)
class Host:
    """The parts of the machine that volumes are shown with."""

    mounts: KernelMounts
    mounter: KernelMounter
    devices: KernelDevices
    file_systems: KernelFileSystems
    folders: DiskFolders
    workers: Workers


def on_this_machine(workers: Workers) -> Host:
    return Host(
        mounts=KernelMounts(),
        mounter=KernelMounter(workers=workers),
        devices=KernelDevices(workers=workers, loops_seconds=0.0),
        file_systems=KernelFileSystems(workers=workers),
        folders=DiskFolders(),
        workers=workers,
    )


class Staging:
    """Acts on one volume; callers see to it that each has one caller at a time."""

    def __init__(self, *, host: Host, publications: Publications) -> None:
        self._host, self._publications = host, publications

    async def stage(
        self, known: Known, at: Path, capability: Capability, *, fs_type: str, mkfs_options: Sequence[str]
    ) -> None:
        """Have the device there and, unless the device itself is wanted, mounted."""
        host = self._host
        path = await known.pool.attach(known.state.name)
        if capability.block:
            self._publications.forget_making(known.id)
            return
        if (mount := (await host.mounts.table()).at(at)) is not None:
            device = await host.devices.describe(path, exclusive=False)
            if not is_of(mount, device):
                raise RpcError(Code.FAILED_PRECONDITION, f"{at} is taken: {mount.source} is mounted there")
            if capability.fs_type and mount.fs_type != capability.fs_type:
                raise RpcError(Code.ALREADY_EXISTS, f"{known.id} is mounted there as {mount.fs_type}")
            self._publications.forget_making(known.id)
            return

        async def mount_device() -> None:
            device = await host.devices.describe(path)
            if reason := device.in_use_by:
                raise errors.DeviceBusy(f"{device.path} of {known.id} cannot be mounted: {reason}")
            wanted = capability.fs_type or fs_type
            found = await self._file_system(known, device, at, wanted, mkfs_options, read_only=capability.read_only)
            await self._mount(known, device, at, found, capability)

        host.folders.make(at)
        await _patiently(mount_device)
        # What if we die here? The note says "unfinished" about a whole file system. The next call finds it mounted,
        # or mounts it, and only then forgets the note; no pod can have written to it before.
        self._publications.forget_making(known.id)

    async def unstage(self, known: Known | None, volume_id: str, at: Path) -> None:
        await self._take_away(known, volume_id, at, recorded=False)
        if known is not None:
            await _patiently(lambda: known.pool.detach(known.state.name))

    async def publish(
        self, known: Known, staged: Path, target: Path, capability: Capability, *, read_only: bool
    ) -> None:
        """Show a staged volume, or its device, at a place of a pod."""
        host = self._host
        path = await known.pool.attach(known.state.name)
        device = await host.devices.describe(path, exclusive=False)
        table = await host.mounts.table()
        below = table.at(staged)
        if not capability.block and (below is None or not is_of(below, device)):
            raise RpcError(Code.FAILED_PRECONDITION, f"{known.id} is not staged at {staged}")
        if (mount := table.at(target)) is not None:
            if not shows(mount, device):
                raise RpcError(Code.FAILED_PRECONDITION, f"{target} is taken: {mount.source} is mounted there")
            self._publications.add(known.id, target)
            await self._repair(mount, below, target, capability, read_only=read_only)
            return
        if capability.mode == SINGLE_WRITER:
            self._refuse_second(known.id, target, {one.mount_point for one in table})
        # The note comes first: should we die before the mount is there, it is at most one too many.
        self._publications.add(known.id, target)
        if capability.block:
            self._publications.forget_making(known.id)
            host.folders.make(target.parent)
            target.touch(mode=0o640)
            source = device.path
        else:
            host.folders.make(target)
            source = staged
        async with host.mounter.opened(source) as opened:
            await host.mounter.bind(opened, target, read_only=read_only and not capability.block)

    async def unpublish(self, known: Known | None, volume_id: str, target: Path) -> None:
        await self._take_away(known, volume_id, target, recorded=target in self._publications.targets(volume_id))
        self._host.folders.remove_place(target)
        self._publications.drop(volume_id, target)

    async def expand(self, known: Known, at: Path) -> None:
        """Let the file system at a place where the volume is shown become as large as its device."""
        device = await self._device(known)
        mount = (await self._host.mounts.table()).at(at)
        if mount is None or not shows(mount, device):
            raise RpcError(Code.NOT_FOUND, f"{known.id} is not at {at}")
        if is_of(mount, device):
            await self._host.file_systems.grow(device, mount.fs_type, at=at)

    async def shown(self, known: Known, at: Path) -> Mount | None:
        """The mount by which the volume is seen at a place, if it is."""
        mount = (await self._host.mounts.table()).at(at)
        return mount if mount is not None and shows(mount, await self._device(known)) else None

    async def _device(self, known: Known) -> BlockDevice:
        path = await known.pool.attach(known.state.name)
        return await self._host.devices.describe(path, exclusive=False)

    async def _repair(
        self, mount: Mount, below: Mount | None, target: Path, capability: Capability, *, read_only: bool
    ) -> None:
        """What is there already must be what is asked for."""
        if capability.block:
            return
        is_read_only = "ro" in mount.options
        if read_only and not is_read_only:
            await self._host.mounter.make_read_only(target, read_only=True)  # we died between bind and remount
        elif is_read_only and not read_only and below is not None and "ro" not in below.options:
            raise RpcError(Code.ALREADY_EXISTS, f"the volume is at {target} already, read-only")

    def _refuse_second(self, volume_id: str, target: Path, mounted: set[Path]) -> None:
        for other in self._publications.targets(volume_id):
            if other != target and other in mounted:
                raise RpcError(
                    Code.FAILED_PRECONDITION, f"{volume_id} may be used once (ReadWriteOncePod), and is at {other}"
                )

    async def _file_system(
        self, known: Known, device: BlockDevice, at: Path, wanted: str, options: Sequence[str], *, read_only: bool
    ) -> str:
        """The type of the file system on a device, made now if the device is blank."""
        host = self._host
        content = await host.file_systems.content(device)
        note = self._publications.making(known.id)
        if note is not None and not identities.read(note.device).same_device(device.identity, contents=False):
            note = None
        if note is not None and (content.fs_type, content.uuid) == (note.fs_type, note.uuid):
            if not await self._is_whole(device, note.fs_type, at):
                await self._make(known, device, note, options)
            return note.fs_type
        if content.blank or (note is not None and content.other == filesystems.UNKNOWN):
            if read_only or device.read_only:
                raise RpcError(Code.FAILED_PRECONDITION, f"{known.id} has no file system and is to be read only")
            new = note is None
            note = note or Making(
                uuid=str(uuid.uuid4()),
                fs_type=wanted or filesystems.DEFAULT,
                volume=known.id,
                device=identities.written(device.identity),
            )
            if new:
                self._publications.write_making(note)
            await self._make(known, device, note, options, unfinished=not new)
            return note.fs_type
        if content.other:
            raise RpcError(
                Code.FAILED_PRECONDITION,
                f"{known.id} has no file system that can be mounted: it holds {content.other};"
                " nothing is written over it",
            )
        if wanted and content.fs_type != wanted:
            raise RpcError(
                Code.FAILED_PRECONDITION,
                f"{known.id} holds {content.fs_type}, not {wanted} as was asked for; nothing is written over it",
            )
        if content.fs_type not in filesystems.KNOWN:
            raise RpcError(Code.FAILED_PRECONDITION, f"{known.id} holds {content.fs_type}, which pods are not given")
        return content.fs_type

    async def _make(
        self, known: Known, device: BlockDevice, note: Making, options: Sequence[str], *, unfinished: bool = True
    ) -> None:
        await self._host.file_systems.make(device, note.fs_type, uuid=note.uuid, unfinished=unfinished, options=options)

    async def _is_whole(self, device: BlockDevice, fs_type: str, at: Path) -> bool:
        """Whether a file system of ours, which nobody has ever used, was finished before we died."""
        host = self._host
        try:
            await host.file_systems.check(device, fs_type)
            await host.mounter.mount(device.path, at, fs_type=fs_type)
        except errors.HostTimeout:
            raise
        except errors.HostError:
            return False
        await host.mounter.unmount(at)
        return True

    async def _mount(self, known: Known, device: BlockDevice, at: Path, fs_type: str, capability: Capability) -> None:
        host, options = self._host, list(capability.mount_options)
        writable = not capability.read_only and not device.read_only
        copied = bool(known.state.source)
        if copied and fs_type == "xfs":
            options.append("nouuid")  # its source, with the same UUID, may be mounted here as well
        if writable:
            await host.file_systems.check(device, fs_type)
            if copied and fs_type in filesystems.EXT:
                await host.file_systems.grow(device, fs_type, at=None)
        await host.mounter.mount(device.path, at, fs_type=fs_type, options=options)
        mount = (await host.mounts.table()).at(at)
        if mount is None or not is_of(mount, device):
            await host.mounter.unmount(at)
            raise errors.DeviceChanged(f"{device.path} became another device while it was being mounted")
        if copied and writable and fs_type not in filesystems.EXT:
            await host.file_systems.grow(device, fs_type, at=at)  # the volume may be larger than its source

    async def _take_away(self, known: Known | None, volume_id: str, at: Path, *, recorded: bool) -> None:
        """Unmount the volume, and nothing else, from a place."""
        host = self._host
        for _ in range(MAX_STACKED):
            mount = (await host.mounts.table()).at(at)
            if mount is None:
                return
            if not recorded and (known is None or not shows(mount, await self._device(known))):
                raise RpcError(
                    Code.FAILED_PRECONDITION, f"what is mounted at {at} is not {volume_id}: it is left as it is"
                )
            await host.mounter.unmount(at)
        raise RpcError(Code.INTERNAL, f"more than {MAX_STACKED} mounts are at {at}")


async def _patiently(act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do something that may be repeated, again and again while somebody else looks at the device."""
    for left in reversed(range(BUSY_TRIES)):
        try:
            return await act()
        except errors.DeviceBusy:
            if not left:
                raise
            await asyncio.sleep(BUSY_SECONDS)
    return None


def is_of(mount: Mount, device: BlockDevice) -> bool:
    """Whether the file system of a device is mounted there."""
    # Some file systems (btrfs) are not known by the number of their device but name it as their source.
    return mount.device == device.number or (
        not mount.device_node and os.path.realpath(mount.source) == str(device.path)
    )


def shows(mount: Mount, device: BlockDevice) -> bool:
    """Whether a device is seen there, by its file system or as such."""
    return is_of(mount, device) or mount.device_node == device.kernel_name
