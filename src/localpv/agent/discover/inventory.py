"""Everything that is known about the entries of this node, besides their records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from localpv.agent.discover.entry import Place, Sighting
from localpv.agent.discover.probe import Facts


class Inventory:
    """Sightings and facts, and which entries lead to the same disk."""

    def __init__(self) -> None:
        self._sightings: dict[Place, Sighting] = {}
        self._facts: dict[Place, Facts] = {}
        self._targets: defaultdict[str, set[Place]] = defaultdict(set)
        self._stale: set[Place] = set()
        self._since: dict[Place, float] = {}
        self.offered: set[Place] = set()
        """Entries that were found fit to be offered, from that moment on: their records may say so only later."""

    @property
    def sightings(self) -> Mapping[Place, Sighting]:
        return MappingProxyType(self._sightings)

    @property
    def facts(self) -> Mapping[Place, Facts]:
        return MappingProxyType(self._facts)

    def with_target(self, target: str) -> Iterator[Place]:
        """Entries that lead to a device or a directory."""
        return iter(self._targets.get(target, ()))

    def of_class(self, name: str) -> set[Place]:
        return {place for place in self._sightings if place.storage_class == name}

    def see(self, place: Place, sighting: Sighting, *, since: float | None) -> bool:
        """Take over what a survey saw; whether that is news. `since` is when an entry that is new was first seen."""
        known = self._sightings.get(place)
        if known == sighting:
            return False
        if known is None and since is not None:
            self._since[place] = since
        self._leave_target(place)
        self._sightings[place] = sighting
        if sighting.target:
            self._targets[sighting.target].add(place)
        self._stale.add(place)
        return True

    def lose(self, place: Place) -> None:
        """The entry is not there any more."""
        self._leave_target(place)
        self._sightings.pop(place, None)
        self._facts.pop(place, None)
        self._since.pop(place, None)
        self._stale.discard(place)

    def learn(self, place: Place, facts: Facts) -> None:
        """Take over what a look at the disk showed."""
        if place in self._sightings:
            self._facts[place] = facts

    def doubt(self, place: Place) -> None:
        """What is known about the disk may not hold any more: look at it again."""
        if place in self._sightings:
            self._stale.add(place)

    def take_doubt(self, place: Place) -> bool:
        """Whether the disk must be looked at; whoever asks does it now."""
        doubtful = place in self._stale or place not in self._facts
        # Taken away before the look, so that a doubt which comes during the look leads to another.
        self._stale.discard(place)
        return doubtful

    def seconds_since(self, place: Place, now: float) -> float:
        """For how long the entry has been there; for ever, if it was there from the start."""
        return now - self._since.get(place, float("-inf"))

    def _leave_target(self, place: Place) -> None:
        known = self._sightings.get(place)
        if known is not None and known.target:
            places = self._targets[known.target]
            places.discard(place)
            if not places:
                del self._targets[known.target]
