"""No two devices are ever taken for one, and one is always known again, or, where nothing lasting tells, refused."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.host.identity_world import Place, Thing, World, show

from localpv.disk import identity as records
from localpv.host.model.identity import Identity

MEMORY = Path("/dev/shm")
"""A machine is a few hundred small files, and no disk need keep them."""

UNIQUE = {"wwn", "uuid", "file"}
"""By these a device may have grown; a serial number is not enough."""


@dataclass(frozen=True)
class Record:
    """What was written down of a device, and what was true then."""

    thing: Thing
    identity: Identity
    place: Place
    boot: int
    names: dict[str, str]
    sectors: int


def worthless(thing: Thing, world: World) -> set[str]:
    """Sorts of names of a device by which another one goes as well."""
    mine = thing.lasting(udev=world.udev)
    found: set[str] = set()
    for other in world.places:
        theirs = other.others_see(udev=world.udev)
        shared = {sort for sort, value in mine.items() if theirs.get(sort) == value}
        if other is not thing and shared:
            found |= shared if thing.contradicts(mine, other, theirs) else set(mine)
    return found


def should_be_known(record: Record, world: World) -> bool:
    """Whether a device must be known again; if not, it must be refused."""
    thing, place = record.thing, world.places[record.thing]
    if record.boot == world.boot and record.place == place:
        return True
    names = thing.lasting(udev=world.udev)
    common = {sort for sort, value in names.items() if record.names.get(sort) == value} - worthless(thing, world)
    if thing.sectors > record.sectors:
        return bool(common & UNIQUE)
    return bool(common)


def nobody_can_tell(record: Record, other: Thing, world: World) -> bool:
    """A device goes by every name that was recorded of another one, which is not there, or not shown to go by them."""
    theirs = other.lasting(udev=world.udev)
    if record.thing.contradicts(record.names, other, theirs):
        return False
    shown = record.thing.others_see(udev=world.udev) if record.thing in world.places else {}
    return any(theirs.get(sort) == value != shown.get(sort) for sort, value in record.names.items())


def _about(record: Record, thing: Thing, now: Identity, *what: str) -> str:
    return "\n".join((*what, f"{record.thing} recorded as {record.identity}", f"and {thing} found as {now}"))


def live(random: Random, moments: int) -> Counter[str]:
    """Let a machine live, and compare all that was recorded with all that is there, at each moment."""
    world = World(random)
    world.populate()
    written: list[Record] = []
    outcomes: Counter[str] = Counter()
    for _ in range(moments):
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            found = show(world, Path(folder))
        for record in written:
            for thing, now in found.items():
                said = "; ".join(map(str, record.identity.mismatches(now, contents=False)))
                same = not said
                if thing is record.thing:
                    known = should_be_known(record, world)
                    assert same is known, _about(record, thing, now, "refused" if known else "taken for the same", said)
                    outcomes["known" if known else "refused"] += 1
                    outcomes["known after a restart"] += known and record.boot != world.boot
                    outcomes["known in another place"] += known and record.place != world.places[thing]
                    outcomes["known and grown"] += known and thing.sectors > record.sectors
                    outcomes["refused beside a copy"] += "goes by the same names" in said
                    outcomes["refused without a name"] += "no lasting name" in said
                elif nobody_can_tell(record, thing, world):
                    outcomes["nobody can tell"] += 1
                else:
                    assert not same, _about(record, thing, now, "two devices were taken for one", said)
                    outcomes["told apart"] += 1
                    outcomes["told apart at the same number"] += record.identity.major_minor == now.major_minor
        for thing, now in found.items():
            names = now.names(contents=False)
            if not names or names - {twin.name for twin in now.twins}:  # else it is not offered
                kept = records.read(records.written(now))
                names_now = thing.lasting(udev=world.udev)
                written.append(Record(thing, kept, world.places[thing], world.boot, names_now, thing.sectors))
        world.happen()
    return outcomes


@given(seed=st.integers(0, 1 << 32), moments=st.integers(2, 5))
@settings(max_examples=50, report_multiple_bugs=False)
def test_no_two_devices_are_taken_for_one_and_one_is_known_again(seed: int, moments: int) -> None:
    live(Random(seed), moments)


@pytest.mark.long
def test_the_machines_are_such_that_everything_happens() -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(40):
        outcomes += live(Random(seed), 5)
    assert len(outcomes) == 10 and min(outcomes.values()) >= 10, outcomes
