"""Failures counted for each index of a Job by itself (`backoffLimitPerIndex`). Computes, never waits.

How often an index has failed is written on the pod that tries next. So the last pod that failed is held, with its
finalizer and uncounted, until its successor exists: the number is always on one of the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from localpv.api.kinds import Job, Pod, read_time
from localpv.engine.controllers import indexes, job_policies, pods

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"

FIRST_RETRY, LONGEST_RETRY = 10.0, 600.0
"""Seconds before an index is tried again: doubled with each failure."""


def are_counted(job: Job) -> bool:
    return job.spec.backoff_limit_per_index is not None


def failed(job: Job, tracked: Iterable[Pod]) -> frozenset[int]:
    """Indexes that are given up."""
    completions = job.spec.completions or 0
    known = indexes.read(job.status.get("failedIndexes") or "", completions)
    found = (indexes.of(pod) for pod in tracked if _gives_up(job, pod))
    return known | {index for index in found if index is not None and index < completions}


def held(job: Job, tracked: Iterable[Pod], *, settled: frozenset[int]) -> dict[int, Pod]:
    """The last failed pod of each index that is to be tried again and has no pod yet."""
    last: dict[int, Pod] = {}
    tracked = list(tracked)
    running = {indexes.of(pod) for pod in tracked if pods.is_active(pod)}
    for pod in tracked:
        index = indexes.of(pod)
        if index is None or index >= (job.spec.completions or 0) or index in settled or index in running:
            continue
        if job_policies.has_failed(pod, job) and (
            index not in last or sum(_written(pod)) >= sum(_written(last[index]))
        ):
            last[index] = pod
    return last


def marks(job: Job, before: Pod | None) -> dict[str, str]:
    """What the next pod of an index carries."""
    count, ignored = _after(job, before) if before is not None else (0, 0)
    return {FAILURES: str(count), **({IGNORED: str(ignored)} if ignored else {})}


def wait(job: Job, before: Pod, now: datetime) -> float:
    """How long an index still waits for its next pod."""
    times = sum(_after(job, before))
    pause = min(FIRST_RETRY * 2 ** (times - 1), LONGEST_RETRY) if times else 0.0
    return float(max(0.0, pause - (now - ended(before, now)).total_seconds()))


def ended(pod: Pod, now: datetime) -> datetime:
    """When a pod ended: the last of its containers, or the best that is known of it.

    Never just now: who waits for some time after the end would wait for ever.
    """
    states = (each.state.terminated for each in pod.status.container_statuses)
    ends = [state.finished_at for state in states if state is not None and state.finished_at]
    changes = (each for each in pod.status.conditions if each.type == "Ready" and each.status != "True")
    unready = next((each.last_transition_time for each in changes), None)
    text = max(ends, default=None) or unready or pod.metadata.deletion_timestamp or pod.metadata.creation_timestamp
    return min(now, read_time(text)) if text else now


def _gives_up(job: Job, pod: Pod) -> bool:
    if not job_policies.has_failed(pod, job):
        return False
    action = job_policies.matching_rule(job, pod)
    if action is not None and action[0] == "FailIndex":
        return True
    return job_policies.counts_as_failure(job, pod) and _written(pod)[0] >= (job.spec.backoff_limit_per_index or 0)


def _after(job: Job, pod: Pod) -> tuple[int, int]:
    """Failures of an index with this pod's own: counted, and ignored ones."""
    count, ignored = _written(pod)
    return (count + 1, ignored) if job_policies.counts_as_failure(job, pod) else (count, ignored + 1)


def _written(pod: Pod) -> tuple[int, int]:
    return _number(pod.metadata.annotations, FAILURES), _number(pod.metadata.annotations, IGNORED)


def _number(annotations: Mapping[str, str], name: str) -> int:
    text = annotations.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else 0
