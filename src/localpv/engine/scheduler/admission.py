"""What a node itself asks about a pod that is already bound to it, as a kubelet does before it runs the pod.

Who writes `spec.nodeName` into a pod goes past the scheduler. The node then refuses what it has no room for or what was
not meant for it: the pod is Failed, with the reason of the first `Refusal`. A volume whose node affinity leads to
another node is no ground to refuse the pod: it stays Pending, since the volume is never mounted, and an event
FailedMount says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from localpv.api.kinds import Node, Pod
from localpv.engine.scheduler import filter_messages, filters, pod_info, resources, taints
from localpv.engine.scheduler.node_info import FINISHED, Place

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
    demand = pod_info.read(pod)
    place = Place(node.metadata.name, node, resources.allocatable(node))
    for other in pods:
        if other.key != pod.key and other.status.phase not in FINISHED:
            place.put(pod_info.read(other))
    return [*_lacking(demand, place), *_unfit(demand, place, node)]


def _lacking(demand: pod_info.Demand, place: Place) -> Iterator[Refusal]:
    # Resources that the node does not know are not its own to refuse: others may serve them.
    known = {name: wanted for name, wanted in demand.requests.items() if name in place.room or "/" not in name}
    for resource in filters.lacks(known, place):
        if resource == resources.PODS:
            wanted, used = 1, len(place.pods)
        else:
            wanted, used = known[resource], place.used.get(resource, 0)
        numbers = f"requested: {wanted}, used: {used}, capacity: {place.room.get(resource, 0)}"
        yield Refusal(
            f"OutOf{resource}",
            f"Node didn't have enough resource: {resource}, {numbers}",
        )


def _unfit(demand: pod_info.Demand, place: Place, node: Node) -> Iterator[Refusal]:
    if demand.nodes is not None and not demand.nodes.allows(node):
        yield _predicate("NodeAffinity", filter_messages.NODE_AFFINITY)
    if filters.has_port_clash(demand, place):
        yield _predicate("NodePorts", filter_messages.PORTS)
    if any(
        taint.effect == taints.NO_EXECUTE and not taints.is_tolerated(taint, demand.tolerations)
        for taint in node.spec.taints
    ):
        yield _predicate("TaintToleration", TOLERATION)


def _predicate(name: str, phrase: str) -> Refusal:
    return Refusal(name, f"Predicate {name} failed: {phrase}")
