"""The node for a pod, or why there is none: one pass over all nodes, without waiting for anything."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from localpv.engine.scheduler import claims, filter_messages, filters, scores
from localpv.engine.scheduler.affinity_terms import NamespaceLabels
from localpv.engine.scheduler.assume_cache import Plan
from localpv.engine.scheduler.claims import Storage, Waits
from localpv.engine.scheduler.filter_messages import Wake
from localpv.engine.scheduler.node_info import Place, Places
from localpv.engine.scheduler.pod_info import Demand


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
        return NoNode(filter_messages.NO_NODES, frozenset({Wake.NODE}))
    try:
        of_pod = claims.read(demand, storage)
    except Waits as waits:
        return NoNode(f"0/{len(here)} nodes are available: {waits}.", waits.wakes)
    check = filters.read(demand, of_pod, storage=storage, places=places, labels_of=labels_of)
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
        return NoNode(message(len(here), failed), frozenset().union(*map(filter_messages.wakes, failed)))
    best = scores.best(demand, fitting, everywhere=places, labels_of=labels_of)
    return Chosen(best.name, plans[best.name])


def message(nodes: int, failed: Counter[str]) -> str:
    """The sentence that users know, reasons in the order of their text."""
    return f"0/{nodes} nodes are available: {', '.join(sorted(f'{n} {phrase}' for phrase, n in failed.items()))}."
