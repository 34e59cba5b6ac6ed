"""The small parts: order of giving up pods, indexes, statuses, names, hashes, verdicts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.unit.engine.controllers.builders import a_job, a_pod, a_stateful_set, a_template

from localpv.api.kinds.containers import ContainerState, ContainerStatus, StateTerminated
from localpv.api.kinds.pods import Pod, PodStatus
from localpv.api.patch import merge_patch
from localpv.engine.controllers import job_policies, job_tracking, pod_identity, pods, statuses, templates

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
EARLY, LATE = "2030-01-01T10:00:00Z", "2030-01-01T11:00:00Z"


def test_pods_are_given_up_in_the_order_of_their_use() -> None:
    cost = {"controller.kubernetes.io/pod-deletion-cost": "-1"}
    expected = [
        a_pod("unassigned", phase="Pending", node=""),
        a_pod("pending", phase="Pending"),
        a_pod("not-ready"),
        a_pod("cheap", ready_since=EARLY, annotations=cost),
        a_pod("crowded", ready_since=EARLY, node="crowd"),
        a_pod("ready-late", ready_since=LATE),
        a_pod("restarted", ready_since=EARLY, restarts=3),
        a_pod("young", ready_since=EARLY, creation_timestamp=LATE),
        a_pod("old", ready_since=EARLY, creation_timestamp=EARLY),
    ]
    others = [a_pod(f"other{number}", node="crowd") for number in range(9)]
    order = pods.dispensable_first(expected[::-1], neighbours=[*expected, *others])
    assert [pod.metadata.name for pod in order] == [pod.metadata.name for pod in expected]


def test_pod_becomes_available_after_its_time() -> None:
    pod = a_pod("one", ready_since="2030-01-01T11:59:50Z")
    assert pods.is_available(pod, 0, NOW) and pods.is_available(pod, 10, NOW)
    assert pods.until_available(pod, 15, NOW) == 5
    assert pods.until_available(a_pod("two"), 15, NOW) is None
    assert pods.next_available([pod, a_pod("two")], 15, NOW) == 5


@given(st.sets(st.integers(0, 40)))
def test_indexes_are_read_as_they_are_written(wanted: set[int]) -> None:
    assert job_policies.read_indexes(job_policies.write_indexes(wanted), 41) == wanted


@pytest.mark.parametrize(
    ("wanted", "text"), [({0, 1}, "0,1"), ({0, 1, 2}, "0-2"), ({0, 2, 3, 4, 9}, "0,2-4,9"), (set(), "")]
)
def test_indexes_are_written_as_kubernetes_does(wanted: set[int], text: str) -> None:
    assert job_policies.write_indexes(wanted) == text


def test_indexes_beyond_the_completions_do_not_count() -> None:
    assert job_policies.read_indexes("0-9,x,3-y", 4) == {0, 1, 2, 3}


_leaves = st.none() | st.integers(0, 3) | st.lists(st.integers(0, 2), max_size=2)
_statuses = st.dictionaries(
    st.sampled_from("abcd"),
    _leaves | st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2), max_size=3),
    max_size=4,
).map(lambda status: {key: value for key, value in status.items() if value is not None})


@given(_statuses, _statuses)
def test_difference_makes_the_old_status_into_the_new_one(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert merge_patch.apply(old, statuses.difference(old, new)) == new
    assert statuses.difference(new, new) == {}


def test_number_of_a_pod_is_read_from_its_name() -> None:
    stateful_set = a_stateful_set()
    assert pod_identity.ordinal("db-12", stateful_set) == 12
    assert [pod_identity.ordinal(name, stateful_set) for name in ("db", "db-", "db-01", "other-1", "db-1-x")] == [
        None
    ] * 5


def test_claims_of_a_set_are_known_by_their_names() -> None:
    template = {"metadata": {"name": "data"}, "spec": {}}
    stateful_set = a_stateful_set(volume_claim_templates=(template,))
    assert pod_identity.makes_claim(stateful_set, "data-db-3")
    assert not pod_identity.makes_claim(stateful_set, "data-other-3")
    assert not pod_identity.makes_claim(stateful_set, "log-db-3")


def test_volume_of_a_claim_template_takes_the_place_of_one_in_the_pod() -> None:
    template = {"metadata": {"name": "data"}, "spec": {}}
    stateful_set = a_stateful_set(volume_claim_templates=(template,))
    pod = {"spec": {"volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]}}
    volumes = pod_identity.pod(stateful_set, pod, 0, revision="r")["spec"]["volumes"]
    assert [sorted(volume) for volume in volumes] == [["name", "persistentVolumeClaim"], ["emptyDir", "name"]]


def test_equal_templates_have_equal_fingerprints_whatever_the_order_of_their_fields() -> None:
    one = {"a": 1, "b": {"c": 2, "d": 3}}
    two = {"b": {"d": 3, "c": 2}, "a": 1}
    assert templates.fingerprint(one) == templates.fingerprint(two)
    assert templates.fingerprint(one) != templates.fingerprint(one, 1)
    assert len(templates.named("x" * 300, templates.fingerprint(one))) == 253


def test_label_of_the_deployment_does_not_make_a_template_different() -> None:
    assert templates.without_hash(a_template("x", **{"pod-template-hash": "h"})) == templates.without_hash(
        a_template("x")
    )


def failed_pod(name: str, code: int) -> Pod:
    ended = ContainerState(terminated=StateTerminated(exit_code=code))
    container = ContainerStatus(name="main", state=ended)
    return structs.replace(
        a_pod(name, finalizers=(job_tracking.FINALIZER,)),
        status=PodStatus(phase="Failed", container_statuses=(container,)),
    )


@pytest.mark.parametrize(("operator", "code", "matches"), [("In", 42, True), ("In", 1, False), ("NotIn", 1, True)])
def test_rule_of_a_failure_policy_looks_at_exit_codes(operator: str, code: int, matches: bool) -> None:
    rule = {"action": "Ignore", "onExitCodes": {"operator": operator, "values": [42]}}
    job = a_job(pod_failure_policy={"rules": [rule]})
    assert job_policies.counts_as_failure(job, failed_pod("one", code)) != matches


def test_uid_that_is_listed_already_is_not_listed_twice() -> None:
    pod = failed_pod("one", 1)
    job = a_job(status={"failed": 3, "uncountedTerminatedPods": {"failed": [pod.metadata.uid]}})
    tally = job_tracking.tally(job, [pod])
    assert tally.failed == [pod.metadata.uid] and tally.total_failed == 4


def test_pod_without_the_finalizer_has_been_counted() -> None:
    tally = job_tracking.tally(a_job(status={"failed": 1}), [a_pod("one", phase="Failed")])
    assert (tally.total_failed, tally.failed) == (1, [])


def test_many_ends_are_counted_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_tracking, "MOST_UNCOUNTED", 3)
    tally = job_tracking.tally(a_job(), [failed_pod(f"p{number}", 1) for number in range(10)])
    assert len(tally.failed) == 3
