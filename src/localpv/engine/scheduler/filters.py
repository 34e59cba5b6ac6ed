"""Why a node will not do for a pod. The first rule that says no has the last word, as in kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from localpv.engine.scheduler import (
    filter_messages,
    resources,
    taints,
)
from localpv.engine.scheduler import (
    inter_pod_affinity as neighbours,
)
from localpv.engine.scheduler import (
    topology_spread as spreading,
)
from localpv.engine.scheduler.affinity_terms import NamespaceLabels
from localpv.engine.scheduler.assume_cache import Plan
from localpv.engine.scheduler.claims import Claims, Storage
from localpv.engine.scheduler.inter_pod_affinity import Neighbours
from localpv.engine.scheduler.node_info import Place, Places
from localpv.engine.scheduler.pod_info import Demand
from localpv.engine.scheduler.topology_spread import Spreading


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for one pod, to be asked about many places."""

    demand: Demand
    claims: Claims
    storage: Storage
    alone_taken: bool
    """Another pod has a claim that only one pod may use."""

    neighbours: Neighbours | None
    spreading: Spreading | None

    def judge(self, place: Place) -> Plan | list[str]:
        """What is to be written for the pod to be at the place, or why it cannot be there."""
        node, demand = place.node, self.demand
        assert node is not None
        if wrong := unfit(demand, place):
            return wrong
        if self.alone_taken:
            return [filter_messages.ONE_POD_ONLY]
        plan = Plan()
        if demand.claims:
            found = self._volumes(place)
            if not isinstance(found, Plan):
                return found
            plan = found
        if self.spreading is not None and (problem := self.spreading.problem(node)):
            return [problem]
        if self.neighbours is not None and (problem := self.neighbours.problem(node)):
            return [problem]
        return plan

    def _volumes(self, place: Place) -> Plan | list[str]:
        assert place.node is not None
        problem = self.claims.problem(place.node)
        plan = self.claims.plan(place.node, self.storage)
        if problem is not None or plan is None:
            return [*((problem,) if problem else ()), *((filter_messages.NO_VOLUME,) if plan is None else ())]
        if self.claims.is_out_of_zone(place.node):
            return [filter_messages.VOLUME_ZONE]
        return plan


def read(demand: Demand, claims: Claims, *, storage: Storage, places: Places, labels_of: NamespaceLabels) -> Rules:
    return Rules(
        demand=demand,
        claims=claims,
        storage=storage,
        alone_taken=any(places.claims[key] for key in claims.one_pod_only),
        neighbours=neighbours.read(demand, places, labels_of),
        spreading=spreading.read(demand, places),
    )


def unfit(demand: Demand, place: Place) -> list[str]:
    """What of the node itself, and of the room on it, does not suit a pod; volumes and other pods aside."""
    node = place.node
    assert node is not None
    if node.spec.unschedulable and not taints.is_tolerated(taints.CORDONED, demand.tolerations):
        return [filter_messages.UNSCHEDULABLE]
    if node.spec.taints and taints.keeps_away(node.spec.taints, demand.tolerations):
        return [filter_messages.TAINTED]
    if demand.nodes is not None and not demand.nodes.allows(node):
        return [filter_messages.NODE_AFFINITY]
    if demand.ports and has_port_clash(demand, place):
        return [filter_messages.PORTS]
    return [phrase_for(resource) for resource in lacks(demand.requests, place)]


def lacks(requests: resources.Amounts, place: Place) -> Iterator[str]:
    """The resources of which a place has too little left; `pods` when it may not take one more at all."""
    if len(place.pods) + 1 > place.room.get(resources.PODS, 0):
        yield resources.PODS
    for resource, wanted in requests.items():
        room = place.room.get(resource)
        if room is None and resource == resources.EPHEMERAL_STORAGE:
            # A node that does not measure its own disk does not ration it either.
            continue
        if wanted > (room or 0) - place.used.get(resource, 0):
            yield resource


def phrase_for(resource: str) -> str:
    return filter_messages.TOO_MANY_PODS if resource == resources.PODS else filter_messages.insufficient(resource)


def has_port_clash(demand: Demand, place: Place) -> bool:
    return any(wanted.clashes(taken) for wanted in demand.ports for taken in place.ports)
