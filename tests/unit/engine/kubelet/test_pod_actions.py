"""What a pod needs next."""

from __future__ import annotations

import pytest
from tests.unit.engine.kubelet.builders import BOOT, NOW, container, pod, record

from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet import pod_actions
from localpv.engine.kubelet.pod_actions import Plan
from localpv.engine.kubelet.records import Record

SIDECAR = container("side", restartPolicy="Always")


def plan(of: Pod, *records: Record, started: bool = True, boot: str = BOOT) -> Plan:
    latest = {one.container: one for one in records}
    return pod_actions.plan(of, latest, now=NOW, boot=boot, started=lambda record: started)


def starts(made: Plan) -> list[str]:
    return [one.name for one in made.start]


def test_all_containers_of_a_new_pod_start() -> None:
    made = plan(pod(containers=[container("a"), container("b")]))
    assert starts(made) == ["a", "b"] and made.initialized and not made.over


def test_init_containers_start_one_by_one() -> None:
    of = pod(inits=(container("one"), container("two")))
    assert starts(plan(of)) == ["one"]
    assert starts(plan(of, record("one"))) == []
    assert starts(plan(of, record("one", code=0))) == ["two"]
    assert starts(plan(of, record("one", code=0), record("two", code=0))) == ["main"]


def test_init_container_that_fails_is_tried_again_unless_never() -> None:
    failed = record("one", code=1, ended=100)
    assert starts(plan(pod(inits=(container("one"),), restart="OnFailure"), failed)) == ["one"]
    made = plan(pod(inits=(container("one"),), restart="Never"), failed)
    assert made.over and made.failed and not made.start


def test_init_containers_do_not_run_again_once_the_others_have_begun() -> None:
    of = pod(inits=(container("one"),))
    assert starts(plan(of, record("main"), record("one", code=0, boot="before"))) == []


def test_init_containers_run_again_after_a_restart_of_the_machine() -> None:
    of = pod(inits=(container("one"), container("two")))
    assert starts(plan(of, record("one", code=0, boot="before"))) == ["one"]


def test_sidecar_starts_before_the_next_and_is_waited_for_until_it_has_started() -> None:
    of = pod(inits=(SIDECAR, container("one")))
    assert starts(plan(of)) == ["side"]
    assert starts(plan(of, record("side"), started=False)) == []
    assert starts(plan(of, record("side"))) == ["one"]


def test_sidecar_is_restarted_whatever_the_policy() -> None:
    of = pod(inits=(SIDECAR,), restart="Never")
    assert starts(plan(of, record("side", code=0, ended=1), record("main"))) == ["side"]


def test_pod_whose_containers_have_ended_is_over_and_its_sidecars_stop() -> None:
    of = pod(inits=(SIDECAR, container("side2", restartPolicy="Always")), restart="Never")
    made = plan(of, record("side"), record("side2"), record("main", code=0))
    assert made.over and made.stop == ["side2", "side"] and not made.start


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [("Always", 0, True), ("Always", 1, True), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_restart_policy(policy: str, code: int, again: bool) -> None:
    made = plan(pod(restart=policy), record(code=code, ended=1000))
    assert (starts(made) == ["main"]) == again and made.over != again


def test_pod_is_not_over_while_one_container_runs() -> None:
    of = pod(containers=[container("a"), container("b")], restart="Never")
    made = plan(of, record("a", code=1), record("b"))
    assert not made.over and not made.start


def test_waits_between_restarts_double_up_to_a_limit() -> None:
    delays, delay = [], 0.0
    for attempt in range(9):
        ended = record(attempt=attempt, code=1, delay=delay, began=1, ended=0)
        delay = pod_actions.next_delay(ended)
        delays.append(delay)
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_container_that_ran_long_starts_anew_without_a_wait() -> None:
    assert pod_actions.next_delay(record(attempt=5, code=1, delay=300, began=700, ended=0)) == 0.0


def test_container_waits_for_the_rest_of_its_delay() -> None:
    made = plan(pod(), record(attempt=1, code=1, began=13, ended=12, delay=10))
    assert made.start == [] and made.backing_off == {"main": 20.0} and made.again == pytest.approx(8.0)
    assert starts(plan(pod(), record(attempt=1, code=1, began=31, ended=21, delay=10))) == ["main"]


def test_containers_stop_together_and_sidecars_after_them_last_first() -> None:
    of = pod(inits=(SIDECAR, container("side2", restartPolicy="Always")), containers=[container("a"), container("b")])
    latest = {one.container: one for one in (record("a"), record("b"), record("side"), record("side2"))}
    assert pod_actions.stop_order(of, latest) == [["a", "b"], ["side2"], ["side"]]
    latest["a"] = latest["b"] = record("x", code=0)
    assert pod_actions.stop_order(of, latest) == [["side2"], ["side"]]


def test_container_whose_image_was_changed_is_replaced_whatever_the_policy() -> None:
    of = pod(containers=[container(image="busybox:2")], restart="Never")
    assert plan(of, record()).changed == ["main"]
    made = plan(of, record(attempt=4, code=143, delay=300))
    assert starts(made) == ["main"] and not made.over
