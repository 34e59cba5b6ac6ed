"""Publish a disk, and take back an offer that nobody has accepted: the life of a LocalDisk before its volume's UID is
recorded.

1. The name of the volume and the disk's identity are written into the LocalDisk: the intent.
2. The volume is created under that name.
3. Its UID is written into the LocalDisk. From now on the disk belongs to that volume.

If we die after 1 or 2, the next call finds the volume under the intended name, or does not, and goes on from there.
Taking an offer back goes the same way in reverse, 3 to 1, and ends at any step when somebody claims the volume.

The volume carries our finalizer from the request that creates it. Whoever deletes it while we are away only marks it,
and we find it as it was left: so a disk whose UID is not recorded and that has no volume was not used by anybody.
Where we may not change volumes there is no finalizer, and a volume that was used and deleted between 2 and 3 is missed.
"""

from __future__ import annotations

import logging
import time

import msgspec

from localpv import errors
from localpv.api.kinds.localdisk import CleaningState, DiskIdentity, LocalDisk, OfferedVolume, Phase
from localpv.api.kinds.volumes import PersistentVolume
from localpv.api.objects import Object
from localpv.disk import labels
from localpv.disk.records import Records
from localpv.manager import volumes as offers
from localpv.manager.listers import Listers
from localpv.manager.publish import names as publish_names
from localpv.manager.publish import ownership, persistent_volume
from localpv.manager.publish.persistent_volume import Refused
from localpv.manager.volumes import Volumes
from localpv.observe.conditions import DiskConditions
from localpv.observe.publishing import Publications
from localpv.runtime.controller import Done, Outcome

NO_STORAGE_CLASS = "NoStorageClass"

log = logging.getLogger(__name__)


class Publisher:
    """Takes disks that no volume is recorded for as far as they can go."""

    def __init__(
        self,
        *,
        records: Records,
        volumes: Volumes,
        listers: Listers,
        conditions: DiskConditions,
        recorder: Publications,
    ) -> None:
        self._records = records
        self._volumes = volumes
        self._listers = listers
        self._conditions = conditions
        self._recorder = recorder
        self._intended: set[str] = set()
        """Disks whose intent this process has written. To the agent such a disk looks published, so it checks less
        than before an offer; an intent from before a crash is therefore given up, and the disk judged anew."""

        self._made: set[str] = set()
        """UIDs of volumes that this process has created and not yet recorded."""

    async def step(self, disk: LocalDisk) -> Outcome:
        """Go on with a disk whose volume has no recorded UID."""
        if disk.spec.volume is None:
            await self._begin(disk)
        else:
            await self._go_on(disk, disk.spec.volume.name)
        return Done()

    async def _begin(self, disk: LocalDisk) -> None:
        for seen in self._volumes.at(disk.spec.path):
            # What was seen may be gone: a volume that is recorded and not found would have its disk cleaned.
            ours = ownership.on_node(seen, disk.spec.node_name)
            found = await self._volumes.find(seen.metadata.name) if ours else None
            if found is not None and ownership.owns(disk, found):
                if not await self._goes(found):
                    await self._adopt(disk, found)
                return
            if found is not None:
                name = found.metadata.name
                await self._conditions.trouble(disk, "PathTaken", f"Volume {name} offers {disk.spec.path} already.")
                return
        if not is_offerable(disk):
            await self._conditions.over(disk)
            return
        built = self._build(disk)
        if isinstance(built, Refused):
            if built.reason == NO_STORAGE_CLASS and not self._conditions.is_told(disk, built.reason, built.message):
                self._ask_for_classes(disk)
            await self._conditions.trouble(disk, built.reason, built.message)
            return
        await self._create(await self._intend(disk, built["metadata"]["name"]), built)

    async def _go_on(self, disk: LocalDisk, name: str) -> None:
        found = await self._volumes.find(name)
        if found is None:
            fresh = disk.key in self._intended and disk.status.phase == Phase.PUBLISHED
            built = self._build(disk, name) if is_offerable(disk, intended=fresh) else None
            if built is None or isinstance(built, Refused):
                await self._forget(disk)
            else:
                await self._create(await self._intend(disk, name), built)
        elif not ownership.owns(disk, found):
            await self._choose_other_name(disk, found)
        elif await self._goes(found):
            pass  # we are called again when it is gone
        elif offers.is_unclaimed(found) and self._is_withdrawn(disk) and not found.metadata.deleting:
            await self._take_back(disk, found)
        else:
            await self._adopt(disk, found)

    def _is_withdrawn(self, disk: LocalDisk) -> bool:
        return offers.is_withdrawn(disk) or offers.is_retired(disk, self._listers.configuration)

    async def _intend(self, disk: LocalDisk, name: str) -> LocalDisk:
        # Also when the intent is there already: the disk may have been changed for another since it was written.
        self._intended.add(disk.key)
        return await self._write(disk, OfferedVolume(name=name), disk.status.identity)

    async def _create(self, disk: LocalDisk, built: Object) -> None:
        began = time.monotonic()
        try:
            created = await self._volumes.create(built)
        except errors.AlreadyExists:
            # By us before we died, by the classic provisioner, or by a stranger.
            found = await self._volumes.find(built["metadata"]["name"])
            if found is not None and ownership.owns(disk, found):
                await self._adopt(disk, found)
            elif found is not None:
                await self._choose_other_name(disk, found)
            else:
                raise
            return
        except errors.ApiError as error:
            # The intent stays and nothing is remembered as done: the next call tries again.
            self._recorder.refused(disk, error.message)
            raise
        self._recorder.created(disk, seconds=time.monotonic() - began)
        self._made.add(created.metadata.uid)
        await self._record(disk, created, disk.spec.identity)

    async def _goes(self, found: PersistentVolume) -> bool:
        """Whether a volume is being deleted that nobody has ever had; then it is let go without cleaning."""
        if not found.metadata.deleting or not offers.is_unused(found):
            return False
        if offers.is_held_alone(found):
            # As the last one: as long as others hold it, it could still be given to a claim.
            await self._volumes.let_go(found)
            log.info("let go unused volume=%s uid=%s", found.key, found.metadata.uid)
        return True

    async def _adopt(self, disk: LocalDisk, found: PersistentVolume) -> None:
        """Record a volume that exists, whatever phase it is in."""
        # Held before anything else: one of the classic provisioner can be used and deleted unseen until then.
        found = await self._volumes.take_over(found, publish_names.node_label(disk.spec.node_name))
        identity = disk.spec.identity if disk.spec.volume is not None else None
        identity = identity or _recorded_identity(found) or disk.status.identity
        if identity is None:
            await self._conditions.trouble(
                disk, "UnknownIdentity", f"Volume {found.key} is not taken over before its disk has been looked at."
            )
            return
        await self._record(disk, found, identity)

    async def _take_back(self, disk: LocalDisk, found: PersistentVolume) -> None:
        gone = await self._volumes.delete(found)
        self._recorder.withdrawn(disk, found)
        if gone:
            await self._forget(disk)

    async def _choose_other_name(self, disk: LocalDisk, taken_by: PersistentVolume) -> None:
        spec = disk.spec
        other = publish_names.long_volume_name(spec.entry, spec.node_name, spec.storage_class_name)
        if taken_by.metadata.name == other:
            await self._conditions.trouble(disk, "NameTaken", f"Volume {other} exists and offers something else.")
            return
        log.warning("name collides disk=%s volume=%s instead=%s", disk.key, taken_by.key, other)
        await self._go_on(await self._intend(disk, other), other)

    async def _record(self, disk: LocalDisk, found: PersistentVolume, identity: DiskIdentity | None) -> None:
        meta = found.metadata
        policy = found.spec.persistent_volume_reclaim_policy
        recorded = OfferedVolume(name=meta.name, uid=meta.uid, reclaim_policy=policy)
        self._intended.discard(disk.key)
        written = await self._write(disk, recorded, identity)
        if meta.uid in self._made:
            # Perhaps only now: the agent's answer to the intent mostly comes between the volume and its record.
            self._made.discard(meta.uid)
            self._recorder.published(disk, found)
        else:
            log.info("adopted disk=%s volume=%s uid=%s", disk.key, meta.name, meta.uid)
        await self._conditions.over(written)

    async def _forget(self, disk: LocalDisk) -> None:
        self._intended.discard(disk.key)
        await self._write(disk, None, None)

    async def _write(self, disk: LocalDisk, offered: OfferedVolume | None, identity: DiskIdentity | None) -> LocalDisk:
        spec = msgspec.structs.replace(disk.spec, volume=offered, identity=identity)
        return await self._records.write_spec(disk, spec)

    def _ask_for_classes(self, disk: LocalDisk) -> None:
        """On the Node, which everybody can look at: a drop-in may keep its LocalDisks to itself."""
        wanted = self._listers.configuration.classes
        missing = [name for name in wanted if self._listers.storage_class(name) is None]
        if missing and (node := self._listers.node(disk.spec.node_name)) is not None:
            self._recorder.event(node, NO_STORAGE_CLASS, _no_class(*missing), warning=True)

    def _build(self, disk: LocalDisk, name: str = "") -> Object | Refused:
        configuration = self._listers.configuration
        wanted = disk.spec.storage_class_name
        settings = configuration.classes.get(wanted)
        if offers.is_retired(disk, configuration):
            return Refused("Retired", "The LocalStorage that the disk was found by, or its group, is being removed.")
        if settings is None:
            return Refused("NotConfigured", f"The configuration has no class {wanted}; add it, or remove the disk.")
        storage = disk.status.matched_by.partition(" ")[0]
        if storage and settings.from_local_storage and storage not in settings.local_storages:
            return Refused(
                "NoLocalStorage",
                f"A rule of LocalStorage {storage} matched it, which is gone, or has no class {wanted}: its rules are"
                f" left on node {disk.spec.node_name}. {labels.RULES_LEFT}",
            )
        storage_class = self._listers.storage_class(wanted)
        if storage_class is None:
            return Refused(NO_STORAGE_CLASS, _no_class(wanted))
        node = self._listers.node(disk.spec.node_name)
        if node is None:
            return Refused("NoNode", f"There is no Node {disk.spec.node_name}.")
        return persistent_volume.build(
            disk, settings, storage_class=storage_class, node=node, configuration=configuration, name=name
        )


def _no_class(*names: str) -> str:
    return (
        f"There is no StorageClass {', '.join(names)}; create it, with provisioner kubernetes.io/no-provisioner and"
        " volumeBindingMode WaitForFirstConsumer."
    )


def is_offerable(disk: LocalDisk, *, intended: bool = False) -> bool:
    """Whether the disk may be offered now: eligible, and no cleaning is ordered or was left unfinished."""
    status = disk.status
    return (
        status.eligible is True
        and (intended or status.phase == Phase.AVAILABLE)
        and status.identity is not None
        and disk.spec.clean is None
        and (status.cleaning is None or status.cleaning.state == CleaningState.VERIFIED)
    )


def _recorded_identity(found: PersistentVolume) -> DiskIdentity | None:
    text = found.metadata.annotations.get(labels.IDENTITY, "")
    try:
        return msgspec.json.decode(text, type=DiskIdentity) if text else None
    except msgspec.MsgspecError:
        return None
