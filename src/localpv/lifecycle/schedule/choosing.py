"""The node for a pod, or why there is none: one pass over all nodes, without waiting for anything."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from localpv.lifecycle.schedule import claims, phrases, rules, scores
from localpv.lifecycle.schedule.claims import Storage, Waits
from localpv.lifecycle.schedule.company import NamespaceLabels
from localpv.lifecycle.schedule.demands import Demand
from localpv.lifecycle.schedule.phrases import Wake
from localpv.lifecycle.schedule.places import Place, Places
from localpv.lifecycle.schedule.promises import Plan


@dataclass(frozen=True, slots=True)
class Chosen:
    node: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class NoNode:
    message: str
    """For people: how many nodes failed on what."""

    wakes: frozenset[Wake]
    """What would be worth another look."""


def choose(demand: Demand, *, places: Places, storage: Storage, labels_of: NamespaceLabels) -> Chosen | NoNode:
    here = [*places]
    if not here:
        return NoNode(phrases.NO_NODES, frozenset({Wake.NODE}))
    try:
        of_pod = claims.read(demand, storage)
    except Waits as waits:
        return NoNode(f"0/{len(here)} nodes are available: {waits}.", waits.wakes)
    check = rules.read(demand, of_pod, storage=storage, places=places, labels_of=labels_of)
    plans: dict[str, Plan] = {}
    fitting: list[Place] = []
    failed: Counter[str] = Counter()
    for place in here:
        verdict = check.judge(place)
        if isinstance(verdict, Plan):
            fitting.append(place)
            plans[place.name] = verdict
        else:
            failed.update(verdict)
    if not fitting:
        return NoNode(message(len(here), failed), frozenset().union(*map(phrases.wakes, failed)))
    best = scores.best(demand, fitting, everywhere=places, labels_of=labels_of)
    return Chosen(best.name, plans[best.name])


def message(nodes: int, failed: Counter[str]) -> str:
    """The sentence that users know, reasons in the order of their text."""
    return f"0/{nodes} nodes are available: {', '.join(sorted(f'{n} {phrase}' for phrase, n in failed.items()))}."
