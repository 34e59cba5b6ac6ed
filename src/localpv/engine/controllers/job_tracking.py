"""The pods of a Job: counted so that each counts once, whatever dies when, and which are needed next.

A pod of a Job carries a finalizer, so it cannot go before it is counted. First its UID is written into the status as
uncounted; then its finalizer is taken off; then it moves from the UIDs into the counter. Whoever finds a UID there and
the finalizer gone knows that only the last step is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from localpv import errors
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.workloads import Job
from localpv.api.objects import Object
from localpv.client.objects import Patch
from localpv.engine.controllers import cached_objects, job_policies, pods, templates
from localpv.engine.controllers.cached_objects import CachedObjects
from localpv.engine.controllers.pods import SUCCEEDED

FINALIZER = "batch.kubernetes.io/job-tracking"

MOST_UNCOUNTED = 500
"""UIDs in one status; the next look takes the rest, and a status stays small."""


def is_tracked(pod: Pod) -> bool:
    return FINALIZER in pod.metadata.finalizers


@dataclass(slots=True)
class Tally:
    """What of a Job's pods has been counted, and what is to be."""

    job: Job
    succeeded: list[str] = field(default_factory=list)
    """UIDs that are in the status, or will be with its next write."""

    failed: list[str] = field(default_factory=list)
    done: frozenset[int] = frozenset()
    """Indexes that have succeeded."""

    given_up: frozenset[int] = frozenset()
    """Indexes that have failed, where failures are counted for each."""

    held: dict[int, Pod] = field(default_factory=dict)
    """Pods that failed and are not counted before their index has its next one."""

    fresh_successes: list[Pod] = field(default_factory=list)
    fresh_failures: list[Pod] = field(default_factory=list)

    @property
    def total_succeeded(self) -> int:
        if job_policies.is_indexed(self.job):
            return len(self.done)
        return int(self.job.status.get("succeeded", 0)) + len(self.succeeded)

    @property
    def total_failed(self) -> int:
        return int(self.job.status.get("failed", 0)) + len(self.failed)

    def uncounted(self) -> dict[str, Any]:
        lists = {"succeeded": self.succeeded, "failed": self.failed}
        return {name: uids for name, uids in lists.items() if uids}

    def counters(self) -> dict[str, Any]:
        """The fields of the status that say how many, with all UIDs moved into the counters."""
        return self._written(self.total_succeeded, self.total_failed)

    def counters_before(self) -> dict[str, Any]:
        """The same with the UIDs still beside the counters."""
        before = int(self.job.status.get("succeeded", 0))
        done = len(self.done) if job_policies.is_indexed(self.job) else before
        return self._written(done, int(self.job.status.get("failed", 0)))

    def _written(self, succeeded: int, failed: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if succeeded:
            made["succeeded"] = succeeded
        if failed:
            made["failed"] = failed
        if job_policies.is_indexed(self.job) and self.done:
            made["completedIndexes"] = job_policies.write_indexes(self.done)
        if job_policies.counts_per_index(self.job):
            made["failedIndexes"] = job_policies.write_indexes(self.given_up)
        return made


def tally(job: Job, members: Sequence[Pod]) -> Tally:
    """Count what has ended."""
    known = job.status.get("uncountedTerminatedPods") or {}
    result = Tally(job, list(known.get("succeeded", ())), list(known.get("failed", ())))
    completions = job.spec.completions or 0
    if job_policies.is_indexed(job):
        result.done = job_policies.read_indexes(job.status.get("completedIndexes", ""), completions)
    tracked = [pod for pod in members if is_tracked(pod)]
    if job_policies.counts_per_index(job):
        fresh = {job_policies.index_of(pod) for pod in tracked if pod.status.phase == SUCCEEDED}
        result.given_up = job_policies.failed_indexes(job, tracked) - result.done
        settled = result.done | result.given_up | {index for index in fresh if index is not None}
        result.held = job_policies.held_failures(job, tracked, settled=settled)
    waiting = {pod.metadata.uid for pod in result.held.values()}
    for pod in tracked:
        if len(result.succeeded) + len(result.failed) >= MOST_UNCOUNTED:
            break
        if pod.metadata.uid not in waiting:
            _count(result, pod, completions)
    result.given_up -= result.done
    return result


def _count(result: Tally, pod: Pod, completions: int) -> None:
    job, uid = result.job, pod.metadata.uid
    if uid in result.succeeded or uid in result.failed:
        return
    index = job_policies.index_of(pod)
    misplaced = job_policies.is_indexed(job) and (index is None or index >= completions)
    if pod.status.phase == SUCCEEDED:
        result.fresh_successes.append(pod)
        if not job_policies.is_indexed(job):
            result.succeeded.append(uid)
        elif index is not None and not misplaced:
            result.done |= {index}
    elif job_policies.has_failed(pod, job) and not misplaced:
        result.fresh_failures.append(pod)
        if job_policies.counts_as_failure(job, pod):
            result.failed.append(uid)


def fail_rest(result: Tally, members: Iterable[Pod]) -> None:
    """A Job that fails takes its last pods with it: they count as failed too."""
    for pod in members:
        uid = pod.metadata.uid
        ended = pod.status.phase == SUCCEEDED or uid in result.failed
        if is_tracked(pod) and not ended and job_policies.counts_as_failure(result.job, pod):
            result.failed.append(uid)


async def release(pods: Iterable[Pod], *, known: CachedObjects[Pod]) -> None:
    """Take the finalizer off pods that are counted."""
    await cached_objects.in_growing_batches([partial(_release, pod, known=known) for pod in pods if is_tracked(pod)])


async def _release(pod: Pod, *, known: CachedObjects[Pod]) -> None:
    left = [each for each in pod.metadata.finalizers if each != FINALIZER]
    meta = pod.metadata
    patch = {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": left or None}
    try:
        await known.patch(pod, {"metadata": patch}, how=Patch.MERGE)
    except errors.NotFound:
        return


def wanted_pods(job: Job, tally: Tally, active: int) -> int:
    """How many pods should run now."""
    if job.spec.completions is None:
        # Workers on a common queue: once one has succeeded, no new ones are needed.
        return active if tally.total_succeeded else job.spec.parallelism
    return max(0, min(job.spec.completions - tally.total_succeeded, job.spec.parallelism))


def surplus_pods(job: Job, active: list[Pod], wanted: int) -> list[Pod]:
    """Pods to delete: those whose index is taken or does not exist, then the most dispensable."""
    doomed: list[Pod] = []
    if job_policies.is_indexed(job):
        taken: set[int] = set()
        for pod in sorted(active, key=lambda each: each.metadata.creation_timestamp or ""):
            index = job_policies.index_of(pod)
            if index is None or index >= (job.spec.completions or 0) or index in taken:
                doomed.append(pod)
            else:
                taken.add(index)
    rest = [pod for pod in active if pod not in doomed]
    surplus = max(0, len(rest) - wanted)
    return doomed + pods.dispensable_first(rest, neighbours=rest)[:surplus]


def new_pods(job: Job, active: list[Pod], tally: Tally, count: int, now: datetime) -> tuple[list[Object], float | None]:
    """Pods to make now, and how long to wait for the next index that has to."""
    body = templates.pod(job.spec.template, job)
    body["metadata"]["finalizers"].append(FINALIZER)
    if not job_policies.is_indexed(job):
        return [body] * count, None
    taken = tally.done | tally.given_up | {job_policies.index_of(pod) for pod in active}
    bodies: list[Object] = []
    waits: list[float] = []
    for index in (each for each in range(job.spec.completions or 0) if each not in taken):
        if len(bodies) == count:
            break
        made = job_policies.with_index(body, job.metadata.name, index)
        if job_policies.counts_per_index(job):
            before = tally.held.get(index)
            if before is not None and (pause := job_policies.wait_of_index(job, before, now)) > 0:
                waits.append(pause)
                continue
            made["metadata"]["annotations"] |= job_policies.failure_marks(job, before)
        bodies.append(made)
    return bodies, min(waits, default=None)


def counted_pods(members: Sequence[Pod], tally: Tally) -> list[Pod]:
    listed = {*tally.succeeded, *tally.failed}
    ended = {pod.metadata.uid for pod in (*tally.fresh_successes, *tally.fresh_failures)} | listed
    return [pod for pod in members if pod.metadata.uid in ended]
