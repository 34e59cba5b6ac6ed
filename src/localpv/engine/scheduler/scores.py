"""Which of the nodes that would do is best: more is better, and each part counts from 0 to 100.

Kept simple: what the pod and the node prefer, who is near, how much is left, and how few pods of the same owner are
there. The weights are those of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from localpv.api import taints
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.meta import NOTHING
from localpv.api.node_selector import NodeSelector
from localpv.engine.scheduler import inter_pod_affinity, resources, topology_spread
from localpv.engine.scheduler.inter_pod_affinity import NamespaceLabels
from localpv.engine.scheduler.node_info import SCORED_CPU, SCORED_MEMORY, NodeInfo, NodeInfos
from localpv.engine.scheduler.pod_info import PodInfo

FULL = 100.0
TAINTS = 3.0
NODE_AFFINITY = 2.0
INTER_POD_AFFINITY = 2.0
SPREAD = 2.0
OWNER = 2.0
ROOM = 1.0
STORAGE = 1.0


def best(
    pod_info: PodInfo,
    node_infos: Sequence[NodeInfo],
    *,
    everywhere: NodeInfos,
    labels_of: NamespaceLabels,
    room: Mapping[str, int] = NOTHING,
) -> NodeInfo:
    """The node with the highest score; of several the first by name, so that the choice is the same every time.

    `room` are bytes that the pools of a node have left, for volumes that are to be made there.
    """
    if len(node_infos) == 1:
        return node_infos[0]
    totals = [ROOM * _room_left(pod_info, node_info) for node_info in node_infos]
    if any(node_info.node and node_info.node.spec.taints for node_info in node_infos):
        _add_least(totals, [_prefer_no_schedule(pod_info, node_info) for node_info in node_infos], TAINTS)
    if (preferences := _preferred_node_affinity(pod_info)) is not None:
        _add_most(totals, [_preferred(preferences, node_info) for node_info in node_infos], NODE_AFFINITY)
    if (near := inter_pod_affinity.read_preferences(pod_info, everywhere, labels_of)) is not None:
        _add_between(totals, [near.score(_node(node_info)) for node_info in node_infos], INTER_POD_AFFINITY)
    if (spread := topology_spread.read_soft(pod_info, everywhere)) is not None:
        crowds = [spread.crowd(_node(node_info)) for node_info in node_infos]
        worst = max((crowd for crowd in crowds if crowd is not None), default=0) + 1
        _add_least(totals, [worst if crowd is None else crowd for crowd in crowds], SPREAD)
    elif owner := pod_info.owner:
        _add_least(totals, [node_info.owners[owner] for node_info in node_infos], OWNER)
    if room:
        _add_most(totals, [room.get(node_info.name, 0) for node_info in node_infos], STORAGE)
    top = max(totals)
    return min(
        (node_info for node_info, total in zip(node_infos, totals, strict=True) if total == top),
        key=lambda node_info: node_info.name,
    )


def _room_left(pod_info: PodInfo, node_info: NodeInfo) -> float:
    """The share of cpu and memory that would be left, each counted the same."""
    cpu = node_info.scored_cpu + pod_info.requests.get(resources.CPU, SCORED_CPU)
    memory = node_info.scored_memory + pod_info.requests.get(resources.MEMORY, SCORED_MEMORY)
    return (
        _left(cpu, node_info.room.get(resources.CPU, 0)) + _left(memory, node_info.room.get(resources.MEMORY, 0))
    ) / 2


def _left(used: int, room: int) -> float:
    # Whole numbers, so that nodes which hardly differ count as equal.
    return float((room - used) * FULL // room) if room > used else 0.0


_Preferences = Sequence[tuple[int, NodeSelector]]


def _preferred_node_affinity(pod_info: PodInfo) -> _Preferences | None:
    affinity = pod_info.pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    preferences = affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    return [
        (each.weight, NodeSelector({"nodeSelectorTerms": [msgspec.to_builtins(each.preference)]}))
        for each in preferences
    ]


def _node(node_info: NodeInfo) -> Node:
    assert node_info.node is not None
    return node_info.node


def _preferred(preferences: _Preferences, node_info: NodeInfo) -> int:
    meta = _node(node_info).metadata
    return sum(weight for weight, selector in preferences if selector.matches(meta.labels, meta.name))


def _prefer_no_schedule(pod_info: PodInfo, node_info: NodeInfo) -> int:
    return taints.prefer_no_schedule(_node(node_info).spec.taints, pod_info.tolerations)


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
