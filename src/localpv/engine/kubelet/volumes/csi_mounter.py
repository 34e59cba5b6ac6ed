"""Volumes with a file system that a CSI driver serves: staged once for all pods, published for each, and back.

A pod that has a volume, or is about to, is known by the `vol_data.json` in its folder, which stands there before the
driver hears of the volume and goes after the driver has taken it away. Calls of drivers can be repeated, so whoever
dies in between comes back and calls once more.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet.paths import CSI, Layout
from localpv.engine.kubelet.volumes import csi_request
from localpv.engine.kubelet.volumes.claims import Lookup
from localpv.engine.kubelet.volumes.csi_driver import Drivers, source_of
from localpv.engine.kubelet.volumes.csi_request import EPHEMERAL, PERSISTENT
from localpv.engine.kubelet.volumes.host_parts import HostParts, Operation, Operations, Turns
from localpv.engine.kubelet.volumes.mounter import Group
from localpv.engine.kubelet.volumes.volume_spec import NotReady, Spec

FILE, MOUNT, GLOBAL_MOUNT = "vol_data.json", "mount", "globalmount"


class VolumeData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stands beside a volume, under the names that a kubelet has for it."""

    driver: str = msgspec.field(name="driverName", default="")
    handle: str = msgspec.field(name="volumeHandle", default="")
    name: str = msgspec.field(name="specVolID", default="")
    node: str = msgspec.field(name="nodeName", default="")
    lifecycle: str = msgspec.field(name="volumeLifecycleMode", default="")
    published: bool = False
    """Whether the pod has the volume, its group given too: then nothing is asked of the driver again."""

    @property
    def key(self) -> str:
        return f"{self.driver}^{self.handle}"

    @classmethod
    def of(cls, spec: Spec, *, node: str = "", lifecycle: str = "") -> VolumeData:
        source = source_of(spec)
        return cls(driver=source.driver, handle=source.volume_handle, name=spec.name, node=node, lifecycle=lifecycle)

    @classmethod
    def read(cls, folder: Path, host: HostParts) -> VolumeData | None:
        """What stands in a folder; None also when it cannot be read: it is written in one step, or was never."""
        text = host.folders.read(folder / FILE)
        try:
            found = None if text is None else msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError:
            return None
        return found if found is not None and found.driver and found.handle else None

    def write(self, folder: Path, host: HostParts) -> None:
        host.folders.make(folder)
        host.folders.write(folder / FILE, msgspec.json.encode(self).decode())


class CsiMounter:
    """Mounts volumes of CSI drivers for pods. `offline`: without drivers, by unmounting what they have mounted."""

    def __init__(
        self,
        *,
        layout: Layout,
        host: HostParts,
        drivers: Drivers,
        turns: Turns,
        operations: Operations,
        node: str = "",
        offline: bool = False,
    ) -> None:
        self._layout, self._host, self._drivers, self._turns = layout, host, drivers, turns
        self._operations, self._node, self._offline = operations, node, offline

    def place(self, pod_uid: str, name: str) -> Path:
        """Where the driver publishes a volume for a pod."""
        return self._layout.volume(pod_uid, CSI, name) / MOUNT

    def staging(self, spec: Spec) -> Path:
        source = source_of(spec)
        return self._layout.staged(source.driver, source.volume_handle) / GLOBAL_MOUNT

    async def set_up(
        self, spec: Spec, *, pod: Pod, group: Group | None, lookup: Lookup, lifecycle: str = PERSISTENT
    ) -> Path:
        """Have the volume published in the pod's folder; returns where. What is there already stays as it is."""
        uid, wanted = pod.metadata.uid, VolumeData.of(spec, node=self._node, lifecycle=lifecycle)
        folder, place = self._layout.volume(uid, CSI, spec.name), self.place(uid, spec.name)
        async with self._turns.of(wanted.key):
            known = VolumeData.read(folder, self._host)
            if known is not None and known.key != wanted.key:
                raise NotReady(
                    "VolumeChanged",
                    f"volume {spec.name} is {wanted.key} now, and the pod was given {known.key} before",
                    hint="delete the pod: a new one gets the volume as it is now",
                )
            if known is not None and known.published and (await self._host.mounts.table()).is_mount_point(place):
                return place
            others = self._users(wanted, but=uid)
            spec.refuse_second_pod([other for other, _ in others])
            driver = self._drivers.get(wanted.driver)
            request = await csi_request.build(
                spec, pod, driver, lifecycle=lifecycle, lookup=lookup, group=None if group is None else group.id
            )
            wanted.write(folder, self._host)
            staging = self.staging(spec)
            if request.stages and not any(data.published for _, data in others):
                self._host.folders.make(staging)
                VolumeData(driver=wanted.driver, handle=wanted.handle).write(staging.parent, self._host)
                with self._operations.measured(f"{CSI}:{wanted.driver}", Operation.MOUNT_DEVICE):
                    await driver.stage(request, staging)
            await driver.publish(request, place, staged=staging)
            if group is not None and request.gives_group:
                await self._host.ownership.give(place, group=group.id, unless_root_has_it=group.unless_root_has_it)
            msgspec.structs.replace(wanted, published=True).write(folder, self._host)
            return place

    async def tear_down(self, name: str, *, pod_uid: str) -> None:
        """Have the volume taken out of the pod's folder; with the last pod it is unstaged."""
        folder, place = self._layout.volume(pod_uid, CSI, name), self.place(pod_uid, name)
        data = VolumeData.read(folder, self._host)
        if data is None:
            # Nobody has told the driver yet, or it was through with everything.
            return await self._clear(folder, place)
        async with self._turns.of(data.key):
            if not self._offline:
                await self._drivers.get(data.driver).unpublish(data.handle, place)
                await self._host.refuse_mounted(place)
            else:
                await self._host.unmount_all(place)
            if data.lifecycle != EPHEMERAL and not self._users(data, but=pod_uid):
                with self._operations.measured(f"{CSI}:{data.driver}", Operation.UNMOUNT_DEVICE):
                    await self._unstage(self._layout.staged(data.driver, data.handle), data)
            # Last: as long as it is there, somebody comes back to finish this.
            await self._clear(folder, place)

    async def sweep(self, driver: str) -> None:
        """Unstage what no pod has: left by a machine that was shut down without its drivers."""
        for name in self._host.folders.names(self._layout.csi / driver):
            folder = self._layout.csi / driver / name
            if (data := VolumeData.read(folder, self._host)) is None or data.driver != driver:
                continue
            async with self._turns.of(data.key):
                if not self._users(data):
                    await self._unstage(folder, data)

    def mounted(self, pod_uid: str) -> frozenset[str]:
        """Volumes that a pod has."""
        folder = self._layout.volumes(pod_uid, CSI)
        names = self._host.folders.names(folder)
        found = ((name, VolumeData.read(folder / name, self._host)) for name in names)
        return frozenset(name for name, data in found if data is not None and data.published)

    async def _unstage(self, folder: Path, data: VolumeData) -> None:
        at, folders = folder / GLOBAL_MOUNT, self._host.folders
        if self._offline:
            # The driver hears of it when it is there again: what it holds beside the mount is its own to know.
            return await self._host.unmount_all(at)
        if VolumeData.read(folder, self._host) is not None:
            await self._drivers.get(data.driver).unstage(data.handle, at)
        await self._host.refuse_mounted(at)
        folders.remove(at)
        folders.unlink(folder / FILE)
        folders.remove(folder, of_links=True)

    async def _clear(self, folder: Path, place: Path) -> None:
        await self._host.unmount_all(place)
        folders = self._host.folders
        folders.remove_place(place)
        folders.unlink(folder / FILE)
        folders.remove(folder, of_links=True)

    def _users(self, data: VolumeData, *, but: str = "") -> list[tuple[str, VolumeData]]:
        """Pods that have a volume, or are about to."""
        folders, layout = self._host.folders, self._layout
        return [
            (uid, found)
            for uid in folders.names(layout.pods)
            if uid != but
            for name in folders.names(layout.volumes(uid, CSI))
            if (found := VolumeData.read(layout.volume(uid, CSI, name), self._host)) and found.key == data.key
        ]
