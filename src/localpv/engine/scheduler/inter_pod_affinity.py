"""Where the pods are that a pod must be near, or apart from, or that want to be apart from it."""

from __future__ import annotations

from dataclasses import dataclass

from localpv.api.kinds import Node
from localpv.engine.scheduler import affinity_terms, filter_messages
from localpv.engine.scheduler.affinity_terms import NamespaceLabels, Term
from localpv.engine.scheduler.node_info import Places
from localpv.engine.scheduler.pod_info import Demand

Domain = tuple[str, str]
"""A label of nodes and its value: all nodes that have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    near_terms: tuple[Term, ...]
    apart_terms: tuple[Term, ...]
    near: frozenset[Domain]
    """Where pods are that all terms of affinity mean."""

    apart: frozenset[Domain]
    shunned: frozenset[Domain]
    """Where pods are that want to be apart from this one."""

    first_of_its_kind: bool
    """Nobody is there yet that the pod wants to be near, except itself."""

    def problem(self, node: Node) -> str | None:
        labels = node.metadata.labels
        if self.near_terms and not self._is_near(node):
            return filter_messages.NEAR
        for term in self.apart_terms:
            if (value := labels.get(term.key)) is not None and (term.key, value) in self.apart:
                return filter_messages.APART
        if self.shunned and not self.shunned.isdisjoint(labels.items()):
            return filter_messages.APART_FROM_US
        return None

    def _is_near(self, node: Node) -> bool:
        labels = node.metadata.labels
        if any(term.key not in labels for term in self.near_terms):
            return False
        return self.first_of_its_kind or all((term.key, labels[term.key]) in self.near for term in self.near_terms)


def read(demand: Demand, places: Places, labels_of: NamespaceLabels) -> Neighbours | None:
    """None when no pod matters to this one, nor it to any."""
    shunned = frozenset(
        domain
        for key, other in places.apart.items()
        if (place := places.where(key)) is not None and place.node is not None
        for term in other.apart
        if (domain := domain_of(term, place.node)) is not None and term.matches(demand.pod, labels_of)
    )
    if not (demand.near or demand.apart or shunned):
        return None
    near: set[Domain] = set()
    apart: set[Domain] = set()
    if demand.near or demand.apart:
        for place in places:
            assert place.node is not None
            for other in place.pods.values():
                if affinity_terms.matches_all(demand.near, other.pod, labels_of):
                    near.update(_domains(demand.near, place.node))
                apart.update(
                    domain
                    for term in demand.apart
                    if (domain := domain_of(term, place.node)) is not None
                    and domain not in apart
                    and term.matches(other.pod, labels_of)
                )
    return Neighbours(
        near_terms=demand.near,
        apart_terms=demand.apart,
        near=frozenset(near),
        apart=frozenset(apart),
        shunned=shunned,
        first_of_its_kind=not near and affinity_terms.matches_all(demand.near, demand.pod, labels_of),
    )


def domain_of(term: Term, node: Node) -> Domain | None:
    """What is near a node in the sense of a term; None when the node lacks the label, and so is near nothing."""
    value = node.metadata.labels.get(term.key)
    return None if value is None else (term.key, value)


def _domains(terms: tuple[Term, ...], node: Node) -> list[Domain]:
    return [domain for term in terms if (domain := domain_of(term, node)) is not None]
