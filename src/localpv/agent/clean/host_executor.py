"""The executor on the real machine, made of the parts of `host`."""

from __future__ import annotations

import os
from pathlib import Path

from localpv import errors
from localpv.agent.clean import plans
from localpv.agent.clean.executor import Target
from localpv.agent.clean.paths import Place
from localpv.api.kinds.localdisk import DiskKind, LocalDisk
from localpv.disk import identity as identities
from localpv.host import openat
from localpv.host.devices import Devices, Openers
from localpv.host.marks import Marks
from localpv.host.model.identity import Identity, way_out
from localpv.host.model.methods import Progress, Readback
from localpv.host.mounts import Mount, Mounts
from localpv.host.openat import Numbers
from localpv.host.trees import Trees
from localpv.host.wiper import Wiper
from localpv.host.workers import Report, Workers

LOOK_SECONDS = 10.0


class HostExecutor:
    """Devices through `wiping`, directories through `trees`."""

    def __init__(
        self,
        *,
        workers: Workers,
        devices: Devices,
        mounts: Mounts,
        openers: Openers,
        trees: Trees,
        wiping: Wiper,
        marks: Marks,
        readback: Readback = Readback.FULL,
    ) -> None:
        self._workers, self._devices, self._mounts, self._openers = workers, devices, mounts, openers
        self._trees, self._wiping, self._marks = trees, wiping, marks
        self._readback = readback

    async def look(self, disk: LocalDisk, place: Place) -> Target:
        recorded = _recorded(disk)
        if disk.status.kind == DiskKind.BLOCK_DEVICE:
            return await self._look_at_device(place, recorded)
        return await self._look_at_directory(place, recorded, DiskKind(disk.status.kind))

    async def users(self, target: Target) -> str:
        if target.device is not None:
            return await self._users_of_device(target.device)
        return await self._users_of_directory(target.place)

    async def clean(self, target: Target, plan: plans.Plan, *, on_progress: Report) -> None:
        place = target.place
        match plan:
            case plans.Wipe(method):
                assert target.device is not None
                await self._wiping.wipe(
                    target.device, method, expected=target.identity, verify=self._readback, on_progress=on_progress
                )
            case plans.Empty():
                await self._trees.empty(
                    place.path, inside=place.folder, expected=target.directory, on_progress=on_progress
                )
            case plans.Run(argv):
                on_progress(Progress(done=0, step="running a command"))
                await self._trees.empty_with(argv, place.path, inside=place.folder, expected=target.directory)
        if target.found is not None:
            # Last: until here the old data may be there. Directories lose their mark with all other attributes.
            await self._marks.forget_device(place.path, target.found)

    async def _look_at_device(self, place: Place, recorded: Identity) -> Target:
        located = await self._workers.call(
            lambda: openat.locate_device(place.folder, place.path), key=str(place.path), timeout=LOOK_SECONDS
        )
        found = await self._devices.describe(located.device_path, exclusive=False)
        # What is written on a device may be anything: whoever had the volume wrote it.
        _refuse_another(recorded, found.identity, place, contents=False)
        return Target(
            kind=DiskKind.BLOCK_DEVICE,
            place=place,
            identity=recorded,
            lock=f"device-{found.number.major}-{found.number.minor}",
            size_bytes=found.size_bytes,
            device=found.path,
            found=found.identity,
        )

    async def _look_at_directory(self, place: Place, recorded: Identity, kind: DiskKind) -> Target:
        def look() -> Numbers:
            root = openat.open_directory(place.folder, place.path)
            try:
                return Numbers.of(root)
            finally:
                os.close(root)

        seen = await self._workers.call(look, key=str(place.path), timeout=LOOK_SECONDS)
        mount = await self._mount(seen.mount_id, place)
        is_mount_point = mount.mount_point == _real(place)
        # What was recorded with the volume counts, not what discovery sees there now.
        was_mount_point = recorded.mount_id > 0
        if is_mount_point is not was_mount_point:
            # Below a mount point that is not mounted lies another file system: the machine's own, most of the time.
            raise errors.DeviceChanged(
                f"{place.host_path} was published as a plain directory, and now something is mounted there"
                if is_mount_point
                else f"{place.host_path} was published as a mount point, and now nothing is mounted there",
                hint="unmount it" if is_mount_point else "mount the right file system again",
            )
        found = await self._devices.behind(mount)
        if not is_mount_point or mount.root != "/":
            found = found.of_directory(await self._devices.directory(place.path, mount))
        _refuse_another(recorded, found, place, contents=True)
        return Target(
            kind=kind,
            place=place,
            identity=recorded,
            lock=f"directory-{os.major(seen.device)}-{os.minor(seen.device)}-{seen.inode}",
            directory=seen,
        )

    async def _users_of_device(self, path: Path) -> str:
        found = await self._devices.describe(path)
        if found.in_use_by:
            return found.in_use_by.removeprefix("it ")
        if openers := await self._openers.of(found.number):
            return f"is open in {', '.join(openers[:3])}"
        return ""

    async def _users_of_directory(self, place: Place) -> str:
        real, table = _real(place), await self._mounts.table()
        if below := table.below(real):
            return f"has something mounted inside, at {below[0].mount_point}"
        mount = table.containing(real)
        if mount is None:
            raise errors.OutsideFolder(f"{place.path} lies in no mount")
        # Which directory of its file system the volume is: a pod's bind mount shows the same one, or one in it.
        inside = real.relative_to(mount.mount_point)
        root = Path(mount.root) / inside
        own = {real, place.path, place.host_path}
        for other in await self._mounts.everywhere(mount.device):
            if other.mount_point in own or other.mount_id == mount.mount_id:
                continue
            if Path(other.root).is_relative_to(root):
                return f"is mounted at {other.mount_point} too"
        return ""

    async def _mount(self, mount_id: int, place: Place) -> Mount:
        for mount in await self._mounts.table():
            if mount.mount_id == mount_id:
                return mount
        raise errors.HostError(f"the mount that {place.path} lies in is gone again")


def _real(place: Place) -> Path:
    """The path as the mount table has it; the folder may be reached by links, the entry never is one."""
    return Path(os.path.realpath(place.folder)) / place.path.name


def _recorded(disk: LocalDisk) -> Identity:
    if disk.spec.identity is None:
        raise errors.DeviceChanged(
            "nobody recorded which disk the volume was on, so none can be wiped for it",
            hint="look at the disk and, if it is the right one, order it by hand: localpv wipe",
        )
    return identities.read(disk.spec.identity)


def _refuse_another(recorded: Identity, now: Identity, place: Place, *, contents: bool) -> None:
    if recorded.same_device(now, contents=contents):
        return
    differences = recorded.mismatches(now, contents=contents)
    raise errors.DeviceChanged(
        f"{place.host_path} is not the disk that was recorded: {'; '.join(map(str, differences))}",
        hint=way_out(differences),
    )
