"""Counting the pods of a Job so that each counts once, whatever dies when.

A pod of a Job carries a finalizer, so it cannot go before it is counted. First its UID is written into the status as
uncounted; then its finalizer is taken off; then it moves from the UIDs into the counter. Whoever finds a UID there and
the finalizer gone knows that only the last step is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from localpv import errors
from localpv.api.kinds import Job, Pod
from localpv.client.objects import Patch
from localpv.engine.controllers import index_failures, indexes, job_policies, slow_start
from localpv.engine.controllers.informer import Known
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
            made["completedIndexes"] = indexes.write(self.done)
        if index_failures.are_counted(self.job):
            made["failedIndexes"] = indexes.write(self.given_up)
        return made


def tally(job: Job, members: Sequence[Pod]) -> Tally:
    """Count what has ended."""
    known = job.status.get("uncountedTerminatedPods") or {}
    result = Tally(job, list(known.get("succeeded", ())), list(known.get("failed", ())))
    completions = job.spec.completions or 0
    if job_policies.is_indexed(job):
        result.done = indexes.read(job.status.get("completedIndexes", ""), completions)
    tracked = [pod for pod in members if is_tracked(pod)]
    if index_failures.are_counted(job):
        fresh = {indexes.of(pod) for pod in tracked if pod.status.phase == SUCCEEDED}
        result.given_up = index_failures.failed(job, tracked) - result.done
        settled = result.done | result.given_up | {index for index in fresh if index is not None}
        result.held = index_failures.held(job, tracked, settled=settled)
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
    index = indexes.of(pod)
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


async def release(pods: Iterable[Pod], *, known: Known[Pod]) -> None:
    """Take the finalizer off pods that are counted."""
    await slow_start.in_growing_batches([partial(_release, pod, known=known) for pod in pods if is_tracked(pod)])


async def _release(pod: Pod, *, known: Known[Pod]) -> None:
    left = [each for each in pod.metadata.finalizers if each != FINALIZER]
    meta = pod.metadata
    patch = {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": left or None}
    try:
        await known.patch(pod, {"metadata": patch}, how=Patch.MERGE)
    except errors.NotFound:
        return
