"""StatefulSets: pods with a number, a name that stays, and claims that outlive them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from localpv import errors
from localpv.api import selectors
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.api.kinds.workloads import ControllerRevision, StatefulSet
from localpv.engine.controllers import cached_objects, controller_refs, history, pod_identity, pods, statuses
from localpv.engine.controllers.cached_objects import CachedObjects
from localpv.engine.controllers.history import History, Present
from localpv.engine.controllers.pod_identity import SetClaims
from localpv.observe.recorder import Recorder
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome

ROLLING, ON_DELETE, PARALLEL = "RollingUpdate", "OnDelete", "Parallel"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A set as it was found: its pods by number, and how it stands between two revisions."""

    set: StatefulSet
    present: Present
    pods: Mapping[int, Pod]
    now: datetime

    @property
    def in_order(self) -> bool:
        return self.set.spec.pod_management_policy != PARALLEL

    def is_healthy(self, pod: Pod | None) -> bool:
        """Runs, is ready and has been for long enough, and is not on its way out."""
        return (
            pod is not None
            and pod.status.phase == pods.RUNNING
            and pods.is_available(pod, self.set.spec.min_ready_seconds, self.now)
            and not pod.metadata.deleting
        )

    @property
    def superfluous(self) -> list[int]:
        """Numbers beyond those wanted, highest first."""
        wanted = pod_identity.ordinals(self.set)
        return sorted((number for number in self.pods if number not in wanted), reverse=True)


class StatefulSets:
    """Reconciles StatefulSets by their keys."""

    def __init__(
        self,
        *,
        sets: CachedObjects[StatefulSet],
        members: CachedObjects[Pod],
        claims: CachedObjects[PersistentVolumeClaim],
        revisions: CachedObjects[ControllerRevision],
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._sets = sets
        self._pods = members
        self._claims = SetClaims(claims=claims, recorder=recorder)
        self._history: History[StatefulSet] = History(sets=sets, revisions=revisions)
        self._recorder = recorder
        self._clock = clock

    async def reconcile(self, key: str) -> Outcome:
        stateful_set = self._sets.by_key(key)
        if stateful_set is None:
            return Done()
        members = await controller_refs.gather(
            stateful_set,
            self._pods,
            selectors.from_object(stateful_set.spec.selector),
            still_there=partial(self._sets.fetch, stateful_set),
            wanted=lambda pod: pod_identity.ordinal(pod.metadata.name, stateful_set) is not None,
        )
        present = await self._history.present(stateful_set)
        look = _Look(set=stateful_set, present=present, pods=_by_number(stateful_set, members), now=self._clock.now())
        failure: errors.ApiError | None = None
        if not stateful_set.metadata.deleting:
            try:
                await self._step(look)
            except errors.ApiError as error:
                failure = error
        after = [pod for pod in self._pods.find("owner", stateful_set.metadata.uid)]
        await statuses.write(stateful_set, _status(look, after), to=self._sets)
        if failure is not None and not cached_objects.namespace_ends(failure):
            raise failure
        await self._history.forget(stateful_set, present, map(pod_identity.revision_of, after))
        wait = pods.next_available(after, stateful_set.spec.min_ready_seconds, look.now)
        return Done() if wait is None else LookAgain(after=wait)

    # Towards what is wanted: first the pods that should be there, then those that should not, then the revision.

    async def _step(self, look: _Look) -> None:
        wanted = pod_identity.ordinals(look.set)
        if look.in_order:
            for number in wanted:
                if not await self._tend(look, number):
                    return
        else:
            await cached_objects.in_growing_batches([partial(self._tend, look, number) for number in wanted])
        for number in look.superfluous:
            await self._claims.settle(look.set, number, look.pods[number])
        if not await self._shrink(look):
            return
        if look.set.spec.update_strategy.type == ROLLING:
            await self._update(look)

    async def _tend(self, look: _Look, number: int) -> bool:
        """Have the pod with a number there and well; whether its successors may be looked at."""
        pod = look.pods.get(number)
        if pod is None:
            await self._create(look, number)
            return False
        if pod.status.phase in (pods.FAILED, pods.SUCCEEDED):
            if not pod.metadata.deleting:
                await self._delete(look.set, pod)
            return False
        if pod.status.phase == pods.PENDING and not pod.metadata.deleting:
            # Somebody may have deleted a claim that was never used: without it the pod would wait for ever.
            await self._claims.make(look.set, number)
        if not look.is_healthy(pod) and look.in_order:
            return False
        if not pod.metadata.deleting:
            await self._mend(look.set, number, pod)
        return True

    async def _create(self, look: _Look, number: int) -> None:
        stateful_set = look.set
        if self._claims.are_promised_away(stateful_set, number):
            return  # the new pod must not start on data that is about to be deleted; it is made when the claim is gone
        if not await self._claims.make(stateful_set, number):
            return
        revision = self._revision_for(look, number)
        body = pod_identity.pod(stateful_set, history.template_of(revision), number, revision=revision.metadata.name)
        name = body["metadata"]["name"]
        try:
            pod = await self._pods.create(body)
        except errors.ApiError as error:
            if not cached_objects.namespace_ends(error):
                message = f"cannot create pod {name}: {error.message}"
                self._recorder.event(stateful_set, "FailedCreate", message, warning=True)
            raise
        self._recorder.event(stateful_set, "SuccessfulCreate", f"created pod {name}")
        await self._claims.settle(stateful_set, number, pod)

    def _revision_for(self, look: _Look, number: int) -> ControllerRevision:
        """A pod that is made anew during a change gets the revision that its number is at."""
        strategy, start = look.set.spec.update_strategy, look.set.spec.ordinals.start
        rolling = strategy.rolling_update
        if rolling is not None:
            return look.present.current if number < start + rolling.partition else look.present.update
        still = look.set.status.get("currentReplicas", 0) if strategy.type == ROLLING else 0
        return look.present.current if number < start + still else look.present.update

    async def _mend(self, stateful_set: StatefulSet, number: int, pod: Pod) -> None:
        """The labels that name a pod may have been taken away, and the policy for its claims changed."""
        wanted = pod_identity.labels(stateful_set, number)
        if any(pod.metadata.labels.get(key) != value for key, value in wanted.items()):
            await self._pods.patch(pod, {"metadata": {"uid": pod.metadata.uid, "labels": wanted}})
        await self._claims.settle(stateful_set, number, pod)

    async def _shrink(self, look: _Look) -> bool:
        """Delete superfluous pods from the highest number down; whether there is nothing left to wait for."""
        leaving = [look.pods[number] for number in look.superfluous]
        if not look.in_order:
            doomed = [pod for pod in leaving if not pod.metadata.deleting]
            await cached_objects.in_growing_batches([partial(self._delete, look.set, pod) for pod in doomed])
            return True
        if not leaving:
            return True
        first = leaving[0]
        # One unhealthy pod may go, or nothing ever would; a second one has to wait until its elders are well.
        ill = [pod for pod in reversed(leaving) if not look.is_healthy(pod)]
        if not first.metadata.deleting and (look.is_healthy(first) or first is ill[0]):
            await self._delete(look.set, first)
        return False

    async def _update(self, look: _Look) -> None:
        """Replace one pod of an old revision, from the highest number down; an ill one is waited for first."""
        rolling = look.set.spec.update_strategy.rolling_update
        lowest = rolling.partition if rolling is not None else 0
        for number in reversed(pod_identity.ordinals(look.set)[lowest:]):
            pod = self._pods.get(pod_identity.pod_name(look.set, number), look.set.metadata.namespace)
            if pod is None or not controller_refs.controls(look.set, pod):
                return  # it has gone since, or another one of its name is none of ours
            if pod_identity.revision_of(pod) != look.present.update.metadata.name and not pod.metadata.deleting:
                await self._delete(look.set, pod)
                return
            if not look.is_healthy(pod):
                return

    async def _delete(self, stateful_set: StatefulSet, pod: Pod) -> None:
        try:
            await self._pods.delete(pod)
        except errors.ApiError as error:
            message = f"cannot delete pod {pod.metadata.name}: {error.message}"
            self._recorder.event(stateful_set, "FailedDelete", message, warning=True)
            raise
        self._recorder.event(stateful_set, "SuccessfulDelete", f"deleted pod {pod.metadata.name}")


def _by_number(stateful_set: StatefulSet, members: list[Pod]) -> dict[int, Pod]:
    numbered = ((pod_identity.ordinal(pod.metadata.name, stateful_set), pod) for pod in members)
    return {number: pod for number, pod in sorted(numbered, key=lambda each: each[0] or 0) if number is not None}


def _status(look: _Look, members: list[Pod]) -> dict[str, Any]:
    spec, present = look.set.spec, look.present
    ready = [pod for pod in members if pod.status.phase == pods.RUNNING and pods.is_ready(pod)]
    staying = [pod_identity.revision_of(pod) for pod in members if not pod.metadata.deleting]
    current, update = present.current.metadata.name, present.update.metadata.name
    updated = staying.count(update)
    remaining = staying.count(current)
    if spec.update_strategy.type == ROLLING and updated == len(ready) == len(members) == spec.replicas:
        # The change is complete, and what was new is now what is.
        current, remaining = update, updated
    return {
        "observedGeneration": look.set.metadata.generation,
        "replicas": len(members),
        "availableReplicas": sum(pods.is_available(pod, spec.min_ready_seconds, look.now) for pod in ready),
        "collisionCount": present.collisions,
        "currentRevision": current,
        "updateRevision": update,
        **statuses.counts(readyReplicas=len(ready), currentReplicas=remaining, updatedReplicas=updated),
    }
