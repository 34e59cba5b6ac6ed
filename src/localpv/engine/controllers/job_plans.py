"""Which pods a Job needs next, and which it can do without. Computes, never waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from localpv.api.kinds import Job, Pod
from localpv.api.objects import Object
from localpv.engine.controllers import index_failures, indexes, job_policies, job_tracking, pods, templates
from localpv.engine.controllers.job_tracking import Tally


def wanted(job: Job, tally: Tally, active: int) -> int:
    """How many pods should run now."""
    if job.spec.completions is None:
        # Workers on a common queue: once one has succeeded, no new ones are needed.
        return active if tally.total_succeeded else job.spec.parallelism
    return max(0, min(job.spec.completions - tally.total_succeeded, job.spec.parallelism))


def too_many(job: Job, active: list[Pod], wanted: int) -> list[Pod]:
    """Pods to delete: those whose index is taken or does not exist, then the most dispensable."""
    doomed: list[Pod] = []
    if job_policies.is_indexed(job):
        taken: set[int] = set()
        for pod in sorted(active, key=lambda each: each.metadata.creation_timestamp or ""):
            index = indexes.of(pod)
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
    body["metadata"]["finalizers"].append(job_tracking.FINALIZER)
    if not job_policies.is_indexed(job):
        return [body] * count, None
    taken = tally.done | tally.given_up | {indexes.of(pod) for pod in active}
    bodies: list[Object] = []
    waits: list[float] = []
    for index in (each for each in range(job.spec.completions or 0) if each not in taken):
        if len(bodies) == count:
            break
        made = indexes.mark(body, job.metadata.name, index)
        if index_failures.are_counted(job):
            before = tally.held.get(index)
            if before is not None and (pause := index_failures.wait(job, before, now)) > 0:
                waits.append(pause)
                continue
            made["metadata"]["annotations"] |= index_failures.marks(job, before)
        bodies.append(made)
    return bodies, min(waits, default=None)


def counted(members: Sequence[Pod], tally: Tally) -> list[Pod]:
    listed = {*tally.succeeded, *tally.failed}
    ended = {pod.metadata.uid for pod in (*tally.fresh_successes, *tally.fresh_failures)} | listed
    return [pod for pod in members if pod.metadata.uid in ended]
