"""What a Deployment says of itself: counts, whether enough pods serve, and whether it gets anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from localpv.api.kinds.meta import read_time
from localpv.api.kinds.workloads import Deployment
from localpv.engine.controllers import rollouts, statuses
from localpv.engine.controllers.rollouts import Family

UNLIMITED = 2**31 - 1
"""The progressDeadlineSeconds that means none."""

NEW_SET_CREATED, NEW_SET_FOUND = "NewReplicaSetCreated", "FoundNewReplicaSet"
AVAILABLE, UPDATED, TIMED_OUT = "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded"
PAUSED, RESUMED, CREATE_FAILED = "DeploymentPaused", "DeploymentResumed", "ReplicaSetCreateError"


@dataclass(frozen=True, slots=True)
class Said:
    """A status of a Deployment, and after how many seconds to look at its progress again."""

    status: Mapping[str, Any]
    again: float | None = None


def counts(family: Family) -> dict[str, Any]:
    """The counters, with the collisions and conditions as they were."""
    deployment, sets = family.deployment, family.everyone

    def total(name: str) -> int:
        return sum(each.status.get(name, 0) for each in sets)

    available = total("availableReplicas")
    status: dict[str, Any] = {
        "observedGeneration": deployment.metadata.generation,
        "terminatingReplicas": total("terminatingReplicas"),
        **statuses.counts(
            replicas=total("replicas"),
            updatedReplicas=family.new.status.get("replicas", 0) if family.new is not None else 0,
            readyReplicas=total("readyReplicas"),
            availableReplicas=available,
            unavailableReplicas=max(0, sum(each.spec.replicas for each in sets) - available),
        ),
    }
    for name in ("collisionCount", "conditions"):
        if name in deployment.status:
            status[name] = deployment.status[name]
    return status


def with_condition(
    status: Mapping[str, Any], kind: str, value: str, reason: str, message: str, now: datetime
) -> dict[str, Any]:
    """A status with a condition; one that says the same already stays as it is, with its times."""
    conditions = list(status.get("conditions", ()))
    known = statuses.find(conditions, kind)
    if known is not None and (known.get("status"), known.get("reason")) == (value, reason):
        return dict(status)
    moment = statuses.stamp(now)
    same = known is not None and known.get("status") == value
    made = {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastUpdateTime": moment,
        "lastTransitionTime": known["lastTransitionTime"] if same and known is not None else moment,
    }
    return {**status, "conditions": [*statuses.without(conditions, kind), made]}


def availability(family: Family, status: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    deployment = family.deployment
    least = deployment.spec.replicas - rollouts.most_unavailable(deployment)
    if status.get("availableReplicas", 0) >= least:
        return with_condition(status, "Available", "True", "MinimumReplicasAvailable", "enough pods are available", now)
    why = "fewer pods are available than there must be"
    return with_condition(status, "Available", "False", "MinimumReplicasUnavailable", why, now)


def is_complete(deployment: Deployment, status: Mapping[str, Any]) -> bool:
    wanted = deployment.spec.replicas
    return (
        all(status.get(name, 0) == wanted for name in ("updatedReplicas", "replicas", "availableReplicas"))
        and status.get("observedGeneration", 0) >= deployment.metadata.generation
    )


def has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds != UNLIMITED


def of_rollout(family: Family, now: datetime) -> Said:
    """The status while a template is being rolled out, or is."""
    deployment = family.deployment
    status = availability(family, counts(family), now)
    if not has_deadline(deployment):
        status["conditions"] = statuses.without(status.get("conditions", ()), "Progressing")
    else:
        status = _progress(family, status, now)
    status = _failures(family, status)
    return Said(status, _next_look(deployment, status, now))


def _progress(family: Family, status: dict[str, Any], now: datetime) -> dict[str, Any]:
    deployment = family.deployment
    known = statuses.find(status.get("conditions", ()), "Progressing")
    settled = known is not None and known.get("reason") == AVAILABLE
    if settled and status.get("replicas", 0) == status.get("updatedReplicas", 0):
        return status
    subject = f"ReplicaSet {family.new.metadata.name}" if family.new else f"Deployment {deployment.metadata.name}"
    if is_complete(deployment, status):
        return with_condition(status, "Progressing", "True", AVAILABLE, f"{subject} is rolled out", now)
    if _moved(deployment.status, status):
        # Every move counts anew: the deadline is about standing still.
        fresh = with_condition(
            {**status, "conditions": statuses.without(status.get("conditions", ()), "Progressing")},
            *("Progressing", "True", UPDATED, f"{subject} is being rolled out", now),
        )
        if known is not None and known.get("status") == "True":
            fresh["conditions"][-1]["lastTransitionTime"] = known["lastTransitionTime"]
        return fresh
    if _is_late(deployment, known, now):
        return with_condition(status, "Progressing", "False", TIMED_OUT, f"{subject} does not get on", now)
    return status


def _moved(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    def value(status: Mapping[str, Any], name: str) -> int:
        count: int = status.get(name, 0)
        return count

    def outdated(status: Mapping[str, Any]) -> int:
        return value(status, "replicas") - value(status, "updatedReplicas")

    def grown(name: str) -> bool:
        return value(new, name) > value(old, name)

    return (
        outdated(new) < outdated(old)
        or grown("updatedReplicas")
        or grown("readyReplicas")
        or grown("availableReplicas")
    )


def _is_late(deployment: Deployment, known: Mapping[str, Any] | None, now: datetime) -> bool:
    if known is None or known.get("reason") == AVAILABLE:
        return False
    if known.get("reason") == TIMED_OUT:
        return True
    waited = (now - read_time(known["lastUpdateTime"])).total_seconds()
    return waited > deployment.spec.progress_deadline_seconds


def _failures(family: Family, status: dict[str, Any]) -> dict[str, Any]:
    sets = [*([family.new] if family.new else []), *family.old]
    found = (statuses.find(each.status.get("conditions", ()), "ReplicaFailure") for each in sets)
    failure = next((each for each in found if each is not None), None)
    rest = statuses.without(status.get("conditions", ()), "ReplicaFailure")
    if failure is not None:
        rest.append({**failure, "lastUpdateTime": failure.get("lastTransitionTime")})
    return {**status, "conditions": rest}


def _next_look(deployment: Deployment, status: Mapping[str, Any], now: datetime) -> float | None:
    """When the deadline will have passed; None when it does not matter."""
    known = statuses.find(status.get("conditions", ()), "Progressing")
    if not has_deadline(deployment) or known is None or is_complete(deployment, status):
        return None
    if known.get("reason") in (TIMED_OUT, AVAILABLE, PAUSED):
        return None
    waited = (now - read_time(known["lastUpdateTime"])).total_seconds()
    return max(1.0, deployment.spec.progress_deadline_seconds - waited + 1.0)
