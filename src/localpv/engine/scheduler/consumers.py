"""Whether a node has room for all pods that use certain claims: the scheduler's own filters, for a placer of claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.engine.scheduler import filters
from localpv.engine.scheduler.node_info import FINISHED, NodeInfo
from localpv.engine.scheduler.pod_info import PodInfo, claims_of
from localpv.engine.scheduler.scheduler import Scheduler
from localpv.volume import fit

ELSEWHERE = "node(s) were not those of pods that use the claims already"


class Consumers:
    """Pods that use claims, as the scheduler sees them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._listers, self.ready = scheduler.listers, scheduler.ready
        self._expected: dict[str, str] = {}
        """Pods that have no node yet, and the node to which the volumes of their claims bind them."""

    def are_awaited(self, claims: Sequence[PersistentVolumeClaim]) -> bool:
        classes = (self._listers.classes.by_key(fit.class_of(claim)) for claim in claims)
        return any(map(fit.waits_for_consumer, classes)) and next(self._users(claims), None) is None

    def problem(self, claims: Sequence[PersistentVolumeClaim], node: Node) -> str:
        there = self._listers.node_infos.get(node.metadata.name)
        if there is None:
            return ""
        # What is there stays as it is: the pods are put on a copy, one beside the other.
        trial = NodeInfo(
            there.name,
            node,
            there.room,
            used=dict(there.used),
            pods=dict(there.pods),
            ports=Counter(there.ports),
        )
        users = [*self._users(claims)]
        for pod in self._expected_on(there.name):
            if pod.key not in {each.key for each in users}:
                trial.put(PodInfo.of(pod))
        for pod in users:
            if pod.key in trial.pods:
                continue
            if pod.spec.node_name or self._listers.node_infos.where(pod.key) is not None:
                return ELSEWHERE
            pod_info = PodInfo.of(pod)
            if unfit := filters.unfit(pod_info, trial):
                return unfit[0]
            trial.put(pod_info)
        return ""

    def placed(self, claims: Sequence[PersistentVolumeClaim], node: str) -> None:
        self._expected |= {pod.key: node for pod in self._users(claims) if not pod.spec.node_name}

    def on_change(self, handler: Callable[[Pod | None, Pod | None], None]) -> None:
        self._listers.pods.add_event_handler(handler)

    def claims_of(self, pod: Pod) -> Sequence[str]:
        return [f"{pod.metadata.namespace}/{use.name}" for use in claims_of(pod)]

    def _expected_on(self, node: str) -> Iterator[Pod]:
        """Those that the scheduler has not put there yet; what it has, it counts itself."""
        for key in [*self._expected]:
            pod = self._listers.pods.by_key(key)
            if pod is None or pod.status.phase in FINISHED or self._listers.node_infos.where(key) is not None:
                del self._expected[key]
            elif self._expected[key] == node:
                yield pod

    def _users(self, claims: Sequence[PersistentVolumeClaim]) -> Iterator[Pod]:
        """Each pod once, the oldest first, so that the same ones are tried first every time."""
        found = {pod.key: pod for claim in claims for pod in self._listers.users_of(claim.key)}
        living = (pod for pod in found.values() if pod.status.phase not in FINISHED and not pod.metadata.deleting)
        return iter(sorted(living, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key)))
