"""Why a node will not do for a pod. The first rule that says no has the last word, as in kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from localpv.api import taints
from localpv.engine.scheduler import filter_messages, inter_pod_affinity, resources, topology_spread
from localpv.engine.scheduler.assume_cache import Plan
from localpv.engine.scheduler.claims import Claims, Storage
from localpv.engine.scheduler.inter_pod_affinity import NamespaceLabels
from localpv.engine.scheduler.node_info import NodeInfo, NodeInfos
from localpv.engine.scheduler.pod_info import PodInfo
from localpv.engine.scheduler.topology_spread import Spreading


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The rules for one pod, to be asked about many nodes."""

    pod_info: PodInfo
    claims: Claims
    storage: Storage
    alone_taken: bool
    """Another pod has a claim that only one pod may use."""

    inter_pod_affinity: inter_pod_affinity.Filter | None
    spreading: Spreading | None

    def filter(self, node_info: NodeInfo) -> Plan | list[str]:
        """What is to be written for the pod to be on the node, or why it cannot be there."""
        node, pod_info = node_info.node, self.pod_info
        assert node is not None
        if wrong := unfit(pod_info, node_info):
            return wrong
        if self.alone_taken:
            return [filter_messages.ONE_POD_ONLY]
        plan = Plan()
        if pod_info.claims:
            found = self._volumes(node_info)
            if not isinstance(found, Plan):
                return found
            plan = found
        if self.spreading is not None and (problem := self.spreading.problem(node)):
            return [problem]
        if self.inter_pod_affinity is not None and (problem := self.inter_pod_affinity.problem(node)):
            return [problem]
        return plan

    def _volumes(self, node_info: NodeInfo) -> Plan | list[str]:
        assert node_info.node is not None
        problem = self.claims.problem(node_info.node)
        plan = self.claims.plan(node_info.node, self.storage)
        if problem is not None or isinstance(plan, str):
            return [*((problem,) if problem else ()), *((plan,) if isinstance(plan, str) else ())]
        if self.claims.is_out_of_zone(node_info.node):
            return [filter_messages.VOLUME_ZONE]
        return plan


def read(
    pod_info: PodInfo, claims: Claims, *, storage: Storage, node_infos: NodeInfos, labels_of: NamespaceLabels
) -> Filters:
    return Filters(
        pod_info=pod_info,
        claims=claims,
        storage=storage,
        alone_taken=any(node_infos.claims[key] for key in claims.one_pod_only),
        inter_pod_affinity=inter_pod_affinity.read_filter(pod_info, node_infos, labels_of),
        spreading=topology_spread.read(pod_info, node_infos),
    )


def unfit(pod_info: PodInfo, node_info: NodeInfo) -> list[str]:
    """What of the node itself, and of the room on it, does not suit a pod; volumes and other pods aside."""
    node = node_info.node
    assert node is not None
    if node.spec.unschedulable and not taints.is_tolerated(taints.CORDONED, pod_info.tolerations):
        return [filter_messages.UNSCHEDULABLE]
    if node.spec.taints and taints.keeps_away(node.spec.taints, pod_info.tolerations):
        return [filter_messages.TAINTED]
    if pod_info.node_affinity is not None and not pod_info.node_affinity.allows(node):
        return [filter_messages.NODE_AFFINITY]
    if pod_info.ports and has_port_clash(pod_info, node_info):
        return [filter_messages.PORTS]
    return [phrase_for(resource) for resource in lacks(pod_info.requests, node_info)]


def lacks(requests: resources.Amounts, node_info: NodeInfo) -> Iterator[str]:
    """The resources of which a node has too little left; `pods` when it may not take one more at all."""
    if len(node_info.pods) + 1 > node_info.room.get(resources.PODS, 0):
        yield resources.PODS
    for resource, wanted in requests.items():
        room = node_info.room.get(resource)
        if room is None and resource == resources.EPHEMERAL_STORAGE:
            # A node that does not measure its own disk does not ration it either.
            continue
        if wanted > (room or 0) - node_info.used.get(resource, 0):
            yield resource


def phrase_for(resource: str) -> str:
    return filter_messages.TOO_MANY_PODS if resource == resources.PODS else filter_messages.insufficient(resource)


def has_port_clash(pod_info: PodInfo, node_info: NodeInfo) -> bool:
    return any(wanted.clashes(taken) for wanted in pod_info.ports for taken in node_info.ports)
