"""What those who make pods read of a pod, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from localpv.api import well_known
from localpv.api.kinds.meta import read_time
from localpv.api.kinds.pods import Pod

PENDING, RUNNING, SUCCEEDED, FAILED, UNKNOWN = "Pending", "Running", "Succeeded", "Failed", "Unknown"
_PHASE_RANK = {PENDING: 0, UNKNOWN: 1, RUNNING: 2}


def is_active(pod: Pod) -> bool:
    """Whether it runs or will run: neither ended nor being deleted."""
    return pod.status.phase not in (SUCCEEDED, FAILED) and not pod.metadata.deleting


def is_terminating(pod: Pod) -> bool:
    """Whether it is being deleted and has not ended."""
    return pod.metadata.deleting and pod.status.phase not in (SUCCEEDED, FAILED)


def ready_since(pod: Pod) -> datetime | None:
    """Since when it has been ready; None when it is not."""
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            if condition.status != "True":
                return None
            return read_time(condition.last_transition_time) if condition.last_transition_time else _LONG_AGO
    return None


def is_ready(pod: Pod) -> bool:
    return ready_since(pod) is not None


def _restarts(pod: Pod) -> int:
    """Of the container that was restarted most often."""
    return max((each.restart_count for each in pod.status.container_statuses), default=0)


_LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00Z")


def until_available(pod: Pod, seconds: int, now: datetime) -> float | None:
    """How long until a pod has been ready for so many seconds; 0 when it has, None when it is not ready."""
    since = ready_since(pod)
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


def dispensable_first(pods: list[Pod], *, neighbours: Sequence[Pod]) -> list[Pod]:
    """Pods in the order in which they are given up: what serves least goes first.

    Unassigned before assigned, pending before running, not ready before ready, cheap before dear, crowded before
    alone, ready for a short time before ready for long, restarted often before seldom, young before old.
    """
    crowd: dict[str, int] = {}
    for neighbour in neighbours:
        if is_active(neighbour):
            crowd[neighbour.spec.node_name] = crowd.get(neighbour.spec.node_name, 0) + 1

    def rank(pod: Pod) -> tuple[Any, ...]:
        since = ready_since(pod)
        return (
            bool(pod.spec.node_name),
            _PHASE_RANK.get(pod.status.phase, 1),
            since is not None,
            _cost(pod),
            -crowd.get(pod.spec.node_name, 0),
            -since.timestamp() if since is not None else 0,
            -_restarts(pod),
            -read_time(pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z").timestamp(),
            pod.metadata.uid,
        )

    return sorted(pods, key=rank)


def _cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(well_known.POD_DELETION_COST, "0")
    return int(text) if text.removeprefix("-").isdigit() else 0
