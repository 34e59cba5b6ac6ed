"""What a node refuses that was sent to it past the scheduler: reasons and messages are those of a kubelet."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.scheduler.samples import node, pod

from localpv.engine.scheduler import admission

PORT = [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 8080}]}]


def test_a_pod_that_fits_is_let_in() -> None:
    assert admission.check(pod(cpu="1"), node(), [pod("other", cpu="2")]) == []


@pytest.mark.parametrize(
    ("wanted", "room", "reason", "message"),
    [
        (
            {"cpu": "3"},
            {"cpu": "4"},
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000",
        ),
        (
            {},
            {"pods": "1"},
            "OutOfpods",
            "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1",
        ),
        (
            {"nodeSelector": {"disk": "ssd"}},
            {},
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            {"containers": PORT},
            {},
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        ),
    ],
)
def test_a_pod_is_refused_with_a_reason(wanted: Any, room: Any, reason: str, message: str) -> None:
    other = pod("other", containers=[PORT[0] | {"resources": {"requests": {"cpu": "2"}}}])
    refusal = admission.check(pod(**wanted), node(**room), [other])[0]
    assert (refusal.reason, refusal.message) == (reason, message)


@pytest.mark.parametrize(("effect", "refused"), [("NoExecute", True), ("NoSchedule", False)])
def test_only_a_taint_that_also_evicts_keeps_a_pod_out_that_is_bound(effect: str, refused: bool) -> None:
    tainted = node(taints=[{"key": "disks", "effect": effect}])
    assert [each.reason for each in admission.check(pod(), tainted, [])] == ["TaintToleration"] * refused


def test_a_pod_does_not_stand_in_its_own_way_and_finished_ones_in_nobodys() -> None:
    full = node(cpu="1", pods="1")
    others = [pod(cpu="1", node="node"), pod("done", cpu="1", node="node", phase="Succeeded")]
    assert admission.check(pod(cpu="1", node="node"), full, others) == []


def test_resources_that_the_node_does_not_know_are_not_its_own_to_refuse() -> None:
    wanted = pod(containers=[{"name": "main", "resources": {"requests": {"example.com/gpu": "1"}}}])
    assert admission.check(wanted, node(), []) == []
