"""The node for a pod, or why there is none: one pass over all nodes, without waiting for anything."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from localpv.engine.scheduler import claims, filter_messages, filters, scores
from localpv.engine.scheduler.assume_cache import Plan
from localpv.engine.scheduler.claims import Storage, Waits
from localpv.engine.scheduler.filter_messages import ClusterEvent
from localpv.engine.scheduler.inter_pod_affinity import NamespaceLabels
from localpv.engine.scheduler.node_info import NodeInfo, NodeInfos
from localpv.engine.scheduler.pod_info import PodInfo

MOST_NAMED = 10
"""Nodes of which a message says how much room they lack."""


@dataclass(frozen=True, slots=True)
class Chosen:
    node: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class NoNode:
    message: str
    """For people: how many nodes failed on what."""

    wakes: frozenset[ClusterEvent]
    """What would be worth another look."""


def choose(
    pod_info: PodInfo, *, node_infos: NodeInfos, storage: Storage, labels_of: NamespaceLabels
) -> Chosen | NoNode:
    here = [*node_infos]
    if not here:
        return NoNode(filter_messages.NO_NODES, frozenset({ClusterEvent.NODE}))
    try:
        of_pod = claims.read(pod_info, storage)
    except Waits as waits:
        return NoNode(f"0/{len(here)} nodes are available: {waits}.", waits.wakes)
    check = filters.read(pod_info, of_pod, storage=storage, node_infos=node_infos, labels_of=labels_of)
    plans: dict[str, Plan] = {}
    fitting: list[NodeInfo] = []
    failed: Counter[str] = Counter()
    for node_info in here:
        verdict = check.filter(node_info)
        if isinstance(verdict, Plan):
            fitting.append(node_info)
            plans[node_info.name] = verdict
        else:
            failed.update(verdict)
    if not fitting:
        return NoNode(message(len(here), failed), frozenset().union(*map(filter_messages.wakes, failed)))
    room = {name: storage.capacity.room(plan.reserved) for name, plan in plans.items() if plan.reserved}
    best = scores.best(pod_info, fitting, everywhere=node_infos, labels_of=labels_of, room=room)
    return Chosen(best.name, plans[best.name])


def message(nodes: int, failed: Counter[str]) -> str:
    """The sentence that users know, reasons in the order of their text; what single nodes lack, of some of them."""
    of_nodes = sorted(phrase for phrase in failed if phrase.startswith(filter_messages.lacking_space("node ")[:-1]))
    if len(of_nodes) > MOST_NAMED:
        failed = Counter(failed)
        for phrase in of_nodes[MOST_NAMED:]:
            failed[filter_messages.NO_SPACE] += failed.pop(phrase)
    return f"0/{nodes} nodes are available: {', '.join(sorted(f'{n} {phrase}' for phrase, n in failed.items()))}."
