"""How evenly the pods of a kind are spread over zones, racks or nodes, and where one more would be too many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from localpv.api import taints
from localpv.api.kinds.cluster import Node
from localpv.engine.scheduler import filter_messages
from localpv.engine.scheduler.node_info import NodeInfo, NodeInfos
from localpv.engine.scheduler.pod_info import PodInfo, Spread


@dataclass(frozen=True, slots=True)
class _Count:
    spread: Spread
    pods: Mapping[str, int]
    """How many pods of the kind are in each domain that counts."""

    fewest: int
    itself: int
    """1 when the pod to be placed is of the kind."""


@dataclass(frozen=True, slots=True)
class Spreading:
    """Of one pod, over all nodes."""

    counts: tuple[_Count, ...]

    def problem(self, node: Node) -> str | None:
        for count in self.counts:
            domain = node.metadata.labels.get(count.spread.key)
            if domain is None:
                return filter_messages.SPREAD_LABEL
            if count.pods.get(domain, 0) + count.itself - count.fewest > count.spread.most_skew:
                return filter_messages.SPREAD
        return None

    def crowd(self, node: Node) -> int | None:
        """How many pods of the kind are around a node; None when it lacks a label, and so is nowhere."""
        labels = node.metadata.labels
        if any(count.spread.key not in labels for count in self.counts):
            return None
        return sum(count.pods.get(labels[count.spread.key], 0) for count in self.counts)


def read(pod_info: PodInfo, node_infos: NodeInfos) -> Spreading | None:
    """The spread that must be kept."""
    return _read(pod_info.spreads, pod_info, node_infos)


def read_soft(pod_info: PodInfo, node_infos: NodeInfos) -> Spreading | None:
    """The spread that would be nice."""
    return _read(pod_info.soft_spreads, pod_info, node_infos)


def _read(spreads: tuple[Spread, ...], pod_info: PodInfo, node_infos: NodeInfos) -> Spreading | None:
    if not spreads:
        return None
    # A node that lacks one of the labels counts for none of the constraints.
    keys = [spread.key for spread in spreads]
    counted = [
        node_info
        for node_info in node_infos
        if node_info.node and all(key in node_info.node.metadata.labels for key in keys)
    ]
    return Spreading(tuple(_count(spread, pod_info, counted) for spread in spreads))


def _count(spread: Spread, pod_info: PodInfo, counted: list[NodeInfo]) -> _Count:
    pods: dict[str, int] = {}
    namespace = pod_info.pod.metadata.namespace
    for node_info in counted:
        assert node_info.node is not None
        if not _included(spread, pod_info, node_info.node):
            continue
        domain = node_info.node.metadata.labels[spread.key]
        here = sum(
            other.pod.metadata.namespace == namespace
            and not other.pod.metadata.deleting
            and spread.selector.matches(other.pod.metadata.labels)
            for other in node_info.pods.values()
        )
        pods[domain] = pods.get(domain, 0) + here
    fewest = min(pods.values(), default=0) if len(pods) >= spread.least_domains else 0
    return _Count(spread, pods, fewest, int(spread.selector.matches(pod_info.pod.metadata.labels)))


def _included(spread: Spread, pod_info: PodInfo, node: Node) -> bool:
    if spread.only_nodes_of_affinity and pod_info.node_affinity is not None and not pod_info.node_affinity.allows(node):
        return False
    return not (spread.only_tolerated_nodes and taints.keeps_away(node.spec.taints, pod_info.tolerations))
