"""Deleting: what is answered, preconditions, grace, finalizers, and many at once."""

from __future__ import annotations

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

FINALIZER = "contract.localpv.dev/wait"


def test_deletion_answers_with_a_status_that_names_the_object(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one"))
    status = api.delete(space.core("configmaps", "one"), expect=200)
    assert status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "one", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    assert api.gone(space.core("configmaps", "one"))
    assert api.delete(space.core("configmaps", "one"), expect=404)["reason"] == "NotFound"


@pytest.mark.parametrize("plural", ["pods", "persistentvolumeclaims", "serviceaccounts", "services"])
def test_some_kinds_answer_with_the_object(api: Api, space: Space, plural: str) -> None:
    body = {
        "pods": builders.pod("one"),
        "persistentvolumeclaims": builders.claim("one"),
        "serviceaccounts": builders.service_account("one"),
        "services": builders.service("one"),
    }[plural]
    made = api.post(space.core(plural), body)
    deleted = api.delete(space.core(plural, "one"), expect=200)
    assert deleted["kind"] == made["kind"]
    assert deleted["metadata"]["uid"] == made["metadata"]["uid"]


def test_storage_classes_and_volumes_answer_with_the_object(api: Api) -> None:
    made = api.post("/apis/storage.k8s.io/v1/storageclasses", builders.storage_class())
    path = f"/apis/storage.k8s.io/v1/storageclasses/{made['metadata']['name']}"
    assert api.delete(path)["kind"] == "StorageClass"


def test_finalizer_holds_the_object(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    api.post(space.core("configmaps"), builders.config_map("one", finalizers=[FINALIZER]))
    held = api.delete(path, expect=200)
    assert (held["kind"], held["metadata"]["deletionGracePeriodSeconds"]) == ("ConfigMap", 0)
    assert held["metadata"]["deletionTimestamp"]
    again = api.delete(path, expect=200)
    assert again["metadata"]["deletionTimestamp"] == held["metadata"]["deletionTimestamp"]
    assert api.merge(path, {"data": {"a": "1"}})["data"] == {"a": "1"}
    last = api.merge(path, {"metadata": {"finalizers": None}})
    assert last["metadata"]["deletionTimestamp"]
    assert api.gone(path)


def test_no_finalizer_is_added_to_what_is_being_deleted(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    api.post(space.core("configmaps"), builders.config_map("one", finalizers=[FINALIZER]))
    api.delete(path)
    more = [FINALIZER, "contract.localpv.dev/more"]
    status = api.merge(path, {"metadata": {"finalizers": more}}, expect=422)
    assert set(wire.causes(status)) == {("FieldValueForbidden", "metadata.finalizers")}


def test_watchers_see_the_mark_and_then_the_deletion(api: Api, space: Space) -> None:
    path = space.core("secrets", "one")
    made = api.post(space.core("secrets"), builders.secret("one", finalizers=[FINALIZER]))
    with api.watch(space.core("secrets"), resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        api.delete(path)
        api.merge(path, {"metadata": {"finalizers": None}})
        marked, deleted = watch.next(), watch.next()
    assert (marked.type, deleted.type) == ("MODIFIED", "DELETED")
    assert marked.object["metadata"]["deletionTimestamp"]


def test_precondition_on_uid(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    uid = api.post(space.core("configmaps"), builders.config_map("one"))["metadata"]["uid"]
    wrong = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
    status = api.delete(path, wrong, expect=409)
    assert status["reason"] == "Conflict"
    assert "the UID in the precondition" in status["message"]
    api.delete(path, {"preconditions": {"uid": uid}}, expect=200)


def test_precondition_on_version(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    made = api.post(space.core("configmaps"), builders.config_map("one"))
    changed = api.merge(path, {"data": {"a": "1"}})
    old = {"preconditions": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    status = api.delete(path, old, expect=409)
    assert "the ResourceVersion in the precondition" in status["message"]
    api.delete(path, {"preconditions": {"resourceVersion": changed["metadata"]["resourceVersion"]}}, expect=200)


def test_dry_run_deletes_nothing(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    api.post(space.core("configmaps"), builders.config_map("one"))
    api.delete(path, expect=200, dryRun="All")
    assert not api.gone(path)


def test_running_pod_gets_its_grace(api: Api, space: Space) -> None:
    path = space.core("pods", "one")
    api.post(space.core("pods"), builders.pod("one", spec={"nodeName": "node-1"}))
    api.merge(f"{path}/status", {"status": {"phase": "Running"}})
    marked = api.delete(path, expect=200)
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert marked["metadata"]["deletionTimestamp"]
    shorter = api.delete(path, gracePeriodSeconds=5)
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    assert shorter["metadata"]["deletionTimestamp"] < marked["metadata"]["deletionTimestamp"]
    api.delete(path, gracePeriodSeconds=0)
    assert api.gone(path)


def test_grace_can_be_given_in_the_body_and_by_the_pod(api: Api, space: Space) -> None:
    spec = {"nodeName": "node-1", "terminationGracePeriodSeconds": 7}
    for name in ("one", "two"):
        api.post(space.core("pods"), builders.pod(name, spec=spec))
        api.merge(space.core("pods", name, "status"), {"status": {"phase": "Running"}})
    assert api.delete(space.core("pods", "one"))["metadata"]["deletionGracePeriodSeconds"] == 7
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 9}
    assert api.delete(space.core("pods", "two"), options)["metadata"]["deletionGracePeriodSeconds"] == 9


def test_pod_that_is_on_no_node_goes_at_once(api: Api, space: Space) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    api.delete(space.core("pods", "one"))
    assert api.gone(space.core("pods", "one"))


def test_finished_pod_goes_at_once(api: Api, space: Space) -> None:
    api.post(space.core("pods"), builders.pod("one", spec={"nodeName": "node-1"}))
    api.merge(space.core("pods", "one", "status"), {"status": {"phase": "Succeeded"}})
    api.delete(space.core("pods", "one"))
    assert api.gone(space.core("pods", "one"))


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
def test_propagation_policy_becomes_a_finalizer(api: Api, space: Space, policy: str, finalizer: str) -> None:
    path = space.core("configmaps", "one")
    api.post(space.core("configmaps"), builders.config_map("one", finalizers=[FINALIZER]))
    held = api.delete(path, {"propagationPolicy": policy})
    assert set(held["metadata"]["finalizers"]) == {FINALIZER, finalizer}


def test_background_deletion_adds_no_finalizer(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one", finalizers=[FINALIZER]))
    held = api.delete(space.core("configmaps", "one"), propagationPolicy="Background")
    assert held["metadata"]["finalizers"] == [FINALIZER]


def test_unknown_propagation_policy_is_refused(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    status = api.delete(space.core("configmaps", "one"), {"propagationPolicy": "Never"}, expect=422)
    assert "propagationPolicy" in {field for _, field in wire.causes(status)}


def test_propagation_policy_and_orphan_dependents_exclude_each_other(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    both = {"propagationPolicy": "Background", "orphanDependents": True}
    assert api.delete(space.core("configmaps", "one"), both, expect=422)["reason"] == "Invalid"


def test_collection_is_deleted_by_selector(api: Api, space: Space) -> None:
    path = space.core("configmaps")
    for name, color in (("a", "red"), ("b", "red"), ("c", "blue")):
        api.post(path, builders.config_map(name, labels={"color": color}))
    answer = api.delete(path, labelSelector="color=red", expect=200)
    assert answer["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b"]
    left = api.get(path, fieldSelector="metadata.name!=kube-root-ca.crt")
    assert [item["metadata"]["name"] for item in left["items"]] == ["c"]
    api.delete(path, fieldSelector="metadata.name=c", expect=200)
    assert api.gone(f"{path}/c")


def test_dry_run_of_a_collection_deletes_nothing(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    api.delete(space.core("configmaps"), dryRun="All")
    assert not api.gone(space.core("configmaps", "one"))


def test_collection_respects_finalizers(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one", finalizers=[FINALIZER]))
    api.delete(space.core("configmaps"))
    assert api.get(space.core("configmaps", "one"))["metadata"]["deletionTimestamp"]


def test_claims_and_volumes_are_protected(api: Api, space: Space) -> None:
    claim = api.post(space.core("persistentvolumeclaims"), builders.claim())
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    volume = api.post("/api/v1/persistentvolumes", builders.local_volume())
    assert volume["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
