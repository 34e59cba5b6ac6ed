"""Deployments: from one template to the next, never with too few pods nor too many."""

from __future__ import annotations

from typing import Any

import pytest
from tests.workloads.crew import Crew, Object, image_of, name_of, workload

OLD, NEW, NEWEST = "registry.invalid/app:1", "registry.invalid/app:2", "registry.invalid/app:3"
REVISION = "deployment.kubernetes.io/revision"


def deployment(replicas: int = 2, **spec: Any) -> Object:
    return workload("Deployment", "web", replicas=replicas, **spec)


def rolling(surge: int | str, unavailable: int | str) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def sets(crew: Crew) -> dict[str, Object]:
    """ReplicaSets by the image that they make pods from."""
    return {each["spec"]["template"]["spec"]["containers"][0]["image"]: each for each in crew.list("replicasets")}


def sizes(crew: Crew) -> dict[str, int]:
    return {image: each["spec"]["replicas"] for image, each in sets(crew).items()}


def of_image(crew: Crew, image: str) -> list[str]:
    return [name_of(pod) for pod in crew.pods() if image_of(pod) == image]


def condition(crew: Crew, kind: str) -> Object:
    conditions = crew.status("deployments", "web").get("conditions", ())
    return next((each for each in conditions if each["type"] == kind), {})


def roll_out(crew: Crew, image: str) -> None:
    """Make pods ready as they come until all are of one image."""

    def step() -> bool:
        crew.make_all_ready()
        status = crew.status("deployments", "web")
        wanted = crew.get("deployments", "web")["spec"]["replicas"]
        return {image_of(pod) for pod in crew.pods()} == {image} and status.get("updatedReplicas") == status.get(
            "availableReplicas"
        ) == status.get("replicas") == wanted

    crew.until(step, f"all pods of {image}")


def test_deployment_makes_a_set_that_makes_pods(crew: Crew) -> None:
    made = crew.create(deployment(replicas=2))
    pods = crew.until_pods(2)
    (replica_set,) = crew.list("replicasets")
    mark = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert name_of(replica_set) == f"web-{mark}"
    assert replica_set["spec"]["selector"] == {"matchLabels": {"app": "demo", "pod-template-hash": mark}}
    assert replica_set["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert replica_set["metadata"]["annotations"][REVISION] == "1"
    assert all(pod["metadata"]["labels"] == {"app": "demo", "pod-template-hash": mark} for pod in pods)
    status = crew.until_status("deployments", "web", replicas=2, updatedReplicas=2, unavailableReplicas=2)
    assert status["observedGeneration"] == 1
    assert condition(crew, "Available")["status"] == "False"
    assert condition(crew, "Available")["reason"] == "MinimumReplicasUnavailable"
    assert crew.get("deployments", "web")["metadata"]["annotations"][REVISION] == "1"
    crew.until(lambda: "ScalingReplicaSet" in crew.reasons("web"), "an event about the scaling")


def test_deployment_with_ready_pods_is_available_and_complete(crew: Crew) -> None:
    crew.create(deployment(replicas=2))
    crew.until_pods(2)
    crew.make_all_ready()
    crew.until_status("deployments", "web", readyReplicas=2, availableReplicas=2, unavailableReplicas=None)
    crew.until(lambda: condition(crew, "Available").get("status") == "True", "available")
    crew.until(lambda: condition(crew, "Progressing").get("reason") == "NewReplicaSetAvailable", "rolled out")


def test_new_template_replaces_pods_within_its_limits(crew: Crew) -> None:
    crew.create(deployment(replicas=4, strategy=rolling(1, 1)))
    crew.until_pods(4)
    roll_out(crew, OLD)
    crew.new_image("deployments", "web", NEW)
    # One may be missing and one more may be there: nothing goes on before a new pod is ready.
    crew.until(lambda: sizes(crew) == {OLD: 3, NEW: 2}, "the first step")
    crew.until(lambda: len(of_image(crew, NEW)) == 2, "new pods")
    crew.fence("deployments", "web", replicas=5, updatedReplicas=2, availableReplicas=3)
    assert sizes(crew) == {OLD: 3, NEW: 2}, "no second step before pods are ready"
    crew.make_ready(*of_image(crew, NEW))
    roll_out(crew, NEW)
    assert sizes(crew) == {OLD: 0, NEW: 4}
    assert sets(crew)[NEW]["metadata"]["annotations"][REVISION] == "2"
    crew.until(lambda: crew.get("deployments", "web")["metadata"]["annotations"][REVISION] == "2", "second revision")


def test_old_pods_that_do_not_serve_go_first(crew: Crew) -> None:
    crew.create(deployment(replicas=3, strategy=rolling(1, 2)))
    pods = [name_of(pod) for pod in crew.until_pods(3)]
    crew.make_ready(pods[0])
    crew.until_status("deployments", "web", availableReplicas=1)
    crew.new_image("deployments", "web", NEW)
    # Old pods that are not ready may go at once: without them no fewer pods serve.
    crew.until(lambda: of_image(crew, OLD) == [pods[0]], "only the old pod that serves")


def test_recreate_waits_until_the_last_old_pod_is_gone(crew: Crew) -> None:
    crew.create(deployment(replicas=1, strategy={"type": "Recreate"}))
    old = name_of(crew.until_pods(1)[0])
    crew.bind(old)
    crew.make_ready(old)
    crew.until_status("deployments", "web", availableReplicas=1)
    crew.new_image("deployments", "web", NEW)
    crew.until_pods(0)
    crew.fence("deployments", "web", availableReplicas=None)
    assert not sizes(crew).get(NEW), "no new pod beside one that is being deleted"
    crew.finish_deletion(old)
    crew.until(lambda: len(of_image(crew, NEW)) == 1, "a new pod")


def test_paused_deployment_keeps_its_template_but_follows_its_size(crew: Crew) -> None:
    crew.create(deployment(replicas=2))
    crew.until_pods(2)
    roll_out(crew, OLD)
    crew.change("deployments", "web", {"spec": {"paused": True}})
    crew.until(lambda: condition(crew, "Progressing").get("reason") == "DeploymentPaused", "paused")
    crew.new_image("deployments", "web", NEW)
    crew.fence("deployments", "web", observedGeneration=3)
    assert NEW not in sizes(crew), "no new set while paused"
    crew.scale("deployments", "web", 3)
    crew.until(lambda: sizes(crew) == {OLD: 3}, "three pods of the old template")
    crew.change("deployments", "web", {"spec": {"paused": False}})
    roll_out(crew, NEW)


def test_number_of_pods_changed_half_way_is_spread_over_old_and_new(crew: Crew) -> None:
    crew.create(deployment(replicas=8, strategy=rolling(4, 0)))
    crew.until_pods(8)
    roll_out(crew, OLD)
    crew.new_image("deployments", "web", NEW)
    crew.until(lambda: sizes(crew) == {OLD: 8, NEW: 4}, "half way")
    crew.scale("deployments", "web", 14)
    crew.until(lambda: sizes(crew) == {OLD: 12, NEW: 6}, "both have grown by half")


def test_same_template_again_uses_the_old_set_again(crew: Crew) -> None:
    crew.create(deployment(replicas=1))
    crew.until_pods(1)
    roll_out(crew, OLD)
    first = name_of(sets(crew)[OLD])
    crew.new_image("deployments", "web", NEW)
    roll_out(crew, NEW)
    crew.new_image("deployments", "web", OLD)
    roll_out(crew, OLD)
    again = sets(crew)[OLD]
    assert name_of(again) == first
    assert again["metadata"]["annotations"][REVISION] == "3"
    assert again["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


def test_old_sets_beyond_the_history_are_deleted(crew: Crew) -> None:
    crew.create(deployment(replicas=1, revisionHistoryLimit=1))
    crew.until_pods(1)
    roll_out(crew, OLD)
    for image in (NEW, NEWEST):
        crew.new_image("deployments", "web", image)
        roll_out(crew, image)
    crew.until(lambda: set(sizes(crew)) == {NEW, NEWEST}, "only one old set")


def test_deployment_that_gets_nowhere_says_so(crew: Crew) -> None:
    crew.create(deployment(replicas=1, progressDeadlineSeconds=1))
    crew.until_pods(1)
    crew.until(lambda: condition(crew, "Progressing").get("reason") == "ProgressDeadlineExceeded", "timed out")
    assert condition(crew, "Progressing")["status"] == "False"


def test_trouble_of_the_set_shows_on_the_deployment(crew: Crew) -> None:
    body = deployment(replicas=1)
    body["spec"]["template"]["spec"]["priorityClassName"] = "no-such-class"
    crew.create(body)
    crew.until(lambda: condition(crew, "ReplicaFailure").get("reason") == "FailedCreate", "a failure")


def test_annotations_are_handed_down(crew: Crew) -> None:
    body = deployment(replicas=1)
    body["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first"}
    crew.create(body)
    crew.until_pods(1)
    assert crew.list("replicasets")[0]["metadata"]["annotations"]["kubernetes.io/change-cause"] == "first"


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_sets_and_pods_go_with_the_deployment(crew: Crew, policy: str) -> None:
    crew.create(deployment(replicas=2))
    crew.until_pods(2)
    crew.api.delete(crew.space.of("apps/v1", "deployments", "web"), propagationPolicy=policy)
    crew.until(lambda: not crew.list("replicasets") and not crew.pods(), "nothing left")


def test_set_without_owner_is_taken_in(crew: Crew) -> None:
    crew.create(deployment(replicas=1))
    crew.until_pods(1)
    crew.garbage_fence(workload("ReplicaSet", "later", replicas=0))
    crew.api.delete(crew.space.of("apps/v1", "deployments", "web"), propagationPolicy="Orphan")
    crew.until(lambda: crew.api.gone(crew.space.of("apps/v1", "deployments", "web")), "the deployment is gone")
    (before,) = crew.list("replicasets")
    crew.fence("replicasets", name_of(before))
    crew.create(deployment(replicas=1))

    def owner() -> object:
        (found,) = crew.list("replicasets")
        return name_of(found) == name_of(before) and found["metadata"].get("ownerReferences")

    crew.until(owner, "the set is taken in")
    assert len(crew.pods()) == 1
