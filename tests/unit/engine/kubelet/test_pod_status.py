"""The status that people and controllers read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.kubelet.builders import at, container, pod, record

from localpv.api.kinds.containers import StateWaiting
from localpv.api.kinds.pods import Pod, PodStatus
from localpv.engine.kubelet import pod_status
from localpv.engine.kubelet.records import Record


def world(*records: Record, **more: Any) -> pod_status.World:
    by_name: dict[str, list[Record]] = {}
    for one in records:
        by_name.setdefault(one.container, []).append(one)
    given = {"initialized": True, "sandbox": True, "now": at(0), "host_ip": "192.0.2.1", **more}
    return pod_status.World(records=by_name, **given)


def told(status: PodStatus) -> dict[str, str]:
    return {one.type: one.status for one in status.conditions}


def test_pod_that_has_not_begun_is_pending_and_says_what_it_waits_for() -> None:
    status = pod_status.status(pod(), world(initialized=False, sandbox=False))
    assert status.phase == "Pending" and status.start_time == at(0)
    assert status.container_statuses[0].state.waiting == StateWaiting(reason="ContainerCreating")
    assert told(status)["Ready"] == "False" and told(status)["PodScheduled"] == "True"
    waits = pod_status.status(pod(inits=(container("one"),)), world(record("one"), initialized=False))
    assert waits.container_statuses[0].state.waiting == StateWaiting(reason="PodInitializing")
    assert told(waits)["Initialized"] == "False" and waits.phase == "Pending"


def test_pod_that_runs_is_ready_with_its_containers() -> None:
    status = pod_status.status(pod(), world(record(), ready=frozenset({"main"}), started=frozenset({"main"})))
    assert status.phase == "Running" and set(told(status).values()) == {"True"}
    one = status.container_statuses[0]
    assert one.ready and one.started and one.container_id == "runc://uid.main.0" and one.state.running is not None


def test_pod_is_pending_until_every_container_has_run() -> None:
    of = pod(containers=[container("a"), container("b")])
    assert pod_status.status(of, world(record("a"))).phase == "Pending"
    assert pod_status.status(of, world(record("a"), record("b"))).phase == "Running"


@pytest.mark.parametrize(("codes", "phase"), [((0, 0), "Succeeded"), ((0, 1), "Failed")])
def test_pod_that_is_over_has_succeeded_if_all_of_it_has(codes: tuple[int, int], phase: str) -> None:
    of = pod(containers=[container("a"), container("b")], restart="Never")
    ended = world(record("a", code=codes[0]), record("b", code=codes[1]), over=True, sandbox=False)
    status = pod_status.status(of, ended)
    assert status.phase == phase
    reasons = {one.type: one.reason for one in status.conditions}
    assert reasons["Ready"] == ("PodCompleted" if phase == "Succeeded" else "PodFailed")


def test_pod_fails_with_its_init_container_though_others_never_ran() -> None:
    of = pod(inits=(container("one"),), restart="Never")
    status = pod_status.status(of, world(record("one", code=1), over=True, initialized=False))
    assert status.phase == "Failed"


def test_sidecar_does_not_decide_how_a_pod_ended() -> None:
    of = pod(inits=(container("side", restartPolicy="Always"),), restart="Never")
    status = pod_status.status(of, world(record("side", code=143), record(code=0), over=True))
    assert status.phase == "Succeeded"


def test_container_that_waits_to_be_restarted_shows_how_it_ended() -> None:
    waiting = {"main": StateWaiting(reason="CrashLoopBackOff", message="back-off 10s")}
    status = pod_status.status(pod(), world(record(attempt=3, code=7), waiting=waiting))
    one = status.container_statuses[0]
    assert status.phase == "Running" and one.restart_count == 3
    assert one.state.waiting == waiting["main"]
    assert one.last_state.terminated is not None and one.last_state.terminated.exit_code == 7


def test_restarted_container_remembers_its_last_end() -> None:
    status = pod_status.status(pod(), world(record(code=9), record(attempt=1)))
    one = status.container_statuses[0]
    assert one.state.running is not None and one.last_state.terminated is not None
    assert (one.restart_count, one.last_state.terminated.exit_code) == (1, 9)


def test_pod_that_failed_as_a_whole_says_why() -> None:
    status = pod_status.status(pod(), world(over=True, reason="DeadlineExceeded", message="too long"))
    assert (status.phase, status.reason, status.message) == ("Failed", "DeadlineExceeded", "too long")


def test_what_is_known_of_containers_stays_when_their_records_are_gone() -> None:
    ended = pod_status.status(pod(restart="Never"), world(record(code=4), over=True))
    later = pod_status.status(
        Pod(metadata=pod().metadata, spec=pod(restart="Never").spec, status=ended), world(over=True)
    )
    assert later.container_statuses == ended.container_statuses and later.phase == "Failed"


def test_times_of_conditions_are_those_of_their_last_change() -> None:
    first = pod_status.status(pod(), world(record(), now=at(60)))
    of = Pod(metadata=pod().metadata, spec=pod().spec, status=first)
    ready = frozenset({"main"})
    second = pod_status.status(of, world(record(), ready=ready, started=ready, now=at(0)))
    times = {one.type: one.last_transition_time for one in second.conditions}
    assert times["Ready"] == at(0) and times["Initialized"] == at(60)


def test_status_that_nothing_changed_is_the_same() -> None:
    first = pod_status.status(pod(), world(record(), now=at(60)))
    of = Pod(metadata=pod().metadata, spec=pod().spec, status=first)
    assert pod_status.status(of, world(record(), now=at(0))) == first


def test_conditions_of_others_stay() -> None:
    gate = {"type": "example.com/gate", "status": "True"}
    status = pod_status.status(pod(status={"conditions": [gate]}), world(record()))
    assert told(status)["example.com/gate"] == "True"


def test_patch_names_the_pod_and_says_what_readers_expect() -> None:
    new = pod_status.status(pod(), world())
    patch = pod_status.patch(pod(status={"reason": "Old"}), new)
    assert patch["metadata"] == {"uid": "uid"}
    assert patch["status"]["reason"] is None and patch["status"]["hostIPs"] == [{"ip": "192.0.2.1"}]
    one = patch["status"]["containerStatuses"][0]
    assert (one["ready"], one["restartCount"], one["imageID"]) == (False, 0, "")
