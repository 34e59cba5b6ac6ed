"""What leads to which survey and which look, one step at a time: nothing runs by itself here."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.agent.discover.world import FOLDER, NODE, a_class, configured
from tests.unit.manager.worlds import FakeEvents

from localpv import errors
from localpv.agent.discover import discovery as module
from localpv.agent.discover import reconciler
from localpv.agent.discover.discovery import GATHER_SECONDS, UDEV_PATIENCE_SECONDS, UDEV_SECONDS
from localpv.agent.discover.entry import Place, Sighting
from localpv.agent.discover.inventory import Inventory
from localpv.agent.discover.probe import NOTHING, Facts
from localpv.agent.discover.reconciler import AGAIN_SECONDS
from localpv.api.kinds.localdisk import LocalDisk, OfferedVolume
from localpv.disk.records.folder import FolderRecords
from localpv.disk.records.names import disk_name
from localpv.host.folders import Entry, FileKind
from localpv.host.model.devices import BlockDevice
from localpv.host.uevents import LOST, Uevent
from localpv.host.workers import Workers
from localpv.observe.discovery import Discoveries
from localpv.runtime.controller import Done, LookAgain, Outcome
from localpv.testing.clock import FakeClock
from localpv.testing.fake_host import FakeDevices, FakeFolders, FakeMachine, FakeMounts, FakeUevents
from localpv.testing.fake_volume_host import FakeMarks

SETTLE_SECONDS = 5.0


class Found(Discoveries):
    """A discovery's recorder: what was found and after how long."""

    def __init__(self, to: FakeEvents) -> None:
        super().__init__(to=to)
        self.seconds: list[float] = []
        self.bad: list[str] = []

    def found(self, mode: str, *, seconds: float) -> None:
        self.seconds.append(seconds)

    def unreadable(self, name: str) -> None:
        self.bad.append(name)

    def surveyed(self, name: str, *, seconds: float) -> None:
        pass


class Steps:
    def __init__(self, machine: FakeMachine, records: FolderRecords) -> None:
        self.machine, self.records, self.clock = machine, records, FakeClock()
        self.events = FakeEvents()
        self.metrics = Found(self.events)
        self.described: list[str] = []
        real = machine.describe

        def describe(path: Path, *, exclusive: bool) -> BlockDevice:
            self.described.append(path.name)
            return real(path, exclusive=exclusive)

        machine.describe = describe  # type: ignore[method-assign]
        self.discovery = module.Discovery(
            node=NODE,
            records=records,
            host=module.HostView(
                folders=FakeFolders(machine),
                mounts=FakeMounts(machine),
                devices=FakeDevices(machine),
                marks=FakeMarks(),
                uevents=FakeUevents(machine),
                workers=Workers(),
            ),
            clock=self.clock,
            configuration=configured(a_class()),
            settle_seconds=SETTLE_SECONDS,
            recorder=self.metrics,
        )

    @property
    def asked(self) -> set[str]:
        """Entries that are to be looked at now or soon; asked once."""
        return {place.entry for place in _emptied(self.discovery._looks)}

    @property
    def surveys(self) -> dict[str, float]:
        """Classes that are to be surveyed, and in how many seconds; asked once."""
        return _emptied(self.discovery._surveys)

    async def look(self, entry: str, storage_class: str = "fast") -> Outcome:
        return await self.discovery._look(Place(storage_class, entry))

    async def survey(self, name: str = "fast") -> Outcome:
        return await self.discovery._survey(name)

    async def everything(self) -> None:
        """Survey, and look at whatever is to be looked at, until there is nothing more."""
        await self.survey()
        while places := _emptied(self.discovery._looks):
            for place in places:
                await self.discovery._look(place)
        _emptied(self.discovery._surveys)
        self.described.clear()

    def disk(self, entry: str) -> LocalDisk:
        return self.discovery.records[Place("fast", entry)]

    async def write(self, entry: str, **spec: Any) -> LocalDisk:
        """As the manager does it; the discovery hears of it."""
        name = disk_name(NODE, "fast", entry)
        disk = await self.records.get(name)
        assert disk is not None
        written = await self.records.write_spec(disk, msgspec.structs.replace(disk.spec, **spec))
        self.discovery._keeper._changed(written)
        return written

    async def publish(self, entry: str) -> LocalDisk:
        offered = OfferedVolume(name=f"pv-{entry}", uid=f"uid-{entry}")
        return await self.write(entry, volume=offered, identity=self.disk(entry).status.identity)

    def add_disk(self, entry: str, **known: Any) -> BlockDevice:
        made = self.machine.add_disk(f"/dev/{entry}", **known)
        self.machine.link(f"{FOLDER}/{entry}", f"/dev/{entry}")
        return made


def _emptied(queue: Any) -> dict[Any, float]:
    found = {key: 0.0 for key in queue._waiting}
    found |= {key: when - queue._clock.monotonic() for key, (when, _) in queue._later.items()}
    queue._waiting.clear()
    for _, timer in queue._later.values():
        timer.cancel()
    queue._later.clear()
    return found


@pytest.fixture
async def steps(machine: FakeMachine, tmp_path: Path) -> AsyncIterator[Steps]:
    records = FolderRecords(tmp_path / "state")
    records.open()
    made = Steps(machine, records)
    made.discovery._keeper.synced.set()
    yield made
    records.close()


def event(device: BlockDevice | None = None, *, name: str = "", action: str = "change") -> Uevent:
    named = name or (device.kernel_name if device else "")
    return Uevent(action=action, subsystem="block", device_name=named, device=device.number if device else None)


# Devices.


async def test_message_about_a_device_concerns_it_its_parts_and_what_it_is_a_part_of(steps: Steps) -> None:
    disk = steps.add_disk("sdb")
    part = steps.add_disk("sdb1", parent="sdb")
    other = steps.add_disk("sdc")
    steps.machine.make_folder(f"{FOLDER}/folder")
    await steps.everything()
    for told, concerned in ((disk, {"sdb", "sdb1"}), (part, {"sdb", "sdb1"}), (other, {"sdc"})):
        steps.discovery._device_changed(event(told))
        assert steps.asked == concerned
        assert steps.surveys == {"fast": pytest.approx(GATHER_SECONDS)}
        for entry in concerned:
            await steps.look(entry)
        assert {*steps.described} == concerned
        steps.described.clear()
    steps.discovery._device_changed(event(name="sdb"))
    assert steps.asked == {"sdb", "sdb1"}, "a message may lack the numbers"


async def test_message_about_the_device_of_a_mount_concerns_the_mount_point(steps: Steps) -> None:
    disk = steps.machine.add_disk("/dev/sdd")
    steps.machine.mount("/dev/sdd", f"{FOLDER}/mounted")
    await steps.everything()
    steps.discovery._device_changed(event(disk))
    assert steps.asked == {"mounted"}


async def test_message_about_somebody_elses_device_leads_to_a_survey_later(steps: Steps) -> None:
    steps.add_disk("sdb")
    await steps.everything()
    stranger = steps.machine.add_disk("/dev/sdz")
    for message in (event(stranger), event()):
        steps.discovery._device_changed(message)
        assert steps.asked == set()
        assert steps.surveys == {"fast": UDEV_SECONDS}
    steps.machine.link(f"{FOLDER}/later", "/dev/not-there")
    await steps.everything()
    steps.discovery._device_changed(event(stranger))
    assert steps.surveys == {"fast": pytest.approx(GATHER_SECONDS)}, "the link may lead to it now"


async def test_lost_messages_may_have_been_about_anything(steps: Steps) -> None:
    steps.add_disk("sdb")
    steps.machine.make_folder(f"{FOLDER}/folder")
    await steps.everything()
    steps.discovery._device_changed(LOST)
    assert steps.asked == {"sdb", "folder"}


async def test_loop_device_concerns_only_the_disk_that_it_lies_on(steps: Steps) -> None:
    steps.add_disk("sdb")
    steps.add_disk("sdc")
    steps.machine.make_folder(f"{FOLDER}/folder")
    await steps.everything()
    steps.discovery._device_changed(event(name="loop7"))
    steps.discovery._device_changed(event(name="sdc"))
    assert [*_emptied(steps.discovery._loops)] == ["loop7"]
    disk = steps.machine.disks[Path("/dev/sdb")]
    assert steps.asked == {"sdc"}
    await steps.look("sdc")
    for holders, concerned in ((("loop7",), {"sdb"}), (("loop7",), set()), ((), {"sdb"}), ((), set())):
        disk.device = dataclasses.replace(disk.device, holders=holders)
        await steps.discovery._doubt_below("loop7")
        assert steps.asked == concerned
        steps.described.clear()
        for entry in concerned:
            await steps.look(entry)
            assert steps.described == [entry]
            _emptied(steps.discovery._looks)


# Surveys.


async def test_survey_asks_for_a_look_at_what_came_changed_or_went_and_at_nothing_else(steps: Steps) -> None:
    steps.add_disk("sdb")
    steps.add_disk("sdc")
    await steps.everything()
    await steps.survey()
    assert steps.asked == set()
    steps.add_disk("sdd")
    steps.machine.remove(f"{FOLDER}/sdc")
    steps.machine.link(f"{FOLDER}/sdb", "/dev/sdd")
    await steps.survey()
    assert steps.asked == {"sdb", "sdc", "sdd"}


async def test_record_whose_entry_is_gone_at_the_start_is_looked_at(steps: Steps) -> None:
    steps.add_disk("sdb")
    await steps.everything()
    steps.machine.remove(f"{FOLDER}/sdb")
    steps.discovery._inventory.lose(Place("fast", "sdb"))  # as after a restart
    await steps.survey()
    assert steps.asked == {"sdb"}


async def test_class_that_changed_while_it_was_surveyed_is_not_taken_over(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.add_disk("sdb")
    real = steps.discovery._surveyor.survey

    async def survey(settings: Any) -> Any:
        found = await real(settings)
        steps.discovery.configure(configured(a_class(folder="/mnt/other")))
        return found

    monkeypatch.setattr(steps.discovery._surveyor, "survey", survey)
    assert await steps.survey() == Done()
    assert not steps.discovery.sightings and not steps.discovery.synced
    assert "fast" in steps.surveys


async def test_folder_that_cannot_be_read_leaves_everything_as_it_is_known(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.add_disk("sdb")
    await steps.everything()

    async def survey(settings: Any) -> Any:
        raise errors.HostError("no")

    monkeypatch.setattr(steps.discovery._surveyor, "survey", survey)
    assert await steps.survey() == LookAgain(after=AGAIN_SECONDS[-1])
    assert steps.asked == set() and steps.metrics.bad == ["fast"]
    assert Place("fast", "sdb") in steps.discovery.sightings


async def test_link_to_nowhere_is_looked_at_again_while_udev_may_still_be_at_work(steps: Steps) -> None:
    steps.machine.link(f"{FOLDER}/sdb", "/dev/sdb")
    assert await steps.survey() == Done(), "nothing was told about a device"
    steps.discovery._device_changed(event(name="sdz"))
    assert await steps.survey() == LookAgain(after=UDEV_SECONDS)
    await steps.clock.advance(UDEV_PATIENCE_SECONDS)
    assert await steps.survey() == Done()
    steps.discovery._device_changed(event(name="sdz"))
    steps.machine.add_disk("/dev/sdb")
    assert await steps.survey() == Done(), "it leads somewhere now"


async def test_survey_is_followed_by_the_next_one_only_after_a_rest(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = steps.discovery._surveyor.survey

    async def slow(settings: Any) -> Any:
        await steps.clock.advance(2.0)
        return await real(settings)

    monkeypatch.setattr(steps.discovery._surveyor, "survey", slow)
    await steps.survey()
    _emptied(steps.discovery._surveys)
    steps.discovery._survey_soon(FOLDER)
    assert steps.surveys == {"fast": 2.0}
    await steps.clock.advance(2.0)
    steps.discovery._survey_soon(FOLDER)
    assert steps.surveys == {"fast": pytest.approx(GATHER_SECONDS)}
    steps.discovery._survey_soon("/mnt/other")
    assert steps.surveys == {}


async def test_mount_point_may_show_another_disk_when_its_device_was_told_of_a_short_while_ago(steps: Steps) -> None:
    for name in ("sdb", "sdc"):
        steps.machine.add_disk(f"/dev/{name}")
        steps.machine.mount(f"/dev/{name}", f"{FOLDER}/{name}")
    steps.add_disk("sdd")
    await steps.everything()
    steps.discovery._device_changed(event(steps.machine.disks[Path("/dev/sdb")].device))
    await steps.look("sdb")
    assert steps.asked
    await steps.survey()
    assert steps.asked == {"sdb"}
    steps.described.clear()
    await steps.look("sdb")
    assert steps.described == ["sdb"]
    await steps.clock.advance(UDEV_PATIENCE_SECONDS)
    await steps.survey()
    assert steps.asked == set()


async def test_change_of_a_folder_wakes_who_waits_for_a_disk_that_another_entry_has(steps: Steps) -> None:
    steps.add_disk("sdb")
    steps.machine.link(f"{FOLDER}/second", "/dev/sdb")
    await steps.everything()
    assert steps.disk("second").status.reason == "DuplicateDevice"
    steps.machine.make_folder(f"{FOLDER}/folder")
    await steps.survey()
    assert steps.asked == {"folder", "second"}
    await steps.everything()
    steps.machine.remove(f"{FOLDER}/folder")
    await steps.survey()
    assert steps.asked == {"folder", "second"}


# Records.


async def test_record_that_changed_is_looked_at_and_its_disk_only_when_it_was_taken_back(steps: Steps) -> None:
    steps.add_disk("sdb")
    steps.add_disk("sdc")
    steps.machine.link(f"{FOLDER}/second", "/dev/sdc")
    await steps.everything()
    await steps.publish("sdb")
    assert steps.asked == {"sdb"}
    await steps.look("sdb")
    assert steps.described == [], "it was asked before, and nothing speaks for another look"
    await steps.write("sdb", volume=None, identity=None)
    assert steps.asked == {"sdb", "second"}
    await steps.look("sdb")
    assert steps.described == ["sdb"]


async def test_record_that_is_deleted_wakes_who_waits_for_its_disk(steps: Steps) -> None:
    steps.add_disk("sdb")
    steps.machine.link(f"{FOLDER}/second", "/dev/sdb")
    await steps.everything()
    steps.discovery._keeper._deleted(steps.disk("sdb"))
    assert steps.asked == {"sdb", "second"}


async def test_nothing_is_looked_at_for_records_before_all_of_them_are_known(steps: Steps) -> None:
    steps.add_disk("sdb")
    await steps.everything()
    steps.discovery._keeper.synced.clear()
    await steps.publish("sdb")
    assert steps.asked == set()
    assert not steps.discovery.synced


# Looks.


async def test_disk_that_is_busy_is_asked_again_a_few_times(steps: Steps) -> None:
    steps.add_disk("sdb")
    disk = steps.machine.disks[Path("/dev/sdb")]
    disk.held = True
    await steps.survey()
    for seconds in AGAIN_SECONDS:
        assert await steps.look("sdb") == LookAgain(after=seconds)
    steps.described.clear()
    assert await steps.look("sdb") == Done()
    assert steps.described == ["sdb"], "the last try is one too"
    assert await steps.look("sdb") == Done()
    assert steps.described == ["sdb"]
    disk.held = False
    steps.discovery._device_changed(event(disk.device))
    assert await steps.look("sdb") == Done()
    assert steps.disk("sdb").status.phase == "Available"
    disk.held = True
    steps.discovery._device_changed(event(disk.device))
    assert await steps.look("sdb") == LookAgain(after=AGAIN_SECONDS[0]), "it was well meanwhile"


async def test_tries_are_counted_anew_for_an_entry_that_was_gone(steps: Steps) -> None:
    steps.add_disk("sdb")
    steps.machine.disks[Path("/dev/sdb")].held = True
    await steps.survey()
    await steps.look("sdb")
    steps.machine.remove(f"{FOLDER}/sdb")
    await steps.survey()
    await steps.look("sdb")
    steps.machine.link(f"{FOLDER}/sdb", "/dev/sdb")
    await steps.survey()
    assert await steps.look("sdb") == LookAgain(after=AGAIN_SECONDS[0])


async def test_new_directory_settles_and_is_asked_again_when_it_has(steps: Steps) -> None:
    await steps.survey()
    steps.machine.make_folder(f"{FOLDER}/folder")
    await steps.survey()
    await steps.clock.advance(1.0)
    assert await steps.look("folder") == LookAgain(after=SETTLE_SECONDS - 1.0)
    assert steps.disk("folder").status.reason == "Settling"
    assert Place("fast", "folder") in steps.discovery._inventory._stale
    await steps.clock.advance(SETTLE_SECONDS - 1.0)
    assert await steps.look("folder") == Done()
    assert steps.disk("folder").status.phase == "Available"
    assert steps.metrics.seconds == [SETTLE_SECONDS]


async def test_only_entries_that_were_offered_soon_tell_how_quick_discovery_is(steps: Steps) -> None:
    steps.add_disk("sdb")
    await steps.everything()
    assert steps.metrics.seconds == [], "it was there from the start"
    for entry, seconds in (("sdc", reconciler.FRESH_SECONDS - 1), ("sdd", reconciler.FRESH_SECONDS)):
        steps.add_disk(entry)
        await steps.survey()
        await steps.clock.advance(seconds)
        await steps.look(entry)
    assert steps.metrics.seconds == [reconciler.FRESH_SECONDS - 1]


async def test_look_waits_for_the_survey_of_its_class_and_for_nothing_where_there_is_none(steps: Steps) -> None:
    steps.add_disk("sdb")
    await steps.everything()
    steps.discovery.configure(configured(a_class(fs_type="xfs")))
    steps.machine.remove(f"{FOLDER}/sdb")
    assert await steps.look("sdb") == Done()
    assert steps.disk("sdb").status.phase == "Available", "nobody has surveyed it anew yet"
    steps.discovery.configure(configured())
    await steps.look("sdb")
    assert Place("fast", "sdb") not in steps.discovery.records


async def test_entry_that_changed_while_its_disk_was_looked_at_is_looked_at_again(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.add_disk("sdb")
    await steps.survey()
    real = steps.discovery._probe.look

    async def look(*arguments: Any, **options: Any) -> Facts:
        found = await real(*arguments, **options)
        steps.add_disk("sdc")
        steps.machine.link(f"{FOLDER}/sdb", "/dev/sdc")
        await steps.survey()
        return found

    monkeypatch.setattr(steps.discovery._probe, "look", look)
    assert await steps.look("sdb") == LookAgain(after=0)
    assert Place("fast", "sdb") not in steps.discovery.records


async def test_disk_that_was_given_to_a_volume_while_it_was_judged_is_looked_at_again(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.add_disk("sdb")
    await steps.everything()
    real = steps.discovery._keeper.ensure

    async def ensure(place: Place, spec: Any) -> LocalDisk | None:
        await steps.publish("sdb")
        return await real(place, spec)

    monkeypatch.setattr(steps.discovery._keeper, "ensure", ensure)
    assert await steps.look("sdb") == LookAgain(after=0)
    monkeypatch.undo()
    assert await steps.look("sdb") == Done()
    assert steps.disk("sdb").status.phase == "Published"


async def test_disk_that_came_back_from_a_volume_is_tried_though_it_is_known(steps: Steps) -> None:
    """What is known of it was read without a claim and without a look into it."""
    steps.add_disk("sdb")
    steps.machine.make_folder(f"{FOLDER}/folder")
    await steps.everything()
    place = Place("fast", "sdb")
    known = steps.discovery._inventory.facts[place]
    assert known.device is not None
    steps.discovery._inventory.learn(
        place, dataclasses.replace(known, device=dataclasses.replace(known.device, opens_exclusively=None))
    )
    await steps.look("sdb")
    assert steps.described == ["sdb"]
    await steps.look("sdb")
    assert steps.described == ["sdb"], "now it was tried"
    folder = Place("fast", "folder")
    known = steps.discovery._inventory.facts[folder]
    assert known.contents is not None
    steps.discovery._inventory.learn(folder, dataclasses.replace(known, contents=None))
    await steps.look("folder")
    assert steps.discovery._inventory.facts[folder].contents is not None
    trouble = Facts(trouble="it could not be read")
    steps.discovery._inventory.learn(folder, trouble)
    await steps.look("folder")
    assert steps.discovery._inventory.facts[folder] is trouble, "asked again when something speaks for it"


async def test_entry_that_is_not_offered_any_more_lets_another_one_have_the_disk(steps: Steps) -> None:
    steps.add_disk("sdb")
    await steps.everything()
    assert steps.discovery._inventory.offered == {Place("fast", "sdb")}
    steps.machine.disks[Path("/dev/sdb")].held = True
    steps.discovery.look_at_everything()
    assert steps.asked == {"sdb"} and "fast" in steps.surveys
    await steps.look("sdb")
    assert steps.discovery._inventory.offered == set()


async def test_round_without_volumes_leaves_those_that_are_well_alone(steps: Steps) -> None:
    for entry in ("sdb", "sdc", "sdd"):
        steps.add_disk(entry)
    await steps.everything()
    await steps.publish("sdb")
    await steps.publish("sdc")
    await steps.everything()
    disk = steps.machine.disks[Path("/dev/sdc")]
    names = dataclasses.replace(disk.device.names, serial="another one")
    disk.device = dataclasses.replace(disk.device, names=names)
    steps.discovery._device_changed(event(disk.device))
    await steps.everything()
    assert not steps.disk("sdc").status.eligible
    steps.discovery.look_at_everything(also_volumes=False)
    assert steps.asked == {"sdc", "sdd"}
    steps.discovery.look_at_everything(also_volumes=True)
    assert steps.asked == {"sdb", "sdc", "sdd"}


async def test_everything_has_been_looked_at_when_the_last_entry_of_the_start_has(steps: Steps) -> None:
    waiting = asyncio.ensure_future(steps.discovery.wait_looked())
    steps.add_disk("sdb")
    steps.add_disk("sdc")
    await steps.survey()
    for entry in ("sdb", "sdc"):
        assert not steps.discovery._looked.is_set()
        await steps.look(entry)
    await waiting
    assert not steps.discovery._looked_at
    await steps.look("sdb")
    assert not steps.discovery._looked_at, "it would grow for ever"


async def test_where_nothing_is_everything_has_been_looked_at_by_the_survey(steps: Steps) -> None:
    assert not steps.discovery._looked.is_set()
    await steps.survey()
    assert steps.discovery._looked.is_set()


async def test_changed_class_is_surveyed_and_its_disks_are_asked_again_and_no_others(steps: Steps) -> None:
    both = (a_class(), a_class("slow", folder="/mnt/slow"))
    steps.discovery.configure(configured(*both))
    assert {*steps.surveys} == {"fast", "slow"}
    steps.machine.make_folder("/mnt/slow/folder")
    steps.add_disk("sdb")
    await steps.survey("slow")
    await steps.look("folder", "slow")
    await steps.everything()
    steps.discovery.configure(configured(a_class(fs_type="xfs"), both[1]))
    assert {*steps.surveys} == {"fast"}
    assert not steps.discovery.synced
    assert steps.discovery._inventory._stale == {Place("fast", "sdb")}


# What is known about entries.


A, B = Place("fast", "a"), Place("fast", "b")


def a_sighting(name: str, target: str = "device 8:0") -> Sighting:
    return Sighting(entry=Entry(name=name, kind=FileKind.DIRECTORY), folder=Path("/mnt"), target=target)


def test_entries_are_known_by_what_they_lead_to_until_they_lead_elsewhere() -> None:
    inventory = Inventory()
    assert inventory.see(A, a_sighting("a"), since=None) and inventory.see(B, a_sighting("b"), since=None)
    assert {*inventory.with_target("device 8:0")} == {A, B}
    assert not inventory.see(A, a_sighting("a"), since=None)
    assert inventory.see(A, a_sighting("a", "device 8:1"), since=None)
    assert ({*inventory.with_target("device 8:0")}, {*inventory.with_target("device 8:1")}) == ({B}, {A})
    assert inventory.see(A, a_sighting("a", ""), since=None)
    assert {*inventory.with_target("")} == {*inventory.with_target("device 8:1")} == set()
    inventory.lose(B)
    inventory.lose(B)
    assert {*inventory.with_target("device 8:0")} == set() and not inventory._targets
    assert [*inventory.sightings] == [A]
    assert inventory.of_class("fast") == {A} and inventory.of_class("slow") == set()


def test_entry_has_been_there_since_it_was_first_seen_and_for_ever_if_from_the_start() -> None:
    inventory = Inventory()
    inventory.see(A, a_sighting("a"), since=None)
    inventory.see(B, a_sighting("b"), since=3.0)
    inventory.see(B, a_sighting("b", "device 8:1"), since=7.0)
    assert (inventory.seconds_since(A, 10.0), inventory.seconds_since(B, 10.0)) == (float("inf"), 7.0)
    inventory.lose(B)
    assert inventory.seconds_since(B, 10.0) == float("inf")


def test_doubt_is_taken_once_and_never_about_what_is_not_there() -> None:
    inventory = Inventory()
    inventory.doubt(A)
    inventory.learn(A, NOTHING)
    assert not inventory.facts and not inventory._stale
    inventory.see(A, a_sighting("a"), since=None)
    inventory.learn(A, NOTHING)
    assert [inventory.take_doubt(A), inventory.take_doubt(A)] == [True, False]
    inventory.doubt(A)
    assert [inventory.take_doubt(A), inventory.take_doubt(A)] == [True, False]
    inventory.see(A, a_sighting("a", "device 8:1"), since=None)
    assert inventory.take_doubt(A), "it leads elsewhere"
    inventory.doubt(A)
    inventory.lose(A)
    assert not inventory.facts and not inventory._stale
    inventory.see(A, a_sighting("a"), since=None)
    assert [inventory.take_doubt(A), inventory.take_doubt(A)] == [True, True], "nobody has looked"
