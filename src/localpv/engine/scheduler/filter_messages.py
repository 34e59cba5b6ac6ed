"""Why a node will not do, in the short phrases that users of Kubernetes know and search for."""

from __future__ import annotations

from enum import Enum, auto

UNSCHEDULABLE = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"
ONE_POD_ONLY = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
VOLUME_NODE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
VOLUME_ZONE = "node(s) had no available volume zone"
NO_SPACE = "node(s) did not have enough free storage"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
NO_NODES = "no nodes available to schedule pods"


class ClusterEvent(Enum):
    """What could happen that would let a pod have its node after all."""

    NODE = auto()
    POD_CAME = auto()
    POD_LEFT = auto()
    VOLUME = auto()
    CLASS = auto()
    CAPACITY = auto()


_ROOM = frozenset({ClusterEvent.NODE, ClusterEvent.POD_LEFT})
_NODES = frozenset({ClusterEvent.NODE})
_PODS = frozenset({ClusterEvent.NODE, ClusterEvent.POD_CAME, ClusterEvent.POD_LEFT})
_VOLUMES = frozenset({ClusterEvent.NODE, ClusterEvent.VOLUME, ClusterEvent.CLASS})

_WAKES = {
    UNSCHEDULABLE: _NODES,
    TAINTED: _NODES,
    NODE_AFFINITY: _NODES,
    PORTS: _ROOM,
    ONE_POD_ONLY: frozenset({ClusterEvent.POD_LEFT}),
    VOLUME_NODE: _VOLUMES,
    NO_VOLUME: _VOLUMES,
    VOLUME_GONE: _VOLUMES,
    VOLUME_ZONE: _VOLUMES,
    NO_SPACE: _VOLUMES | {ClusterEvent.CAPACITY},
    SPREAD: _PODS,
    SPREAD_LABEL: _NODES,
    AFFINITY: _PODS,
    ANTI_AFFINITY: _PODS,
    EXISTING_ANTI_AFFINITY: _PODS,
}


def insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


def wakes(phrase: str) -> frozenset[ClusterEvent]:
    """What can make the phrase untrue; a change of the pod or of one of its own claims always counts."""
    return _WAKES.get(phrase) or _WAKES.get(phrase.partition(" (")[0], _ROOM)


def lacking_space(why: str) -> str:
    """Of one node: what it lacks."""
    return f"{NO_SPACE} ({why})"
