"""Inter-pod affinity: the pods that a pod must be near, or apart from, and those that it would like to be near.

Terms are read once for each pod (`pod_info`). A `Filter` says which nodes are out; `Preferences` compare those that are
left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from localpv.api import selectors
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.pods import Pod, PodAffinity, PodAffinityTerm
from localpv.api.kinds.volumes import LabelSelector
from localpv.api.selectors import Operator, Requirement
from localpv.engine.scheduler import filter_messages

if TYPE_CHECKING:
    from localpv.engine.scheduler.node_info import NodeInfos
    from localpv.engine.scheduler.pod_info import PodInfo

HARD_AFFINITY_WEIGHT = 1
"""What it counts that a pod is there which had to be near pods like this one."""

Domain = tuple[str, str]
"""A label of nodes and its value: all nodes that have it."""

NamespaceLabels = Callable[[str], Mapping[str, str]]
"""The labels of a namespace, by its name; none when it is not known."""


@dataclass(frozen=True, slots=True)
class Term:
    """Pods with certain labels in certain namespaces, counted within what shares a label of the node."""

    key: str
    selector: selectors.LabelSelector
    namespaces: frozenset[str]
    namespace_selector: selectors.LabelSelector | None

    def matches(self, pod: Pod, labels_of: NamespaceLabels) -> bool:
        meta = pod.metadata
        return self.selector.matches(meta.labels) and (
            meta.namespace in self.namespaces
            or (self.namespace_selector is not None and self.namespace_selector.matches(labels_of(meta.namespace)))
        )

    def domain(self, node: Node) -> Domain | None:
        """What is near a node; None when the node lacks the label, and so is near nothing."""
        value = node.metadata.labels.get(self.key)
        return None if value is None else (self.key, value)


def required_terms(affinity: PodAffinity | None, pod: Pod) -> tuple[Term, ...]:
    """What the affinity or anti-affinity of a pod demands."""
    if affinity is None:
        return ()
    return tuple(_term(each, pod) for each in affinity.required_during_scheduling_ignored_during_execution)


def preferred_terms(affinity: PodAffinity | None, pod: Pod) -> tuple[tuple[int, Term], ...]:
    """Weights and terms."""
    if affinity is None:
        return ()
    return tuple(
        (each.weight, _term(each.pod_affinity_term, pod))
        for each in affinity.preferred_during_scheduling_ignored_during_execution
    )


def _term(term: PodAffinityTerm, pod: Pod) -> Term:
    """A term of the affinity of this pod. Without any word on namespaces the pod's own is meant."""
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset({pod.metadata.namespace})
    # The API server has merged matchLabelKeys and mismatchLabelKeys into the selector when the pod was made.
    return Term(
        key=term.topology_key,
        selector=read_selector(term.label_selector),
        namespaces=namespaces,
        namespace_selector=None if term.namespace_selector is None else read_selector(term.namespace_selector),
    )


def read_selector(
    selector: LabelSelector | None, keys: Iterable[str] = (), labels: Mapping[str, str] | None = None
) -> selectors.LabelSelector:
    """A selector of pods; with keys, pods must also have the values that `labels` has under these."""
    labels = labels or {}
    found = selectors.from_object(None if selector is None else msgspec.to_builtins(selector))
    same = [Requirement(key, Operator.IN, frozenset({labels[key]})) for key in keys if key in labels]
    if selector is None or not same:
        return found
    return selectors.LabelSelector([*found.requirements, *same])


def _matches_all(terms: tuple[Term, ...], pod: Pod, labels_of: NamespaceLabels) -> bool:
    """Whether a pod is one of those that all terms mean; no terms mean nobody."""
    return bool(terms) and all(term.matches(pod, labels_of) for term in terms)


# Filter.


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Required affinity and anti-affinity: of one pod, and of those that are there against it."""

    affinity_terms: tuple[Term, ...]
    anti_affinity_terms: tuple[Term, ...]
    affinity: frozenset[Domain]
    """Where pods are that all terms of affinity mean."""

    anti_affinity: frozenset[Domain]
    existing_anti_affinity: frozenset[Domain]
    """Where pods are that want to be apart from this one."""

    first_of_its_kind: bool
    """Nobody is there yet that the pod wants to be near, except itself."""

    def problem(self, node: Node) -> str | None:
        labels = node.metadata.labels
        if self.affinity_terms and not self._has_affinity(node):
            return filter_messages.AFFINITY
        for term in self.anti_affinity_terms:
            if term.domain(node) in self.anti_affinity:
                return filter_messages.ANTI_AFFINITY
        if self.existing_anti_affinity and not self.existing_anti_affinity.isdisjoint(labels.items()):
            return filter_messages.EXISTING_ANTI_AFFINITY
        return None

    def _has_affinity(self, node: Node) -> bool:
        domains = [term.domain(node) for term in self.affinity_terms]
        if None in domains:
            return False
        return self.first_of_its_kind or all(domain in self.affinity for domain in domains)


def read_filter(pod_info: PodInfo, node_infos: NodeInfos, labels_of: NamespaceLabels) -> Filter | None:
    """None when no pod matters to this one, nor it to any."""
    required, against = pod_info.required_affinity, pod_info.required_anti_affinity
    existing = frozenset(
        domain
        for key, other in node_infos.with_anti_affinity.items()
        if (there := node_infos.where(key)) is not None and there.node is not None
        for term in other.required_anti_affinity
        if (domain := term.domain(there.node)) is not None and term.matches(pod_info.pod, labels_of)
    )
    if not (required or against or existing):
        return None
    affinity: set[Domain] = set()
    anti_affinity: set[Domain] = set()
    if required or against:
        for node_info in node_infos:
            assert node_info.node is not None
            for other in node_info.pods.values():
                if _matches_all(required, other.pod, labels_of):
                    affinity.update(domain for term in required if (domain := term.domain(node_info.node)) is not None)
                anti_affinity.update(
                    domain
                    for term in against
                    if (domain := term.domain(node_info.node)) is not None
                    and domain not in anti_affinity
                    and term.matches(other.pod, labels_of)
                )
    return Filter(
        affinity_terms=required,
        anti_affinity_terms=against,
        affinity=frozenset(affinity),
        anti_affinity=frozenset(anti_affinity),
        existing_anti_affinity=existing,
        first_of_its_kind=not affinity and _matches_all(required, pod_info.pod, labels_of),
    )


# Score.


class Preferences:
    """How much each domain is preferred, by the pod and by those who are there."""

    def __init__(self, weights: Counter[Domain]) -> None:
        self._weights = weights

    def score(self, node: Node) -> int:
        return sum(self._weights[label] for label in node.metadata.labels.items() if label in self._weights)


def read_preferences(pod_info: PodInfo, node_infos: NodeInfos, labels_of: NamespaceLabels) -> Preferences | None:
    """None when nobody has a preference."""
    weights: Counter[Domain] = Counter()
    for key, other in node_infos.with_affinity.items():
        there = node_infos.where(key)
        if there is None or there.node is None:
            continue
        required = ((HARD_AFFINITY_WEIGHT, term) for term in other.required_affinity)
        for weight, term in (*other.preferred_affinity, *required):
            if (domain := term.domain(there.node)) is not None and term.matches(pod_info.pod, labels_of):
                weights[domain] += weight
    if pod_info.preferred_affinity:
        for node_info in node_infos:
            assert node_info.node is not None
            for weight, term in pod_info.preferred_affinity:
                if (domain := term.domain(node_info.node)) is not None:
                    matching = sum(term.matches(other.pod, labels_of) for other in node_info.pods.values())
                    weights[domain] += weight * matching
    return Preferences(weights) if any(weights.values()) else None
