"""What a node itself asks about a pod that is already bound to it, as a kubelet does before it runs the pod.

Who writes `spec.nodeName` into a pod goes past the scheduler. The node then refuses what it has no room for or what was
not meant for it: the pod is Failed, with the reason of the first `Refusal`. A volume whose node affinity leads to
another node is no ground to refuse the pod: it stays Pending, since the volume is never mounted, and an event
FailedMount says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from localpv.api import taints
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.pods import Pod
from localpv.engine.scheduler import filter_messages, filters, resources
from localpv.engine.scheduler.node_info import FINISHED, NodeInfo
from localpv.engine.scheduler.pod_info import PodInfo

TOLERATION = "node(s) had taints that the pod didn't tolerate"
REJECTED = "Pod was rejected: "
"""What stands before the message in the status of a pod that a node refused."""


@dataclass(frozen=True, slots=True)
class Refusal:
    reason: str
    """Of status.reason and of the event: `OutOfcpu`, `NodeAffinity`, `NodePorts`, `TaintToleration`."""

    message: str


def check(pod: Pod, node: Node, pods: Iterable[Pod]) -> list[Refusal]:
    """Why the node refuses a pod beside the others that it runs; the first counts, none lets the pod in."""
    pod_info = PodInfo.of(pod)
    node_info = NodeInfo(node.metadata.name, node, resources.allocatable(node))
    for other in pods:
        if other.key != pod.key and other.status.phase not in FINISHED:
            node_info.put(PodInfo.of(other))
    return [*_lacking(pod_info, node_info), *_unfit(pod_info, node_info, node)]


def _lacking(pod_info: PodInfo, node_info: NodeInfo) -> Iterator[Refusal]:
    # Resources that the node does not know are not its own to refuse: others may serve them.
    known = {name: wanted for name, wanted in pod_info.requests.items() if name in node_info.room or "/" not in name}
    for resource in filters.lacks(known, node_info):
        if resource == resources.PODS:
            wanted, used = 1, len(node_info.pods)
        else:
            wanted, used = known[resource], node_info.used.get(resource, 0)
        numbers = f"requested: {wanted}, used: {used}, capacity: {node_info.room.get(resource, 0)}"
        yield Refusal(
            f"OutOf{resource}",
            f"Node didn't have enough resource: {resource}, {numbers}",
        )


def _unfit(pod_info: PodInfo, node_info: NodeInfo, node: Node) -> Iterator[Refusal]:
    if pod_info.node_affinity is not None and not pod_info.node_affinity.allows(node):
        yield _predicate("NodeAffinity", filter_messages.NODE_AFFINITY)
    if filters.has_port_clash(pod_info, node_info):
        yield _predicate("NodePorts", filter_messages.PORTS)
    if any(
        taint.effect == taints.NO_EXECUTE and not taints.is_tolerated(taint, pod_info.tolerations)
        for taint in node.spec.taints
    ):
        yield _predicate("TaintToleration", TOLERATION)


def _predicate(name: str, phrase: str) -> Refusal:
    return Refusal(name, f"Predicate {name} failed: {phrase}")
