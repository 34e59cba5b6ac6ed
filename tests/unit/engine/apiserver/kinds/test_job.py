"""Jobs: the selector that the server makes, policies, and a status that does not go back."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds.writes import UID, Writes

from localpv.engine.apiserver.kinds import job, job_status

JOBS = Writes(job.Job(), "Job", "batch")
POD = {"containers": [{"name": "c", "image": "example.com/i:1"}], "restartPolicy": "Never"}
INDEXED = {"completionMode": "Indexed", "completions": 5}
GENERATED = {
    "batch.kubernetes.io/controller-uid": UID,
    "batch.kubernetes.io/job-name": "thing",
    "controller-uid": UID,
    "job-name": "thing",
}
START, END = "2020-01-01T00:00:00Z", "2020-01-01T00:00:01Z"


def a_job(labels: Any = None, **spec: Any) -> dict[str, Any]:
    template: dict[str, Any] = {"spec": deepcopy(POD)}
    if labels:
        template["metadata"] = {"labels": dict(labels)}
    return {"spec": {"template": template, **spec}}


def true(*kinds: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": "True"} for kind in kinds]


DONE = {"conditions": true("SuccessCriteriaMet", "Complete"), "startTime": START, "completionTime": END, "succeeded": 1}


def test_job_selects_its_pods_by_its_own_uid() -> None:
    obj = JOBS.stored(a_job())

    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}}
    assert obj["spec"]["template"]["metadata"]["labels"] == GENERATED


def test_job_without_labels_takes_those_of_its_pods() -> None:
    obj = JOBS.stored(a_job({"app": "x"}))
    assert obj["metadata"]["labels"] == {"app": "x", **GENERATED}
    assert obj["metadata"]["labels"] is not obj["spec"]["template"]["metadata"]["labels"]

    own = JOBS.stored({"metadata": {"labels": {"own": "label"}}, **a_job({"app": "x"})})
    assert own["metadata"]["labels"] == {"own": "label"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"completions": 1, "parallelism": 1, "backoffLimit": 6, "podReplacementPolicy": "TerminatingOrFailed"}),
        ({"parallelism": 3}, {"completions": None, "parallelism": 3}),
        ({"completions": 3}, {"completions": 3, "parallelism": 1}),
        ({**INDEXED, "backoffLimitPerIndex": 1}, {"backoffLimit": 2**31 - 1}),
        ({"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "A"}]}]}},
         {"podReplacementPolicy": "Failed"}),
        ({}, {"completionMode": "NonIndexed", "suspend": False, "manualSelector": False}),
    ],
)  # fmt: skip
def test_job_is_completed(spec: Any, expected: Any) -> None:
    made = JOBS.stored(a_job(**spec))["spec"]

    assert {key: made.get(key) for key in expected} == expected


def test_condition_of_a_failure_rule_is_true_unless_it_says_otherwise() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    made = JOBS.stored(a_job(podFailurePolicy={"rules": [rule]}))["spec"]

    assert made["podFailurePolicy"]["rules"][0]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_own_selector_needs_to_be_announced_and_to_fit() -> None:
    mine = {"matchLabels": {"a": "b"}}

    assert JOBS.create(a_job({"a": "b"}, selector=mine)).causes == {("spec.selector", "Invalid")}
    assert not JOBS.create(a_job({"a": "b"}, selector=mine, manualSelector=True)).errors
    assert JOBS.create(a_job({"a": "c"}, selector=mine, manualSelector=True)).causes == {
        ("spec.template.metadata.labels", "Invalid")
    }
    assert ("spec.selector", "Required") in JOBS.create(a_job(manualSelector=True)).causes
    assert ("spec.template.metadata.labels[job-name]", "Invalid") in JOBS.create(a_job({"job-name": "other"})).causes


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"backoffLimit": -1}, {("spec.backoffLimit", "Invalid")}),
        ({"completionMode": "X"}, {("spec.completionMode", "NotSupported")}),
        ({"completionMode": "Indexed", "parallelism": 2}, {("spec.completions", "Required")}),
        ({"backoffLimitPerIndex": 1}, {("spec.backoffLimitPerIndex", "Invalid")}),
        ({**INDEXED, "maxFailedIndexes": 1}, {("spec.backoffLimitPerIndex", "Required")}),
        ({**INDEXED, "completions": 100_001, "backoffLimitPerIndex": 1}, {("spec.maxFailedIndexes", "Required")}),
        ({"managedBy": "me"}, {("spec.managedBy", "Invalid")}),
        ({"managedBy": "a.b/" + "c" * 64}, {("spec.managedBy", "TooLong")}),
        ({"podReplacementPolicy": "X"}, {("spec.podReplacementPolicy", "NotSupported")}),
        ({"podFailurePolicy": {"rules": [{"action": "FailIndex", "onPodConditions": [{"type": "A"}]}]}},
         {("spec.podFailurePolicy.rules[0].action", "Invalid")}),
        ({"podFailurePolicy": {"rules": [{"action": "FailJob"}]}}, {("spec.podFailurePolicy.rules[0]", "Invalid")}),
        ({"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0, 0]}}]}},
         {("spec.podFailurePolicy.rules[0].onExitCodes.values[0]", "Invalid"),
          ("spec.podFailurePolicy.rules[0].onExitCodes.values[1]", "Invalid"),
          ("spec.podFailurePolicy.rules[0].onExitCodes.values[1]", "Duplicate")}),
        ({"successPolicy": {"rules": [{"succeededCount": 1}]}}, {("spec.successPolicy", "Invalid")}),
        ({**INDEXED, "successPolicy": {}}, {("spec.successPolicy.rules", "Required")}),
        ({**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "1,3-7"}]}},
         {("spec.successPolicy.rules[0].succeededIndexes", "Invalid")}),
    ],
)  # fmt: skip
def test_job_that_makes_no_sense_is_refused(spec: Any, wrong: set[tuple[str, str]]) -> None:
    assert JOBS.create(a_job(**spec)).causes == wrong


@pytest.mark.parametrize(("policy", "why"), [("Always", "Required"), ("X", "NotSupported")])
def test_pods_of_a_job_come_to_an_end(policy: str, why: str) -> None:
    outcome = JOBS.create({"spec": {"template": {"spec": {**POD, "restartPolicy": policy}}}})

    assert ("spec.template.spec.restartPolicy", why) in outcome.causes


def test_host_names_of_indexed_pods_must_be_possible() -> None:
    assert JOBS.create({"metadata": {"name": "a.b"}, **a_job(**INDEXED)}).causes == {("metadata.name", "Invalid")}
    assert not JOBS.create({"metadata": {"name": "a.b"}, **a_job()}).errors


def test_template_and_completions_stay_while_the_pace_may_change() -> None:
    old = JOBS.stored(a_job())

    assert JOBS.update(old, spec__template__spec__nodeSelector={"a": "b"}).causes == {("spec.template", "Invalid")}
    assert JOBS.update(old, spec__completions=3).causes == {("spec.completions", "Invalid")}
    assert not JOBS.update(old, spec__parallelism=3, spec__backoffLimit=1, spec__suspend=True).errors


def test_suspended_job_may_still_choose_where_its_pods_go() -> None:
    old = JOBS.stored(a_job(suspend=True))
    started = old | {"status": {"startTime": START}}
    where = {"spec__template__spec__nodeSelector": {"a": "b"}}

    assert not JOBS.update(old, **where).errors
    assert not JOBS.update(old, spec__template__spec__affinity={"nodeAffinity": {}}).errors
    assert JOBS.update(old, spec__template__spec__hostname="x").causes == {("spec.template", "Invalid")}
    assert JOBS.update(started, **where).causes == {("spec.template", "Invalid")}


def test_indexed_job_grows_and_shrinks_with_its_parallelism() -> None:
    old = JOBS.stored(a_job(**INDEXED))

    assert not JOBS.update(old, spec__completions=3, spec__parallelism=3).errors
    assert JOBS.update(old, spec__completions=3).causes == {("spec.completions", "Invalid")}


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        (DONE, set()),
        ({"active": 1, "ready": 1, "startTime": START}, set()),
        ({"active": 1, "ready": 2}, {("status.ready", "Invalid")}),
        ({**DONE, "active": 1}, {("status.active", "Invalid")}),
        ({**DONE, "completionTime": None}, {("status.completionTime", "Required")}),
        ({**DONE, "startTime": None}, {("status.startTime", "Required")}),
        ({**DONE, "conditions": true("Complete")}, {("status.conditions", "Invalid")}),
        ({"conditions": true("Failed"), "startTime": START}, {("status.conditions", "Invalid")}),
        ({"conditions": true("FailureTarget", "Failed"), "startTime": START}, set()),
        ({"completionTime": END}, {("status.completionTime", "Invalid")}),
        ({"completedIndexes": "1"}, {("status.completedIndexes", "Invalid")}),
    ],
)
def test_status_tells_a_consistent_story(status: Any, wrong: set[tuple[str, str]]) -> None:
    status = {key: value for key, value in status.items() if value is not None}

    assert JOBS.update_status(JOBS.stored(a_job()), status=status).causes == wrong


def test_end_of_a_job_and_its_counters_are_never_taken_back() -> None:
    done = JOBS.stored(a_job()) | {"status": DONE}

    causes = JOBS.update_status(done, status={"startTime": START}).causes
    assert causes >= {("status.conditions", "Invalid"), ("status.succeeded", "Invalid")}
    assert JOBS.update_status(done, status=DONE | {"completionTime": "2020-01-01T00:00:09Z"}).causes == {
        ("status.completionTime", "Invalid")
    }
    assert job.Job().selectable(done) == {"status.successful": "1"}


def test_failed_and_completed_indexes_do_not_overlap() -> None:
    old = JOBS.stored(a_job(**INDEXED, backoffLimitPerIndex=1))

    assert not JOBS.update_status(old, status={"completedIndexes": "0-1", "failedIndexes": "2,4"}).errors
    assert JOBS.update_status(old, status={"completedIndexes": "1-2", "failedIndexes": "2-3"}).causes == {
        ("status.failedIndexes", "Invalid")
    }


def test_index_lists_rise_and_stay_below_the_completions() -> None:
    assert job_status.intervals("0,2-4", 5) == [(0, 0), (2, 4)]
    assert job_status.intervals("", 5) == []
    for text in ("5", "1,1", "3-2", "2-2", "1-2-3", "x", "-1", "1,"):
        with pytest.raises(job_status.MalformedIndexes):
            job_status.intervals(text, 5)
