"""Why a node will not do for a pod. The first rule that says no has the last word, as in kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from localpv.lifecycle.schedule import amounts, neighbours, phrases, spreading, taints
from localpv.lifecycle.schedule.claims import Claims, Storage
from localpv.lifecycle.schedule.company import NamespaceLabels
from localpv.lifecycle.schedule.demands import Demand
from localpv.lifecycle.schedule.neighbours import Neighbours
from localpv.lifecycle.schedule.places import Place, Places
from localpv.lifecycle.schedule.promises import Plan
from localpv.lifecycle.schedule.spreading import Spreading


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
            return [phrases.ONE_POD_ONLY]
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
            return [*((problem,) if problem else ()), *((phrases.NO_VOLUME,) if plan is None else ())]
        if self.claims.is_out_of_zone(place.node):
            return [phrases.VOLUME_ZONE]
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
        return [phrases.UNSCHEDULABLE]
    if node.spec.taints and taints.keeps_away(node.spec.taints, demand.tolerations):
        return [phrases.TAINTED]
    if demand.nodes is not None and not demand.nodes.allows(node):
        return [phrases.NODE_AFFINITY]
    if demand.ports and has_port_clash(demand, place):
        return [phrases.PORTS]
    return [phrase_for(resource) for resource in lacks(demand.requests, place)]


def lacks(requests: amounts.Amounts, place: Place) -> Iterator[str]:
    """The resources of which a place has too little left; `pods` when it may not take one more at all."""
    if len(place.pods) + 1 > place.room.get(amounts.PODS, 0):
        yield amounts.PODS
    for resource, wanted in requests.items():
        room = place.room.get(resource)
        if room is None and resource == amounts.EPHEMERAL_STORAGE:
            # A node that does not measure its own disk does not ration it either.
            continue
        if wanted > (room or 0) - place.used.get(resource, 0):
            yield resource


def phrase_for(resource: str) -> str:
    return phrases.TOO_MANY_PODS if resource == amounts.PODS else phrases.insufficient(resource)


def has_port_clash(demand: Demand, place: Place) -> bool:
    return any(wanted.clashes(taken) for wanted in demand.ports for taken in place.ports)
