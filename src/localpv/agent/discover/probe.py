"""What a look at the disk itself shows. Whatever may hang here runs in a worker of the host with a time limit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from localpv import errors
from localpv.agent.discover.entry import Sighting
from localpv.host.contents import Contents
from localpv.host.devices import Devices
from localpv.host.folders import Folders
from localpv.host.marks import Mark, Marks
from localpv.host.model.devices import BlockDevice, Medium, RuleMatch
from localpv.host.model.identity import Identity
from localpv.host.mounts import Mount


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One reading. What could not be read is empty, and `trouble` says why."""

    device: BlockDevice | None = None
    """The device of a block volume."""

    identity: Identity | None = None
    """Of the device, or of the file system that a directory is in; only a mount point's has a number of a mount."""

    medium: Medium = Medium.UNKNOWN
    capacity_bytes: int = 0
    contents: Contents | None = None
    """What is on a disk that may be offered; None when nobody has looked."""

    mark: Mark | None = None
    """That of a tenant who had the disk, unless it was cleaned since."""

    foreign: tuple[RuleMatch, ...] = ()
    """Rules of LocalStorages of another engine of the machine that match the device; the device has those of ours."""

    trouble: str = ""
    hung: bool = False


NOTHING = Facts()


class DiskProbe:
    """Looks at disks. Directories that share a file system share the look at what is behind it."""

    def __init__(self, *, devices: Devices, folders: Folders, marks: Marks, engine: str = "") -> None:
        """`engine` says which LocalStorages are ours."""
        self._devices, self._marks, self._engine = devices, marks, engine
        self._folders = folders
        self._around: dict[Mount, asyncio.Future[tuple[Identity, Medium]]] = {}

    def forget(self) -> None:
        """Look again at what directories lie in: something was mounted or unmounted."""
        self._around.clear()

    async def look(self, sighting: Sighting, *, unused: bool, fs_type: str = "") -> Facts:
        """`unused` is said of a disk that no volume has: then it is also tried whether nobody else has the device for
        himself, and looked whether it is blank, or has an empty file system of the type that is accepted."""
        try:
            if sighting.entry.device is not None:
                device = await self._devices.describe(sighting.path, exclusive=unused)
                own = tuple(match for match in device.matches if match.engine == self._engine)
                foreign = tuple(match for match in device.matches if match.engine != self._engine)
                device = replace(device, matches=own)
                accepted = unused and device.fs_type in ("", fs_type)
                contents = await self._devices.contents(device) if accepted else None
                mark = await self._marks.of_device(sighting.path, device.identity)
                return Facts(
                    device=device,
                    identity=device.identity,
                    medium=device.medium,
                    capacity_bytes=device.size_bytes,
                    contents=contents,
                    mark=mark or (contents.mark if contents is not None else None),
                    foreign=foreign,
                )
            if (mount := sighting.mount or sighting.around) is None:
                return NOTHING
            room = await self._folders.capacity(sighting.path)
            if sighting.mount is not None:
                # Never from memory: the kernel gives the numbers of a mount that is gone to the next one.
                identity, medium = await self._look_behind(mount)
            else:
                identity, medium = await self._shared(mount)
                identity = replace(identity, mount_id=0)
            top = sighting.mount is not None and sighting.mount.root == "/"
            if not top:
                identity = identity.of_directory(await self._devices.directory(sighting.path, mount))
            return Facts(
                identity=identity,
                medium=medium,
                capacity_bytes=room.total_bytes,
                contents=await self._folders.contents(sighting.path, top=top) if unused else None,
                mark=await self._marks.of_directory(sighting.path),
            )
        except errors.HostTimeout as error:
            return Facts(trouble=str(error), hung=True)
        except errors.HostError as error:
            return Facts(trouble=str(error))
        except OSError as error:
            return Facts(trouble=f"{sighting.path}: {error.strerror or error}")

    async def _shared(self, mount: Mount) -> tuple[Identity, Medium]:
        known = self._around.get(mount)
        if known is None or (known.done() and (known.cancelled() or known.exception())):
            known = self._around[mount] = asyncio.ensure_future(self._look_behind(mount))
        return await asyncio.shield(known)

    async def _look_behind(self, mount: Mount) -> tuple[Identity, Medium]:
        if mount.source.startswith("/dev/"):
            try:
                device = await self._devices.describe(Path(mount.source), exclusive=False)
            except errors.HostTimeout:
                raise
            except (errors.HostError, OSError):
                pass  # the host may call it by a name that is not known in here
            else:
                if device.number == mount.device:
                    return replace(device.identity, mount_id=mount.mount_id), device.medium
        return await self._devices.behind(mount), Medium.UNKNOWN
