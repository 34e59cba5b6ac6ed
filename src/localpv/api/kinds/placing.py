"""What a pod says about the nodes it may be on: affinity, anti-affinity, tolerations, spread."""

from __future__ import annotations

from typing import Annotated

from localpv.api.kinds import checks
from localpv.api.kinds.meta import Part
from localpv.api.kinds.volumes import LabelSelector, NodeSelector, NodeSelectorTerm


class Toleration(Part, frozen=True, kw_only=True):
    """A taint that is put up with."""

    key: Annotated[str, checks.rule(maxLength=317)] = ""
    """Key of the taint; absent, with operator Exists, for all taints."""

    operator: Annotated[str, checks.rule(enum=["Exists", "Equal"])] = ""
    """Exists for any value, or Equal, the default."""

    value: Annotated[str, checks.rule(maxLength=63)] = ""
    """Value of the taint."""

    effect: Annotated[str, checks.rule(enum=["NoSchedule", "PreferNoSchedule", "NoExecute"])] = ""
    """Effect of the taint; absent for all effects."""


class PreferredNodes(Part, frozen=True, kw_only=True):
    weight: int
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Part, frozen=True, kw_only=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] = ()


class PodAffinityTerm(Part, frozen=True, kw_only=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()


class PreferredPods(Part, frozen=True, kw_only=True):
    weight: int
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Part, frozen=True, kw_only=True):
    """Nearness to other pods, or, as spec.affinity.podAntiAffinity, distance from them."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPods, ...] = ()


class Affinity(Part, frozen=True, kw_only=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Part, frozen=True, kw_only=True):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class SchedulingGate(Part, frozen=True, kw_only=True):
    name: str
