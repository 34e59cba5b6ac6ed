"""The pods that a pod wants to be near, or apart from: terms of affinity, read once and asked about many pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from localpv.api import selectors
from localpv.api.kinds import LabelSelector, Pod, PodAffinity, PodAffinityTerm
from localpv.api.selectors import Operator, Requirement

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


def required(affinity: PodAffinity | None, pod: Pod) -> tuple[Term, ...]:
    if affinity is None:
        return ()
    return tuple(read(term, pod) for term in affinity.required_during_scheduling_ignored_during_execution)


def preferred(affinity: PodAffinity | None, pod: Pod) -> tuple[tuple[int, Term], ...]:
    """Weights and terms."""
    if affinity is None:
        return ()
    return tuple(
        (each.weight, read(each.pod_affinity_term, pod))
        for each in affinity.preferred_during_scheduling_ignored_during_execution
    )


def read(term: PodAffinityTerm, pod: Pod) -> Term:
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


def matches_all(terms: tuple[Term, ...], pod: Pod, labels_of: NamespaceLabels) -> bool:
    """Whether a pod is one of those that all terms mean; no terms mean nobody."""
    return bool(terms) and all(term.matches(pod, labels_of) for term in terms)
