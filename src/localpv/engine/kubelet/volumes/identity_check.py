"""Is it still the disk that was published? What stands on the PersistentVolume, compared with what is there now.

A volume that somebody wrote by hand says nothing about its disk; then nothing is compared.
"""

from __future__ import annotations

import msgspec

from localpv.api.kinds.localdisk import DiskIdentity
from localpv.api.kinds.volumes import PersistentVolume
from localpv.disk import identity as identities
from localpv.disk import labels
from localpv.engine.kubelet.volumes.volume_spec import NotReady, Spec
from localpv.host.devices import Devices
from localpv.host.model.identity import Identity, way_out
from localpv.host.mounter import Source
from localpv.host.mounts import Mount, MountTable


def identity_of(volume: PersistentVolume) -> Identity | None:
    """What was recorded with a volume; None when nothing was."""
    text = volume.metadata.annotations.get(labels.IDENTITY)
    if not text:
        return None
    try:
        return identities.read(msgspec.json.decode(text, type=DiskIdentity))
    except msgspec.DecodeError as error:
        raise NotReady(
            "InvalidIdentity",
            f"the annotation {labels.IDENTITY} of volume {volume.metadata.name} cannot be read: {error}",
            hint="remove the annotation if the path of the volume is right",
        ) from error


def refuse_another_device(recorded: Identity | None, now: Identity, spec: Spec) -> None:
    """NotReady when another disk is at the path. What is written on it counts for nothing: the pod's data is."""
    if recorded is not None and not recorded.same_device(now, contents=False):
        raise _another(recorded, now, spec, contents=False)


async def refuse_another_directory(
    recorded: Identity | None, source: Source, spec: Spec, *, table: MountTable, devices: Devices
) -> None:
    """NotReady when a mount point is not mounted, a directory hidden below a mount, or its file system another one."""
    if recorded is None:
        return
    mount = _mount(table, source)
    is_mount_point = mount is not None and mount.mount_point == source.real_path
    was_mount_point = recorded.mount_id > 0
    if was_mount_point and not is_mount_point:
        # Below it lies the machine's own disk: the pod would fill that, and its data would be somewhere else.
        raise NotReady(
            "NotMounted",
            f"{spec.path} of volume {spec.name} was published as a mount point, and nothing is mounted there now",
            hint="mount its file system again",
        )
    if is_mount_point and not was_mount_point:
        raise NotReady(
            "MountedOver",
            f"{spec.path} of volume {spec.name} was published as a plain directory, and now something is mounted there",
            hint=f"unmount {spec.path}",
        )
    if mount is None:
        return
    now = await devices.behind(mount)
    if not (is_mount_point and mount.root == "/"):
        # A part of a file system is known by its own inode, as discovery recorded it.
        now = now.of_directory(await devices.directory(source.own_path, mount))
    if not recorded.same_device(now):
        raise _another(recorded, now, spec, contents=True)


def _mount(table: MountTable, source: Source) -> Mount | None:
    return next((mount for mount in table if mount.mount_id == source.mount_id), None)


def _another(recorded: Identity, now: Identity, spec: Spec, *, contents: bool) -> NotReady:
    found = recorded.mismatches(now, contents=contents)
    return NotReady(
        "DeviceChanged",
        f"{spec.path} is not the disk that volume {spec.name} was published for: {'; '.join(map(str, found))}",
        hint=way_out(found),
        event=spec.event,
    )
