"""DaemonSets: one pod on every node that suits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from localpv import errors
from localpv.api import selectors, well_known
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.workloads import ControllerRevision, DaemonSet
from localpv.engine.controllers import cached_objects, controller_refs, daemon_nodes, history, pods, statuses, templates
from localpv.engine.controllers.cached_objects import CachedObjects
from localpv.engine.controllers.history import History
from localpv.observe.recorder import Recorder
from localpv.runtime.backoff import KeyedBackoff
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome

ROLLING = "RollingUpdate"
FIRST_RETRY, LONGEST_RETRY = 1.0, 900.0
"""Seconds before a pod that ended is made anew on its node: doubled with each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A set as it was found: the nodes that it means, and its pods by node."""

    set: DaemonSet
    revision: ControllerRevision
    wanted: frozenset[str]
    """Nodes that should have a pod."""

    allowed: frozenset[str]
    """Nodes on which a pod may stay: also those that would get none today."""

    pods: Mapping[str, list[Pod]]
    now: datetime

    @property
    def mark(self) -> str:
        return self.revision.metadata.labels.get(history.HASH[DaemonSet], "")

    def is_new(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(well_known.REVISION_HASH) == self.mark

    def is_available(self, pod: Pod) -> bool:
        return not pod.metadata.deleting and pods.is_available(pod, self.set.spec.min_ready_seconds, self.now)

    def limits(self) -> tuple[int, int]:
        """How many nodes may have two pods, and how many none, while the template changes."""
        rolling = self.set.spec.update_strategy.rolling_update
        if rolling is None:
            return 0, 1
        surge = templates.amount(rolling.max_surge, len(self.wanted), up=True)
        missing = templates.amount(rolling.max_unavailable, len(self.wanted), up=True)
        return (surge, missing) if surge or missing else (0, 1)


class DaemonSets:
    """Reconciles DaemonSets by their keys."""

    def __init__(
        self,
        *,
        sets: CachedObjects[DaemonSet],
        members: CachedObjects[Pod],
        nodes: CachedObjects[Node],
        revisions: CachedObjects[ControllerRevision],
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._sets = sets
        self._pods = members
        self._nodes = nodes
        self._history: History[DaemonSet] = History(sets=sets, revisions=revisions)
        self._recorder = recorder
        self._clock = clock
        self._retries: KeyedBackoff[tuple[str, str]] = KeyedBackoff(first=FIRST_RETRY, most=LONGEST_RETRY)
        self._not_before: dict[tuple[str, str], float] = {}

    async def reconcile(self, key: str) -> Outcome:
        daemon_set = self._sets.by_key(key)
        if daemon_set is None:
            for known in [each for each in self._not_before if each[0] == key]:
                del self._not_before[known]
                self._retries.worked(known)
            return Done()
        members = await controller_refs.gather(
            daemon_set,
            self._pods,
            selectors.from_object(daemon_set.spec.selector),
            still_there=partial(self._sets.fetch, daemon_set),
        )
        present = await self._history.present(daemon_set)
        look = self._look(daemon_set, present.update, members)
        failure: errors.ApiError | None = None
        again: float | None = None
        if not daemon_set.metadata.deleting:
            try:
                again = await self._step(look)
            except errors.ApiError as error:
                failure = error
        after = self._look(daemon_set, present.update, self._pods.find("owner", daemon_set.metadata.uid))
        status = {**_status(after), **({"collisionCount": present.collisions} if present.collisions else {})}
        await statuses.write(daemon_set, status, to=self._sets)
        if failure is not None and not cached_objects.namespace_ends(failure):
            raise failure
        in_use = {pod.metadata.labels.get(well_known.REVISION_HASH, "") for each in after.pods.values() for pod in each}
        await self._history.forget(daemon_set, present, (templates.named(daemon_set.metadata.name, x) for x in in_use))
        everyone = [pod for each in after.pods.values() for pod in each]
        waits = [again, pods.next_available(everyone, daemon_set.spec.min_ready_seconds, look.now)]
        wait = min((each for each in waits if each is not None), default=None)
        return Done() if wait is None else LookAgain(after=wait)

    def _look(self, daemon_set: DaemonSet, revision: ControllerRevision, members: Sequence[Pod]) -> _Look:
        answers = {node.metadata.name: daemon_nodes.suits(daemon_set, node) for node in self._nodes.list()}
        by_node: dict[str, list[Pod]] = {}
        for pod in sorted(members, key=lambda each: (each.metadata.creation_timestamp or "", each.key)):
            by_node.setdefault(daemon_nodes.node_of(pod), []).append(pod)
        return _Look(
            set=daemon_set,
            revision=revision,
            wanted=frozenset(name for name, (run, _) in answers.items() if run),
            allowed=frozenset(name for name, (_, stay) in answers.items() if stay),
            pods=by_node,
            now=self._clock.now(),
        )

    async def _step(self, look: _Look) -> float | None:
        """Have a pod where one should be, none where none should, and all of the present template in the end."""
        leaving: list[Pod] = []
        empty: list[str] = []
        again: list[float] = []
        for node in sorted({*look.pods, *look.wanted}):
            there = [pod for pod in look.pods.get(node, ()) if not pod.metadata.deleting]
            ended = [pod for pod in there if not pods.is_active(pod)]
            if node not in look.allowed:
                leaving += there
                continue
            if ended:
                wait = self._retire(look, node, ended, leaving)
                again += [wait] if wait else []
                continue
            leaving += _superfluous(look, there)
            if node in look.wanted and not look.pods.get(node):
                if left := self._pause(look, node):
                    again.append(left)
                else:
                    empty.append(node)
        if look.set.spec.update_strategy.type == ROLLING:
            doomed, extra = _replaced(look, {pod.metadata.uid for pod in leaving})
            leaving, empty = leaving + doomed, empty + extra
        await cached_objects.in_growing_batches([partial(self._delete, look.set, pod) for pod in leaving])
        await cached_objects.in_growing_batches([partial(self._create, look, node) for node in empty])
        return min(again, default=None)

    def _retire(self, look: _Look, node: str, ended: list[Pod], leaving: list[Pod]) -> float | None:
        """A daemon does not end: its pod goes and comes anew, later each time."""
        key = (look.set.key, node)
        for pod in ended:
            failed = pod.status.phase == pods.FAILED
            message = f"pod {pod.metadata.name} on node {node} ended and will be replaced"
            self._recorder.event(
                look.set, "FailedDaemonPod" if failed else "SucceededDaemonPod", message, warning=failed
            )
        leaving += ended
        self._not_before[key] = self._clock.monotonic() + self._retries.failed(key)
        return self._pause(look, node)

    def _pause(self, look: _Look, node: str) -> float:
        """How long a node still waits for its next pod."""
        return max(0.0, self._not_before.get((look.set.key, node), 0.0) - self._clock.monotonic())

    async def _create(self, look: _Look, node: str) -> None:
        try:
            pod = await self._pods.create(daemon_nodes.pod(look.set, node, revision=look.mark))
        except errors.ApiError as error:
            if not cached_objects.namespace_ends(error):
                message = f"cannot create a pod for node {node}: {error.message}"
                self._recorder.event(look.set, "FailedCreate", message, warning=True)
            raise
        self._recorder.event(look.set, "SuccessfulCreate", f"created pod {pod.metadata.name}")

    async def _delete(self, daemon_set: DaemonSet, pod: Pod) -> None:
        await self._pods.delete(pod)
        self._recorder.event(daemon_set, "SuccessfulDelete", f"deleted pod {pod.metadata.name}")


def _superfluous(look: _Look, there: list[Pod]) -> list[Pod]:
    """Pods beyond one on a node: while a surge lasts, an old one and a new one may be there."""
    old = [pod for pod in there if not look.is_new(pod)]
    new = [pod for pod in there if look.is_new(pod)]
    surging = look.set.spec.update_strategy.type == ROLLING and look.limits()[0] > 0
    if not surging:
        assigned_first = sorted(there, key=lambda pod: not pod.spec.node_name)
        return assigned_first[1:]
    leaving = old[1:] + new[1:]
    if old and new and (not pods.is_ready(old[0]) or look.is_available(new[0])):
        leaving.append(old[0])
    return leaving


def _replaced(look: _Look, leaving: set[str]) -> tuple[list[Pod], list[str]]:
    """Old pods to delete, and nodes that get a new pod beside an old one, as far as the limits go."""
    surge, missing = look.limits()
    candidates: list[Pod] = []
    doomed: list[Pod] = []
    beside: list[str] = []
    for node in sorted(look.wanted):
        there = look.pods.get(node, [])
        staying = [pod for pod in there if not pod.metadata.deleting and pod.metadata.uid not in leaving]
        old = next((pod for pod in staying if not look.is_new(pod)), None)
        new = next((pod for pod in staying if look.is_new(pod)), None)
        if surge:
            if old is not None and new is not None:
                surge -= 1
            elif old is not None and len(there) == 1:
                # An old pod that does not serve is no loss to wait for, so it costs nothing of the surge.
                beside.append(node) if look.is_available(old) else beside.insert(0, node)
        elif old is None and (new is None or not look.is_available(new)):
            missing -= 1
        elif old is not None and new is None:
            if look.is_available(old):
                candidates.append(old)
            else:
                doomed.append(old)
                missing -= 1
    if look.limits()[0]:
        return [], beside[: max(0, surge)]
    return doomed + candidates[: max(0, missing)], []


def _status(look: _Look) -> dict[str, Any]:
    scheduled = misplaced = ready = available = updated = 0
    for node, there in look.pods.items():
        running = bool(there)
        if node not in look.wanted:
            misplaced += running
            continue
        scheduled += running
        # The oldest pod of a node speaks for it.
        first = there[0]
        ready += pods.is_ready(first)
        available += look.is_available(first)
        updated += look.is_new(first)
    return {
        "observedGeneration": look.set.metadata.generation,
        "desiredNumberScheduled": len(look.wanted),
        "currentNumberScheduled": scheduled,
        "numberMisscheduled": misplaced,
        "numberReady": ready,
        **statuses.counts(
            updatedNumberScheduled=updated,
            numberAvailable=available,
            numberUnavailable=len(look.wanted) - available,
        ),
    }
