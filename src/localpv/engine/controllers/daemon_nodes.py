"""Which nodes a DaemonSet means, and its pods for them. Computes, never waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from localpv.api import node_selector, taints, well_known
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.pods import Pod, PodSpec
from localpv.api.kinds.workloads import DaemonSet
from localpv.api.objects import Object
from localpv.engine.controllers import templates
from localpv.engine.scheduler.pod_info import required_node_affinity

GENERATION = "pod-template-generation"

_ON_THE_HOSTS_NETWORK = {"node.kubernetes.io/network-unavailable": taints.NO_SCHEDULE}
"""Trouble of a node that its daemons live with: they are part of what it is."""


def pod(of: DaemonSet, node: str, *, revision: str) -> Object:
    """The pod for one node, which the scheduler can place nowhere else."""
    made = templates.pod(of.spec.template, of)
    made["metadata"]["labels"][well_known.REVISION_HASH] = revision
    if generation := of.metadata.annotations.get(well_known.TEMPLATE_GENERATION):
        made["metadata"]["labels"][GENERATION] = generation
    spec = made["spec"]
    spec["tolerations"] = _tolerations(spec)
    affinity = dict(spec.get("affinity") or {})
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity["nodeAffinity"] = {
        **(affinity.get("nodeAffinity") or {}),
        node_selector.REQUIRED: {"nodeSelectorTerms": [term]},
    }
    spec["affinity"] = affinity
    return made


def node_of(pod: Pod) -> str:
    """The node that a pod is on, or is meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In":
                return next(iter(field.values), "")
    return ""


def suits(of: DaemonSet, node: Node) -> tuple[bool, bool]:
    """Whether a pod should be made for a node, and whether one that is there may stay."""
    spec: Mapping[str, Any] = of.spec.template.get("spec") or {}
    if spec.get("nodeName", node.metadata.name) != node.metadata.name:
        return False, False
    like = Pod(
        metadata=ObjectMeta(name="x"),
        spec=msgspec.convert({**spec, "tolerations": _tolerations(spec)}, PodSpec),
    )
    wish = required_node_affinity(like)
    if wish is not None and not wish.allows(node):
        return False, False
    if not taints.keeps_away(node.spec.taints, like.spec.tolerations):
        return True, True
    driven_out = [taint for taint in node.spec.taints if taint.effect == taints.NO_EXECUTE]
    return False, not taints.keeps_away(driven_out, like.spec.tolerations)


def _tolerations(spec: Mapping[str, Any]) -> list[Object]:
    wanted = taints.DAEMONS_TOLERATE | (_ON_THE_HOSTS_NETWORK if spec.get("hostNetwork") else {})
    own = [
        each
        for each in spec.get("tolerations") or ()
        if wanted.get(each.get("key", "")) != each.get("effect", "") or not each.get("key")
    ]
    return [*own, *({"key": key, "operator": "Exists", "effect": effect} for key, effect in wanted.items())]
