"""Raw devices that a CSI driver serves: staged once for all pods, published for each, and back.

The link in the folder of the volume counts a pod as its user. It leads to where the driver publishes the device, stands
there before the driver hears of the volume, and goes after the driver has taken it away.
"""

from __future__ import annotations

from pathlib import Path

from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet.paths import CSI, Layout, plain
from localpv.engine.kubelet.volumes import csi_request
from localpv.engine.kubelet.volumes.claims import Lookup
from localpv.engine.kubelet.volumes.csi_driver import Drivers
from localpv.engine.kubelet.volumes.csi_mounter import FILE, VolumeData
from localpv.engine.kubelet.volumes.csi_request import PERSISTENT
from localpv.engine.kubelet.volumes.host_parts import HostParts, Operation, Operations, Turns
from localpv.engine.kubelet.volumes.volume_spec import FAILED_MAP, NotReady, Spec
from localpv.host.folders import FileKind
from localpv.host.model.devices import DeviceNumber

STAGING, PUBLISH, USERS, DATA = "staging", "publish", "dev", "data"
TAKEN = (STAGING, PUBLISH)
"""Folders beside those of volumes, so no volume can have their names."""


class CsiMapper:
    """Maps devices of CSI drivers for pods. `offline`: without drivers, by unmounting what they have published."""

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
        """Where the driver publishes a device for a pod."""
        return self._layout.csi_devices / PUBLISH / plain(name) / plain(pod_uid)

    def staging(self, name: str) -> Path:
        return self._layout.csi_devices / STAGING / plain(name)

    async def map(self, spec: Spec, *, pod: Pod, lookup: Lookup) -> tuple[Path, DeviceNumber]:
        """Have the device published, and give the pod its link to it; returns that, and the device's numbers."""
        uid, folders = pod.metadata.uid, self._host.folders
        if spec.name in TAKEN:
            raise NotReady("InvalidName", f"a raw volume cannot have the name {spec.name}", event=FAILED_MAP)
        wanted = VolumeData.of(spec, node=self._node, lifecycle=PERSISTENT)
        link, place = self._layout.devices(uid, CSI) / plain(spec.name), self.place(uid, spec.name)
        async with self._turns.of(wanted.key):
            known = VolumeData.read(self._data(spec.name), self._host)
            if known is not None and known.key != wanted.key:
                raise NotReady(
                    "VolumeChanged",
                    f"volume {spec.name} is {wanted.key} now, and pods still have {known.key} under that name",
                    hint="delete the pods that use it",
                    event=FAILED_MAP,
                )
            if folders.target(link) == place and (number := await self._number(place)) is not None:
                return link, number
            others = [user for user in folders.names(self._users(spec.name)) if user != uid]
            spec.refuse_second_pod(others)
            driver = self._drivers.get(wanted.driver)
            request = await csi_request.build(spec, pod, driver, lifecycle=PERSISTENT, lookup=lookup)
            folders.make(self._users(spec.name))
            folders.link(self._users(spec.name) / uid, place)
            wanted.write(self._data(spec.name), self._host)
            staging = self.staging(spec.name)
            if request.stages:
                folders.make(staging)
                await driver.stage(request, staging)
            folders.make(place.parent)
            await driver.publish(request, place, staged=staging)
            number = await self._number(place)
            if number is None:
                raise NotReady(
                    "NotABlockDevice",
                    f"volume {spec.name}: what the CSI driver {driver.name} has published is no block device",
                    hint="see the log of the driver",
                    event=FAILED_MAP,
                )
            folders.make(link.parent)
            folders.link(link, place)  # last: it says that the pod has everything
            return link, number

    async def unmap(self, name: str, *, pod_uid: str) -> None:
        """Have the device taken away from the pod; with the last pod it is unstaged."""
        folders, link = self._host.folders, self._layout.devices(pod_uid, CSI) / plain(name)
        data = VolumeData.read(self._data(name), self._host)
        if data is None:
            # Nobody has told the driver yet, or it was through with everything.
            folders.unlink(self._users(name) / pod_uid)
            self._tidy(name)
            return folders.unlink(link)
        async with self._turns.of(data.key):
            place = self.place(pod_uid, name)
            if not self._offline:
                await self._drivers.get(data.driver).unpublish(data.handle, place)
                await self._host.refuse_mounted(place)
            else:
                await self._host.unmount_all(place)
            folders.remove_place(place)
            if not [user for user in folders.names(self._users(name)) if user != pod_uid]:
                with self._operations.measured(f"{CSI}:{data.driver}", Operation.UNMAP_DEVICE):
                    await self._unstage(name, data)
            folders.unlink(self._users(name) / pod_uid)
            self._tidy(name)
            # Last: as long as it is there, somebody comes back to finish this.
            folders.unlink(link)

    async def sweep(self, driver: str) -> None:
        """Unstage what no pod has: left by a machine that was shut down without its drivers."""
        for name in self._volumes():
            data = VolumeData.read(self._data(name), self._host)
            if data is None or data.driver != driver:
                continue
            async with self._turns.of(data.key):
                if not self._host.folders.names(self._users(name)):
                    await self._unstage(name, data)
                    self._tidy(name)

    def mapped(self, pod_uid: str) -> frozenset[str]:
        """Volumes of which a pod has a link, the one or the other."""
        names = self._host.folders.names
        users = (name for name in self._volumes() if pod_uid in names(self._users(name)))
        return frozenset((*names(self._layout.devices(pod_uid, CSI)), *users))

    def users(self) -> frozenset[str]:
        """Uids of all pods that have a device, or are about to."""
        return frozenset(uid for name in self._volumes() for uid in self._host.folders.names(self._users(name)))

    async def _unstage(self, name: str, data: VolumeData) -> None:
        at, folders = self.staging(name), self._host.folders
        if self._offline:
            return await self._host.unmount_all(at)
        if name in folders.names(at.parent):
            await self._drivers.get(data.driver).unstage(data.handle, at)
            await self._host.refuse_mounted(at)
            folders.remove(at)
        folders.unlink(self._data(name) / FILE)

    def _tidy(self, name: str) -> None:
        """Remove the folders of a volume that nobody has any more."""
        folders = self._host.folders
        users = self._users(name)
        for folder in (self.place("-", name).parent, users, self._data(name), users.parent):
            if not folders.names(folder):
                folders.remove(folder, of_links=True)

    async def _number(self, place: Path) -> DeviceNumber | None:
        try:
            async with self._host.mounter.opened(place) as source:
                return source.device if source.kind is FileKind.BLOCK_DEVICE else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _volumes(self) -> list[str]:
        return [name for name in self._host.folders.names(self._layout.csi_devices) if name not in TAKEN]

    def _users(self, name: str) -> Path:
        return self._layout.csi_devices / plain(name) / USERS

    def _data(self, name: str) -> Path:
        return self._layout.csi_devices / plain(name) / DATA
