"""Raw block volumes: links that say which pod has which device, and a hold on the device itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from localpv.engine.kubelet.paths import LOCAL, Layout
from localpv.engine.kubelet.volumes import identity_check as records
from localpv.engine.kubelet.volumes.host_parts import HostParts, Operation, Operations, Turns
from localpv.engine.kubelet.volumes.volume_spec import FAILED_MAP, NotReady, Spec
from localpv.host.folders import FileKind
from localpv.host.marks import Mark
from localpv.host.model.devices import BlockDevice, DeviceNumber
from localpv.host.model.identity import Identity


class Mapper:
    """Maps the devices of local volumes for pods."""

    def __init__(self, *, layout: Layout, host: HostParts, turns: Turns, operations: Operations) -> None:
        self._layout, self._host, self._turns, self._operations = layout, host, turns, operations

    async def map(self, spec: Spec, *, pod_uid: str, recorded: Identity | None) -> tuple[Path, DeviceNumber]:
        """Give the pod its link to the device; returns it, and the numbers that are held for it."""
        layout, folders = self._layout, self._host.folders
        link = layout.devices(pod_uid) / spec.name
        async with self._turns.of(spec.name):
            users = folders.names(layout.global_map(spec.name))
            if pod_uid not in users:
                spec.refuse_second_pod(users)
            device = await self._device(spec, recorded)
            if recorded is not None and spec.access != "r":
                # Before a tenant can write: should all records be lost, this says that the device is not clean.
                path = Path(spec.path)
                mark = Mark(
                    volume=spec.name, uid=spec.uid, entry=path.name, identity=replace(device.identity, twins=())
                )
                await self._host.marks.mark_device(path, mark)
            # The global link comes first: it counts this pod as a user, so nobody lets go of the device meanwhile,
            # and tearing down finds it should we die before the other one is there.
            folders.make(layout.global_map(spec.name))
            folders.link(layout.global_map(spec.name) / pod_uid, device.path)
            await self._host.holders.hold(device.path, device.number, name=layout.lock_name(spec.name))
            folders.make(link.parent)
            folders.link(link, device.path)
            return link, device.number

    async def unmap(self, volume: str, *, pod_uid: str) -> None:
        """Take the links away; with the last one the device is let go."""
        layout, folders = self._layout, self._host.folders
        async with self._turns.of(volume):
            folders.unlink(layout.global_map(volume) / pod_uid)
            await self._let_go(volume)
            # Last: as long as it is there, somebody comes back to finish this.
            folders.unlink(layout.devices(pod_uid) / volume)

    async def tidy(self) -> None:
        """Take away folders without a link: whoever made one died before the link was there."""
        folders, layout = self._host.folders, self._layout
        for volume in folders.names(layout.global_maps):
            if not folders.names(layout.global_map(volume)):  # looked at before waiting: others may hang on their disk
                async with self._turns.of(volume):
                    await self._let_go(volume)

    async def _let_go(self, volume: str) -> None:
        links = self._layout.global_map(volume)
        if not self._host.folders.names(links):
            with self._operations.measured(LOCAL, Operation.UNMAP_DEVICE):
                await self._host.holders.release(self._layout.lock_name(volume))
                self._host.folders.remove(links, of_links=True)

    def mapped(self, pod_uid: str) -> frozenset[str]:
        """Volumes of which a pod has a link, the one or the other."""
        layout, folders = self._layout, self._host.folders
        global_links = (
            volume
            for volume in folders.names(layout.global_maps)
            if pod_uid in folders.names(layout.global_map(volume))
        )
        return frozenset((*folders.names(layout.devices(pod_uid)), *global_links))

    async def _device(self, spec: Spec, recorded: Identity | None) -> BlockDevice:
        host = self._host
        async with host.mounter.opened(Path(spec.path)) as source:
            if source.kind is not FileKind.BLOCK_DEVICE:
                raise NotReady(
                    "NotABlockDevice",
                    f"{spec.path} of volume {spec.name} is no block device",
                    hint="put the device there, or use volumeMode Filesystem",
                    event=FAILED_MAP,
                )
            held = await host.holders.held(self._layout.lock_name(spec.name))
            # Once a pod has it, that pod may have claimed it, which is its right; the second pod is not refused.
            device = await host.devices.describe(source.real_path, exclusive=held is None)
        if held is not None and held != device.number:
            raise NotReady(
                "DeviceChanged",
                f"{spec.path} is device {device.number} now, but pods still use volume {spec.name} on {held}",
                hint="put the disk back, or delete the pods that use it",
                event=FAILED_MAP,
            )
        records.refuse_another_device(recorded, device.identity, spec)
        if held is None and (reason := device.in_use_by):
            raise NotReady(
                "DeviceBusy",
                f"{device.path} of volume {spec.name} cannot be given to a pod: {reason}",
                hint="it is tried again by itself",
                event=FAILED_MAP,
            )
        return device
