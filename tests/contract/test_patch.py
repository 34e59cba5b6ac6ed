"""Patching: JSON patch, merge patch and strategic merge patch."""

from __future__ import annotations

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api


def test_json_patch_adds_replaces_removes_moves_and_copies(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    api.post(space.core("configmaps"), builders.config_map("one", data={"a": "1", "b": "2", "c": "3"}))
    patch = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "10"},
        {"op": "remove", "path": "/data/b"},
        {"op": "move", "from": "/data/c", "path": "/data/d"},
        {"op": "copy", "from": "/data/a", "path": "/data/e"},
        {"op": "add", "path": "/metadata/labels", "value": {"x": "z"}},
    ]
    patched = api.json_patch(path, patch, expect=200)
    assert patched["data"] == {"a": "10", "d": "3", "e": "10"}
    assert patched["metadata"]["labels"] == {"x": "z"}


def test_json_patch_escapes_slashes_in_keys(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one", annotations={"localpv.dev/a": "1"}))
    patch = [{"op": "replace", "path": "/metadata/annotations/localpv.dev~1a", "value": "2"}]
    patched = api.json_patch(space.core("configmaps", "one"), patch)
    assert patched["metadata"]["annotations"] == {"localpv.dev/a": "2"}


def test_json_patch_of_list_elements(api: Api, space: Space) -> None:
    names = ["localpv.dev/a", "localpv.dev/c"]
    api.post(space.core("configmaps"), builders.config_map("one", finalizers=names))
    patch = [
        {"op": "add", "path": "/metadata/finalizers/1", "value": "localpv.dev/b"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "localpv.dev/d"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]
    patched = api.json_patch(space.core("configmaps", "one"), patch)
    assert patched["metadata"]["finalizers"] == ["localpv.dev/b", "localpv.dev/c", "localpv.dev/d"]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/a", "value": "wrong"},
        {"op": "remove", "path": "/data/missing"},
        {"op": "replace", "path": "/nothing/here", "value": "x"},
    ],
)
def test_json_patch_that_does_not_fit_changes_nothing(api: Api, space: Space, operation: builders.Object) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one", data={"a": "1"}))
    patch = [{"op": "add", "path": "/data/b", "value": "2"}, operation]
    status = api.json_patch(space.core("configmaps", "one"), patch, expect=422)
    assert status["reason"] == "Invalid"
    assert api.get(space.core("configmaps", "one")) == made


def test_malformed_json_patch_is_a_bad_request(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    status = api.json_patch(space.core("configmaps", "one"), {"data": {}}, expect=400)
    assert status["reason"] == "BadRequest"


def test_merge_patch_merges_objects_and_null_removes(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one", data={"a": "1", "b": "2"}))
    patched = api.merge(space.core("configmaps", "one"), {"data": {"b": None, "c": "3"}}, expect=200)
    assert patched["data"] == {"a": "1", "c": "3"}


def test_merge_patch_replaces_lists(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one", finalizers=["localpv.dev/a"]))
    patched = api.merge(space.core("configmaps", "one"), {"metadata": {"finalizers": ["localpv.dev/b"]}})
    assert patched["metadata"]["finalizers"] == ["localpv.dev/b"]


def test_patch_with_a_version_is_locked(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one"))
    version = made["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "data": {"a": "1"}}
    api.merge(space.core("configmaps", "one"), patch)
    patch["data"] = {"a": "2"}
    assert api.merge(space.core("configmaps", "one"), patch, expect=409)["reason"] == "Conflict"


def test_patch_that_changes_nothing_keeps_the_version(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one", data={"a": "1"}))
    patched = api.merge(space.core("configmaps", "one"), {"data": {"a": "1"}})
    assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_patch_of_a_missing_object_is_not_found(api: Api, space: Space) -> None:
    assert api.merge(space.core("configmaps", "missing"), {}, expect=404)["reason"] == "NotFound"


def test_patched_object_is_validated(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    status = api.merge(space.core("configmaps", "one"), {"metadata": {"labels": {"a b": "c"}}}, expect=422)
    assert set(wire.causes(status)) == {("FieldValueInvalid", "metadata.labels")}


def test_patch_cannot_change_name_or_uid(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    status = api.merge(space.core("configmaps", "one"), {"metadata": {"name": "two"}}, expect=400)
    assert "does not match the name on the URL" in status["message"]
    other = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}
    status = api.merge(space.core("configmaps", "one"), other, expect=422)
    assert set(wire.causes(status)) == {("FieldValueInvalid", "metadata.uid")}
    assert "field is immutable" in status["message"]


def test_dry_run_patch_stores_nothing(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("one"))
    shown = api.merge(space.core("configmaps", "one"), {"data": {"a": "1"}}, dryRun="All")
    assert shown["data"] == {"a": "1"}
    assert api.get(space.core("configmaps", "one")) == made


def test_strict_patch_refuses_unknown_fields(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    path = space.core("configmaps", "one")
    status = api.merge(path, {"dato": {}}, fieldValidation="Strict", expect=422)
    assert 'strict decoding error: unknown field "dato"' in status["message"]


def test_unknown_patch_type_is_unsupported(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    status = api.call("PATCH", space.core("configmaps", "one"), {}, content_type="application/json", expect=415)
    assert status["reason"] == "UnsupportedMediaType"


def test_strategic_patch_merges_containers_by_name(api: Api, space: Space) -> None:
    path = space.of("apps/v1", "deployments")
    body = builders.deployment("one")
    body["spec"]["template"]["spec"]["containers"] = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]
    api.post(path, body)
    containers = [{"name": "b", "image": "b:2"}, {"name": "c", "image": "c:1"}]
    patched = api.strategic(f"{path}/one", {"spec": {"template": {"spec": {"containers": containers}}}})
    found = {entry["name"]: entry["image"] for entry in patched["spec"]["template"]["spec"]["containers"]}
    assert found == {"a": "a:1", "b": "b:2", "c": "c:1"}


def test_strategic_patch_deletes_from_a_list_by_key(api: Api, space: Space) -> None:
    path = space.of("apps/v1", "deployments")
    body = builders.deployment("one")
    body["spec"]["template"]["spec"]["containers"] = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]
    api.post(path, body)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}}}
    patched = api.strategic(f"{path}/one", patch)
    assert [entry["name"] for entry in patched["spec"]["template"]["spec"]["containers"]] == ["b"]


def test_strategic_patch_replaces_a_map_when_told(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one", data={"a": "1"}))
    patched = api.strategic(space.core("configmaps", "one"), {"data": {"$patch": "replace", "b": "2"}})
    assert patched["data"] == {"b": "2"}


def test_strategic_patch_deletes_from_a_set(api: Api, space: Space) -> None:
    names = ["localpv.dev/a", "localpv.dev/b"]
    api.post(space.core("configmaps"), builders.config_map("one", finalizers=names))
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["localpv.dev/a"]}}
    patched = api.strategic(space.core("configmaps", "one"), patch)
    assert patched["metadata"]["finalizers"] == ["localpv.dev/b"]


def test_strategic_patch_adds_to_a_set(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one", finalizers=["localpv.dev/a"]))
    patched = api.strategic(space.core("configmaps", "one"), {"metadata": {"finalizers": ["localpv.dev/b"]}})
    assert sorted(patched["metadata"]["finalizers"]) == ["localpv.dev/a", "localpv.dev/b"]


def test_strategic_patch_replaces_atomic_lists(api: Api) -> None:
    made = api.post("/api/v1/persistentvolumes", builders.local_volume(accessModes=["ReadWriteOnce"]))
    path = f"/api/v1/persistentvolumes/{made['metadata']['name']}"
    patched = api.strategic(path, {"spec": {"accessModes": ["ReadOnlyMany"]}})
    assert patched["spec"]["accessModes"] == ["ReadOnlyMany"]


def test_strategic_patch_merges_conditions_by_type(api: Api) -> None:
    name = api.post("/api/v1/nodes", builders.node())["metadata"]["name"]
    path = f"/api/v1/nodes/{name}/status"
    ready = {"type": "Ready", "status": "True", "reason": "r", "message": "m"}
    api.strategic(path, {"status": {"conditions": [ready]}})
    patched = api.strategic(path, {"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}})
    assert {entry["type"] for entry in patched["status"]["conditions"]} == {"Ready", "DiskPressure"}


def test_owner_references_merge_by_uid(api: Api, space: Space) -> None:
    owner = api.post(space.core("configmaps"), builders.config_map("owner"))
    api.post(space.core("configmaps"), builders.config_map("owned"))
    uid = owner["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    path = space.core("configmaps", "owned")
    api.strategic(path, {"metadata": {"ownerReferences": [reference]}})
    patched = api.strategic(path, {"metadata": {"ownerReferences": [reference | {"blockOwnerDeletion": True}]}})
    assert patched["metadata"]["ownerReferences"] == [reference | {"blockOwnerDeletion": True}]
