"""How large each ReplicaSet of a Deployment should be next, and which revision each is. Computes, never waits.

The numbers of revisions are on ReplicaSets and on the Deployment itself, where `kubectl rollout` reads them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from localpv.api import well_known
from localpv.api.kinds.meta import Kind
from localpv.api.kinds.workloads import Deployment, ReplicaSet
from localpv.engine.controllers import templates

DESIRED = "deployment.kubernetes.io/desired-replicas"
"""On a ReplicaSet: how many pods its Deployment wanted when it was last sized."""

LARGEST = "deployment.kubernetes.io/max-replicas"
"""On a ReplicaSet: how many pods its Deployment could have had with its surge."""

RECREATE, ROLLING = "Recreate", "RollingUpdate"

Sizes = dict[str, int]
"""New sizes by the name of the ReplicaSet."""

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
"""On a ReplicaSet: the numbers it had before it was rolled back to."""

_LONGEST_HISTORY = 2000
_OWN = frozenset(
    {
        REVISION,
        HISTORY,
        DESIRED,
        LARGEST,
        well_known.LAST_APPLIED,
        "deprecated.deployment.rollback.to",
    }
)
"""Annotations that mean something else on a Deployment than on its sets, and are not handed down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A Deployment with its ReplicaSets: the one of its present template, if there is one, and all others."""

    deployment: Deployment
    new: ReplicaSet | None
    old: Sequence[ReplicaSet]

    @property
    def everyone(self) -> list[ReplicaSet]:
        return [*self.old, *([self.new] if self.new is not None else [])]

    @property
    def active(self) -> list[ReplicaSet]:
        return [each for each in self.everyone if each.spec.replicas > 0]


def family(deployment: Deployment, sets: Iterable[ReplicaSet]) -> Family:
    """Tell the set of the present template from the others; of several alike the oldest counts."""
    wanted = templates.without_hash(deployment.spec.template)
    ordered = oldest_first(sets)
    new = next((each for each in ordered if templates.without_hash(each.spec.template) == wanted), None)
    return Family(deployment=deployment, new=new, old=[each for each in ordered if each is not new])


def oldest_first(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    return sorted(sets, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name))


def surge(deployment: Deployment) -> int:
    """How many pods there may be beyond those wanted."""
    return _limits(deployment)[0]


def most_unavailable(deployment: Deployment) -> int:
    """How many of the wanted pods may be missing while the template changes."""
    return min(_limits(deployment)[1], deployment.spec.replicas)


def _limits(deployment: Deployment) -> tuple[int, int]:
    rolling = deployment.spec.strategy.rolling_update
    if deployment.spec.strategy.type != ROLLING or rolling is None:
        return 0, 0
    replicas = deployment.spec.replicas
    more = templates.amount(rolling.max_surge, replicas, up=True)
    fewer = templates.amount(rolling.max_unavailable, replicas, up=False)
    # Percentages of few pods can both come out as nothing, and then no step would ever be allowed.
    return (more, fewer) if more or fewer else (0, 1)


def memory(deployment: Deployment) -> dict[str, str]:
    """What a ReplicaSet remembers of the size that its Deployment had."""
    replicas = deployment.spec.replicas
    return {DESIRED: str(replicas), LARGEST: str(replicas + surge(deployment))}


def was_resized(family: Family) -> bool:
    """Whether somebody changed the number of pods since the sets were last sized."""
    replicas = str(family.deployment.spec.replicas)
    return any(DESIRED in each.metadata.annotations and each.metadata.annotations[DESIRED] != replicas
               for each in family.active)  # fmt: skip


def first_size(family: Family) -> int:
    """How many pods a set for the present template may begin with."""
    deployment = family.deployment
    if deployment.spec.strategy.type != ROLLING:
        return deployment.spec.replicas
    present = family.new.spec.replicas if family.new is not None else 0
    total = sum(each.spec.replicas for each in family.everyone)
    room = deployment.spec.replicas + surge(deployment) - total
    if room <= 0:
        return present
    return present + min(room, deployment.spec.replicas - present)


def rolling(family: Family) -> Sizes:
    """The next step from the old template to the new: first grow the new set, then shrink old ones."""
    new, wanted = family.new, family.deployment.spec.replicas
    assert new is not None
    if new.spec.replicas > wanted:
        return {new.metadata.name: wanted}
    if new.spec.replicas < wanted and (size := first_size(family)) != new.spec.replicas:
        return {new.metadata.name: size}
    return _shrink_old(family, new)


def _shrink_old(family: Family, new: ReplicaSet) -> Sizes:
    least = family.deployment.spec.replicas - most_unavailable(family.deployment)
    old = oldest_first(each for each in family.old if each.spec.replicas > 0)
    total = sum(each.spec.replicas for each in family.everyone)
    new_and_not_there = new.spec.replicas - available(new)
    room = total - least - new_and_not_there
    if not old or room <= 0:
        return {}
    sizes = {each.metadata.name: each.spec.replicas for each in old}
    # Pods that do not serve anyway go first: giving them up costs nobody anything.
    for each in old:
        useless = min(room, each.spec.replicas - available(each))
        if useless > 0:
            sizes[each.metadata.name] -= useless
            room -= useless
    spare = sum(available(each) for each in family.everyone) - least
    for each in old:
        fewer = min(sizes[each.metadata.name], spare)
        if fewer > 0:
            sizes[each.metadata.name] -= fewer
            spare -= fewer
    return {each.metadata.name: sizes[each.metadata.name] for each in old
            if sizes[each.metadata.name] != each.spec.replicas}  # fmt: skip


def proportional(family: Family) -> Sizes:
    """Sizes after a change of the number of pods, while the template may be changing or paused half way."""
    deployment, wanted = family.deployment, family.deployment.spec.replicas
    active = family.active
    if len(active) <= 1:
        newest_first = [*([family.new] if family.new is not None else []), *reversed(oldest_first(family.old))]
        target = active[0] if active else next(iter(newest_first), None)
        return {} if target is None else {target.metadata.name: wanted}
    if _is_saturated(family):
        return {each.metadata.name: 0 for each in family.old if each.spec.replicas > 0}
    if deployment.spec.strategy.type != ROLLING:
        return {}
    allowed = wanted + surge(deployment) if wanted > 0 else 0
    difference = allowed - sum(each.spec.replicas for each in active)
    order = _largest_first(active, newest=difference > 0)
    sizes = {each.metadata.name: each.spec.replicas for each in order}
    if not difference:
        return sizes
    left = difference
    for each in order:
        part = _part(each, deployment)
        part = min(part, left) if difference > 0 else max(part, left)
        sizes[each.metadata.name] += part
        left -= part
    # What rounding left over goes to the largest.
    first = order[0].metadata.name
    sizes[first] = max(0, sizes[first] + left)
    return sizes


def _largest_first(sets: list[ReplicaSet], *, newest: bool) -> list[ReplicaSet]:
    by_age = oldest_first(sets)
    if newest:
        by_age.reverse()
    return sorted(by_age, key=lambda each: -each.spec.replicas)


def _part(each: ReplicaSet, deployment: Deployment) -> int:
    """How much of a change falls to one set: as much as it had of the whole before."""
    wanted = deployment.spec.replicas
    if wanted == 0:
        return -each.spec.replicas
    before = _number(each.metadata.annotations.get(LARGEST, "")) or deployment.status.get("replicas", 0)
    if not before:
        return 0
    exact = each.spec.replicas * (wanted + surge(deployment)) / before
    return math.floor(exact + 0.5) - each.spec.replicas


def _is_saturated(family: Family) -> bool:
    """Whether the new set serves alone, as it should, and the others are only left over."""
    new, wanted = family.new, family.deployment.spec.replicas
    return (
        new is not None
        and new.spec.replicas == wanted
        and _number(new.metadata.annotations.get(DESIRED, "")) == wanted
        and available(new) == wanted
    )


def available(replica_set: ReplicaSet) -> int:
    count: int = replica_set.status.get("availableReplicas", 0)
    return count


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def revision_of(obj: Kind) -> int:
    text = obj.metadata.annotations.get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def next_revision(old: Iterable[ReplicaSet]) -> int:
    """The number of the revision that replaces the others."""
    return max((revision_of(each) for each in old), default=0) + 1


def inherited_annotations(deployment: Kind, revision: int, known: Mapping[str, str]) -> dict[str, str]:
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
