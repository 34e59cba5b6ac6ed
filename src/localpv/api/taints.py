"""Taints of nodes and the tolerations of pods."""

from __future__ import annotations

from collections.abc import Iterable

from localpv.api import well_known
from localpv.api.kinds.cluster import Taint
from localpv.api.kinds.pods import Toleration

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
CORDONED = Taint(key=well_known.UNSCHEDULABLE, effect=NO_SCHEDULE)
"""What `kubectl cordon` means: who tolerates this taint may go to a node that is marked unschedulable."""

KEEP_AWAY = (NO_SCHEDULE, NO_EXECUTE)

DAEMONS_TOLERATE = {
    well_known.NOT_READY: NO_EXECUTE,
    well_known.UNREACHABLE: NO_EXECUTE,
    "node.kubernetes.io/disk-pressure": NO_SCHEDULE,
    "node.kubernetes.io/memory-pressure": NO_SCHEDULE,
    "node.kubernetes.io/pid-pressure": NO_SCHEDULE,
    well_known.UNSCHEDULABLE: NO_SCHEDULE,
}
"""Trouble of a node that the pods of every DaemonSet live with."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty effect or key tolerates every one; `Exists` tolerates every value."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return bool(toleration.key) and toleration.value == taint.value
        case _:
            return False


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def keeps_away(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Whether one of the taints forbids a pod with these tolerations to be placed."""
    return any(taint.effect in KEEP_AWAY and not is_tolerated(taint, tolerations) for taint in taints)


def keeps_daemons_away(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """The same for a pod of a DaemonSet with these tolerations in its template.

    Trouble of a moment, such as a node that is not ready, does not count.
    """
    return keeps_away((taint for taint in taints if taint.key not in DAEMONS_TOLERATE), tolerations)


def prefer_no_schedule(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> int:
    """How many taints would rather not have such a pod."""
    return sum(taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, tolerations) for taint in taints)
