"""The record of one entry brought in step with what is there now.

Reads what surveys saw and what disks answer, never what woke it, so it can be called at any time and after any crash.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from localpv.agent.discover import candidate, duplicates, eligibility, phase, remains, rules
from localpv.agent.discover.candidate import Candidate
from localpv.agent.discover.entry import Place, Sighting
from localpv.agent.discover.inventory import Inventory
from localpv.agent.discover.keeper import Keeper
from localpv.agent.discover.probe import DiskProbe, Facts
from localpv.agent.discover.survey import IGNORED
from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec, Phase
from localpv.config.settings import ClassSettings, Folder, group_of
from localpv.disk import labels
from localpv.disk.records import Ours
from localpv.observe.discovery import Discoveries
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome

SETTLE_SECONDS = 5.0
"""How long a new plain directory is only watched: who makes a directory often mounts a disk on it next, and what is
below must not be offered in between. Directories that were there at the first survey do not wait."""

FRESH_SECONDS = 600.0
"""An entry that could not be offered for longer was unfit, and tells nothing about how quick discovery is."""

AGAIN_SECONDS = (0.2, 1.0, 5.0)
"""When a disk that was busy or silent is asked again; after that, with every round."""

_PASSING = frozenset({"InUse", "Hung", "Unreadable", "NotMatched", "NotLookedAt", labels.OTHER_ENGINE})


class DiskReconciler:
    """Brings the LocalDisks of one node in step, one entry at a time; many may be under way at once."""

    def __init__(
        self,
        *,
        node: str,
        keeper: Keeper,
        inventory: Inventory,
        probe: DiskProbe,
        clock: Clock,
        recorder: Discoveries,
        settle_seconds: float,
        ours: Ours,
        wake_duplicates: Callable[[], None],
    ) -> None:
        self._node, self._ours = node, ours
        self._keeper, self._inventory, self._probe = keeper, inventory, probe
        self._clock, self._recorder = clock, recorder
        self._settle_seconds = settle_seconds
        self._wake_duplicates = wake_duplicates
        self._tries: dict[Place, int] = {}

    async def seen(self, place: Place, settings: ClassSettings, sighting: Sighting) -> Outcome:
        """The entry is there: ask its disk if something speaks for it, judge, and write what came of it."""
        folder = candidate.folder(settings, sighting)
        facts = await self._facts(place, settings, sighting)
        if self._inventory.sightings.get(place) is not sighting:
            return LookAgain(after=0)  # the entry changed while its disk was looked at
        left = self._settle_seconds - self._inventory.seconds_since(place, self._clock.monotonic())
        records, index = self._keeper.records, self._keeper.index
        case = Candidate(
            settings=settings,
            sighting=sighting,
            facts=facts,
            record=records.get(place),
            rival=duplicates.stronger(place, inventory=self._inventory, records=records, index=index),
            left=remains.left_elsewhere(place, facts.identity, records=records, index=index),
            unclean=duplicates.unclean(place, inventory=self._inventory, records=records, index=index),
            settling=left > 0,
            of_group=self._of_group(place, settings, facts),
        )
        verdict = rules.judge(case)
        if verdict.eligible:
            self._inventory.offered.add(place)  # before anything is waited for: another entry may lead to the same disk
        record = await self._keeper.ensure(place, self._spec(place, settings, folder, verdict.mode))
        if record is None:
            return Done()
        if remains.taken(record) != case.published:
            return LookAgain(after=0)  # it was given to a volume meanwhile, or taken back: other rules hold now
        status = phase.seen(record, verdict, sighting, facts)
        if status.earlier and status.earlier == record.status.earlier:
            earlier = remains.still_told(record, records=records, index=index)
            status = msgspec.structs.replace(status, earlier=earlier)
        await self._keeper.write(place, record, status)
        if status.phase == Phase.AVAILABLE and record.status.phase in ("", Phase.UNAVAILABLE):
            self._tell_found(place, record)
            if eligibility.not_blank(case):
                self._recorder.event(record, "ExistingDataAdopted", verdict.message, warning=True)
        if not verdict.eligible:
            self._inventory.offered.discard(place)
        if (record.status.eligible, record.status.identity) != (status.eligible, status.identity):
            self._wake_duplicates()
        if verdict.reason == "Settling":
            self._inventory.doubt(place)  # somebody may be filling it
            return LookAgain(after=left)
        return self._ask_again(place) if verdict.reason in _PASSING else self._calm(place)

    async def gone(self, place: Place, settings: ClassSettings | None, *, hangs: bool, ignored: str) -> None:
        """The entry is not there, or nobody may say so: it `hangs`, or a word says why it is ignored."""
        self._tries.pop(place, None)
        record = self._keeper.records.get(place)
        if record is None:
            self._inventory.offered.discard(place)
            return
        if hangs:
            why = "The disk gives no answer; look at the kernel log for its errors."
            await self._keeper.write(place, record, phase.silent(record, "Hung", why))
        elif (settings is None or settings.folder_of(record.spec.path) is None) and not self._ours(record):
            return
        elif not phase.bound(record) or self._made_good(record):
            await self._bring_free_gone(place, record)
        elif settings is None:
            why = f"Class {place.storage_class} is not configured here any more; put it back to manage the disk."
            await self._keeper.write(place, record, phase.unmanaged(record, "ClassRemoved", why))
        elif ignored:
            await self._keeper.write(place, record, phase.unmanaged(record, ignored, IGNORED[ignored]))
        else:
            why = f"{record.spec.path} is not there any more; put the disk back."
            if settings.folder_of(record.spec.path) is None:
                why = f"{record.spec.path} is in no directory of class {place.storage_class} any more; put that back."
            await self._keeper.write(place, record, phase.gone(record, labels.GONE, why))

    async def _bring_free_gone(self, place: Place, record: LocalDisk) -> None:
        self._inventory.offered.discard(place)
        if not any(remains.left_by(record, records=self._keeper.records, index=self._keeper.index)):
            await self._keeper.delete(place, record)
            return
        why = (
            f"{record.spec.path} is not there any more, or no class has it. Its last cleaning may have left old blocks"
            " on the device, so the record is kept until the device is cleaned anew: it must not be offered raw. If the"
            f" device is gone for good, delete LocalDisk {record.metadata.name}."
        )
        await self._keeper.write(place, record, phase.unmanaged(record, labels.GONE, why))
        if record.status.eligible:
            self._wake_duplicates()  # it may be offered where it is now

    def _made_good(self, record: LocalDisk) -> bool:
        """Whether the cleaning that binds a record to its directory was made good elsewhere."""
        if remains.taken(record):
            return False
        return remains.made_good(record, records=self._keeper.records, index=self._keeper.index)

    def _spec(self, place: Place, settings: ClassSettings, folder: Folder, mode: str) -> LocalDiskSpec:
        return LocalDiskSpec(
            node_name=self._node,
            storage_class_name=place.storage_class,
            entry=place.entry,
            path=os.path.join(folder.host_dir, place.entry),
            volume_mode=str(mode),
            fs_type=settings.fs_type,
        )

    def _of_group(self, place: Place, settings: ClassSettings, facts: Facts) -> int:
        group = group_of(candidate.matched_by(settings, facts))
        if group not in settings.device_filters:
            return 0
        return duplicates.count_before(place, group, inventory=self._inventory, records=self._keeper.records)

    def _tell_found(self, place: Place, record: LocalDisk) -> None:
        since = self._inventory.seconds_since(place, self._clock.monotonic())
        if since < FRESH_SECONDS:
            self._recorder.found(record.spec.volume_mode, seconds=since)

    async def _facts(self, place: Place, settings: ClassSettings, sighting: Sighting) -> Facts:
        record = self._keeper.records.get(place)
        published = record is not None and remains.taken(record)
        known = self._inventory.facts.get(place)
        doubtful = self._inventory.take_doubt(place)
        if known is not None and not doubtful and (published or not _never_tried(known)):
            return known
        facts = await self._probe.look(
            sighting, unused=not published, fs_type=candidate.accepted_type(settings, sighting)
        )
        self._inventory.learn(place, facts)
        return facts

    def _ask_again(self, place: Place) -> Outcome:
        tries = self._tries.get(place, 0)
        if tries >= len(AGAIN_SECONDS):
            return Done()
        self._tries[place] = tries + 1
        self._inventory.doubt(place)
        return LookAgain(after=AGAIN_SECONDS[tries])

    def _calm(self, place: Place) -> Outcome:
        self._tries.pop(place, None)
        return Done()


def _never_tried(facts: Facts) -> bool:
    """Whether it was looked at only as one looks at the disk of a volume."""
    if facts.device is not None:
        return facts.device.opens_exclusively is None
    return facts.contents is None and facts.identity is not None
