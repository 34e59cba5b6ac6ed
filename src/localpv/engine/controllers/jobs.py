"""Jobs: pods that come to an end, as many as are needed, and again when they fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from localpv import errors
from localpv.api import selectors
from localpv.api.kinds.meta import read_time
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.workloads import Job
from localpv.api.objects import Object
from localpv.engine.controllers import cached_objects, controller_refs, job_policies, job_tracking, pods, statuses
from localpv.engine.controllers.cached_objects import CachedObjects
from localpv.engine.controllers.job_policies import Verdict
from localpv.engine.controllers.job_tracking import Tally
from localpv.observe.recorder import Recorder
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome

MANAGER = "kubernetes.io/job-controller"
"""The value of spec.managedBy that means us; others look after their Jobs themselves."""

FIRST_RETRY, LONGEST_RETRY = 10.0, 600.0
"""Seconds before a failed pod is replaced: doubled with each failure in a row."""

MOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class _Failures:
    """How often pods of a Job have failed since one succeeded.

    In memory only: after a restart the first try is free.
    """

    count: int
    last: datetime

    def wait(self, now: datetime) -> float:
        pause = min(FIRST_RETRY * 2 ** (self.count - 1), LONGEST_RETRY) if self.count else 0.0
        return float(max(0.0, pause - (now - self.last).total_seconds()))


class Jobs:
    """Reconciles Jobs by their keys."""

    def __init__(
        self, *, jobs: CachedObjects[Job], members: CachedObjects[Pod], recorder: Recorder, clock: Clock
    ) -> None:
        self._jobs = jobs
        self._pods = members
        self._recorder = recorder
        self._clock = clock
        self._failures: dict[str, _Failures] = {}

    async def reconcile(self, key: str) -> Outcome:
        job = self._jobs.by_key(key)
        if job is None:
            self._failures.pop(key, None)
            return Done()
        if job.spec.managed_by not in ("", MANAGER):
            return Done()
        members = await controller_refs.gather(
            job,
            self._pods,
            selectors.from_object(job.spec.selector),
            still_there=partial(self._jobs.fetch, job),
        )
        if job_policies.is_finished(job):
            self._failures.pop(key, None)
            await job_tracking.release(members, known=self._pods)
            return await self._expire(job)
        return await self._work(key, job, members)

    async def release_orphan(self, key: str) -> Outcome:
        """A pod whose Job is gone has nobody left to count it."""
        pod = self._pods.by_key(key)
        if pod is None or not job_tracking.is_tracked(pod):
            return Done()
        controller = controller_refs.controller_of(pod)
        if controller is not None and controller.kind == Job.resource.kind:
            job = self._jobs.get(controller.name, pod.metadata.namespace)
            if job is not None and job.metadata.uid == controller.uid:
                return Done()
        await job_tracking.release([pod], known=self._pods)
        return Done()

    async def _work(self, key: str, job: Job, members: Sequence[Pod]) -> Outcome:
        now = self._clock.now()
        status = dict(job.status)
        if "startTime" not in status and not job.spec.suspend:
            status["startTime"] = statuses.stamp(now)
        tally = job_tracking.tally(job, members)
        self._note_failures(key, tally, now)
        active = [pod for pod in members if pods.is_active(pod)]
        verdict = job_policies.given(job) or job_policies.failure(job, members, failed=tally.total_failed, now=now)
        if verdict is None and job_policies.is_indexed(job):
            verdict = job_policies.failure_of_indexes(job, done=tally.done, given_up=tally.given_up)
            verdict = verdict or job_policies.early_success(job, tally.done)
        again: float | None = None
        failure: errors.ApiError | None = None
        try:
            if verdict is not None:
                await cached_objects.in_growing_batches([partial(self._delete, job, pod) for pod in active])
                active = []
            elif not job.metadata.deleting:
                active, again = await self._manage(key, job, active, tally, members)
                verdict = job_policies.success(job, succeeded=tally.total_succeeded, active=len(active))
                status = self._note_suspension(job, status, now) if verdict is None else status
        except errors.ApiError as error:
            failure = error
            active = [pod for pod in self._members(job) if pods.is_active(pod)]
        await self._record(job, status, tally, verdict, active, now)
        if failure is not None and not cached_objects.namespace_ends(failure):
            raise failure
        if (left := job_policies.until_deadline(job, now)) is not None and verdict is None:
            again = max(0.05, left) if again is None else max(0.05, min(again, left))
        return Done() if again is None else LookAgain(after=again)

    # Pods.

    async def _manage(
        self, key: str, job: Job, active: list[Pod], tally: Tally, members: Sequence[Pod]
    ) -> tuple[list[Pod], float | None]:
        """Make or delete pods; those that run afterwards, and when to look again."""
        wanted = 0 if job.spec.suspend else job_tracking.wanted_pods(job, tally, len(active))
        doomed = job_tracking.surplus_pods(job, active, wanted)[:MOST_AT_ONCE]
        if doomed:
            # They are not failures, so they are not counted: the finalizer goes first.
            await job_tracking.release(doomed, known=self._pods)
            await cached_objects.in_growing_batches([partial(self._delete, job, pod) for pod in doomed])
            gone = {pod.metadata.uid for pod in doomed}
            return [pod for pod in active if pod.metadata.uid not in gone], None
        waited_for = (
            sum(pods.is_terminating(pod) for pod in members) if job.spec.pod_replacement_policy == "Failed" else 0
        )
        missing = min(wanted - len(active) - waited_for, MOST_AT_ONCE)
        if missing <= 0:
            return active, None
        failures = None if job_policies.counts_per_index(job) else self._failures.get(key)
        if failures is not None and (pause := failures.wait(self._clock.now())) > 0:
            return active, pause
        bodies, again = job_tracking.new_pods(job, active, tally, missing, self._clock.now())
        made = await cached_objects.in_growing_batches([partial(self._create, job, body) for body in bodies])
        return active + made, again

    async def _create(self, job: Job, body: Object) -> Pod:
        try:
            pod = await self._pods.create(body)
        except errors.ApiError as error:
            if not cached_objects.namespace_ends(error):
                self._recorder.event(job, "FailedCreate", f"cannot create a pod: {error.message}", warning=True)
            raise
        self._recorder.event(job, "SuccessfulCreate", f"created pod {pod.metadata.name}")
        return pod

    async def _delete(self, job: Job, pod: Pod) -> None:
        await self._pods.delete(pod)
        self._recorder.event(job, "SuccessfulDelete", f"deleted pod {pod.metadata.name}")

    def _members(self, job: Job) -> Sequence[Pod]:
        return self._pods.find("owner", job.metadata.uid)

    def _note_failures(self, key: str, tally: Tally, now: datetime) -> None:
        if tally.fresh_successes:
            self._failures.pop(key, None)
        if tally.fresh_failures:
            known = self._failures.get(key)
            count = (known.count if known else 0) + len(tally.fresh_failures)
            self._failures[key] = _Failures(count, max(job_policies.ended_at(pod, now) for pod in tally.fresh_failures))

    # Status.

    async def _record(
        self,
        job: Job,
        status: dict[str, Any],
        tally: Tally,
        verdict: Verdict | None,
        active: list[Pod],
        now: datetime,
    ) -> None:
        """Write what is to be counted, let the counted pods go, and write the counts."""
        members = self._members(job)
        if verdict is not None and verdict.condition == job_policies.FAILURE:
            job_tracking.fail_rest(tally, members)
        if verdict is not None and job_policies.given(job) is None:
            status["conditions"] = [*status.get("conditions", ()), _condition(verdict.condition, verdict, now)]
        before = _counts(status, tally.counters_before(), tally.uncounted(), active, members)
        job = await statuses.write(job, before, to=self._jobs)
        # From here on each UID is in the status: if we die now, the next look finds them and goes on.
        leaving = members if verdict is not None or job.metadata.deleting else job_tracking.counted_pods(members, tally)
        await job_tracking.release(leaving, known=self._pods)
        members = self._members(job)
        after = _counts(before, tally.counters(), {}, active, members)
        if verdict is not None and not any(pods.is_terminating(pod) for pod in members):
            after["conditions"] = [*after.get("conditions", ()), _condition(verdict.final, verdict, now)]
            if verdict.final == job_policies.COMPLETE:
                after["completionTime"] = statuses.stamp(now)
                self._recorder.event(job, "Completed", "the Job is done")
            else:
                self._recorder.event(job, verdict.reason, verdict.message, warning=True)
        await statuses.write(job, after, to=self._jobs)

    def _note_suspension(self, job: Job, status: dict[str, Any], now: datetime) -> dict[str, Any]:
        known = statuses.find(status.get("conditions", ()), "Suspended")
        if (known is not None and known.get("status") == "True") == job.spec.suspend:
            return status
        word = "Suspended" if job.spec.suspend else "Resumed"
        self._recorder.event(job, word, f"the Job was {word.lower()}")
        said = Verdict("Suspended", f"Job{word}", f"the Job was {word.lower()}")
        condition = _condition("Suspended", said, now, value="True" if job.spec.suspend else "False")
        rest = statuses.without(status.get("conditions", ()), "Suspended")
        status = {**status, "conditions": [*rest, condition]}
        if not job.spec.suspend:
            status["startTime"] = statuses.stamp(now)
        return status

    async def _expire(self, job: Job) -> Outcome:
        """Delete a Job that ended long enough ago."""
        if job.spec.ttl_seconds_after_finished is None or job.metadata.deleting:
            return Done()
        conditions = job.status.get("conditions", ())
        ended = (
            statuses.find(conditions, job_policies.COMPLETE) or statuses.find(conditions, job_policies.FAILED_JOB) or {}
        )
        age = (self._clock.now() - read_time(ended["lastTransitionTime"])).total_seconds()
        left = job.spec.ttl_seconds_after_finished - age
        if left > 0:
            return LookAgain(after=left)
        await self._jobs.delete(job, propagation="Foreground")
        return Done()


def _counts(
    status: Mapping[str, Any],
    counters: Mapping[str, Any],
    uncounted: Mapping[str, Any],
    active: Sequence[Pod],
    members: Sequence[Pod],
) -> dict[str, Any]:
    rest = {key: value for key, value in status.items() if key not in ("active", *counters)}
    return {
        **rest,
        **counters,
        **statuses.counts(active=len(active)),
        "ready": sum(pods.is_ready(pod) for pod in active),
        "terminating": sum(pods.is_terminating(pod) for pod in members),
        "uncountedTerminatedPods": dict(uncounted),
    }


def _condition(kind: str, verdict: Verdict, now: datetime, *, value: str = "True") -> dict[str, Any]:
    moment = statuses.stamp(now)
    return {
        "type": kind,
        "status": value,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastProbeTime": moment,
        "lastTransitionTime": moment,
    }
