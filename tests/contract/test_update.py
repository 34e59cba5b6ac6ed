"""Updating: the optimistic lock, what cannot change, and when the generation grows."""

from __future__ import annotations

import pytest
from tests.contract import builders, custom, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api


def test_update_replaces_and_moves_the_version(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one", data={"a": "1"}))
    updated = api.put(space.core("configmaps", "one"), made | {"data": {"b": "2"}}, expect=200)
    assert updated["data"] == {"b": "2"}
    assert int(updated["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert updated["metadata"]["uid"] == made["metadata"]["uid"]
    assert updated["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


def test_update_with_an_old_version_is_a_conflict(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one"))
    api.put(space.core("configmaps", "one"), made | {"data": {"b": "2"}})
    status = api.put(space.core("configmaps", "one"), made | {"data": {"b": "3"}}, expect=409)
    assert status["reason"] == "Conflict"
    assert status["message"] == (
        'Operation cannot be fulfilled on configmaps "one": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert status["details"] == {"name": "one", "kind": "configmaps"}


def test_update_without_a_version_overwrites(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one", data={"a": "1"}))
    assert api.put(space.core("configmaps", "one"), builders.config_map("one", data={"a": "2"}))["data"] == {"a": "2"}


def test_update_without_a_version_is_refused_where_the_lock_is_compulsory(api: Api) -> None:
    definition = custom.Kind().definition()
    made = api.post(custom.DEFINITIONS, definition)
    status = api.put(f"{custom.DEFINITIONS}/{made['metadata']['name']}", definition, expect=422)
    assert ("FieldValueInvalid", "metadata.resourceVersion") in wire.causes(status)
    assert "must be specified for an update" in status["message"]


def test_update_that_changes_nothing_keeps_the_version(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one", data={"a": "1"}))
    again = api.put(space.core("configmaps", "one"), made)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_update_with_another_uid_is_a_conflict(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one"))
    made["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    status = api.put(space.core("configmaps", "one"), made, expect=409)
    assert status["reason"] == "Conflict"
    assert "Precondition failed: UID in precondition" in status["message"]


def test_name_of_the_body_must_match_the_path(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one"))
    made["metadata"]["name"] = "two"
    status = api.put(space.core("configmaps", "one"), made, expect=400)
    assert status["message"] == "the name of the object (two) does not match the name on the URL (one)"


def test_dry_run_update_stores_nothing(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one", data={"a": "1"}))
    shown = api.put(space.core("configmaps", "one"), made | {"data": {"a": "2"}}, dryRun="All")
    assert shown["data"] == {"a": "2"}
    assert api.get(space.core("configmaps", "one")) == made


def test_labels_annotations_and_finalizers_can_change(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one"))
    made["metadata"] |= {"labels": {"a": "1"}, "annotations": {"b": "2"}, "finalizers": ["contract.localpv.dev/x"]}
    metadata = api.put(space.core("configmaps", "one"), made)["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"a": "1"}, {"b": "2"})
    assert metadata["finalizers"] == ["contract.localpv.dev/x"]


def test_immutable_config_map_stays(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one", data={"a": "1"}) | {"immutable": True})
    status = api.put(space.core("configmaps", "one"), made | {"data": {"a": "2"}}, expect=422)
    assert wire.causes(status) == [("FieldValueForbidden", "data")]
    status = api.put(space.core("configmaps", "one"), made | {"immutable": False}, expect=422)
    assert ("FieldValueForbidden", "immutable") in wire.causes(status)


def test_secret_type_stays(api: Api, space: Space) -> None:
    made = api.post(space.core("secrets"), builders.secret("one", stringData={"a": "1"}))
    assert (made["type"], made["data"]) == ("Opaque", {"a": "MQ=="})
    assert "stringData" not in made
    status = api.put(space.core("secrets", "one"), made | {"type": "contract.localpv.dev/other"}, expect=422)
    assert wire.causes(status) == [("FieldValueInvalid", "type")]
    assert "field is immutable" in status["message"]


def test_generation_counts_changes_of_the_spec_alone(api: Api, space: Space) -> None:
    path = space.of("apps/v1", "deployments", "one")
    made = api.post(space.of("apps/v1", "deployments"), builders.deployment("one"))
    assert made["metadata"]["generation"] == 1
    assert api.merge(path, {"metadata": {"labels": {"a": "1"}}})["metadata"]["generation"] == 1
    assert api.merge(path, {"spec": {"replicas": 2}})["metadata"]["generation"] == 2
    assert api.merge(path, {"spec": {"replicas": 2}})["metadata"]["generation"] == 2
    assert api.merge(f"{path}/status", {"status": {"observedGeneration": 2}})["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("group_version", "plural", "body"),
    [
        ("apps/v1", "statefulsets", builders.stateful_set("one")),
        ("apps/v1", "deployments", builders.deployment("one")),
        ("batch/v1", "jobs", builders.job("one")),
    ],
)
def test_workloads_start_at_generation_one(
    api: Api, space: Space, group_version: str, plural: str, body: builders.Object
) -> None:
    assert api.post(space.of(group_version, plural), body)["metadata"]["generation"] == 1


def test_pods_start_at_generation_one_and_config_maps_have_none(api: Api, space: Space) -> None:
    assert api.post(space.core("pods"), builders.pod("one"))["metadata"]["generation"] == 1
    assert "generation" not in api.post(space.core("configmaps"), builders.config_map())["metadata"]
    assert "generation" not in api.post(space.core("persistentvolumeclaims"), builders.claim())["metadata"]


def test_selector_of_a_deployment_stays(api: Api, space: Space) -> None:
    path = space.of("apps/v1", "deployments")
    made = api.post(path, builders.deployment("one"))
    made["spec"]["selector"]["matchLabels"]["more"] = "x"
    made["spec"]["template"]["metadata"]["labels"]["more"] = "x"
    status = api.put(f"{path}/one", made, expect=422)
    assert ("FieldValueInvalid", "spec.selector") in wire.causes(status)


def test_status_of_the_body_is_ignored_by_create_and_update(api: Api, space: Space) -> None:
    path = space.of("apps/v1", "deployments")
    body = builders.deployment("one", replicas=3) | {"status": {"replicas": 7}}
    assert api.post(path, body)["status"].get("replicas") != 7
    updated = api.put(f"{path}/one", builders.deployment("one", replicas=4) | {"status": {"replicas": 7}})
    assert updated["spec"]["replicas"] == 4
    assert updated["status"].get("replicas") != 7


def test_status_update_leaves_the_spec_alone(api: Api, space: Space) -> None:
    path = space.of("apps/v1", "deployments")
    api.post(path, builders.deployment("one"), fieldManager="author")
    body = builders.deployment("one", replicas=3) | {"status": {"replicas": 7}}
    updated = api.put(f"{path}/one/status", body, fieldManager="controller")
    assert (updated["spec"]["replicas"], updated["status"]["replicas"]) == (1, 7)
    entries = {(entry["manager"], entry.get("subresource")) for entry in updated["metadata"]["managedFields"]}
    assert {("author", None), ("controller", "status")} <= entries
