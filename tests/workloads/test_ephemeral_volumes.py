"""Generic ephemeral volumes: a claim that lives as long as its pod."""

from __future__ import annotations

from typing import Any

import pytest
from tests.workloads.crew import Crew, Object, claim_template, name_of, template, workload


def ephemeral(name: str = "scratch", **metadata: Any) -> Object:
    return {
        "name": name,
        "ephemeral": {"volumeClaimTemplate": {"metadata": metadata, "spec": claim_template()["spec"]}},
    }


def pod(name: str = "one", *volumes: Object) -> Object:
    spec = template(volumes=list(volumes or (ephemeral(),)))["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def claim(crew: Crew, name: str) -> Object:
    return crew.until(lambda: crew.claims().get(name), f"claim {name}") or {}


def test_claim_is_made_for_the_pod_and_owned_by_it(crew: Crew) -> None:
    made = crew.create(pod("one", ephemeral(labels={"a": "b"}, annotations={"c": "d"}), ephemeral("second")))
    found = claim(crew, "one-scratch")
    assert found["metadata"]["labels"] == {"a": "b"}
    assert found["metadata"]["annotations"]["c"] == "d"
    assert found["spec"]["storageClassName"] == "workloads"
    assert found["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "one",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    claim(crew, "one-second")


def test_claim_goes_with_its_pod(crew: Crew) -> None:
    crew.create(pod())
    claim(crew, "one-scratch")
    crew.delete_pod("one")
    crew.until(lambda: not crew.claims(), "no claim left")


def test_claim_of_somebody_else_is_neither_used_nor_touched(crew: Crew) -> None:
    foreign = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim_template("one-scratch")}
    before = crew.create(foreign)
    crew.create(pod())
    crew.until(lambda: "FailedBinding" in crew.reasons("one"), "an event that says why the pod waits")
    after = crew.claims()["one-scratch"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "ownerReferences" not in after["metadata"]
    path = crew.space.core("persistentvolumeclaims", "one-scratch")
    crew.api.merge(path, {"metadata": {"finalizers": None}})
    crew.api.delete(path)

    def own() -> object:
        return crew.claims().get("one-scratch", {"metadata": {}})["metadata"].get("ownerReferences")

    crew.until(own, "a claim of its own, once the other is gone")


@pytest.mark.seed("LIF-5")
def test_pods_of_a_deployment_have_a_claim_each(crew: Crew) -> None:
    crew.create(workload("Deployment", "many", replicas=2, template=template(volumes=[ephemeral()])))
    pods = crew.until_pods(2)
    wanted = {f"{name_of(each)}-scratch" for each in pods}
    crew.until(lambda: set(crew.claims()) == wanted, f"claims {wanted}")
