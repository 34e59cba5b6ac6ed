"""Server-side apply: who owns which field, conflicts, and giving fields up."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api


def _managers(made: Any) -> dict[tuple[str, str, str | None], Any]:
    return {
        (entry["manager"], entry["operation"], entry.get("subresource")): entry["fieldsV1"]
        for entry in made["metadata"]["managedFields"]
    }


def test_apply_creates_and_records_the_manager(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    body = builders.config_map("one", data={"a": "1"}, labels={"l": "x"})
    made = api.apply(path, body, manager="alice", expect=201)
    assert _managers(made) == {
        ("alice", "Apply", None): {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}
    }
    again = api.apply(path, body, manager="alice", expect=200)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_apply_takes_yaml(api: Api, space: Space) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  a: '1'\n"
    assert api.apply(space.core("configmaps", "one"), text)["data"] == {"a": "1"}


def test_fields_that_are_no_longer_applied_go(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    api.apply(path, builders.config_map("one", data={"a": "1", "b": "2"}))
    assert api.apply(path, builders.config_map("one", data={"b": "2"}))["data"] == {"b": "2"}


def test_field_of_another_manager_is_a_conflict(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    api.apply(path, builders.config_map("one", data={"a": "1"}), manager="alice")
    status = api.apply(path, builders.config_map("one", data={"a": "2"}), manager="bob", expect=409)
    assert status["reason"] == "Conflict"
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "alice": .data.a'
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "alice"', "field": ".data.a"}
    ]


def test_conflict_with_an_update_names_operation_and_version(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    api.post(space.core("configmaps"), builders.config_map("one", data={"a": "1"}), fieldManager="editor")
    status = api.apply(path, builders.config_map("one", data={"a": "2"}), manager="bob", expect=409)
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.a'


def test_several_conflicts_are_counted(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    api.apply(path, builders.config_map("one", data={"a": "1", "b": "1"}), manager="alice")
    status = api.apply(path, builders.config_map("one", data={"a": "2", "b": "2"}), manager="bob", expect=409)
    assert status["message"].startswith('Apply failed with 2 conflicts: conflicts with "alice":')
    assert {cause["field"] for cause in status["details"]["causes"]} == {".data.a", ".data.b"}


def test_force_takes_the_field(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    api.apply(path, builders.config_map("one", data={"a": "1", "b": "1"}), manager="alice")
    made = api.apply(path, builders.config_map("one", data={"a": "2"}), manager="bob", force="true")
    assert made["data"] == {"a": "2", "b": "1"}
    assert _managers(made) == {
        ("alice", "Apply", None): {"f:data": {"f:b": {}}},
        ("bob", "Apply", None): {"f:data": {"f:a": {}}},
    }


def test_same_value_is_shared_without_conflict(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    for manager in ("alice", "bob"):
        made = api.apply(path, builders.config_map("one", data={"a": "1"}), manager=manager)
    assert set(_managers(made)) == {("alice", "Apply", None), ("bob", "Apply", None)}
    # A field with two owners stays when one of them gives it up.
    made = api.apply(path, builders.config_map("one"), manager="alice")
    assert made["data"] == {"a": "1"}
    made = api.apply(path, builders.config_map("one"), manager="bob")
    assert "data" not in made


def test_update_takes_over_what_it_changes(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    api.apply(path, builders.config_map("one", data={"a": "1", "b": "1"}), manager="alice")
    made = api.merge(path, {"data": {"a": "2"}}, fieldManager="editor")
    assert _managers(made) == {
        ("alice", "Apply", None): {"f:data": {"f:b": {}}},
        ("editor", "Update", None): {"f:data": {"f:a": {}}},
    }


def test_apply_needs_a_manager(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    body = builders.config_map("one")
    status = api.call("PATCH", path, body, content_type=wire.APPLY_PATCH, expect=422)
    assert wire.causes(status) == [("FieldValueRequired", "fieldManager")]


def test_force_belongs_to_apply_alone(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    status = api.merge(space.core("configmaps", "one"), {}, force="true", expect=422)
    assert ("FieldValueForbidden", "force") in wire.causes(status)


def test_applied_body_must_not_carry_managed_fields(api: Api, space: Space) -> None:
    entry = {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}
    body = builders.config_map("one", managedFields=[entry])
    status = api.apply(space.core("configmaps", "one"), body, expect=400)
    assert "metadata.managedFields must be nil" in status["message"]


def test_applied_body_must_name_its_kind(api: Api, space: Space) -> None:
    status = api.apply(space.core("configmaps", "one"), {"metadata": {"name": "one"}}, expect=400)
    assert status["reason"] == "BadRequest"


def test_apply_merges_lists_by_key(api: Api, space: Space) -> None:
    path = space.of("apps/v1", "deployments", "one")
    body = builders.deployment("one")
    body["spec"]["template"]["spec"]["containers"] = [{"name": "a", "image": "a:1"}]
    api.apply(path, body, manager="alice")
    other = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "one"},
        "spec": {"template": {"spec": {"containers": [{"name": "b", "image": "b:1"}]}}},
    }
    made = api.apply(path, other, manager="bob")
    assert [entry["name"] for entry in made["spec"]["template"]["spec"]["containers"]] == ["a", "b"]
    owned = _managers(made)[("bob", "Apply", None)]
    containers = owned["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert containers == {'k:{"name":"b"}': {".": {}, "f:image": {}, "f:name": {}}}
    # What bob stops applying goes, what alice applied stays.
    other["spec"] = {}
    made = api.apply(path, other, manager="bob")
    assert [entry["name"] for entry in made["spec"]["template"]["spec"]["containers"]] == ["a"]


def test_apply_of_a_set_adds_to_it(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    api.apply(path, builders.config_map("one", finalizers=["localpv.dev/a"]), manager="alice")
    made = api.apply(path, builders.config_map("one", finalizers=["localpv.dev/b"]), manager="bob")
    assert made["metadata"]["finalizers"] == ["localpv.dev/a", "localpv.dev/b"]
    finalizers = _managers(made)[("bob", "Apply", None)]["f:metadata"]["f:finalizers"]
    assert finalizers == {'v:"localpv.dev/b"': {}}


def test_apply_of_status_is_kept_apart(api: Api, space: Space) -> None:
    path = space.of("apps/v1", "deployments", "one")
    api.apply(path, builders.deployment("one"), manager="alice")
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "one"}, "status": {"replicas": 3}}
    made = api.apply(f"{path}/status", body, manager="controller")
    assert made["status"]["replicas"] == 3
    assert _managers(made)[("controller", "Apply", "status")] == {"f:status": {"f:replicas": {}}}
    assert ("alice", "Apply", None) in _managers(made)


def test_apply_to_the_object_ignores_status(api: Api, space: Space) -> None:
    path = space.of("apps/v1", "deployments", "one")
    made = api.apply(path, builders.deployment("one") | {"status": {"replicas": 3}})
    assert "replicas" not in made["status"]
    assert "f:status" not in _managers(made)[("contract", "Apply", None)]


def test_apply_with_an_old_version_is_a_conflict(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    made = api.apply(path, builders.config_map("one", data={"a": "1"}))
    api.apply(path, builders.config_map("one", data={"a": "2"}))
    old = builders.config_map("one", data={"a": "3"}, resourceVersion=made["metadata"]["resourceVersion"])
    assert api.apply(path, old, expect=409)["reason"] == "Conflict"


def test_dry_run_apply_stores_nothing(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    shown = api.apply(path, builders.config_map("one", data={"a": "1"}), dryRun="All")
    assert shown["data"] == {"a": "1"}
    assert api.gone(path)


@pytest.mark.parametrize("value", [[], [{}]])
def test_managed_fields_can_be_reset(api: Api, space: Space, value: list[Any]) -> None:
    path = space.core("configmaps", "one")
    made = api.post(space.core("configmaps"), builders.config_map("one", data={"a": "1"}))
    assert made["metadata"]["managedFields"]
    patched = api.merge(path, {"metadata": {"managedFields": value}})
    assert not patched["metadata"].get("managedFields")


def test_quantities_that_are_equal_do_not_conflict(api: Api) -> None:
    name = builders.unique("volume")
    path = f"/api/v1/persistentvolumes/{name}"
    api.apply(path, builders.local_volume(name, capacity={"storage": "1Gi"}), manager="alice")
    api.apply(path, builders.local_volume(name, capacity={"storage": "1Gi"}), manager="bob")
    status = api.apply(path, builders.local_volume(name, capacity={"storage": "2Gi"}), manager="bob", expect=409)
    assert [cause["field"] for cause in status["details"]["causes"]] == [".spec.capacity.storage"]
