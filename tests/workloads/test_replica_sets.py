"""ReplicaSets: so many pods, no more and no fewer."""

from __future__ import annotations

from tests.contract import builders, wire
from tests.workloads.crew import Crew, name_of, template, workload


def replica_set(name: str = "one", replicas: int = 2, **spec: object) -> dict[str, object]:
    return workload("ReplicaSet", name, replicas=replicas, **spec)


def test_pods_are_made_as_the_template_says_and_belong_to_the_set(crew: Crew) -> None:
    made = crew.create(replica_set(replicas=3))
    pods = crew.until_pods(3)
    for pod in pods:
        assert name_of(pod).startswith("one-") and pod["metadata"]["generateName"] == "one-"
        assert pod["metadata"]["labels"] == {"app": "demo"}
        assert pod["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "one",
                "uid": made["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    status = crew.until_status("replicasets", "one", replicas=3, fullyLabeledReplicas=3, observedGeneration=1)
    assert "readyReplicas" not in status and "availableReplicas" not in status
    crew.until(lambda: "SuccessfulCreate" in crew.reasons("one"), "an event about created pods")


def test_pod_that_was_deleted_is_replaced(crew: Crew) -> None:
    crew.create(replica_set(replicas=2))
    gone = name_of(crew.until_pods(2)[0])
    crew.delete_pod(gone)
    crew.until(lambda: len(crew.names()) == 2 and gone not in crew.names(), "another pod")


def test_pod_that_failed_is_replaced_and_stays_for_people_to_look_at(crew: Crew) -> None:
    crew.create(replica_set(replicas=1))
    failed = name_of(crew.until_pods(1)[0])
    crew.say(failed, "Failed")
    crew.until_pods(2)
    assert failed in crew.names()
    crew.until_status("replicasets", "one", replicas=1)


def test_readiness_and_availability_are_counted(crew: Crew) -> None:
    crew.create(replica_set(replicas=2))
    first, second = map(name_of, crew.until_pods(2))
    crew.make_ready(first)
    crew.until_status("replicasets", "one", replicas=2, readyReplicas=1, availableReplicas=1)
    crew.make_ready(second)
    crew.until_status("replicasets", "one", readyReplicas=2, availableReplicas=2)
    crew.say(second, "Running", ready=False)
    crew.until_status("replicasets", "one", readyReplicas=1, availableReplicas=1)


def test_pod_is_available_only_after_it_has_been_ready_for_long_enough(crew: Crew) -> None:
    crew.create(replica_set(replicas=1, minReadySeconds=3600))
    crew.make_ready(name_of(crew.until_pods(1)[0]))
    crew.fence("replicasets", "one", readyReplicas=1)
    assert "availableReplicas" not in crew.status("replicasets", "one")
    crew.change("replicasets", "one", {"spec": {"minReadySeconds": 1}})
    crew.until_status("replicasets", "one", availableReplicas=1)


def test_fewer_replicas_give_up_the_pods_that_serve_least(crew: Crew) -> None:
    crew.create(replica_set(replicas=4))
    pods = [name_of(pod) for pod in crew.until_pods(4)]
    running, ready, cheap, _pending = pods
    for pod in (running, ready, cheap):
        crew.bind(pod)
    crew.say(running, "Running")
    annotation = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}
    crew.api.merge(crew.space.core("pods", cheap), annotation)
    # Last, for that these are ready is what shows that all of it was seen.
    crew.make_ready(ready, cheap)
    crew.until_status("replicasets", "one", readyReplicas=2)
    crew.scale("replicasets", "one", 3)
    crew.until_names(running, ready, cheap)
    crew.scale("replicasets", "one", 2)
    crew.until_names(ready, cheap)
    crew.scale("replicasets", "one", 1)
    crew.until_names(ready)
    crew.until(lambda: "SuccessfulDelete" in crew.reasons("one"), "an event about deleted pods")


def test_orphan_that_the_selector_means_is_taken_in(crew: Crew) -> None:
    pod = template()
    crew.api.post(crew.space.core("pods"), {"metadata": {"name": "stray", **pod["metadata"]}, "spec": pod["spec"]})
    # A set whose pod came later has counted it: so the stray was seen, and not too many pods are made beside it.
    labels = {"app": "later"}
    crew.create(replica_set("later", 1, selector={"matchLabels": labels}, template=template(labels=labels)))
    crew.until_status("replicasets", "later", replicas=1)
    crew.create(replica_set(replicas=2))
    crew.until_pods(2, "app=demo")
    owner = crew.until(
        lambda: crew.api.get(crew.space.core("pods", "stray"))["metadata"].get("ownerReferences"), "an owner"
    )
    assert owner[0]["name"] == "one" and owner[0]["controller"]


def test_pod_that_the_selector_no_longer_means_is_let_go_and_replaced(crew: Crew) -> None:
    crew.create(replica_set(replicas=1))
    left = name_of(crew.until_pods(1)[0])
    crew.api.merge(crew.space.core("pods", left), {"metadata": {"labels": {"app": "other"}}})
    crew.until_pods(2)
    crew.until(
        lambda: "ownerReferences" not in crew.api.get(crew.space.core("pods", left))["metadata"], "no owner any more"
    )


def test_pods_of_somebody_else_are_left_alone(crew: Crew) -> None:
    crew.create(replica_set("one", replicas=1))
    crew.until_pods(1)
    crew.create(replica_set("two", replicas=1))
    crew.until_pods(2)
    owners = {pod["metadata"]["ownerReferences"][0]["name"] for pod in crew.pods()}
    assert owners == {"one", "two"}


def test_refused_pods_show_as_a_failure(crew: Crew) -> None:
    body = replica_set(replicas=1)
    body["spec"]["template"]["spec"]["priorityClassName"] = "no-such-class"  # type: ignore[index]
    crew.create(body)

    def failure() -> object:
        conditions = crew.status("replicasets", "one").get("conditions", ())
        return [each for each in conditions if each["type"] == "ReplicaFailure" and each["reason"] == "FailedCreate"]

    crew.until(failure, "a condition ReplicaFailure")
    crew.until(lambda: "FailedCreate" in crew.reasons("one"), "an event about it")


def test_pods_go_with_their_set(crew: Crew) -> None:
    crew.create(replica_set(replicas=2))
    crew.until_pods(2)
    crew.api.delete(crew.space.of("apps/v1", "replicasets", "one"), propagationPolicy="Background")
    crew.until_pods(0)


def test_pods_can_stay_without_their_set(crew: Crew) -> None:
    crew.create(replica_set(replicas=2))
    before = [name_of(pod) for pod in crew.until_pods(2)]
    crew.garbage_fence(builders.pod())
    crew.api.delete(crew.space.of("apps/v1", "replicasets", "one"), propagationPolicy="Orphan")
    crew.until(lambda: crew.api.gone(crew.space.of("apps/v1", "replicasets", "one")), "the set is gone")
    assert crew.names() == sorted(before)
    assert all("ownerReferences" not in pod["metadata"] for pod in crew.pods())


def test_pods_on_their_way_out_are_counted_apart(crew: Crew) -> None:
    crew.create(replica_set(replicas=1))
    leaving = name_of(crew.until_pods(1)[0])
    crew.bind(leaving)
    crew.delete_pod(leaving)
    crew.until_status("replicasets", "one", replicas=1, terminatingReplicas=1)
    crew.finish_deletion(leaving)
    crew.until_status("replicasets", "one", replicas=1, terminatingReplicas=0)


def test_many_pods_are_made_once_each(crew: Crew, api: wire.Api) -> None:
    crew.create(replica_set(replicas=60))
    crew.until_pods(60)
    crew.fence("replicasets", "one", replicas=60)
    assert len(crew.names()) == 60, "no pod too many"
    crew.scale("replicasets", "one", 7)
    crew.until_pods(7)
    crew.fence("replicasets", "one", replicas=7)
    assert len(crew.names()) == 7, "no pod too few"
