"""Jobs: pods that come to an end, counted once each."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from tests.workloads.crew import BATCH, Crew, Object, job, name_of

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FIRST_BACK_OFF_SECONDS = 10


def status(crew: Crew) -> Object:
    return crew.status("jobs", "work", BATCH)


def until_status(crew: Crew, **fields: Any) -> Object:
    return crew.until_status("jobs", "work", BATCH, **fields)


def running(crew: Crew) -> list[str]:
    return [name_of(pod) for pod in crew.pods() if pod["status"]["phase"] not in ("Succeeded", "Failed")]


def until_running(crew: Crew, count: int) -> list[str]:
    def counted() -> list[str] | None:
        names = running(crew)
        return names if len(names) == count else None

    return crew.until(counted, f"{count} pods that have not ended") or []


def conditions(crew: Crew) -> dict[str, str]:
    """Reasons of the conditions that hold."""
    return {each["type"]: each["reason"] for each in status(crew).get("conditions", ()) if each["status"] == "True"}


def index_of(pod: Object) -> str:
    return str(pod["metadata"]["annotations"][INDEX])


def test_job_runs_one_pod_to_its_end(crew: Crew) -> None:
    crew.create(job("work"))
    (name,) = until_running(crew, 1)
    pod = crew.pods()[0]
    assert pod["metadata"]["finalizers"] == [FINALIZER]
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "work"
    assert until_status(crew, active=1, ready=0)["startTime"]
    crew.make_ready(name)
    until_status(crew, active=1, ready=1)
    crew.say(name, "Succeeded")
    done = until_status(crew, active=None, ready=0, succeeded=1, terminating=0, uncountedTerminatedPods={})
    crew.until(lambda: "Complete" in conditions(crew), "complete")
    assert conditions(crew) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    assert status(crew)["completionTime"] >= done["startTime"]
    assert "finalizers" not in crew.pods()[0]["metadata"], "who is counted may go"
    crew.until(lambda: {"SuccessfulCreate", "Completed"} <= crew.reasons("work"), "events")


def test_several_completions_run_side_by_side_as_far_as_allowed(crew: Crew) -> None:
    crew.create(job("work", completions=3, parallelism=2))
    for done in range(3):
        names = until_running(crew, min(2, 3 - done))
        crew.say(names[0], "Succeeded")
        until_status(crew, succeeded=done + 1)
    crew.until(lambda: "Complete" in conditions(crew), "complete")
    assert len(crew.pods()) == 3


def test_workers_on_a_queue_end_when_one_has_succeeded_and_the_others_too(crew: Crew) -> None:
    crew.create(job("work", parallelism=3))
    first, second, third = until_running(crew, 3)
    crew.say(first, "Succeeded")
    until_status(crew, succeeded=1, active=2)
    crew.job_fence()
    assert len(crew.pods()) == 3, "no new worker after the first success"
    crew.say(second, "Succeeded")
    crew.say(third, "Succeeded")
    crew.until(lambda: "Complete" in conditions(crew), "complete")
    assert status(crew)["succeeded"] == 3


def test_pod_that_fails_too_often_fails_the_job(crew: Crew) -> None:
    crew.create(job("work", backoffLimit=0, completions=2, parallelism=2))
    first, other = until_running(crew, 2)
    crew.say(first, "Failed")
    crew.until(lambda: "Failed" in conditions(crew), "failed")
    assert conditions(crew) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert status(crew)["failed"] == 2, "what was still running counts as failed"
    assert other not in crew.names(), "and is deleted"
    crew.until(lambda: "BackoffLimitExceeded" in crew.reasons("work"), "an event")


def test_failed_pod_is_replaced_after_a_while(crew: Crew) -> None:
    crew.create(job("work", backoffLimit=3))
    (name,) = until_running(crew, 1)
    crew.say(name, "Failed")
    (again,) = until_running(crew, 1)
    failed, later = (crew.api.get(crew.space.core("pods", each)) for each in (name, again))
    ended = failed["status"]["conditions"][0]["lastTransitionTime"]
    waited = datetime.fromisoformat(later["metadata"]["creationTimestamp"]) - datetime.fromisoformat(ended)
    # Times are written in whole seconds.
    assert waited.total_seconds() >= FIRST_BACK_OFF_SECONDS - 1, "the next try waits"


def test_pod_that_somebody_deletes_counts_as_failed_and_is_replaced(crew: Crew) -> None:
    crew.create(job("work"))
    (name,) = until_running(crew, 1)
    crew.delete_pod(name)
    until_status(crew, failed=1)
    crew.until(lambda: name not in crew.names(), "it is let go")


def test_restarts_in_place_count_against_the_limit(crew: Crew) -> None:
    body = job("work", backoffLimit=2)
    body["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    crew.create(body)
    (name,) = until_running(crew, 1)
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 2, "state": {}}
    crew.say(name, "Running", containerStatuses=[container])
    crew.until(lambda: conditions(crew).get("Failed") == "BackoffLimitExceeded", "failed")


def test_job_that_takes_too_long_fails(crew: Crew) -> None:
    crew.create(job("work", activeDeadlineSeconds=3600))
    until_running(crew, 1)
    until_status(crew, active=1)
    crew.change("jobs", "work", {"spec": {"activeDeadlineSeconds": 1}}, BATCH)
    crew.until(lambda: conditions(crew).get("Failed") == "DeadlineExceeded", "failed")
    crew.until(lambda: not running(crew), "its pod is gone")


def test_suspended_job_has_no_pods_until_it_goes_on(crew: Crew) -> None:
    crew.create(job("work", suspend=True))
    crew.until(lambda: conditions(crew).get("Suspended") == "JobSuspended", "suspended")
    assert not crew.pods() and "startTime" not in status(crew)
    crew.change("jobs", "work", {"spec": {"suspend": False}}, BATCH)
    until_running(crew, 1)
    crew.until(lambda: "Suspended" not in conditions(crew) and status(crew).get("startTime"), "goes on")
    crew.change("jobs", "work", {"spec": {"suspend": True}}, BATCH)
    crew.until_pods(0)
    crew.until(lambda: conditions(crew).get("Suspended") == "JobSuspended", "suspended again")
    assert not status(crew).get("failed"), "who is sent away has not failed"
    crew.until(lambda: {"Suspended", "Resumed"} <= crew.reasons("work"), "events")


def test_each_index_succeeds_once(crew: Crew) -> None:
    crew.create(job("work", completions=4, parallelism=2, completionMode="Indexed"))
    until_running(crew, 2)
    pods = {index_of(pod): pod for pod in crew.pods()}
    assert set(pods) == {"0", "1"}
    pod = pods["1"]
    assert name_of(pod).startswith("work-1-") and pod["spec"]["hostname"] == "work-1"
    assert pod["metadata"]["labels"][INDEX] == "1"
    (variable,) = pod["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
    crew.say(name_of(pods["1"]), "Succeeded")
    until_status(crew, completedIndexes="1", succeeded=1)
    until_running(crew, 2)
    waiting = {index_of(pod): name_of(pod) for pod in crew.pods() if pod["status"]["phase"] == "Pending"}
    assert set(waiting) == {"0", "2"}
    crew.say(waiting["0"], "Succeeded")
    crew.say(waiting["2"], "Succeeded")
    until_status(crew, completedIndexes="0-2")
    crew.say(*until_running(crew, 1), "Succeeded")
    crew.until(lambda: "Complete" in conditions(crew), "complete")
    assert status(crew)["completedIndexes"] == "0-3"


def test_success_policy_ends_a_job_early(crew: Crew) -> None:
    policy = {"rules": [{"succeededIndexes": "0"}]}
    crew.create(job("work", completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy))
    until_running(crew, 3)
    leader = next(name_of(pod) for pod in crew.pods() if index_of(pod) == "0")
    crew.say(leader, "Succeeded")
    crew.until(lambda: conditions(crew).get("Complete") == "SuccessPolicy", "complete")
    assert running(crew) == [] and not status(crew).get("failed")


@pytest.mark.parametrize(("action", "failed"), [("FailJob", True), ("Ignore", False)])
def test_failure_policy_decides_what_a_failure_means(crew: Crew, action: str, failed: bool) -> None:
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": [42]}}
    crew.create(job("work", backoffLimit=5, podFailurePolicy={"rules": [rule]}))
    (name,) = until_running(crew, 1)
    ended = {"terminated": {"exitCode": 42}}
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
    crew.say(name, "Failed", containerStatuses=[container])
    if failed:
        crew.until(lambda: conditions(crew).get("Failed") == "PodFailurePolicy", "failed")
        assert status(crew)["failed"] == 1
    else:
        crew.until(lambda: len(crew.pods()) == 2, "another try")
        assert not status(crew).get("failed")


def test_job_is_deleted_with_its_pods_some_time_after_its_end(crew: Crew) -> None:
    crew.create(job("work", ttlSecondsAfterFinished=1))
    (name,) = until_running(crew, 1)
    crew.say(name, "Succeeded")
    crew.until(lambda: crew.api.gone(crew.space.of(BATCH, "jobs", "work")), "the job is gone")
    crew.until_pods(0)


def test_pods_go_with_a_job_that_is_deleted(crew: Crew) -> None:
    crew.create(job("work", parallelism=2, completions=2))
    until_running(crew, 2)
    crew.api.delete(crew.space.of(BATCH, "jobs", "work"), propagationPolicy="Background")
    crew.until(lambda: not crew.api.get(crew.space.core("pods"))["items"], "no pod is held by a finalizer")


def test_fewer_at_a_time_gives_up_pods_without_calling_them_failed(crew: Crew) -> None:
    crew.create(job("work", parallelism=3, completions=5))
    until_running(crew, 3)
    crew.change("jobs", "work", {"spec": {"parallelism": 1}}, BATCH)
    until_running(crew, 1)
    until_status(crew, active=1, failed=None)


def test_job_of_another_manager_is_left_alone(crew: Crew) -> None:
    crew.create(job("work", managedBy="example.com/manager"))
    crew.job_fence()
    assert not crew.pods() and not status(crew), "nothing happens"


def test_job_waits_for_pods_on_their_way_out_before_it_is_complete(crew: Crew) -> None:
    policy = {"rules": [{"succeededCount": 1}]}
    crew.create(job("work", completions=2, parallelism=2, completionMode="Indexed", successPolicy=policy))
    first, other = until_running(crew, 2)
    crew.bind(other)
    crew.say(first, "Succeeded")
    until_status(crew, terminating=1)
    crew.until(lambda: "SuccessCriteriaMet" in conditions(crew), "decided")
    crew.job_fence()
    assert "Complete" not in conditions(crew), "not complete while a pod is being stopped"
    crew.finish_deletion(other)
    crew.until(lambda: "Complete" in conditions(crew), "complete")


def until_index(crew: Crew, index: str) -> Object:
    def waiting() -> list[Object]:
        return [pod for pod in crew.pods() if index_of(pod) == index and pod["status"]["phase"] == "Pending"]

    return crew.until(waiting, f"a pod for index {index}")[0]


def test_index_that_fails_too_often_is_given_up_alone(crew: Crew) -> None:
    crew.create(job("work", completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=0))
    until_running(crew, 2)
    crew.say(name_of(until_index(crew, "0")), "Failed")
    until_status(crew, failedIndexes="0", failed=1)
    crew.job_fence()
    assert len(crew.pods()) == 2, "it is not tried again"
    assert not conditions(crew), "the other index goes on"
    crew.say(name_of(until_index(crew, "1")), "Succeeded")
    crew.until(lambda: conditions(crew).get("Failed") == "FailedIndexes", "failed")
    done = status(crew)
    assert (done["completedIndexes"], done["failedIndexes"], done["succeeded"], done["failed"]) == ("1", "0", 1, 1)


def test_failures_of_an_index_are_written_on_its_next_pod(crew: Crew) -> None:
    crew.create(job("work", completions=1, parallelism=1, completionMode="Indexed", backoffLimitPerIndex=1))
    first = until_index(crew, "0")
    assert first["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "0"
    crew.say(name_of(first), "Failed")
    second = until_index(crew, "0")
    assert second["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"
    crew.say(name_of(second), "Failed")
    crew.until(lambda: conditions(crew).get("Failed") == "FailedIndexes", "failed")
    assert (status(crew)["failed"], status(crew)["failedIndexes"]) == (2, "0")


def test_too_many_failed_indexes_fail_the_job(crew: Crew) -> None:
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
    crew.create(job("work", **spec, backoffLimitPerIndex=0, maxFailedIndexes=1))
    until_running(crew, 3)
    for index in ("0", "1"):
        crew.say(name_of(until_index(crew, index)), "Failed")
    crew.until(lambda: conditions(crew).get("Failed") == "MaxFailedIndexesExceeded", "failed")
    assert running(crew) == []
