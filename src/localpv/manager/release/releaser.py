"""Order the cleaning of released volumes, and give their disks back once they are clean."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from localpv import errors
from localpv.api.kinds.localdisk import CleanOrder, DiskKind, LocalDisk, OfferedVolume, VolumeMode
from localpv.api.kinds.volumes import PersistentVolume
from localpv.config import local_storage
from localpv.config.cleaners import RAW_DEFAULT
from localpv.disk.records import Records
from localpv.manager.listers import Listers
from localpv.manager.release import decision
from localpv.manager.release.decision import Action
from localpv.manager.release.progress import Progress
from localpv.manager.volumes import Volumes, is_retired
from localpv.observe.conditions import DiskConditions
from localpv.observe.publishing import Publications
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome

log = logging.getLogger(__name__)

Owns = Callable[[LocalDisk, PersistentVolume], bool]

InJob = Callable[[LocalDisk], str]
"""The name of the Job that is to clean a disk; empty when its agent is to do it."""


def by_agent(disk: LocalDisk) -> str:
    return ""


class Releaser:
    """Takes disks that belong to a volume one step further."""

    def __init__(
        self,
        *,
        records: Records,
        volumes: Volumes,
        owns: Owns,
        listers: Listers,
        conditions: DiskConditions,
        recorder: Publications,
        clock: Clock,
        in_job: InJob = by_agent,
    ) -> None:
        self._in_job = in_job
        self._records = records
        self._volumes = volumes
        self._owns = owns
        self._listers = listers
        self._conditions = conditions
        self._recorder = recorder
        self._clock = clock
        self._progress = Progress(recorder=recorder, clock=clock)

    async def step(self, disk: LocalDisk) -> Outcome:
        """Go on with a disk whose volume's UID is recorded, or that somebody has ordered to be cleaned."""
        name = disk.spec.volume.name if disk.spec.volume is not None else ""
        seen = self._volumes.seen(name)
        if seen is None or not isinstance(self._decide(disk, seen), decision.Wait):
            # To act, the world as it is now is needed, not as it was seen last.
            fresh = await self._records.get(disk.metadata.name)
            if fresh is None or fresh.spec.volume != disk.spec.volume:
                return Done()  # we are called again when that change is seen
            disk, seen = fresh, await self._volumes.find(name) if name else None
        action = self._decide(disk, seen)
        if not isinstance(action, decision.Tell | decision.Order | decision.Keep):
            disk = await self._conditions.over(disk)
            if seen is not None and seen.status.reason == decision.DISK_MISSING:
                await self._volumes.explain(seen, "", "")
                return LookAgain(after=0)
        await self._do(action, disk, seen)
        again = self._progress.told(disk, seen)
        if isinstance(action, decision.Hold):
            return LookAgain(after=0)  # also when it could not be held, and nothing has changed
        if isinstance(action, decision.Wait):
            return Done() if again is None else LookAgain(after=again)
        return Done()

    def _decide(self, disk: LocalDisk, volume: PersistentVolume | None) -> Action:
        owned = volume is not None and self._owns(disk, volume)
        retired = is_retired(disk, self._listers.configuration)
        return decision.decide(disk, volume, owned=owned, holds=self._volumes.holds, retired=retired)

    async def _do(self, action: Action, disk: LocalDisk, volume: PersistentVolume | None) -> None:
        match action:
            case decision.Wait():
                pass
            case decision.Remember(found):
                await self._remember(disk, found)
            case decision.Hold(loose):
                await self._volumes.take_over(loose, "")
            case decision.Keep(kept):
                await self._keep(disk, kept)
            case decision.Order(claim_uid):
                await self._order(disk, volume, claim_uid)
            case decision.CallOff(cleaned):
                await self._call_off(disk, volume, cleaned)
            case decision.Delete(clean):
                await self._delete(disk, clean)
            case decision.Free(clean) if self._shows_old_data(disk):
                # Publishing refuses it, and says what to do.
                await self._delete(disk, clean)
            case decision.Free(clean):
                await self._volumes.free(clean)
                self._recorder.recycled(disk, clean)
            case decision.Forget():
                await self._forget(disk)
            case decision.TakeBack():
                await self._take_back(disk)
            case decision.Tell(reason, message):
                await self._tell(disk, volume, reason, message)

    async def _tell(self, disk: LocalDisk, volume: PersistentVolume | None, reason: str, message: str) -> None:
        if volume is not None and not self._conditions.is_told(disk, reason, message):
            self._recorder.event(volume, reason, message, warning=True)
        if volume is not None and reason == decision.DISK_MISSING and volume.status.message != message:
            await self._volumes.explain(volume, reason, message)
        await self._conditions.trouble(disk, reason, message)

    async def _remember(self, disk: LocalDisk, found: PersistentVolume) -> None:
        assert disk.spec.volume is not None
        meta, policy = found.metadata, found.spec.persistent_volume_reclaim_policy
        if meta.uid != disk.spec.volume.uid:
            message = f"The volume {meta.name} was made anew by somebody else; it takes the place of the former."
            self._recorder.event(found, "VolumeReplaced", message, warning=True)
        offered = OfferedVolume(name=meta.name, uid=meta.uid, reclaim_policy=policy)
        clean = disk.spec.clean if meta.uid == disk.spec.volume.uid else None
        await self._write(disk, volume=offered, clean=clean)

    async def _order(self, disk: LocalDisk, volume: PersistentVolume | None, claim_uid: str) -> None:
        offered = disk.spec.volume
        assert offered is not None
        settings = self._listers.configuration.classes.get(disk.spec.storage_class_name)
        linked = local_storage.is_linked(disk.spec.path) and disk.status.kind == DiskKind.BLOCK_DEVICE
        if settings is None and not linked:
            message = f"The configuration has no class {disk.spec.storage_class_name}, so it is not known how to clean."
            await self._tell(disk, volume, "NotConfigured", message)
            return
        disk = await self._conditions.over(disk)
        if not disk.status.kind:
            # What kind of disk it is decides how it is cleaned; the agent tells when it sees it.
            return
        done = disk.status.cleaning
        if done is not None and done.volume_uid == offered.uid:
            # A cleaning for an earlier claim of the same volume must not pass for this one.
            disk = await self._records.write_status(disk, msgspec.structs.replace(disk.status, cleaning=None))
        on_device = disk.status.kind == DiskKind.BLOCK_DEVICE
        # A LocalStorage that was changed, or is gone, while a volume was in use: what it said of cleaning nobody knows
        # any more, so nothing may be left.
        cleaner = settings.cleaner(on_device=on_device, volume_mode=disk.spec.volume_mode) if settings else RAW_DEFAULT
        order = CleanOrder(
            volume_name=offered.name,
            volume_uid=offered.uid,
            claim_uid=claim_uid,
            method=cleaner.method,
            requested_at=self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            job=self._in_job(disk),
        )
        await self._write(disk, clean=order)
        self._recorder.ordered(disk, offered)

    async def _call_off(self, disk: LocalDisk, volume: PersistentVolume | None, cleaned: bool) -> None:
        if cleaned:
            # A cleaning may make a new file system, with a new UUID.
            identity = (disk.status.identity or disk.spec.identity) if disk.spec.volume is not None else None
            await self._write(disk, clean=None, identity=identity)
            return
        await self._write(disk, clean=None)
        if volume is not None:
            message = "The order to clean was taken back: the volume is not released any more."
            self._recorder.event(volume, "CleaningCalledOff", message, warning=True)

    def _shows_old_data(self, disk: LocalDisk) -> bool:
        settings = self._listers.configuration.classes.get(disk.spec.storage_class_name)
        last = disk.status.cleaning
        return (
            disk.spec.volume_mode == VolumeMode.BLOCK
            and settings is not None
            and last is not None
            and settings.shows_old_data(last.method)
        )

    async def _delete(self, disk: LocalDisk, clean: PersistentVolume) -> None:
        try:
            # If we die after letting go, the record still says that the disk is clean for this volume.
            loose = await self._volumes.let_go(clean)
            gone = not loose.metadata.finalizers if clean.metadata.deleting else await self._volumes.delete(loose)
        except errors.Conflict:
            raise
        except errors.LocalpvError as error:
            self._recorder.event(clean, "VolumeFailedDelete", error.message, warning=True)
            raise
        self._recorder.deleted(disk, clean)
        if gone:
            await self._forget(disk)

    async def _keep(self, disk: LocalDisk, kept: PersistentVolume) -> None:
        # First the memory, then the volume: after it nothing else tells that the disk is not clean.
        await self._tell(disk, kept, decision.NOT_CLEANED, decision.KEPT)
        await self._volumes.let_go(kept)
        log.info("let go kept volume=%s uid=%s disk=%s", kept.key, kept.metadata.uid, disk.key)

    async def _forget(self, disk: LocalDisk) -> None:
        await self._write(disk, volume=None, clean=None, identity=None)

    async def _take_back(self, disk: LocalDisk) -> None:
        # Without the UID the disk is as it was before its volume was created, which is where publishing takes over.
        # If we deleted first and died, the missing volume would look like one that was deleted by hand, and its
        # disk, which may be somebody else's by now, would be cleaned.
        assert disk.spec.volume is not None
        await self._write(disk, volume=OfferedVolume(name=disk.spec.volume.name))

    async def _write(self, disk: LocalDisk, **parts: object) -> None:
        await self._records.write_spec(disk, msgspec.structs.replace(disk.spec, **parts))
