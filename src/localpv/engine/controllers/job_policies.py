"""When a Job has succeeded or failed, and which failures of its pods count, in all or of each index. Computes only.

With `backoffLimitPerIndex` failures are counted for each index by itself. How often an index has failed is written on
the pod that tries next. So the last pod that failed is held, with its finalizer and uncounted, until its successor
exists: the number is always on one of the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from localpv.api.kinds.containers import ContainerStatus
from localpv.api.kinds.meta import read_time
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.workloads import Job
from localpv.api.objects import Object
from localpv.engine.controllers import pods, statuses
from localpv.engine.controllers.pods import FAILED, PENDING, RUNNING, SUCCEEDED

INDEX = "batch.kubernetes.io/job-completion-index"
VARIABLE = "JOB_COMPLETION_INDEX"

SUCCESS, FAILURE = "SuccessCriteriaMet", "FailureTarget"
"""Conditions that say how a Job will end, while its last pods are still being stopped."""

COMPLETE, FAILED_JOB = "Complete", "Failed"

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"

FIRST_RETRY, LONGEST_RETRY = 10.0, 600.0
"""Seconds before an index is tried again: doubled with each failure."""


def read_indexes(text: str, completions: int) -> frozenset[int]:
    """`0,2-4` as a set; what lies beyond the completions, or cannot be read, is left out."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return frozenset(found)


def write_indexes(indexes: Iterable[int]) -> str:
    """A set as `0,2-4`; two in a row are written apart, as Kubernetes does."""
    parts: list[str] = []
    run: list[int] = []
    for index in sorted(set(indexes)):
        if run and index != run[-1] + 1:
            parts += _run(run)
            run = []
        run.append(index)
    return ",".join(parts + _run(run))


def _run(run: list[int]) -> list[str]:
    return [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(index) for index in run]


def index_of(pod: Pod) -> int | None:
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else None


def with_index(body: Object, job_name: str, index: int) -> Object:
    """A pod of the job as the one with an index."""
    text = str(index)
    metadata = dict(body["metadata"])
    metadata["annotations"] = {**metadata["annotations"], INDEX: text}
    metadata["labels"] = {**metadata["labels"], INDEX: text}
    ending = f"-{text}-"
    metadata["generateName"] = job_name[: 58 - len(ending)] + ending
    spec = {**body["spec"], "hostname": f"{job_name}-{text}"}
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [_with_variable(container) for container in spec[kind]]
    return {**body, "metadata": metadata, "spec": spec}


def _with_variable(container: Mapping[str, Any]) -> Object:
    variables = list(container.get("env") or ())
    if not any(each.get("name") == VARIABLE for each in variables):
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
        variables.append({"name": VARIABLE, "valueFrom": source})
    return {**container, "env": variables}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a Job ends."""

    condition: str
    reason: str
    message: str

    @property
    def final(self) -> str:
        return COMPLETE if self.condition == SUCCESS else FAILED_JOB


def given(job: Job) -> Verdict | None:
    """The verdict that the status has already."""
    for kind in (SUCCESS, FAILURE):
        known = statuses.find(job.status.get("conditions", ()), kind)
        if known is not None and known.get("status") == "True":
            return Verdict(kind, known.get("reason", ""), known.get("message", ""))
    return None


def is_finished(job: Job) -> bool:
    conditions = job.status.get("conditions", ())
    return statuses.holds(conditions, COMPLETE) or statuses.holds(conditions, FAILED_JOB)


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def has_failed(pod: Pod, job: Job) -> bool:
    """Whether a pod counts as failed: also one that somebody deletes, unless it is to be waited for."""
    if pod.status.phase == FAILED:
        return True
    if job.spec.pod_replacement_policy == "Failed":
        return False
    return pod.metadata.deleting and pod.status.phase != SUCCEEDED


def failure(job: Job, members: Sequence[Pod], *, failed: int, now: datetime) -> Verdict | None:
    """Why a Job has failed, if it has."""
    for pod in members:
        if has_failed(pod, job) and (action := matching_rule(job, pod)) is not None and action[0] == "FailJob":
            return Verdict(FAILURE, "PodFailurePolicy", f"pod {pod.metadata.name} ended as rule {action[1]} describes")
    if failed > job.spec.backoff_limit or _restarted_too_often(job, members):
        return Verdict(FAILURE, "BackoffLimitExceeded", "its pods failed more often than backoffLimit allows")
    left = until_deadline(job, now)
    if left is not None and left <= 0:
        return Verdict(FAILURE, "DeadlineExceeded", "it took longer than activeDeadlineSeconds allows")
    return None


def failure_of_indexes(job: Job, *, done: frozenset[int], given_up: frozenset[int]) -> Verdict | None:
    """Why a Job whose indexes fail each by itself has failed, if it has."""
    limit = job.spec.max_failed_indexes
    if limit is not None and len(given_up) > limit:
        return Verdict(FAILURE, "MaxFailedIndexesExceeded", "more indexes failed than maxFailedIndexes allows")
    if given_up and len(given_up) + len(done) >= (job.spec.completions or 0):
        return Verdict(FAILURE, "FailedIndexes", "some of its indexes failed")
    return None


def until_deadline(job: Job, now: datetime) -> float | None:
    """How long a Job may still run; None for ever."""
    started, limit = job.status.get("startTime"), job.spec.active_deadline_seconds
    if limit is None or not started or job.spec.suspend:
        return None
    return limit - (now - read_time(started)).total_seconds()


def early_success(job: Job, done: frozenset[int]) -> Verdict | None:
    """Whether the success policy is content with the indexes that are done."""
    if job.spec.success_policy is None or not done:
        return None
    for number, rule in enumerate(job.spec.success_policy.get("rules", ())):
        count = rule.get("succeededCount")
        if "succeededIndexes" in rule:
            needed = read_indexes(rule["succeededIndexes"], job.spec.completions or 0)
            met = bool(needed) and (needed <= done or (count is not None and len(needed & done) >= count))
        else:
            met = count is not None and len(done) >= count
        if met:
            return Verdict(SUCCESS, "SuccessPolicy", f"rule {number} of the success policy is met")
    return None


def success(job: Job, *, succeeded: int, active: int) -> Verdict | None:
    """Whether all has succeeded that has to, and nothing runs any more."""
    wanted = job.spec.completions
    enough = succeeded > 0 if wanted is None else succeeded >= wanted
    return Verdict(SUCCESS, "CompletionsReached", "as many pods as needed have succeeded") if enough and not active \
        else None  # fmt: skip


def counts_as_failure(job: Job, pod: Pod) -> bool:
    action = matching_rule(job, pod)
    return action is None or action[0] != "Ignore"


def matching_rule(job: Job, pod: Pod) -> tuple[str, int] | None:
    """Action and number of the first rule of the failure policy that describes how a pod ended."""
    for number, rule in enumerate((job.spec.pod_failure_policy or {}).get("rules", ())):
        if _matches(rule, pod):
            return rule["action"], number
    return None


def _matches(rule: Mapping[str, Any], pod: Pod) -> bool:
    if (codes := rule.get("onExitCodes")) is not None:
        containers = (*pod.status.container_statuses, *pod.status.init_container_statuses)
        return any(_ended_so(container, codes) for container in containers)
    return any(
        (condition.type, condition.status) == (pattern.get("type"), pattern.get("status", "True"))
        for condition in pod.status.conditions
        for pattern in rule.get("onPodConditions", ())
    )


def _ended_so(container: ContainerStatus, codes: Mapping[str, Any]) -> bool:
    ended = container.state.terminated
    if ended is None or ended.exit_code == 0:
        return False
    if codes.get("containerName") not in (None, container.name):
        return False
    return bool((ended.exit_code in codes["values"]) == (codes["operator"] == "In"))


def _restarted_too_often(job: Job, members: Sequence[Pod]) -> bool:
    """Pods that are restarted in place do not fail; their restarts count instead."""
    if (job.spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    total = sum(
        container.restart_count
        for pod in members
        if pod.status.phase in (RUNNING, PENDING)
        for container in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    return total > 0 if job.spec.backoff_limit == 0 else total >= job.spec.backoff_limit


def counts_per_index(job: Job) -> bool:
    return job.spec.backoff_limit_per_index is not None


def failed_indexes(job: Job, tracked: Iterable[Pod]) -> frozenset[int]:
    """Indexes that are given up."""
    completions = job.spec.completions or 0
    known = read_indexes(job.status.get("failedIndexes") or "", completions)
    found = (index_of(pod) for pod in tracked if _gives_up(job, pod))
    return known | {index for index in found if index is not None and index < completions}


def held_failures(job: Job, tracked: Iterable[Pod], *, settled: frozenset[int]) -> dict[int, Pod]:
    """The last failed pod of each index that is to be tried again and has no pod yet."""
    last: dict[int, Pod] = {}
    tracked = list(tracked)
    running = {index_of(pod) for pod in tracked if pods.is_active(pod)}
    for pod in tracked:
        index = index_of(pod)
        if index is None or index >= (job.spec.completions or 0) or index in settled or index in running:
            continue
        if has_failed(pod, job) and (index not in last or sum(_written(pod)) >= sum(_written(last[index]))):
            last[index] = pod
    return last


def failure_marks(job: Job, before: Pod | None) -> dict[str, str]:
    """What the next pod of an index carries."""
    count, ignored = _after(job, before) if before is not None else (0, 0)
    return {FAILURES: str(count), **({IGNORED: str(ignored)} if ignored else {})}


def wait_of_index(job: Job, before: Pod, now: datetime) -> float:
    """How long an index still waits for its next pod."""
    times = sum(_after(job, before))
    pause = min(FIRST_RETRY * 2 ** (times - 1), LONGEST_RETRY) if times else 0.0
    return float(max(0.0, pause - (now - ended_at(before, now)).total_seconds()))


def ended_at(pod: Pod, now: datetime) -> datetime:
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
    if not has_failed(pod, job):
        return False
    action = matching_rule(job, pod)
    if action is not None and action[0] == "FailIndex":
        return True
    return counts_as_failure(job, pod) and _written(pod)[0] >= (job.spec.backoff_limit_per_index or 0)


def _after(job: Job, pod: Pod) -> tuple[int, int]:
    """Failures of an index with this pod's own: counted, and ignored ones."""
    count, ignored = _written(pod)
    return (count + 1, ignored) if counts_as_failure(job, pod) else (count, ignored + 1)


def _written(pod: Pod) -> tuple[int, int]:
    return _number(pod.metadata.annotations, FAILURES), _number(pod.metadata.annotations, IGNORED)


def _number(annotations: Mapping[str, str], name: str) -> int:
    text = annotations.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else 0
