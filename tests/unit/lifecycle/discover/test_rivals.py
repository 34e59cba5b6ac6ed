"""Who has the better right to a disk, where an entry leads to none."""

from __future__ import annotations

from pathlib import Path

from localpv.lifecycle.discover import rivals
from localpv.lifecycle.discover.identities import Index
from localpv.lifecycle.discover.roster import Roster
from localpv.lifecycle.discover.sighting import Place, Sighting
from localpv.model.entries import Entry, FileKind

ONE, OTHER = Place("fast", "a"), Place("fast", "b")


def a_link(place: Place) -> Sighting:
    entry = Entry(name=place.entry, kind=FileKind.DANGLING_LINK, is_link=True)
    return Sighting(entry=entry, folder=Path("/mnt/disks"))


def test_entry_that_is_gone_has_no_rivals() -> None:
    assert rivals.stronger(ONE, roster=Roster(), records={}, index=Index()) == ""


def test_links_that_lead_nowhere_are_no_rivals() -> None:
    roster = Roster()
    for place in (ONE, OTHER):
        assert roster.see(place, a_link(place), since=None)
        roster.offered.add(place)
    assert list(roster.with_target("")) == []
    assert rivals.stronger(OTHER, roster=roster, records={}, index=Index()) == ""
    for place in (ONE, OTHER):
        roster.lose(place)
    assert dict(roster.sightings) == {}
