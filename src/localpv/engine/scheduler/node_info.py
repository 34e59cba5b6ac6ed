"""What is on each node: the pods that were bound to it and those that are about to be, and what they leave free.

Sums are kept as pods come and go, so that looking at a node costs the same however many pods there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from localpv.api.kinds import Node, Pod
from localpv.engine.scheduler import pod_info, resources
from localpv.engine.scheduler.pod_info import Demand, HostPort

FINISHED = ("Succeeded", "Failed")

SCORED_CPU = 100
SCORED_MEMORY = 200 * 1024 * 1024
"""What a pod counts for that asks for nothing, in the comparison of nodes only: it needs something after all."""


@dataclass(slots=True)
class Place:
    """One node and the pods on it."""

    name: str
    node: Node | None = None
    """None when pods name a node that is not, or not yet, there."""

    room: Mapping[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    scored_cpu: int = 0
    scored_memory: int = 0
    pods: dict[str, Demand] = field(default_factory=dict)
    ports: Counter[HostPort] = field(default_factory=Counter)
    owners: Counter[str] = field(default_factory=Counter)

    def put(self, demand: Demand) -> None:
        self.pods[demand.key] = demand
        self._count(demand, 1)

    def take(self, key: str) -> Demand:
        demand = self.pods.pop(key)
        self._count(demand, -1)
        return demand

    def _count(self, demand: Demand, sign: int) -> None:
        for name, amount in demand.requests.items():
            self.used[name] = self.used.get(name, 0) + sign * amount
        self.scored_cpu += sign * demand.requests.get(resources.CPU, SCORED_CPU)
        self.scored_memory += sign * demand.requests.get(resources.MEMORY, SCORED_MEMORY)
        for port in demand.ports:
            self.ports[port] += sign
            if not self.ports[port]:
                del self.ports[port]
        if owner := demand.owner:
            self.owners[owner] += sign
            if not self.owners[owner]:
                del self.owners[owner]


class Places:
    """All nodes. A pod is on at most one of them."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._where: dict[str, str] = {}
        """Keys of pods, and the node that each is on."""

        self._assumed: set[str] = set()
        """Pods that are to be on a node, though the API does not say so yet."""

        self.apart: dict[str, Demand] = {}
        """Pods that keep others away from them."""

        self.drawn: dict[str, Demand] = {}
        """Pods to which it matters, more or less, who is near them."""

        self.claims: Counter[str] = Counter()
        """How many pods use each claim."""

    def __iter__(self) -> Iterator[Place]:
        """Places that are there, in the order in which their nodes came."""
        return (place for place in self._places.values() if place.node is not None)

    def get(self, node: str) -> Place | None:
        place = self._places.get(node)
        return place if place is not None and place.node is not None else None

    def where(self, pod_key: str) -> Place | None:
        return self._places.get(self._where.get(pod_key, ""))

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """The handler of a cache of nodes."""
        node = new or old
        assert node is not None
        place = self._places.setdefault(node.key, Place(node.key))
        place.node = new
        place.room = resources.allocatable(new) if new is not None else {}
        self._drop_empty(place)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """The handler of a cache of pods."""
        pod = new or old
        assert pod is not None
        key = pod.key
        if new is None or new.status.phase in FINISHED:
            self.remove(key)
        elif new.spec.node_name:
            if (there := self.where(key)) is not None and there.name == new.spec.node_name and _same(there, key, new):
                self._assumed.discard(key)
                return
            self._put(pod_info.read(new), new.spec.node_name)
        elif old is not None and old.metadata.uid != new.metadata.uid:
            self.remove(key)

    def assume(self, demand: Demand, node: str) -> None:
        """Count a pod as being on a node, before anybody has said so."""
        self._put(demand, node)
        self._assumed.add(demand.key)

    def give_back(self, key: str) -> None:
        """The assumption was wrong."""
        if key in self._assumed:
            self.remove(key)

    def remove(self, key: str) -> None:
        self._assumed.discard(key)
        name = self._where.pop(key, None)
        if name is None:
            return
        place = self._places[name]
        demand = place.take(key)
        self.apart.pop(key, None)
        self.drawn.pop(key, None)
        self.claims.subtract(demand.claim_keys())
        for claim in demand.claim_keys():
            if not self.claims[claim]:
                del self.claims[claim]
        self._drop_empty(place)

    def _put(self, demand: Demand, node: str) -> None:
        self.remove(demand.key)
        self._places.setdefault(node, Place(node)).put(demand)
        self._where[demand.key] = node
        self.claims.update(demand.claim_keys())
        if demand.apart:
            self.apart[demand.key] = demand
        if demand.likes or demand.near:
            self.drawn[demand.key] = demand

    def _drop_empty(self, place: Place) -> None:
        if place.node is None and not place.pods:
            del self._places[place.name]


def _same(place: Place, key: str, new: Pod) -> bool:
    """Whether nothing changed that counts here: the status of a pod changes far more often than the rest of it."""
    old = place.pods[key].pod
    return (
        (old.metadata.uid, old.metadata.labels) == (new.metadata.uid, new.metadata.labels)
        and old.metadata.deleting == new.metadata.deleting
        and _asked(old) == _asked(new)
    )


def _asked(pod: Pod) -> tuple[object, ...]:
    """What may change of a pod that has its node, and matters to others."""
    spec = pod.spec
    return spec.containers, spec.init_containers, spec.resources, spec.overhead
