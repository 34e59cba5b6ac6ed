"""The little of a pod that those who make pods read of it, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from localpv.api import well_known
from localpv.api.kinds import ContainerStatus, Kind, Part, PodCondition, read_time
from localpv.api.kinds.meta import resource_of
from localpv.api.resources import Resource

PENDING, RUNNING, SUCCEEDED, FAILED, UNKNOWN = "Pending", "Running", "Succeeded", "Failed", "Unknown"
_PHASE_RANK = {PENDING: 0, UNKNOWN: 1, RUNNING: 2}


class Volume(Part, frozen=True, kw_only=True):
    """A volume of a pod; the sources are kept as they are written."""

    name: str
    persistent_volume_claim: Mapping[str, Any] | None = None
    ephemeral: Mapping[str, Any] | None = None


class Spec(Part, frozen=True, kw_only=True):
    node_name: str = ""
    restart_policy: str = ""
    volumes: tuple[Volume, ...] = ()
    affinity: Mapping[str, Any] | None = None


class Status(Part, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("Pod")
    shared: ClassVar[tuple[str, ...]] = (*Kind.shared, "spec.node_name", "spec.restart_policy", "status.phase")

    spec: Spec = Spec()
    status: Status = Status()

    @property
    def active(self) -> bool:
        """Whether it runs or will run: neither ended nor being deleted."""
        return self.status.phase not in (SUCCEEDED, FAILED) and not self.metadata.deleting

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted and has not ended."""
        return self.metadata.deleting and self.status.phase not in (SUCCEEDED, FAILED)

    @property
    def ready_since(self) -> datetime | None:
        """Since when it has been ready; None when it is not."""
        for condition in self.status.conditions:
            if condition.type == "Ready":
                if condition.status != "True":
                    return None
                return read_time(condition.last_transition_time) if condition.last_transition_time else _LONG_AGO
        return None

    @property
    def ready(self) -> bool:
        return self.ready_since is not None

    @property
    def restarts(self) -> int:
        """Of the container that was restarted most often."""
        return max((each.restart_count for each in self.status.container_statuses), default=0)


_LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00Z")


def until_available(pod: Pod, seconds: int, now: datetime) -> float | None:
    """How long until a pod has been ready for so many seconds; 0 when it has, None when it is not ready."""
    since = pod.ready_since
    if since is None:
        return None
    return max(0.0, seconds - (now - since).total_seconds()) if seconds else 0.0


def is_available(pod: Pod, seconds: int, now: datetime) -> bool:
    return until_available(pod, seconds, now) == 0


def next_available(pods: list[Pod], seconds: int, now: datetime) -> float | None:
    """When the next of the pods that are ready becomes available; None when none is on its way."""
    if not seconds:
        return None
    waits = [wait for pod in pods if (wait := until_available(pod, seconds, now))]
    return min(waits, default=None)


def dispensable_first(pods: list[Pod], *, neighbours: list[Pod]) -> list[Pod]:
    """Pods in the order in which they are given up: what serves least goes first.

    Unassigned before assigned, pending before running, not ready before ready, cheap before dear, crowded before
    alone, ready for a short time before ready for long, restarted often before seldom, young before old.
    """
    crowd: dict[str, int] = {}
    for neighbour in neighbours:
        if neighbour.active:
            crowd[neighbour.spec.node_name] = crowd.get(neighbour.spec.node_name, 0) + 1

    def rank(pod: Pod) -> tuple[Any, ...]:
        since = pod.ready_since
        return (
            bool(pod.spec.node_name),
            _PHASE_RANK.get(pod.status.phase, 1),
            since is not None,
            _cost(pod),
            -crowd.get(pod.spec.node_name, 0),
            -since.timestamp() if since is not None else 0,
            -pod.restarts,
            -read_time(pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z").timestamp(),
            pod.metadata.uid,
        )

    return sorted(pods, key=rank)


def _cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(well_known.POD_DELETION_COST, "0")
    return int(text) if text.removeprefix("-").isdigit() else 0
