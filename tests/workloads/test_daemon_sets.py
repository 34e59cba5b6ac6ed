"""DaemonSets: a pod for every node that suits, and no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.contract import builders, wire
from tests.workloads.crew import Crew, Object, image_of, name_of, template, workload

NEW = "registry.invalid/app:2"
AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


class Nodes:
    """Nodes of one test, told from others by a label; each is called well by hand."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.label = {"workloads": crew.space.name}

    def add(self, *names: str, **labels: str) -> list[str]:
        made = [f"{name}-{self._crew.space.name}" for name in names]
        api = self._crew.api
        for name in made:
            metadata = {"name": name, "labels": {**self.label, **labels}}
            api.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
            ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "said by a test"}
            api.merge(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready]}})
            self.taint(name, None)
            self._crew.until(lambda name=name: not self.taints(name), f"{name} is well")  # type: ignore[misc]
        return made

    def taints(self, name: str) -> Any:
        return self._crew.api.get(f"/api/v1/nodes/{name}")["spec"].get("taints")

    def taint(self, name: str, taints: list[Object] | None) -> None:
        self._crew.api.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})


@pytest.fixture
def nodes(crew: Crew) -> Nodes:
    return Nodes(crew)


def daemon_set(nodes: Nodes, **spec: Any) -> Object:
    return workload("DaemonSet", "log", template=template(nodeSelector=nodes.label), **spec)


def node_of(pod: Object) -> str:
    terms = pod["spec"]["affinity"]["nodeAffinity"][AFFINITY]["nodeSelectorTerms"]
    return str(terms[0]["matchFields"][0]["values"][0])


def places(crew: Crew) -> list[str]:
    return sorted(map(node_of, crew.pods()))


def until_places(crew: Crew, names: list[str]) -> None:
    crew.until(lambda: places(crew) == sorted(names), f"pods for {names}")


def bind_all(crew: Crew) -> None:
    """What a scheduler would do: kube-controller-manager looks only at pods that have their node."""
    for pod in crew.pods():
        if not pod["spec"].get("nodeName"):
            crew.bind(name_of(pod), node_of(pod))


def test_each_node_has_a_pod_that_can_go_nowhere_else(crew: Crew, nodes: Nodes) -> None:
    names = nodes.add("a", "b")
    made = crew.create(daemon_set(nodes))
    until_places(crew, names)
    pod = crew.pods()[0]
    assert pod["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    tolerated = {(each["key"], each["effect"]) for each in pod["spec"]["tolerations"]}
    assert {
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    } <= tolerated
    (revision,) = crew.list("controllerrevisions")
    mark = revision["metadata"]["labels"]["controller-revision-hash"]
    assert pod["metadata"]["labels"]["controller-revision-hash"] == mark
    # Programs written in Go compare it byte by byte with what they would write.
    assert json.dumps(revision["data"]) == json.dumps(revision["data"], sort_keys=True)
    assert pod["metadata"]["labels"]["pod-template-generation"] == "1"
    status = crew.until_status(
        "daemonsets", "log", desiredNumberScheduled=2, currentNumberScheduled=2, updatedNumberScheduled=2
    )
    assert (status["numberReady"], status["numberUnavailable"], status["observedGeneration"]) == (0, 2, 1)
    crew.make_all_ready()
    crew.until_status("daemonsets", "log", numberReady=2, numberAvailable=2, numberUnavailable=None)
    crew.until(lambda: "SuccessfulCreate" in crew.reasons("log"), "events about the pods")


def test_node_that_comes_gets_a_pod_and_one_that_no_longer_suits_loses_it(crew: Crew, nodes: Nodes) -> None:
    (first,) = nodes.add("a")
    crew.create(daemon_set(nodes))
    until_places(crew, [first])
    (second,) = nodes.add("b")
    until_places(crew, [first, second])
    bind_all(crew)
    crew.api.merge(f"/api/v1/nodes/{first}", {"metadata": {"labels": {"workloads": "other"}}})
    until_places(crew, [second])


def test_tainted_node_gets_no_pod_and_keeps_the_one_it_has(crew: Crew, nodes: Nodes) -> None:
    taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    (second,) = nodes.add("b", workloads="elsewhere")
    # Both at once, for the controller must not see it without the taint, and before the node that gets a pod.
    crew.api.merge(f"/api/v1/nodes/{second}", {"metadata": {"labels": nodes.label}, "spec": {"taints": taints}})
    (first,) = nodes.add("a")
    crew.create(daemon_set(nodes))
    until_places(crew, [first])
    bind_all(crew)
    nodes.taint(first, taints)

    def counted() -> bool:
        # Nothing is to be done, so kube-controller-manager counts again only when it looks at the set for some reason.
        crew.change("daemonsets", "log", {"metadata": {"annotations": {"look": builders.unique("again")}}})
        status = crew.status("daemonsets", "log")
        return (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (0, 1)

    crew.until(counted, "the pod is where it would not be put")
    crew.fence("daemonsets", "log")
    assert places(crew) == [first], "what is there may stay"


def test_pod_that_was_deleted_or_failed_comes_anew(crew: Crew, nodes: Nodes) -> None:
    names = nodes.add("a")
    crew.create(daemon_set(nodes))
    until_places(crew, names)
    (gone,) = crew.names()
    crew.delete_pod(gone)
    crew.until(lambda: places(crew) == names and crew.names() != [gone], "another pod")
    (failed,) = crew.names()
    crew.say(failed, "Failed")
    crew.until(lambda: places(crew) == names and crew.names() != [failed], "yet another pod")
    crew.until(lambda: "FailedDaemonPod" in crew.reasons("log"), "an event")


def test_new_template_is_rolled_out_node_by_node(crew: Crew, nodes: Nodes) -> None:
    names = nodes.add("a", "b", "c")
    crew.create(daemon_set(nodes))
    until_places(crew, names)
    crew.make_all_ready()
    crew.until_status("daemonsets", "log", numberAvailable=3)
    crew.new_image("daemonsets", "log", NEW)
    crew.until(lambda: [image_of(pod) for pod in crew.pods()].count(NEW) == 1, "the first node")
    crew.fence("daemonsets", "log", updatedNumberScheduled=1, numberAvailable=2)
    assert [image_of(pod) for pod in crew.pods()].count(NEW) == 1, "one at a time"

    def done() -> bool:
        crew.make_all_ready()
        return {image_of(pod) for pod in crew.pods()} == {NEW} and places(crew) == sorted(names)

    crew.until(done, "all nodes")
    crew.make_all_ready()
    crew.until_status("daemonsets", "log", updatedNumberScheduled=3, numberAvailable=3)
    assert {each["revision"] for each in crew.list("controllerrevisions")} == {1, 2}


def test_surge_has_the_new_pod_ready_before_the_old_one_goes(crew: Crew, nodes: Nodes) -> None:
    names = nodes.add("a")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    crew.create(daemon_set(nodes, updateStrategy=strategy))
    until_places(crew, names)
    crew.make_all_ready()
    crew.until_status("daemonsets", "log", numberAvailable=1)
    crew.new_image("daemonsets", "log", NEW)
    crew.until(lambda: len(crew.pods()) == 2, "the new pod beside the old one")
    # Where two pods are on a node its status is about the older one: that the new one was seen is not told.
    crew.fence("daemonsets", "log", observedGeneration=2)
    assert len(crew.pods()) == 2, "the old one stays until the new one is ready"
    crew.make_all_ready()
    crew.until(lambda: [image_of(pod) for pod in crew.pods()] == [NEW], "only the new pod")


def test_on_delete_changes_only_what_somebody_deletes(crew: Crew, nodes: Nodes) -> None:
    names = nodes.add("a")
    crew.create(daemon_set(nodes, updateStrategy={"type": "OnDelete"}))
    until_places(crew, names)
    crew.make_all_ready()
    crew.new_image("daemonsets", "log", NEW)
    crew.fence("daemonsets", "log", observedGeneration=2, numberAvailable=1)
    assert image_of(crew.pods()[0]) != NEW, "nothing is replaced"
    crew.delete_pod(name_of(crew.pods()[0]))
    crew.until(lambda: [image_of(pod) for pod in crew.pods()] == [NEW], "a pod of the new template")


def test_pods_go_with_the_set(crew: Crew, nodes: Nodes, api: wire.Api) -> None:
    names = nodes.add("a")
    crew.create(daemon_set(nodes))
    until_places(crew, names)
    api.delete(crew.space.of("apps/v1", "daemonsets", "log"), propagationPolicy="Background")
    crew.until_pods(0)
