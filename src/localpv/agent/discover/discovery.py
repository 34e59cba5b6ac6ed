"""The component that keeps the LocalDisks of one node true.

Two queues. Surveys, by class: list the discovery directory, read the mount table, and see which entries came, went or
changed; that is quick and asks no disk. Looks, by entry: ask the disk if something speaks for it, judge, and bring the
record in step (`reconciler`). A disk that hangs holds one look and nothing else.

What starts them is in `triggers`; whatever those miss a full round finds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from localpv import errors
from localpv.agent.discover import candidate, phase, remains
from localpv.agent.discover.entry import Place, Sighting
from localpv.agent.discover.inventory import Inventory
from localpv.agent.discover.keeper import Keeper
from localpv.agent.discover.probe import NOTHING, DiskProbe
from localpv.agent.discover.reconciler import AGAIN_SECONDS, SETTLE_SECONDS, DiskReconciler
from localpv.agent.discover.survey import Survey, Surveyor
from localpv.agent.discover.triggers import Triggers
from localpv.api.kinds.localdisk import LocalDisk
from localpv.config.settings import MIN_RESYNC_SECONDS, ClassSettings, Configuration, Folder
from localpv.disk import labels
from localpv.disk.records import Ours, Records, every_record
from localpv.host.devices import Devices
from localpv.host.folders import FileKind, Folders
from localpv.host.marks import Marks
from localpv.host.model.devices import DeviceNumber
from localpv.host.mounts import Mounts
from localpv.host.uevents import Uevent, Uevents
from localpv.host.workers import Workers
from localpv.observe.discovery import Discoveries
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller, Done, LookAgain, Outcome
from localpv.runtime.queue import Observing, WorkQueue, unobserved

log = logging.getLogger(__name__)

ROUND_SECONDS = 60.0
"""Everything is looked at this often, whether or not something was told, apart from disks that volumes have and that
were well: the kernel tells most of what can happen to those, nobody else gets them meanwhile, and whoever wipes one
looks at it once more. They have their turn after minResyncPeriod."""

GATHER_SECONDS = 0.003
"""How long changes are gathered before a survey: mounting and linking come in bursts."""

REST_FACTOR = 1.0
"""A survey is followed by the next one only after so many times as long as it took: on a machine that mounts all the
time, surveys take at most half a core."""

LOOKS_AT_ONCE = 32
SURVEYS_AT_ONCE = 8

UDEV_SECONDS = 1.0
UDEV_PATIENCE_SECONDS = 10.0
"""The kernel tells of a device before udev has made its links: for so long, links to nowhere are looked at again."""

_BY_OTHERS = frozenset({labels.DUPLICATE, "CountReached", "NotCleaned", labels.NOT_ERASED})
"""Reasons that may end with what is known of another entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """What discovery sees of the machine."""

    folders: Folders
    mounts: Mounts
    devices: Devices
    marks: Marks
    uevents: Uevents
    workers: Workers


class Discovery:
    """Run it in a group; `configure` it with every new version of the configuration."""

    def __init__(
        self,
        *,
        node: str,
        records: Records,
        host: HostView,
        clock: Clock,
        configuration: Configuration | None = None,
        round_seconds: float = ROUND_SECONDS,
        settle_seconds: float = SETTLE_SECONDS,
        recorder: Discoveries | None = None,
        observe: Observing = unobserved,
        ours: Ours = every_record,
        engine: str = "",
    ) -> None:
        """`ours` says which records whose class or directory is not configured are judged all the same, `engine` which
        LocalStorages are those of this engine."""
        self._ours = ours
        self._clock = clock
        self._round_seconds = round_seconds
        self._recorder = recorder or Discoveries()
        self._surveyor = Surveyor(folders=host.folders, mounts=host.mounts, workers=host.workers, belongs=self._belongs)
        self._devices = host.devices
        self._probe = DiskProbe(devices=host.devices, folders=host.folders, marks=host.marks, engine=engine)
        self._keeper = Keeper(node=node, records=records, on_change=self._record_changed)
        self._triggers = Triggers(
            folders=host.folders,
            mounts=host.mounts,
            uevents=host.uevents,
            survey=self._survey_soon,
            device=self._device_changed,
        )
        self._inventory = Inventory()
        self._reconciler = DiskReconciler(
            node=node,
            keeper=self._keeper,
            inventory=self._inventory,
            probe=self._probe,
            clock=clock,
            recorder=self._recorder,
            settle_seconds=settle_seconds,
            ours=ours,
            wake_duplicates=self._wake_duplicates,
        )
        self._classes: Mapping[str, ClassSettings] = {}
        self._resync_seconds = MIN_RESYNC_SECONDS
        self._surveyed: set[str] = set()
        self._rest_until: dict[str, float] = {}
        self._ignored: dict[Place, str] = {}
        self._looked_at: set[Place] = set()
        self._looked = asyncio.Event()
        self._told = float("-inf")
        """When the kernel last told something about a device."""

        self._recent: dict[DeviceNumber, float] = {}
        """The same for each device, for a while."""

        self._surveys: WorkQueue[str] = WorkQueue(clock=clock, observer=observe("survey"))
        self._looks: WorkQueue[Place] = WorkQueue(clock=clock, observer=observe("look"))
        self._loops: WorkQueue[str] = WorkQueue(clock=clock)
        if configuration is not None:
            self.configure(configuration)

    @property
    def ignored(self) -> Mapping[Place, str]:
        """Entries that have no record, with the word that says why."""
        return MappingProxyType(self._ignored)

    @property
    def records(self) -> Mapping[Place, LocalDisk]:
        """The LocalDisks of this node."""
        return self._keeper.records

    @property
    def synced(self) -> bool:
        """Whether all records are known, and every directory has been looked through once."""
        return self._keeper.synced.is_set() and self._surveyed >= self._classes.keys()

    @property
    def sightings(self) -> Mapping[Place, Sighting]:
        """What lies in the discovery directories."""
        return self._inventory.sightings

    def configure(self, configuration: Configuration) -> None:
        """Let a new configuration take effect; classes that are in it no more included."""
        before, self._classes = self._classes, configuration.classes
        self._resync_seconds = configuration.min_resync_seconds
        for name in before.keys() | self._classes.keys():
            if before.get(name) != self._classes.get(name):
                self._surveyed.discard(name)
                for place in self._inventory.of_class(name):
                    self._inventory.doubt(place)
                self._surveys.add(name)
        self._triggers.watch({folder.mount_dir for each in self._classes.values() for folder in each.folders})

    def look_at_everything(self, *, also_volumes: bool = True) -> None:
        """Start a full round now, with or without the disks that volumes have."""
        self._probe.forget()
        records = self._keeper.records
        for name in {*self._classes, *(place.storage_class for place in records)}:
            self._surveys.add(name)
        for place in {*self.sightings, *records}:
            record = records.get(place)
            if also_volumes or record is None or not (remains.taken(record) and record.status.eligible):
                self._inventory.doubt(place)
                self._looks.add(place)

    async def wait_looked(self) -> None:
        """Return once every entry that was there at the start has been looked at."""
        await self._looked.wait()

    async def run(self) -> None:
        surveying = Controller("survey", self._survey, queue=self._surveys, clock=self._clock, workers=SURVEYS_AT_ONCE)
        looking = Controller("look", self._look, queue=self._looks, clock=self._clock, workers=LOOKS_AT_ONCE)
        mapping = Controller("map", self._doubt_below, queue=self._loops, clock=self._clock, workers=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keeper.follow(), name="discovery records")
            group.create_task(self._triggers.run(), name="discovery triggers")
            group.create_task(self._make_rounds(), name="discovery rounds")
            group.create_task(surveying.run(), name="discovery surveys")
            group.create_task(looking.run(), name="discovery looks")
            group.create_task(mapping.run(), name="discovery loop devices")

    # What starts a survey or a look.

    async def _make_rounds(self) -> None:
        await self._keeper.synced.wait()
        last, share = float("-inf"), 1.0
        while True:
            full = self._clock.monotonic() >= last + share * self._resync_seconds
            self.look_at_everything(also_volumes=full)
            if full:
                # As the classic provisioner does, so that the nodes of a cluster do not ask all at once.
                last, share = self._clock.monotonic(), random.uniform(1.0, 2.0)
            left = last + share * self._resync_seconds - self._clock.monotonic()
            await self._clock.sleep(min(self._round_seconds, max(left, 0.0)))

    def _survey_soon(self, folder: str = "", *, at_least: float = 0.0) -> None:
        now = self._clock.monotonic()
        for name, settings in self._classes.items():
            if not folder or any(folder == each.mount_dir for each in settings.folders):
                wait = max(GATHER_SECONDS, at_least, self._rest_until.get(name, 0.0) - now)
                self._surveys.add_after(name, wait)

    def _device_changed(self, event: Uevent) -> None:
        self._told = self._clock.monotonic()
        if event.device is not None:
            self._recent[event.device] = self._told
        ours = False
        for place, sighting in self.sightings.items():
            if event.lost or self._concerns(event, place, sighting):
                ours = True
                self._inventory.doubt(place)
                self._looks.add_after(place, GATHER_SECONDS)
            elif sighting.entry.kind is FileKind.DANGLING_LINK:
                ours = True
        name = os.path.basename(event.device_name)
        if name.startswith("loop"):
            self._loops.add(name)
        # A link may lead to another device now. Where that is not likely it has time: others' devices may come and go
        # all day long.
        self._survey_soon(at_least=0.0 if ours else UDEV_SECONDS)

    def _concerns(self, event: Uevent, place: Place, sighting: Sighting) -> bool:
        """Whether an event is about an entry's device, the disk that it is a part of, or a part of it."""
        if event.device is not None and event.device == _device(sighting):
            return True
        if sighting.entry.device is None:
            return False
        device, name = self._inventory.facts.get(place, NOTHING).device, os.path.basename(event.device_name)
        return device is not None and bool(name) and (name == device.parent or name.startswith(device.kernel_name))

    async def _doubt_below(self, loop: str) -> Outcome:
        """A loop device came or went: kubelet and the engine keep one on a raw device while pods have it, and nothing
        else tells."""
        below = await self._devices.below(loop)
        for place, sighting in self.sightings.items():
            device = self._inventory.facts.get(place, NOTHING).device
            had = device is not None and loop in device.holders
            if had is not (below is not None and below == sighting.entry.device):
                self._inventory.doubt(place)
                self._looks.add(place)
        return Done()

    def _record_changed(self, place: Place, before: LocalDisk | None, record: LocalDisk | None) -> None:
        if before is not None and remains.taken(before) and (record is None or not remains.taken(record)):
            self._inventory.doubt(place)  # what is known of it is from before it was cleaned
            self._wake_duplicates()
        elif record is None:
            self._wake_duplicates()
        if self._keeper.synced.is_set():
            self._looks.add(place)

    def _wake_duplicates(self) -> None:
        for place, record in self._keeper.records.items():
            if record.status.reason in _BY_OTHERS:
                self._looks.add(place)

    # Surveys.

    async def _survey(self, name: str) -> Outcome:
        await self._keeper.synced.wait()
        began = self._clock.monotonic()
        settings = self._classes.get(name)
        try:
            survey = await self._surveyor.survey(settings) if settings else Survey()
        except (errors.HostError, OSError) as error:
            # Not to be mistaken for an empty directory: everything stays as it is known.
            log.warning("directory cannot be read class=%s reason=%s", name, error)
            self._recorder.unreadable(name)
            return LookAgain(after=AGAIN_SECONDS[-1])
        if self._classes.get(name) != settings:
            return Done()  # the change has asked for another survey
        self._take_over(name, survey)
        now = self._clock.monotonic()
        self._rest_until[name] = now + REST_FACTOR * (now - began)
        self._recorder.surveyed(name, seconds=now - began)
        dangling = any(sighting.entry.kind is FileKind.DANGLING_LINK for sighting in survey.found.values())
        if dangling and now - self._told < UDEV_PATIENCE_SECONDS:
            return LookAgain(after=UDEV_SECONDS)
        return Done()

    def _belongs(self, place: Place, settings: ClassSettings, folder: Folder) -> bool:
        record = self._keeper.records.get(place)
        if record is None:
            return True
        home = settings.folder_of(record.spec.path)
        if home is None:
            # A volume leads to its path: what has the same name elsewhere is another disk.
            return not remains.taken(record) and self._ours(record)
        return home == folder or not phase.bound(record)

    def _take_over(self, name: str, survey: Survey) -> None:
        first, now = name not in self._surveyed, self._clock.monotonic()
        self._surveyed.add(name)
        since = None if first else now
        recorded = {place for place in self._keeper.records if place.storage_class == name}
        lost = (self._inventory.of_class(name) | recorded) - survey.found.keys()
        changed = {place for place, seen in survey.found.items() if self._inventory.see(place, seen, since=since)}
        for place in lost:
            self._inventory.lose(place)
        if changed or lost:
            self._probe.forget()
        self._take_over_ignored(name, survey)
        for place in sorted({*changed, *lost, *self._remade(name), *(survey.found if first else ())}):
            self._looks.add(place)
        if (changed or lost) and not first:
            self._wake_duplicates()
        self._tell_looked()

    def _remade(self, name: str) -> Iterator[Place]:
        """Mount points that look as before and may show another disk all the same.

        The kernel gives numbers of mounts and of devices to the next ones, so an unmount and a mount between two
        surveys cannot be seen in the table. It takes another device under the same number, though, which is told.
        """
        old = self._clock.monotonic() - UDEV_PATIENCE_SECONDS
        self._recent = {device: told for device, told in self._recent.items() if told > old}
        if self._recent:
            for place in self._inventory.of_class(name):
                sighting = self.sightings[place]
                if sighting.mount is not None and sighting.mount.device in self._recent:
                    self._inventory.doubt(place)
                    yield place

    def _take_over_ignored(self, name: str, survey: Survey) -> None:
        for place in [place for place in self._ignored if place.storage_class == name]:
            if place not in survey.ignored:
                del self._ignored[place]
        for place, word in survey.ignored.items():
            if self._ignored.get(place) != word:
                log.info("entry is ignored class=%s entry=%r reason=%s", *place, word)
                self._ignored[place] = word

    # Looks.

    async def _look(self, place: Place) -> Outcome:
        await self._keeper.synced.wait()
        settings = self._classes.get(place.storage_class)
        if settings is not None and place.storage_class not in self._surveyed:
            return Done()  # its survey asks for a look
        sighting = self.sightings.get(place)
        if settings is None or sighting is None:
            hangs = settings is not None and self._surveyor.hangs(settings, place.entry)
            await self._reconciler.gone(place, settings, hangs=hangs, ignored=self._ignored.get(place, ""))
            outcome: Outcome = Done()
        elif not self._belongs(place, settings, candidate.folder(settings, sighting)):
            self._surveys.add(place.storage_class)  # it was seen before its record was bound to another directory
            outcome = Done()
        else:
            outcome = await self._reconciler.seen(place, settings, sighting)
        if not self._looked.is_set():
            self._looked_at.add(place)
            self._tell_looked()
        return outcome

    def _tell_looked(self) -> None:
        if self._surveyed >= self._classes.keys() and self._looked_at >= self.sightings.keys():
            self._looked.set()
            self._looked_at.clear()


def _device(sighting: Sighting) -> DeviceNumber | None:
    """Numbers of the device of an entry, or of the one that is mounted there."""
    return sighting.mount.device if sighting.mount is not None else sighting.entry.device
