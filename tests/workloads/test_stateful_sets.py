"""StatefulSets: numbered pods in order, and claims that outlive them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import builders
from tests.workloads.crew import Crew, Object, claim_template, image_of, name_of, workload

OLD, NEW = "registry.invalid/app:1", "registry.invalid/app:2"


def stateful_set(replicas: int = 2, *, claims: bool = True, parallel: bool = False, **spec: Any) -> Object:
    if claims:
        spec.setdefault("volumeClaimTemplates", [claim_template()])
    if parallel:
        spec["podManagementPolicy"] = "Parallel"
    return workload("StatefulSet", "db", replicas=replicas, serviceName="db", **spec)


def start(crew: Crew, replicas: int, **options: Any) -> None:
    """A set whose pods are all ready."""
    crew.create(stateful_set(replicas, **options))
    crew.until(lambda: crew.make_all_ready() is None and len(crew.pods()) == replicas, f"{replicas} pods")
    crew.make_all_ready()
    crew.until_status("statefulsets", "db", readyReplicas=replicas, updatedReplicas=replicas)


def images(crew: Crew) -> dict[str, str]:
    return {name_of(pod): image_of(pod) for pod in crew.pods()}


def roll_out(crew: Crew, image: str, replicas: int) -> None:
    def done() -> bool:
        crew.make_all_ready()
        return images(crew) == {f"db-{number}": image for number in range(replicas)}

    crew.until(done, f"all pods of {image}")
    crew.make_all_ready()


@pytest.mark.seed("LIF-5")
def test_pods_have_numbers_names_and_claims_of_their_own(crew: Crew) -> None:
    made = crew.create(stateful_set(1))
    crew.until_names("db-0")
    pod = crew.pods()[0]
    labels = pod["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "db-0"
    assert labels["apps.kubernetes.io/pod-index"] == "0"
    assert labels["controller-revision-hash"].startswith("db-")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-0", "db")
    assert pod["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}} in pod["spec"]["volumes"]
    claim = crew.claims()["data-db-0"]
    assert claim["metadata"]["labels"] == {"app": "demo"}
    assert "ownerReferences" not in claim["metadata"]
    assert claim["spec"]["storageClassName"] == "workloads"
    crew.until(lambda: "SuccessfulCreate" in crew.reasons("db"), "events about what was made")


def test_next_pod_waits_until_the_one_before_is_ready(crew: Crew) -> None:
    crew.create(stateful_set(3))
    crew.until_names("db-0")
    crew.fence("statefulsets", "db", replicas=1)
    assert crew.names() == ["db-0"], "no second pod before the first is ready"
    crew.make_ready("db-0")
    crew.until_names("db-0", "db-1")
    crew.until_status("statefulsets", "db", replicas=2, readyReplicas=1, availableReplicas=1, currentReplicas=2)
    crew.make_ready("db-1")
    crew.until_names("db-0", "db-1", "db-2")


def test_parallel_pods_come_together(crew: Crew) -> None:
    crew.create(stateful_set(12, parallel=True))
    crew.until_pods(12)
    assert len(crew.claims()) == 12
    crew.fence("statefulsets", "db", replicas=12)
    assert len(crew.pods()) == 12, "no more than asked for"


@pytest.mark.seed("LIF-5", "LVD-3")
def test_pod_that_comes_back_finds_its_claim(crew: Crew) -> None:
    start(crew, 1)
    claim, pod = crew.claims()["data-db-0"], crew.pods()[0]
    crew.delete_pod("db-0")

    def another() -> Object | None:
        found = crew.pods()
        return found[0] if found and found[0]["metadata"]["uid"] != pod["metadata"]["uid"] else None

    again = crew.until(another, "another pod of the same name")
    assert again is not None and again["metadata"]["name"] == "db-0"
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}} in again["spec"]["volumes"]
    assert crew.claims()["data-db-0"]["metadata"]["uid"] == claim["metadata"]["uid"]


@pytest.mark.seed("LVD-3")
def test_claims_outlive_fewer_replicas_and_the_set_itself(crew: Crew) -> None:
    start(crew, 2)
    before = {name: claim["metadata"]["uid"] for name, claim in crew.claims().items()}
    crew.scale("statefulsets", "db", 1)
    crew.until_names("db-0")
    crew.scale("statefulsets", "db", 2)
    crew.until_names("db-0", "db-1")
    crew.api.delete(crew.space.of("apps/v1", "statefulsets", "db"), propagationPolicy="Background")
    crew.until_pods(0)
    assert {name: claim["metadata"]["uid"] for name, claim in crew.claims().items()} == before


def test_fewer_replicas_leave_from_the_highest_number_one_at_a_time(crew: Crew) -> None:
    start(crew, 3, claims=False)
    crew.bind("db-2")
    crew.scale("statefulsets", "db", 1)
    crew.until_names("db-0", "db-1")
    crew.fence("statefulsets", "db", observedGeneration=2)
    assert crew.names() == ["db-0", "db-1"], "the next waits until this one is gone"
    crew.finish_deletion("db-2")
    crew.until_names("db-0")


def test_nothing_leaves_while_a_pod_with_a_lower_number_is_ill(crew: Crew) -> None:
    start(crew, 2, claims=False)
    crew.say("db-0", "Running", ready=False)
    crew.until_status("statefulsets", "db", readyReplicas=1)
    crew.scale("statefulsets", "db", 1)
    crew.fence("statefulsets", "db", observedGeneration=2)
    assert crew.names() == ["db-0", "db-1"], "nobody leaves"
    crew.make_ready("db-0")
    crew.until_names("db-0")


def test_numbers_can_start_elsewhere(crew: Crew) -> None:
    crew.create(stateful_set(2, claims=False, parallel=True, ordinals={"start": 5}))
    crew.until_names("db-5", "db-6")


def test_failed_pod_is_made_anew(crew: Crew) -> None:
    crew.create(stateful_set(1, claims=False))
    uid = crew.until_pods(1)[0]["metadata"]["uid"]
    crew.say("db-0", "Failed")
    crew.until(lambda: [pod for pod in crew.pods() if pod["metadata"]["uid"] != uid], "another pod")


def test_new_template_replaces_pods_from_the_highest_number_down(crew: Crew) -> None:
    start(crew, 3, claims=False)
    crew.new_image("statefulsets", "db", NEW)
    crew.until(lambda: images(crew) == {"db-0": OLD, "db-1": OLD, "db-2": NEW}, "the last pod first")
    crew.fence("statefulsets", "db", currentReplicas=2, updatedReplicas=1)
    assert images(crew)["db-1"] == OLD, "the next waits until the new pod is ready"
    status = crew.status("statefulsets", "db")
    assert status["currentRevision"] != status["updateRevision"]
    roll_out(crew, NEW, 3)
    crew.until(
        lambda: crew.status("statefulsets", "db")["currentRevision"] == status["updateRevision"],
        "the change is complete",
    )
    crew.until_status("statefulsets", "db", currentReplicas=3, updatedReplicas=3, readyReplicas=3)


def test_partition_keeps_lower_numbers_at_the_old_template(crew: Crew) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    start(crew, 3, claims=False, updateStrategy=strategy)
    crew.new_image("statefulsets", "db", NEW)
    crew.until(lambda: images(crew).get("db-2") == NEW, "above the partition")
    crew.make_ready("db-2")
    crew.delete_pod("db-1")
    crew.until(lambda: images(crew).get("db-1") == OLD, "below it also what is made anew")
    crew.make_ready("db-1")
    crew.fence("statefulsets", "db", readyReplicas=3)
    assert images(crew) == {"db-0": OLD, "db-1": OLD, "db-2": NEW}, "no further"


def test_on_delete_changes_only_what_somebody_deletes(crew: Crew) -> None:
    start(crew, 2, claims=False, updateStrategy={"type": "OnDelete"})
    crew.new_image("statefulsets", "db", NEW)
    crew.fence("statefulsets", "db", observedGeneration=2)
    assert set(images(crew).values()) == {OLD}, "nothing is replaced"
    crew.delete_pod("db-0")
    crew.until(lambda: images(crew) == {"db-0": NEW, "db-1": OLD}, "the one that was deleted")


def test_history_of_templates_is_kept_and_limited(crew: Crew) -> None:
    start(crew, 1, claims=False, revisionHistoryLimit=1)
    for number in (2, 3, 4):
        crew.new_image("statefulsets", "db", f"registry.invalid/app:{number}")
        roll_out(crew, f"registry.invalid/app:{number}", 1)
    crew.until(lambda: len(crew.list("controllerrevisions")) == 2, "the present and one old revision")
    newest = max(crew.list("controllerrevisions"), key=lambda each: int(each["revision"]))
    assert newest["revision"] == 4
    assert newest["data"]["spec"]["template"]["$patch"] == "replace"
    assert name_of(newest) == crew.status("statefulsets", "db")["updateRevision"]


def test_going_back_reuses_the_old_revision(crew: Crew) -> None:
    start(crew, 1, claims=False)
    first = crew.status("statefulsets", "db")["updateRevision"]
    crew.new_image("statefulsets", "db", NEW)
    roll_out(crew, NEW, 1)
    crew.new_image("statefulsets", "db", OLD)
    roll_out(crew, OLD, 1)
    crew.until(lambda: crew.status("statefulsets", "db")["updateRevision"] == first, "the first revision again")
    assert {each["revision"] for each in crew.list("controllerrevisions")} == {2, 3}


@pytest.mark.parametrize(
    ("policy", "after_scaling", "after_deletion"),
    [
        ({"whenDeleted": "Delete", "whenScaled": "Retain"}, {"data-db-0", "data-db-1"}, set()),
        ({"whenDeleted": "Retain", "whenScaled": "Delete"}, {"data-db-0"}, {"data-db-0"}),
        ({"whenDeleted": "Delete", "whenScaled": "Delete"}, {"data-db-0"}, set()),
    ],
)
def test_claims_go_when_the_policy_says_so(
    crew: Crew, policy: Object, after_scaling: set[str], after_deletion: set[str]
) -> None:
    start(crew, 2, persistentVolumeClaimRetentionPolicy=policy)
    crew.scale("statefulsets", "db", 1)
    crew.until_names("db-0")
    crew.until(lambda: set(crew.claims()) == after_scaling, f"claims {after_scaling}")
    crew.fence("statefulsets", "db", replicas=1)
    crew.garbage_fence()
    assert set(crew.claims()) == after_scaling, "no claim too few"
    crew.api.delete(crew.space.of("apps/v1", "statefulsets", "db"), propagationPolicy="Background")
    crew.until(lambda: not crew.pods() and set(crew.claims()) == after_deletion, f"claims {after_deletion}")


def test_policy_changed_later_counts(crew: Crew) -> None:
    start(crew, 1)
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    crew.change("statefulsets", "db", {"spec": {"persistentVolumeClaimRetentionPolicy": policy}})

    def owner() -> object:
        owners = crew.claims()["data-db-0"]["metadata"].get("ownerReferences", ())
        return [each for each in owners if each["kind"] == "StatefulSet"]

    crew.until(owner, "the set owns the claim")
    policy["whenDeleted"] = "Retain"
    crew.change("statefulsets", "db", {"spec": {"persistentVolumeClaimRetentionPolicy": policy}})
    crew.until(lambda: not owner(), "and no longer does")


def test_claim_that_a_waiting_pod_lost_is_made_again(crew: Crew) -> None:
    crew.create(stateful_set(1))
    crew.until_names("db-0")
    uid = crew.claims()["data-db-0"]["metadata"]["uid"]
    path = crew.space.core("persistentvolumeclaims", "data-db-0")
    crew.api.merge(path, {"metadata": {"finalizers": None}})
    crew.api.delete(path)

    def another() -> bool:
        # kube-controller-manager does not watch claims for this: it sees the loss when it looks at the set again.
        crew.change("statefulsets", "db", {"metadata": {"annotations": {"look": builders.unique("again")}}})
        return bool(crew.claims().get("data-db-0", {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)

    crew.until(another, "another claim")


def test_pod_without_owner_is_taken_in_by_its_name(crew: Crew) -> None:
    crew.create(stateful_set(1, claims=False))
    crew.until_names("db-0")
    crew.garbage_fence(builders.pod())
    crew.api.delete(crew.space.of("apps/v1", "statefulsets", "db"), propagationPolicy="Orphan")
    crew.until(lambda: crew.api.gone(crew.space.of("apps/v1", "statefulsets", "db")), "the set is gone")
    uid = crew.pods()[0]["metadata"]["uid"]
    crew.create(stateful_set(1, claims=False))
    crew.until(lambda: crew.pods()[0]["metadata"].get("ownerReferences"), "an owner again")
    assert crew.pods()[0]["metadata"]["uid"] == uid
