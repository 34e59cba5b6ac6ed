"""What is on each node: the pods that were bound to it and those that are about to be, and what they leave free.

Sums are kept as pods come and go, so that looking at a node costs the same however many pods there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.pods import Pod
from localpv.engine.scheduler import resources
from localpv.engine.scheduler.pod_info import HostPort, PodInfo

FINISHED = ("Succeeded", "Failed")

SCORED_CPU = 100
SCORED_MEMORY = 200 * 1024 * 1024
"""What a pod counts for that asks for nothing, in the comparison of nodes only: it needs something after all."""


@dataclass(slots=True)
class NodeInfo:
    """One node and the pods on it."""

    name: str
    node: Node | None = None
    """None when pods name a node that is not, or not yet, there."""

    room: Mapping[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    scored_cpu: int = 0
    scored_memory: int = 0
    pods: dict[str, PodInfo] = field(default_factory=dict)
    ports: Counter[HostPort] = field(default_factory=Counter)
    owners: Counter[str] = field(default_factory=Counter)

    def put(self, pod_info: PodInfo) -> None:
        self.pods[pod_info.key] = pod_info
        self._count(pod_info, 1)

    def take(self, key: str) -> PodInfo:
        pod_info = self.pods.pop(key)
        self._count(pod_info, -1)
        return pod_info

    def _count(self, pod_info: PodInfo, sign: int) -> None:
        for name, amount in pod_info.requests.items():
            self.used[name] = self.used.get(name, 0) + sign * amount
        self.scored_cpu += sign * pod_info.requests.get(resources.CPU, SCORED_CPU)
        self.scored_memory += sign * pod_info.requests.get(resources.MEMORY, SCORED_MEMORY)
        for port in pod_info.ports:
            self.ports[port] += sign
            if not self.ports[port]:
                del self.ports[port]
        if owner := pod_info.owner:
            self.owners[owner] += sign
            if not self.owners[owner]:
                del self.owners[owner]


class NodeInfos:
    """All nodes. A pod is on at most one of them."""

    def __init__(self) -> None:
        self._node_infos: dict[str, NodeInfo] = {}
        self._where: dict[str, str] = {}
        """Keys of pods, and the node that each is on."""

        self._assumed: set[str] = set()
        """Pods that are to be on a node, though the API does not say so yet."""

        self.with_anti_affinity: dict[str, PodInfo] = {}
        """Pods with required anti-affinity: they keep others away from them."""

        self.with_affinity: dict[str, PodInfo] = {}
        """Pods with affinity, required or preferred: it matters to them who is near."""

        self.claims: Counter[str] = Counter()
        """How many pods use each claim."""

    def __iter__(self) -> Iterator[NodeInfo]:
        """Nodes that are there, in the order in which they came."""
        return (node_info for node_info in self._node_infos.values() if node_info.node is not None)

    def get(self, node: str) -> NodeInfo | None:
        node_info = self._node_infos.get(node)
        return node_info if node_info is not None and node_info.node is not None else None

    def where(self, pod_key: str) -> NodeInfo | None:
        return self._node_infos.get(self._where.get(pod_key, ""))

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """The handler of a cache of nodes."""
        node = new or old
        assert node is not None
        node_info = self._node_infos.setdefault(node.key, NodeInfo(node.key))
        node_info.node = new
        node_info.room = resources.allocatable(new) if new is not None else {}
        self._drop_empty(node_info)

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
            self._put(PodInfo.of(new), new.spec.node_name)
        elif old is not None and old.metadata.uid != new.metadata.uid:
            self.remove(key)

    def assume(self, pod_info: PodInfo, node: str) -> None:
        """Count a pod as being on a node, before anybody has said so."""
        self._put(pod_info, node)
        self._assumed.add(pod_info.key)

    def give_back(self, key: str) -> None:
        """The assumption was wrong."""
        if key in self._assumed:
            self.remove(key)

    def remove(self, key: str) -> None:
        self._assumed.discard(key)
        name = self._where.pop(key, None)
        if name is None:
            return
        node_info = self._node_infos[name]
        pod_info = node_info.take(key)
        self.with_anti_affinity.pop(key, None)
        self.with_affinity.pop(key, None)
        self.claims.subtract(pod_info.claim_keys())
        for claim in pod_info.claim_keys():
            if not self.claims[claim]:
                del self.claims[claim]
        self._drop_empty(node_info)

    def _put(self, pod_info: PodInfo, node: str) -> None:
        self.remove(pod_info.key)
        self._node_infos.setdefault(node, NodeInfo(node)).put(pod_info)
        self._where[pod_info.key] = node
        self.claims.update(pod_info.claim_keys())
        if pod_info.required_anti_affinity:
            self.with_anti_affinity[pod_info.key] = pod_info
        if pod_info.preferred_affinity or pod_info.required_affinity:
            self.with_affinity[pod_info.key] = pod_info

    def _drop_empty(self, node_info: NodeInfo) -> None:
        if node_info.node is None and not node_info.pods:
            del self._node_infos[node_info.name]


def _same(node_info: NodeInfo, key: str, new: Pod) -> bool:
    """Whether nothing changed that counts here: the status of a pod changes far more often than the rest of it."""
    old = node_info.pods[key].pod
    return (
        (old.metadata.uid, old.metadata.labels) == (new.metadata.uid, new.metadata.labels)
        and old.metadata.deleting == new.metadata.deleting
        and _asked(old) == _asked(new)
    )


def _asked(pod: Pod) -> tuple[object, ...]:
    """What may change of a pod that has its node, and matters to others."""
    spec = pod.spec
    return spec.containers, spec.init_containers, spec.resources, spec.overhead
