"""When a Job has succeeded or failed, and which failures of its pods count. Computes, never waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from localpv.api.kinds import ContainerStatus, Job, Pod, read_time
from localpv.engine.controllers import indexes, statuses
from localpv.engine.controllers.pods import FAILED, PENDING, RUNNING, SUCCEEDED

SUCCESS, FAILURE = "SuccessCriteriaMet", "FailureTarget"
"""Conditions that say how a Job will end, while its last pods are still being stopped."""

COMPLETE, FAILED_JOB = "Complete", "Failed"


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
            needed = indexes.read(rule["succeededIndexes"], job.spec.completions or 0)
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
