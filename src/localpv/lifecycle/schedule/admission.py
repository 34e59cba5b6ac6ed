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
from localpv.lifecycle.schedule import amounts, demands, phrases, rules, taints
from localpv.lifecycle.schedule.places import FINISHED, Place

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
    demand = demands.read(pod)
    place = Place(node.metadata.name, node, amounts.allocatable(node))
    for other in pods:
        if other.key != pod.key and other.status.phase not in FINISHED:
            place.put(demands.read(other))
    return [*_lacking(demand, place), *_unfit(demand, place, node)]


def _lacking(demand: demands.Demand, place: Place) -> Iterator[Refusal]:
    # Resources that the node does not know are not its own to refuse: others may serve them.
    known = {name: wanted for name, wanted in demand.requests.items() if name in place.room or "/" not in name}
    for resource in rules.lacks(known, place):
        if resource == amounts.PODS:
            wanted, used = 1, len(place.pods)
        else:
            wanted, used = known[resource], place.used.get(resource, 0)
        numbers = f"requested: {wanted}, used: {used}, capacity: {place.room.get(resource, 0)}"
        yield Refusal(
            f"OutOf{resource}",
            f"Node didn't have enough resource: {resource}, {numbers}",
        )


def _unfit(demand: demands.Demand, place: Place, node: Node) -> Iterator[Refusal]:
    if demand.nodes is not None and not demand.nodes.allows(node):
        yield _predicate("NodeAffinity", phrases.NODE_AFFINITY)
    if rules.has_port_clash(demand, place):
        yield _predicate("NodePorts", phrases.PORTS)
    if any(
        taint.effect == taints.NO_EXECUTE and not taints.is_tolerated(taint, demand.tolerations)
        for taint in node.spec.taints
    ):
        yield _predicate("TaintToleration", TOLERATION)


def _predicate(name: str, phrase: str) -> Refusal:
    return Refusal(name, f"Predicate {name} failed: {phrase}")
