"""ReplicaSets: so many pods of one template, no more and no fewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from localpv import errors
from localpv.api import selectors
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.workloads import ReplicaSet
from localpv.engine.controllers import cached_objects, controller_refs, pods, statuses, templates
from localpv.engine.controllers.cached_objects import CachedObjects
from localpv.observe.recorder import Recorder
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome

MOST_AT_ONCE = 500
"""Pods that one look makes or deletes; the rest follows with the next, so that one large set does not hold up all."""


class ReplicaSets:
    """Reconciles ReplicaSets by their keys."""

    def __init__(
        self, *, sets: CachedObjects[ReplicaSet], members: CachedObjects[Pod], recorder: Recorder, clock: Clock
    ) -> None:
        self._sets = sets
        self._pods = members
        self._recorder = recorder
        self._clock = clock

    async def reconcile(self, key: str) -> Outcome:
        replica_set = self._sets.by_key(key)
        if replica_set is None:
            return Done()
        active = await controller_refs.gather(
            replica_set,
            self._pods,
            selectors.from_object(replica_set.spec.selector),
            still_there=partial(self._sets.fetch, replica_set),
            wanted=pods.is_active,
        )
        failure: errors.ApiError | None = None
        if not replica_set.metadata.deleting:
            try:
                active = await self._manage(replica_set, active)
            except errors.ApiError as error:
                failure = error
                active = [pod for pod in self._pods.find("owner", replica_set.metadata.uid) if pods.is_active(pod)]
        now = self._clock.now()
        await statuses.write(replica_set, self._status(replica_set, active, failure), to=self._sets)
        if failure is not None and not cached_objects.namespace_ends(failure):
            raise failure
        if failure is None and len(active) != replica_set.spec.replicas and not replica_set.metadata.deleting:
            return LookAgain(after=0)
        wait = pods.next_available(active, replica_set.spec.min_ready_seconds, now)
        return Done() if wait is None else LookAgain(after=wait)

    async def _manage(self, replica_set: ReplicaSet, active: list[Pod]) -> list[Pod]:
        """Make what is missing or delete what is too much; the pods that are there afterwards."""
        missing = replica_set.spec.replicas - len(active)
        if missing > 0:
            body = templates.pod(replica_set.spec.template, replica_set)
            make = partial(self._make, replica_set, body)
            return active + await cached_objects.in_growing_batches([make] * min(missing, MOST_AT_ONCE))
        if missing < 0:
            order = pods.dispensable_first(active, neighbours=self._neighbours(replica_set))
            leaving = order[: min(-missing, MOST_AT_ONCE)]
            await cached_objects.in_growing_batches([partial(self._delete, replica_set, pod) for pod in leaving])
            return order[len(leaving) :]
        return active

    async def _make(self, replica_set: ReplicaSet, body: dict[str, Any]) -> Pod:
        try:
            pod = await self._pods.create(body)
        except errors.ApiError as error:
            if not cached_objects.namespace_ends(error):
                self._recorder.event(replica_set, "FailedCreate", f"cannot create a pod: {error.message}", warning=True)
            raise
        self._recorder.event(replica_set, "SuccessfulCreate", f"created pod {pod.metadata.name}")
        return pod

    async def _delete(self, replica_set: ReplicaSet, pod: Pod) -> None:
        try:
            await self._pods.delete(pod)
        except errors.ApiError as error:
            message = f"cannot delete pod {pod.metadata.name}: {error.message}"
            self._recorder.event(replica_set, "FailedDelete", message, warning=True)
            raise
        self._recorder.event(replica_set, "SuccessfulDelete", f"deleted pod {pod.metadata.name}")

    def _neighbours(self, replica_set: ReplicaSet) -> Sequence[Pod]:
        """The pods of all sets of the same Deployment: where they crowd a node, one of them goes first."""
        controller = controller_refs.controller_of(replica_set)
        if controller is None:
            return self._pods.find("owner", replica_set.metadata.uid)
        family = self._sets.find("owner", controller.uid)
        return [pod for each in family for pod in self._pods.find("owner", each.metadata.uid)]

    def _status(self, replica_set: ReplicaSet, active: list[Pod], failure: errors.ApiError | None) -> Mapping[str, Any]:
        now = self._clock.now()
        spec = replica_set.spec
        wanted = selectors.from_labels((spec.template.get("metadata") or {}).get("labels"))
        leaving = [
            pod
            for pod in self._pods.find("owner", replica_set.metadata.uid)
            if pods.is_terminating(pod) and selectors.from_object(spec.selector).matches(pod.metadata.labels)
        ]
        status: dict[str, Any] = {
            "replicas": len(active),
            "observedGeneration": replica_set.metadata.generation,
            "terminatingReplicas": len(leaving),
            **statuses.counts(
                fullyLabeledReplicas=sum(wanted.matches(pod.metadata.labels) for pod in active),
                readyReplicas=sum(pods.is_ready(pod) for pod in active),
                availableReplicas=sum(pods.is_available(pod, spec.min_ready_seconds, now) for pod in active),
            ),
        }
        conditions = list(replica_set.status.get("conditions", ()))
        if failure is None:
            conditions = statuses.without(conditions, "ReplicaFailure")
        elif statuses.find(conditions, "ReplicaFailure") is None:
            conditions.append(
                {
                    "type": "ReplicaFailure",
                    "status": "True",
                    "reason": "FailedCreate" if len(active) < spec.replicas else "FailedDelete",
                    "message": failure.message,
                    "lastTransitionTime": statuses.stamp(now),
                }
            )
        if conditions:
            status["conditions"] = conditions
        return status
