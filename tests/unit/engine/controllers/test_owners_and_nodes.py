"""Whom a claim goes with, which nodes a DaemonSet means, and when an index is given up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs
from tests.unit.engine.controllers.builders import a_job, a_pod, a_stateful_set, meta

from localpv.api.kinds.cluster import Node, NodeSpec, Taint
from localpv.api.kinds.meta import OwnerReference
from localpv.api.kinds.pods import Affinity
from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.api.kinds.workloads import DaemonSet, DaemonSetSpec, RetentionPolicy
from localpv.engine.controllers import daemon_nodes, job_policies, job_tracking, pod_identity

RETAIN, DELETE = "Retain", "Delete"


def owner(kind: str, name: str, uid: str, *, controller: bool = True) -> OwnerReference:
    return OwnerReference(api_version="v1", kind=kind, name=name, uid=uid, controller=controller)


def owners(
    policy: tuple[str, str], number: int, *present: OwnerReference, replicas: int = 1
) -> list[tuple[str, str]] | None:
    """Whom the claim of a pod should belong to."""
    deleted, scaled = policy
    retention = RetentionPolicy(when_deleted=deleted, when_scaled=scaled)
    stateful_set = a_stateful_set(replicas, persistent_volume_claim_retention_policy=retention)
    claim = PersistentVolumeClaim(metadata=meta("data-db-0", owner_references=present))
    found = pod_identity._owners(claim, stateful_set, number, a_pod(f"db-{number}"))
    return None if found is None else [(each.kind, each.uid) for each in found]


@pytest.mark.parametrize(
    ("policy", "staying", "leaving"),
    [
        ((RETAIN, RETAIN), [], []),
        ((DELETE, RETAIN), [("StatefulSet", "uid-db")], [("StatefulSet", "uid-db")]),
        ((RETAIN, DELETE), [], [("Pod", "uid-db-5")]),
        ((DELETE, DELETE), [("StatefulSet", "uid-db")], [("Pod", "uid-db-5")]),
    ],
)
def test_claim_goes_with_whom_the_policy_says(
    policy: tuple[str, str], staying: list[tuple[str, str]], leaving: list[tuple[str, str]]
) -> None:
    assert owners(policy, 0) == staying
    assert owners(policy, 5) == leaving


def test_claim_that_goes_with_an_earlier_set_or_pod_is_left_alone() -> None:
    assert owners((DELETE, DELETE), 0, owner("StatefulSet", "db", "uid-of-an-earlier-one")) is None
    assert owners((DELETE, DELETE), 0, owner("Pod", "db-0", "uid-of-an-earlier-one")) is None


def test_claim_that_somebody_else_controls_is_not_taken() -> None:
    other = owner("Backup", "b", "uid-b")
    assert owners((DELETE, DELETE), 0, other) == [("Backup", "uid-b")]
    assert owners((DELETE, DELETE), 0, other, owner("StatefulSet", "db", "uid-db")) == [("Backup", "uid-b")]


def test_policy_that_no_longer_deletes_takes_the_owner_off_and_leaves_others() -> None:
    guest = owner("Backup", "b", "uid-b", controller=False)
    assert owners((RETAIN, RETAIN), 0, guest, owner("StatefulSet", "db", "uid-db")) == [("Backup", "uid-b")]


def a_daemon_set(**spec: Any) -> DaemonSet:
    return DaemonSet(metadata=meta("log"), spec=DaemonSetSpec(template={"spec": spec}))


def a_node(name: str = "n1", *taints: Taint, **labels: str) -> Node:
    return Node(metadata=structs.replace(meta(name), namespace="", labels=labels), spec=NodeSpec(taints=taints))


def test_node_suits_by_its_labels_and_its_name() -> None:
    assert daemon_nodes.suits(a_daemon_set(nodeSelector={"disk": "ssd"}), a_node(disk="ssd")) == (True, True)
    assert daemon_nodes.suits(a_daemon_set(nodeSelector={"disk": "ssd"}), a_node(disk="hdd")) == (False, False)
    assert daemon_nodes.suits(a_daemon_set(nodeName="n2"), a_node("n1")) == (False, False)


@pytest.mark.parametrize(
    ("key", "effect", "answer"),
    [
        ("dedicated", "NoSchedule", (False, True)),
        ("dedicated", "NoExecute", (False, False)),
        ("dedicated", "PreferNoSchedule", (True, True)),
        ("node.kubernetes.io/unschedulable", "NoSchedule", (True, True)),
        ("node.kubernetes.io/not-ready", "NoExecute", (True, True)),
        ("node.kubernetes.io/network-unavailable", "NoSchedule", (False, True)),
    ],
)
def test_taint_keeps_new_pods_away_and_drives_out_only_if_it_says_so(
    key: str, effect: str, answer: tuple[bool, bool]
) -> None:
    assert daemon_nodes.suits(a_daemon_set(), a_node("n1", Taint(key=key, effect=effect))) == answer


def test_pod_of_a_daemon_keeps_its_own_affinity_except_for_the_node() -> None:
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
    old = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    affinity = {
        "podAntiAffinity": {},
        "nodeAffinity": {**wish, "requiredDuringSchedulingIgnoredDuringExecution": old},
    }
    made = daemon_nodes.pod(a_daemon_set(affinity=affinity), "n7", revision="r")["spec"]["affinity"]
    assert set(made) == {"podAntiAffinity", "nodeAffinity"}
    assert made["nodeAffinity"].keys() == affinity["nodeAffinity"].keys()
    pod = a_pod("log-x", node="")
    assert (
        daemon_nodes.node_of(
            structs.replace(pod, spec=structs.replace(pod.spec, affinity=msgspec.convert(made, Affinity)))
        )
        == "n7"
    )
    assert daemon_nodes.node_of(a_pod("log-y", node="n3")) == "n3"


def a_try(name: str, index: int, failures: int, phase: str = "Failed") -> Any:
    marks = {job_policies.INDEX: str(index), job_policies.FAILURES: str(failures)}
    return a_pod(name, phase=phase, annotations=marks, finalizers=(job_tracking.FINALIZER,))


def test_index_is_given_up_when_it_has_failed_more_often_than_allowed() -> None:
    job = a_job(completions=3, completion_mode="Indexed", backoff_limit_per_index=1)
    assert job_policies.failed_indexes(job, [a_try("a", 0, 0), a_try("b", 1, 1)]) == {1}


def test_last_failed_pod_of_an_index_is_held_until_the_next_one_runs() -> None:
    job = a_job(completions=3, completion_mode="Indexed", backoff_limit_per_index=5)
    first, second, other = a_try("a", 0, 0), a_try("b", 0, 1), a_try("c", 1, 0)
    tally = job_tracking.tally(job, [first, second, other])
    assert tally.held == {0: second, 1: other}
    assert tally.failed == [first.metadata.uid], "what is held is not counted yet"
    running = a_try("d", 0, 2, phase="Running")
    assert job_tracking.tally(job, [second, other, running]).held == {1: other}
