"""Who would like to be near whom: preferences among pods, which only count between nodes that would all do."""

from __future__ import annotations

from collections import Counter

from localpv.api.kinds import Node
from localpv.engine.scheduler.affinity_terms import NamespaceLabels
from localpv.engine.scheduler.inter_pod_affinity import Domain, domain_of
from localpv.engine.scheduler.node_info import Places
from localpv.engine.scheduler.pod_info import Demand

FOLLOWED = 1
"""What it counts that a pod is there which had to be near pods like this one."""


class Liking:
    """How well each domain is liked, by the pod and by those who are there."""

    def __init__(self, weights: Counter[Domain]) -> None:
        self._weights = weights

    def of(self, node: Node) -> int:
        return sum(self._weights[label] for label in node.metadata.labels.items() if label in self._weights)


def read(demand: Demand, places: Places, labels_of: NamespaceLabels) -> Liking | None:
    """None when nobody has a preference."""
    weights: Counter[Domain] = Counter()
    for key, other in places.drawn.items():
        place = places.where(key)
        if place is None or place.node is None:
            continue
        for weight, term in (*other.likes, *((FOLLOWED, term) for term in other.near)):
            if (domain := domain_of(term, place.node)) is not None and term.matches(demand.pod, labels_of):
                weights[domain] += weight
    if demand.likes:
        for place in places:
            assert place.node is not None
            for weight, term in demand.likes:
                if (domain := domain_of(term, place.node)) is not None:
                    there = sum(term.matches(other.pod, labels_of) for other in place.pods.values())
                    weights[domain] += weight * there
    return Liking(weights) if any(weights.values()) else None
