"""The Node object of a machine that runs pods."""

from __future__ import annotations

import os

from tests.pods.machine import NODE, Machine, condition


def test_node_tells_what_the_machine_has_and_that_it_is_alive(machine: Machine) -> None:
    node = machine.api.get(f"/api/v1/nodes/{NODE}")
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == NODE
    status = node["status"]
    assert int(status["capacity"]["cpu"]) == len(os.sched_getaffinity(0))
    assert status["capacity"]["pods"] == "110" and status["allocatable"]["memory"].endswith("Ki")
    assert condition(node, "Ready")["status"] == "True"
    assert status["nodeInfo"]["operatingSystem"] == "linux" and status["nodeInfo"]["bootID"]
    assert {one["type"] for one in status["addresses"]} == {"InternalIP", "Hostname"}
    lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}"
    machine.eventually(lambda: not machine.api.gone(lease), "it has a lease")
    first = machine.api.get(lease)["spec"]["renewTime"]
    machine.eventually(lambda: machine.api.get(lease)["spec"]["renewTime"] > first, "the lease is renewed")


def test_pod_put_on_a_node_without_room_for_it_fails(machine: Machine) -> None:
    one = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1000"}}}
    machine.create({"containers": [one]}, "huge")
    pod = machine.until_phase("huge", "Failed")
    assert pod["status"]["reason"] == "OutOfcpu"
    assert pod["status"]["message"].startswith("Pod was rejected: Node didn't have enough resource: cpu")
    assert machine.until_event("huge", "OutOfcpu").startswith("Node didn't have enough resource: cpu")


def test_pod_is_scheduled_to_the_machine_and_runs(machine: Machine) -> None:
    one = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
    machine.create({"containers": [one]}, "anywhere", on_node=False)
    assert machine.until_ready("anywhere")["spec"]["nodeName"] == NODE
