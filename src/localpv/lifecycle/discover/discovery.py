"""The component that keeps the LocalDisks of one node true.

Two queues. Surveys, by class: list the discovery directory, read the mount table, and see which entries came, went or
changed; that is quick and asks no disk. Looks, by entry: ask the disk if something speaks for it, judge, and bring the
record in step. A disk that hangs holds one look and nothing else.

inotify, the mount table and the kernel's messages about devices start surveys; whatever they miss a full round finds.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Mapping
from contextlib import aclosing
from pathlib import Path
from types import MappingProxyType

import msgspec

from localpv import errors
from localpv.api.kinds import ObjectMeta
from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec, LocalDiskStatus, Phase
from localpv.client.watching import Changed, Deleted
from localpv.host.devices import Devices
from localpv.host.feeds import Feed
from localpv.host.folders import LOOK_SECONDS, Folders
from localpv.host.mounts import Mounts
from localpv.host.uevents import Uevents
from localpv.host.workers import Workers
from localpv.lifecycle.config.settings import ClassSettings, Configuration
from localpv.lifecycle.discover import rivals, rules, standing
from localpv.lifecycle.discover.facts import NOTHING, Eyes, Facts
from localpv.lifecycle.discover.rules import Case
from localpv.lifecycle.discover.sighting import Index, Place, Sighting, see
from localpv.lifecycle.records import Records
from localpv.lifecycle.records.names import disk_name
from localpv.model.entries import FileKind, Uevent
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller, Done, LookAgain, Outcome
from localpv.runtime.queue import WorkQueue

log = logging.getLogger(__name__)

ROUND_SECONDS = 60.0
"""Everything is looked at this often, whether or not something was told."""

GATHER_SECONDS = 0.003
"""How long changes are gathered before a survey: mounting and linking come in bursts."""

SETTLE_SECONDS = 5.0
"""How long a new plain directory is only watched: who makes a directory often mounts a disk on it next, and what is
below must not be offered in between. Directories that were there at the first survey do not wait."""

LOOKS_AT_ONCE = 32

AGAIN_SECONDS = (0.2, 1.0, 5.0)
"""When a disk that was busy or silent is asked again; after that, with every round."""

UDEV_SECONDS = 1.0
UDEV_PATIENCE_SECONDS = 10.0
"""The kernel tells of a device before udev has made its links: for so long, links to nowhere are looked at again."""

_PASSING = frozenset({"InUse", "Hung", "Unreadable"})


class Discovery:
    """Run it in a group; `configure` it with every new version of the configuration."""

    def __init__(
        self,
        *,
        node: str,
        records: Records,
        folders: Folders,
        mounts: Mounts,
        devices: Devices,
        uevents: Uevents,
        workers: Workers,
        clock: Clock,
        configuration: Configuration | None = None,
        round_seconds: float = ROUND_SECONDS,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        self._node = node
        self._store = records
        self._folders = folders
        self._mounts = mounts
        self._uevents = uevents
        self._workers = workers
        self._clock = clock
        self._round_seconds = round_seconds
        self._settle_seconds = settle_seconds
        self._eyes = Eyes(devices=devices, folders=folders)
        self._classes: Mapping[str, ClassSettings] = configuration.classes if configuration else {}

        self._records: dict[Place, LocalDisk] = {}
        self._sightings: dict[Place, Sighting] = {}
        self._facts: dict[Place, Facts] = {}
        self._stale: set[Place] = set()
        """Entries whose facts are to be read anew."""

        self._since: dict[Place, float] = {}
        """When an entry was first seen; those that were there from the start have none."""

        self._surveyed: set[str] = set()
        self._tries: dict[Place, int] = {}
        self._ignored: dict[Place, str] = {}
        self._synced = asyncio.Event()
        self._looked = asyncio.Event()
        self._told = float("-inf")
        """When the kernel last told something about a device."""

        self._folder_feed: Feed[Path] | None = None
        self._reconfigured = asyncio.Event()
        self._surveys: WorkQueue[str] = WorkQueue(clock=clock)
        self._looks: WorkQueue[Place] = WorkQueue(clock=clock)

    @property
    def ignored(self) -> Mapping[Place, str]:
        """Entries that have no record, with the word that says why."""
        return MappingProxyType(self._ignored)

    @property
    def sightings(self) -> Mapping[Place, Sighting]:
        """What lies in the discovery directories."""
        return MappingProxyType(self._sightings)

    def configure(self, configuration: Configuration) -> None:
        """Let a new configuration take effect."""
        before, self._classes = self._classes, configuration.classes
        changed = {name for name in before.keys() | self._classes.keys() if before.get(name) != self._classes.get(name)}
        for name in changed:
            self._surveyed.discard(name)
            self._stale.update(place for place in self._sightings if place.storage_class == name)
            self._surveys.add(name)
        if changed:
            self._reconfigured.set()
            if self._folder_feed is not None:
                self._folder_feed.close()

    def look_at_everything(self) -> None:
        """Start a full round now."""
        self._eyes.forget()
        self._stale.update(self._sightings)
        for name in {*self._classes, *(place.storage_class for place in self._records)}:
            self._surveys.add(name)
        for place in {*self._sightings, *self._records}:
            self._looks.add(place)

    async def wait_looked(self) -> None:
        """Return once every entry that was there at the start has been looked at."""
        await self._looked.wait()

    async def run(self) -> None:
        surveying = Controller("survey", self._survey, queue=self._surveys, clock=self._clock, workers=4)
        looking = Controller("look", self._look, queue=self._looks, clock=self._clock, workers=LOOKS_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for name, work in (
                ("records", self._follow_records()),
                ("folders", self._follow_folders()),
                ("mounts", self._follow_mounts()),
                ("devices", self._follow_devices()),
                ("rounds", self._make_rounds()),
                ("surveys", surveying.run()),
                ("looks", looking.run()),
            ):
                group.create_task(work, name=f"discovery {name}")

    # What starts a survey or a look.

    async def _make_rounds(self) -> None:
        await self._synced.wait()
        while True:
            self.look_at_everything()
            await self._clock.sleep(self._round_seconds)

    async def _follow_records(self) -> None:
        async with aclosing(self._store.watch()) as events:
            async for event in events:
                if isinstance(event, Changed):
                    self._record_changed(event.object)
                elif isinstance(event, Deleted):
                    self._record_deleted(event.object)
                else:
                    self._synced.set()

    def _record_changed(self, record: LocalDisk) -> None:
        if record.spec.node_name != self._node:
            return
        place = Place(record.spec.storage_class_name, record.spec.entry)
        known = self._records.get(place)
        if known is not None and known.metadata.resource_version == record.metadata.resource_version:
            return
        self._records[place] = record
        if known is not None and rules.taken(known) and not rules.taken(record):
            # It was cleaned: what is known of it is from before.
            self._stale.add(place)
            self._wake_duplicates()
        if self._synced.is_set():
            self._looks.add(place)

    def _record_deleted(self, record: LocalDisk) -> None:
        place = Place(record.spec.storage_class_name, record.spec.entry)
        if record.spec.node_name == self._node and self._records.pop(place, None) is not None:
            self._looks.add(place)
            self._wake_duplicates()

    def _wake_duplicates(self) -> None:
        for place, record in self._records.items():
            if record.status.reason == "DuplicateDevice":
                self._looks.add(place)

    async def _follow_folders(self) -> None:
        while True:
            self._reconfigured.clear()
            try:
                feed = self._folders.changes({Path(settings.mount_dir) for settings in self._classes.values()})
            except errors.NotSupported as error:
                log.warning("folders are not watched reason=%s hint=%s", error, error.hint)
                await self._reconfigured.wait()
                continue
            async with feed:
                self._folder_feed = feed
                # It listens from now on; what happened between the last survey and now it does not tell.
                self._survey_soon()
                async for folder in feed:
                    self._survey_soon(folder)

    async def _follow_mounts(self) -> None:
        async with self._mounts.changes() as feed:
            async for _ in feed:
                self._survey_soon()

    async def _follow_devices(self) -> None:
        try:
            feed = self._uevents.changes()
        except errors.NotSupported as error:
            log.warning("devices are not told reason=%s hint=%s", error, error.hint)
            return
        async with feed:
            async for event in feed:
                if event.lost:
                    self._stale.update(self._sightings)
                elif event.subsystem != "block":
                    continue
                self._told = self._clock.monotonic()
                for place in self._sightings:
                    if event.lost or self._concerns(event, place):
                        self._stale.add(place)
                        self._looks.add_after(place, GATHER_SECONDS)
                self._survey_soon()

    def _concerns(self, event: Uevent, place: Place) -> bool:
        """Whether an event is about an entry's device, the disk that it is a part of, or a part of it."""
        if event.device is not None and event.device == self._sightings[place].entry.device:
            return True
        device, name = self._facts.get(place, NOTHING).device, os.path.basename(event.device_name)
        return device is not None and bool(name) and (name == device.parent or name.startswith(device.kernel_name))

    def _survey_soon(self, folder: Path | None = None) -> None:
        for name, settings in self._classes.items():
            if folder is None or folder in (Path(settings.mount_dir), Path("/")):
                self._surveys.add_after(name, GATHER_SECONDS)

    # Surveys.

    async def _survey(self, name: str) -> Outcome:
        await self._synced.wait()
        settings = self._classes.get(name)
        found: dict[Place, Sighting] = {}
        ignored: dict[Place, str] = {}
        if settings is not None:
            try:
                found, ignored = await self._sight(settings)
            except (errors.HostError, OSError) as error:
                # Not to be mistaken for an empty directory: everything stays as it is known.
                log.warning("directory cannot be read class=%s folder=%s reason=%s", name, settings.mount_dir, error)
                return LookAgain(after=AGAIN_SECONDS[-1])
        if self._classes.get(name) != settings:
            return LookAgain(after=0)
        self._take_over(name, found, ignored, first=name not in self._surveyed)
        self._surveyed.add(name)
        if self._clock.monotonic() - self._told < UDEV_PATIENCE_SECONDS and any(
            sighting.entry.kind is FileKind.DANGLING_LINK for sighting in found.values()
        ):
            return LookAgain(after=UDEV_SECONDS)
        return Done()

    async def _sight(self, settings: ClassSettings) -> tuple[dict[Place, Sighting], dict[Place, str]]:
        folder = Path(settings.mount_dir)
        found: dict[Place, Sighting] = {}
        ignored: dict[Place, str] = {}
        try:
            entries = await self._folders.entries(folder)
        except (FileNotFoundError, NotADirectoryError):
            return found, ignored
        real_folder = await self._workers.call(
            lambda: Path(os.path.realpath(folder)), key=str(folder), timeout=LOOK_SECONDS
        )
        # The table is read after the entries: a directory that was listed before its mount was made is then seen with
        # it, and the other way round its lack is found by the event that follows.
        mounts = Index(await self._mounts.table())
        for entry in entries:
            place = Place(settings.name, entry.name)
            if word := _unfit(entry.name, settings):
                ignored[place] = word
            else:
                found[place] = see(entry, folder=folder, real_folder=real_folder, mounts=mounts)
        return found, ignored

    def _take_over(self, name: str, found: dict[Place, Sighting], ignored: dict[Place, str], *, first: bool) -> None:
        known = {place for place in self._sightings if place.storage_class == name}
        recorded = {place for place in self._records if place.storage_class == name}
        for place in self._ignored.keys() - ignored.keys():
            if place.storage_class == name:
                del self._ignored[place]
        for place, word in ignored.items():
            if self._ignored.get(place) != word:
                log.info("entry is ignored class=%s entry=%r reason=%s", *place, word)
            self._ignored[place] = word
        changed = {place for place, sighting in found.items() if self._sightings.get(place) != sighting}
        lost = (known | recorded) - found.keys()
        for place in changed:
            if place not in known and not first:
                self._since[place] = self._clock.monotonic()
            self._sightings[place] = found[place]
            self._stale.add(place)
        for place in lost:
            self._sightings.pop(place, None)
            self._facts.pop(place, None)
            self._since.pop(place, None)
            self._stale.discard(place)
        for place in sorted(changed | (found.keys() if first else set()) | lost):
            self._looks.add(place)
        if (changed or lost) and not first:
            self._wake_duplicates()

    # Looks.

    async def _look(self, place: Place) -> Outcome:
        await self._synced.wait()
        settings = self._classes.get(place.storage_class)
        if settings is not None and place.storage_class not in self._surveyed:
            return Done()  # its survey asks for a look
        sighting = self._sightings.get(place)
        if settings is None or sighting is None:
            await self._bring_gone(place, settings)
            outcome: Outcome = Done()
        else:
            outcome = await self._bring_seen(place, settings, sighting)
        if not len(self._looks) and self._surveyed >= self._classes.keys():
            self._looked.set()
        return outcome

    async def _bring_seen(self, place: Place, settings: ClassSettings, sighting: Sighting) -> Outcome:
        record = self._records.get(place)
        published = record is not None and rules.taken(record)
        facts = self._facts.get(place)
        if facts is None or place in self._stale or (not published and _never_tried(facts)):
            self._stale.discard(place)
            facts = self._facts[place] = await self._eyes.look(sighting, exclusive=not published)
            record = self._records.get(place)
        left = self._left_to_settle(place)
        case = Case(
            settings=settings,
            sighting=sighting,
            facts=facts,
            record=record,
            rival=rivals.stronger(place, sightings=self._sightings, facts=self._facts, records=self._records),
            settling=left > 0 and sighting.mount is None and sighting.entry.device is None,
        )
        verdict = rules.judge(case)
        spec = self._spec(place, settings, verdict.mode)
        record = await self._recorded(place, record, spec)
        if record is None:
            return Done()
        await self._write(place, record, standing.seen(record, verdict, sighting, facts))
        if case.settling:
            return LookAgain(after=left)
        return self._again(place) if verdict.reason in _PASSING else self._calm(place)

    def _again(self, place: Place) -> Outcome:
        tries = self._tries.get(place, 0)
        if tries >= len(AGAIN_SECONDS):
            return Done()
        self._tries[place] = tries + 1
        self._stale.add(place)
        return LookAgain(after=AGAIN_SECONDS[tries])

    def _calm(self, place: Place) -> Outcome:
        self._tries.pop(place, None)
        return Done()

    def _left_to_settle(self, place: Place) -> float:
        since = self._since.get(place)
        return 0.0 if since is None else since + self._settle_seconds - self._clock.monotonic()

    async def _bring_gone(self, place: Place, settings: ClassSettings | None) -> None:
        record = self._records.get(place)
        if record is None:
            return
        if settings is not None and str(Path(settings.mount_dir) / place.entry) in self._workers.stuck():
            hung = "The disk gives no answer. Look at the kernel log for its errors."
            await self._write(place, record, standing.gone(record, "Hung", hung, phase=None))
        elif not standing.worth_keeping(record):
            # Deleted as it was read: if the manager has given it to a volume meanwhile, it stays.
            await self._store.delete(record)
            if self._records.get(place) is record:
                del self._records[place]
            log.info("record deleted class=%s entry=%r disk=%s", *place, record.metadata.name)
        elif settings is None:
            why = (
                f"Class {place.storage_class} is not configured on this node any more; put it back to manage the disk."
            )
            await self._write(place, record, standing.gone(record, "ClassRemoved", why, phase=Phase.UNAVAILABLE))
        elif word := self._ignored.get(place):
            why = "The name pattern of the class does not match the entry any more."
            await self._write(place, record, standing.gone(record, word, why, phase=Phase.UNAVAILABLE))
        else:
            why = f"{record.spec.path} is not there any more; put the disk back."
            await self._write(place, record, standing.gone(record, "Gone", why))

    def _spec(self, place: Place, settings: ClassSettings, mode: str) -> LocalDiskSpec:
        return LocalDiskSpec(
            node_name=self._node,
            storage_class_name=place.storage_class,
            entry=place.entry,
            path=os.path.join(settings.host_dir, place.entry),
            volume_mode=str(mode),
            fs_type=settings.fs_type,
        )

    async def _recorded(self, place: Place, record: LocalDisk | None, spec: LocalDiskSpec) -> LocalDisk | None:
        """The record of an entry, made or brought in step with the class; None when its name is somebody else's."""
        if record is None:
            name = disk_name(self._node, *place)
            try:
                record = await self._store.create(LocalDisk(metadata=ObjectMeta(name=name), spec=spec))
            except errors.AlreadyExists:
                record = await self._store.get(name)
            if record is None or (record.spec.node_name, record.spec.storage_class_name, record.spec.entry) != (
                self._node,
                *place,
            ):
                log.error("name of the record is taken disk=%s class=%s entry=%r", name, *place)
                return None
            self._records[place] = record
            return record
        ours = msgspec.structs.replace(record.spec, path=spec.path, volume_mode=spec.volume_mode, fs_type=spec.fs_type)
        if ours != record.spec and not rules.taken(record):
            record = await self._guarded(place, self._store.write_spec(record, ours))
        return record

    async def _write(self, place: Place, record: LocalDisk, status: LocalDiskStatus) -> None:
        if status == record.status:
            return
        written = await self._guarded(place, self._store.write_status(record, status))
        if written.status.phase != record.status.phase:
            log.info(
                "disk class=%s entry=%r disk=%s phase=%s reason=%s",
                *place,
                record.metadata.name,
                status.phase,
                status.reason,
            )

    async def _guarded(self, place: Place, writing: Awaitable[LocalDisk]) -> LocalDisk:
        """Write, and remember what was written; on a conflict read the record again before the next try."""
        try:
            written = await writing
        except (errors.Conflict, errors.NotFound):
            await self._reread(place)
            raise
        self._records[place] = written
        return written

    async def _reread(self, place: Place) -> None:
        record = await self._store.get(disk_name(self._node, *place))
        if record is None:
            self._records.pop(place, None)
        else:
            self._records[place] = record


def _unfit(name: str, settings: ClassSettings) -> str:
    """Why an entry gets no record, as a word; empty when it gets one."""
    if not settings.name_pattern.matches(name):
        return "NameNotMatched"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "NameNotText"
    return ""


def _never_tried(facts: Facts) -> bool:
    return facts.device is not None and facts.device.opens_exclusively is None
