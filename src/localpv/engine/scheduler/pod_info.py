"""What a pod asks of the node it will be on, read once and then asked about many nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from localpv.api import selectors
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.meta import NOTHING
from localpv.api.kinds.pods import Affinity, Pod, Toleration
from localpv.api.node_selector import NodeSelector
from localpv.engine.scheduler import inter_pod_affinity, resources
from localpv.engine.scheduler.inter_pod_affinity import Term

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
IGNORE = "Ignore"
HONOR = "Honor"
ANY_ADDRESS = "0.0.0.0"


class HostPort(NamedTuple):
    """A port of the node itself."""

    address: str
    protocol: str
    port: int

    def clashes(self, other: HostPort) -> bool:
        return self[1:] == other[1:] and (self.address == other.address or ANY_ADDRESS in (self.address, other.address))


class ClaimUse(NamedTuple):
    """A claim that a volume of the pod names."""

    name: str
    ephemeral: bool
    """Whether the claim is made for the pod, and goes with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Pods of a kind shall be about equally many wherever this label of nodes differs."""

    key: str
    most_skew: int
    least_domains: int
    selector: selectors.LabelSelector
    only_nodes_of_affinity: bool
    only_tolerated_nodes: bool


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """nodeSelector and required node affinity."""

    labels: Mapping[str, str]
    affinity: NodeSelector | None

    def allows(self, node: Node) -> bool:
        there = node.metadata.labels
        for key, value in self.labels.items():
            if there.get(key) != value:
                return False
        return self.affinity is None or self.affinity.matches(there, node.metadata.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodInfo:
    pod: Pod
    requests: resources.Amounts
    ports: tuple[HostPort, ...]
    tolerations: tuple[Toleration, ...]
    node_affinity: RequiredNodeAffinity | None
    required_affinity: tuple[Term, ...]
    required_anti_affinity: tuple[Term, ...]
    preferred_affinity: tuple[tuple[int, Term], ...]
    """Pods that this one would like to be near, with weights; below zero those that it would rather be apart from."""

    spreads: tuple[Spread, ...]
    soft_spreads: tuple[Spread, ...]
    claims: tuple[ClaimUse, ...]

    @classmethod
    def of(cls, pod: Pod) -> PodInfo:
        spec, affinity = pod.spec, pod.spec.affinity or Affinity()
        against = inter_pod_affinity.preferred_terms(affinity.pod_anti_affinity, pod)
        return cls(
            pod=pod,
            requests=resources.requests(pod),
            ports=tuple(_ports(pod)),
            tolerations=spec.tolerations,
            node_affinity=required_node_affinity(pod),
            required_affinity=inter_pod_affinity.required_terms(affinity.pod_affinity, pod),
            required_anti_affinity=inter_pod_affinity.required_terms(affinity.pod_anti_affinity, pod),
            preferred_affinity=(
                *inter_pod_affinity.preferred_terms(affinity.pod_affinity, pod),
                *((-weight, term) for weight, term in against),
            ),
            spreads=tuple(_spreads(pod, DO_NOT_SCHEDULE)),
            soft_spreads=tuple(_spreads(pod, SCHEDULE_ANYWAY)),
            claims=claims_of(pod),
        )

    @property
    def key(self) -> str:
        return self.pod.metadata.key

    @property
    def owner(self) -> str:
        """The UID of what made the pod; pods of one owner do the same work."""
        return next((each.uid for each in self.pod.metadata.owner_references if each.controller), "")

    def claim_keys(self) -> Iterator[str]:
        return (f"{self.pod.metadata.namespace}/{claim.name}" for claim in self.claims)


def required_node_affinity(pod: Pod) -> RequiredNodeAffinity | None:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    wanted = None if affinity is None else affinity.required_during_scheduling_ignored_during_execution
    if wanted is None and not pod.spec.node_selector:
        return None
    return RequiredNodeAffinity(
        pod.spec.node_selector or NOTHING, None if wanted is None else NodeSelector(msgspec.to_builtins(wanted))
    )


def claims_of(pod: Pod) -> tuple[ClaimUse, ...]:
    """Every claim of the pod once, in the order of its volumes."""
    found: dict[str, ClaimUse] = {}
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
            found.setdefault(name, ClaimUse(name, ephemeral=False))
        elif volume.ephemeral is not None:
            name = f"{pod.metadata.name}-{volume.name}"
            found.setdefault(name, ClaimUse(name, ephemeral=True))
    return tuple(found.values())


def _ports(pod: Pod) -> Iterator[HostPort]:
    spec = pod.spec
    sidecars = (container for container in spec.init_containers if container.restart_policy == resources.SIDECAR)
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number > 0:
                yield HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", number)


def _spreads(pod: Pod, when: str) -> Iterator[Spread]:
    for each in pod.spec.topology_spread_constraints:
        if each.when_unsatisfiable == when:
            yield Spread(
                key=each.topology_key,
                most_skew=each.max_skew,
                least_domains=1 if each.min_domains is None else each.min_domains,
                selector=inter_pod_affinity.read_selector(
                    each.label_selector, each.match_label_keys, pod.metadata.labels
                ),
                only_nodes_of_affinity=each.node_affinity_policy != IGNORE,
                only_tolerated_nodes=each.node_taints_policy == HONOR,
            )
