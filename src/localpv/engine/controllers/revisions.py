"""The revision numbers of a Deployment: on its ReplicaSets and on itself, where `kubectl rollout` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from localpv.api import well_known
from localpv.api.kinds import Kind, ReplicaSet
from localpv.engine.controllers import rollouts

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
"""On a ReplicaSet: the numbers it had before it was rolled back to."""

_LONGEST_HISTORY = 2000
_OWN = frozenset(
    {
        REVISION,
        HISTORY,
        rollouts.DESIRED,
        rollouts.LARGEST,
        well_known.LAST_APPLIED,
        "deprecated.deployment.rollback.to",
    }
)
"""Annotations that mean something else on a Deployment than on its sets, and are not handed down."""


def number(obj: Kind) -> int:
    text = obj.metadata.annotations.get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def following(old: Iterable[ReplicaSet]) -> int:
    """The number of the revision that replaces the others."""
    return max((number(each) for each in old), default=0) + 1


def memory(deployment: Kind, revision: int, known: Mapping[str, str]) -> dict[str, str]:
    """What a ReplicaSet must have of its Deployment's annotations, its number and its earlier numbers."""
    made = {key: value for key, value in deployment.metadata.annotations.items() if key not in _OWN}
    text = known.get(REVISION, "")
    before = int(text) if text.isascii() and text.isdigit() else 0
    if text and not before:
        return made  # somebody wrote their own there; it is left alone
    if before >= revision:
        return made
    made[REVISION] = str(revision)
    if before:
        past = [*filter(None, known.get(HISTORY, "").split(",")), str(before)]
        while len(",".join(past)) > _LONGEST_HISTORY:
            past.pop(0)
        made[HISTORY] = ",".join(past)
    return made
