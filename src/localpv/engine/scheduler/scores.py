"""Which of the nodes that would do is best: more is better, and each part counts from 0 to 100.

Kept simple: what the pod and the node prefer, who is near, how much is left, and how few pods of the same owner are
there. The weights are those of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from localpv.api.kinds import Node
from localpv.api.node_selector import NodeSelector
from localpv.engine.scheduler import preferred_affinity as likings
from localpv.engine.scheduler import resources, taints, topology_spread
from localpv.engine.scheduler.affinity_terms import NamespaceLabels
from localpv.engine.scheduler.node_info import SCORED_CPU, SCORED_MEMORY, Place, Places
from localpv.engine.scheduler.pod_info import Demand

FULL = 100.0
TAINTS = 3.0
AFFINITY = 2.0
COMPANY = 2.0
SPREAD = 2.0
OWNER = 2.0
ROOM = 1.0


def best(demand: Demand, places: Sequence[Place], *, everywhere: Places, labels_of: NamespaceLabels) -> Place:
    """The place with the highest score; of several the first by name, so that the choice is the same every time."""
    if len(places) == 1:
        return places[0]
    totals = [ROOM * _room_left(demand, place) for place in places]
    if any(place.node and place.node.spec.taints for place in places):
        _add_least(totals, [_unwelcoming(demand, place) for place in places], TAINTS)
    if (wishes := _node_wishes(demand)) is not None:
        _add_most(totals, [_liked(wishes, place) for place in places], AFFINITY)
    if (liking := likings.read(demand, everywhere, labels_of)) is not None:
        _add_between(totals, [liking.of(_node(place)) for place in places], COMPANY)
    if (spread := topology_spread.read_soft(demand, everywhere)) is not None:
        crowds = [spread.crowd(_node(place)) for place in places]
        worst = max((crowd for crowd in crowds if crowd is not None), default=0) + 1
        _add_least(totals, [worst if crowd is None else crowd for crowd in crowds], SPREAD)
    elif owner := demand.owner:
        _add_least(totals, [place.owners[owner] for place in places], OWNER)
    top = max(totals)
    return min(
        (place for place, total in zip(places, totals, strict=True) if total == top), key=lambda place: place.name
    )


def _room_left(demand: Demand, place: Place) -> float:
    """The share of cpu and memory that would be left, each counted the same."""
    cpu = place.scored_cpu + demand.requests.get(resources.CPU, SCORED_CPU)
    memory = place.scored_memory + demand.requests.get(resources.MEMORY, SCORED_MEMORY)
    return (_left(cpu, place.room.get(resources.CPU, 0)) + _left(memory, place.room.get(resources.MEMORY, 0))) / 2


def _left(used: int, room: int) -> float:
    # Whole numbers, so that nodes which hardly differ count as equal.
    return float((room - used) * FULL // room) if room > used else 0.0


_Wishes = Sequence[tuple[int, NodeSelector]]


def _node_wishes(demand: Demand) -> _Wishes | None:
    affinity = demand.pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    wishes = affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    return [
        (each.weight, NodeSelector({"nodeSelectorTerms": [msgspec.to_builtins(each.preference)]})) for each in wishes
    ]


def _node(place: Place) -> Node:
    assert place.node is not None
    return place.node


def _liked(wishes: _Wishes, place: Place) -> int:
    meta = _node(place).metadata
    return sum(weight for weight, selector in wishes if selector.matches(meta.labels, meta.name))


def _unwelcoming(demand: Demand, place: Place) -> int:
    return taints.unwelcoming(_node(place).spec.taints, demand.tolerations)


def _add_most(totals: list[float], counts: Sequence[int], weight: float) -> None:
    """The highest count gets the full score, the others their share of it."""
    if top := max(counts):
        for index, count in enumerate(counts):
            totals[index] += weight * FULL * count / top


def _add_between(totals: list[float], counts: Sequence[int], weight: float) -> None:
    """The highest count gets the full score and the lowest none; counts may be below zero."""
    low, high = min(counts), max(counts)
    if high > low:
        for index, count in enumerate(counts):
            totals[index] += weight * FULL * (count - low) / (high - low)


def _add_least(totals: list[float], counts: Sequence[int], weight: float) -> None:
    top = max(counts)
    for index, count in enumerate(counts):
        totals[index] += weight * FULL * (1 - count / top if top else 1)
