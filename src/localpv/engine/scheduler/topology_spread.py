"""How evenly the pods of a kind are spread over zones, racks or nodes, and where one more would be too many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from localpv.api.kinds import Node
from localpv.engine.scheduler import filter_messages, taints
from localpv.engine.scheduler.node_info import Place, Places
from localpv.engine.scheduler.pod_info import Demand, Spread


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


def read(demand: Demand, places: Places) -> Spreading | None:
    """The spread that must be kept."""
    return _read(demand.spreads, demand, places)


def read_soft(demand: Demand, places: Places) -> Spreading | None:
    """The spread that would be nice."""
    return _read(demand.soft_spreads, demand, places)


def _read(spreads: tuple[Spread, ...], demand: Demand, places: Places) -> Spreading | None:
    if not spreads:
        return None
    # A node that lacks one of the labels counts for none of the constraints.
    keys = [spread.key for spread in spreads]
    counted = [place for place in places if place.node and all(key in place.node.metadata.labels for key in keys)]
    return Spreading(tuple(_count(spread, demand, counted) for spread in spreads))


def _count(spread: Spread, demand: Demand, counted: list[Place]) -> _Count:
    pods: dict[str, int] = {}
    namespace = demand.pod.metadata.namespace
    for place in counted:
        assert place.node is not None
        if not _included(spread, demand, place.node):
            continue
        domain = place.node.metadata.labels[spread.key]
        here = sum(
            other.pod.metadata.namespace == namespace
            and not other.pod.metadata.deleting
            and spread.selector.matches(other.pod.metadata.labels)
            for other in place.pods.values()
        )
        pods[domain] = pods.get(domain, 0) + here
    fewest = min(pods.values(), default=0) if len(pods) >= spread.least_domains else 0
    return _Count(spread, pods, fewest, int(spread.selector.matches(demand.pod.metadata.labels)))


def _included(spread: Spread, demand: Demand, node: Node) -> bool:
    if spread.only_nodes_of_affinity and demand.nodes is not None and not demand.nodes.allows(node):
        return False
    return not (spread.only_tolerated_nodes and taints.keeps_away(node.spec.taints, demand.tolerations))
