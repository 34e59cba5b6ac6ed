"""Creating: names, namespaces, what the server fills in, dry runs, and how strict it is about fields."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def test_created_object_gets_its_identity(api: Api, space: Space) -> None:
    answer = api.send("POST", space.core("configmaps"), builders.config_map("one", data={"a": "1"}))
    assert answer.code == 201
    made = answer.body
    assert (made["apiVersion"], made["kind"], made["data"]) == ("v1", "ConfigMap", {"a": "1"})
    metadata = made["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("one", space.name)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert TIMESTAMP.fullmatch(metadata["creationTimestamp"])
    assert int(metadata["resourceVersion"]) > 0
    assert "generation" not in metadata
    assert "selfLink" not in metadata


def test_what_the_server_owns_is_not_taken_from_the_client(api: Api, space: Space) -> None:
    sent = builders.config_map(
        uid="00000000-0000-0000-0000-000000000000",
        creationTimestamp="2001-01-01T00:00:00Z",
        deletionTimestamp="2001-01-01T00:00:00Z",
        generation=7,
        selfLink="/somewhere",
    )
    metadata = api.post(space.core("configmaps"), sent)["metadata"]
    assert metadata["uid"] != sent["metadata"]["uid"]
    assert not metadata["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in metadata
    assert "selfLink" not in metadata


def test_resource_version_must_not_be_set_on_create(api: Api, space: Space) -> None:
    answer = api.send("POST", space.core("configmaps"), builders.config_map(resourceVersion="5"))
    # Kubernetes answers 500 here; what matters is that nothing is created and that the sentence tells why.
    assert answer.code >= 400
    assert answer.body["message"] == "resourceVersion should not be set on objects to be created"


def test_second_object_of_the_same_name_already_exists(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("twice"))
    status = api.post(space.core("configmaps"), builders.config_map("twice"), expect=409)
    assert status["kind"] == "Status"
    assert (status["status"], status["reason"], status["code"]) == ("Failure", "AlreadyExists", 409)
    assert status["message"] == 'configmaps "twice" already exists'
    assert status["details"] == {"name": "twice", "kind": "configmaps"}


def test_group_is_named_when_a_grouped_kind_already_exists(api: Api, space: Space) -> None:
    api.post(space.of("coordination.k8s.io/v1", "leases"), builders.lease("twice"))
    status = api.post(space.of("coordination.k8s.io/v1", "leases"), builders.lease("twice"), expect=409)
    assert status["message"] == 'leases.coordination.k8s.io "twice" already exists'
    assert status["details"] == {"name": "twice", "group": "coordination.k8s.io", "kind": "leases"}


def test_generate_name_appends_five_characters(api: Api, space: Space) -> None:
    sent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "many-"}}
    names = {api.post(space.core("configmaps"), sent)["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(re.fullmatch(r"many-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


def test_name_wins_over_generate_name(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("plain", generateName="other-"))
    assert (made["metadata"]["name"], made["metadata"]["generateName"]) == ("plain", "other-")


def test_name_is_required(api: Api, space: Space) -> None:
    status = api.post(space.core("configmaps"), {"apiVersion": "v1", "kind": "ConfigMap"}, expect=422)
    assert status["reason"] == "Invalid"
    assert ("FieldValueRequired", "metadata.name") in wire.causes(status)
    assert "name or generateName is required" in status["message"]


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "dot.", "a/b", "a" * 254])
def test_config_map_name_is_a_subdomain(api: Api, space: Space, name: str) -> None:
    status = api.post(space.core("configmaps"), builders.config_map(name), expect=422)
    assert wire.causes(status) == [("FieldValueInvalid", "metadata.name")]
    assert status["message"].startswith(f'ConfigMap "{name}" is invalid: metadata.name: Invalid value: "{name}": ')


def test_namespace_name_is_a_label(api: Api) -> None:
    status = api.post("/api/v1/namespaces", builders.namespace("with.dot"), expect=422)
    assert wire.causes(status) == [("FieldValueInvalid", "metadata.name")]


def test_role_name_may_hold_colons(api: Api, space: Space) -> None:
    api.post(space.of("rbac.authorization.k8s.io/v1", "roles"), builders.role("system:Some_thing"))


def test_namespace_of_the_body_must_match_the_path(api: Api, space: Space) -> None:
    status = api.post(space.core("configmaps"), builders.config_map(namespace="default"), expect=400)
    assert status["reason"] == "BadRequest"
    assert status["message"] == "the namespace of the provided object does not match the namespace sent on the request"


def test_namespace_of_a_cluster_scoped_object_is_dropped(api: Api, space: Space) -> None:
    volume = builders.local_volume()
    volume["metadata"]["namespace"] = space.name
    assert "namespace" not in api.post("/api/v1/persistentvolumes", volume)["metadata"]


def test_namespace_must_exist(api: Api) -> None:
    missing = Space(builders.unique("missing"))
    status = api.post(missing.core("configmaps"), builders.config_map(), expect=404)
    assert status["reason"] == "NotFound"
    assert status["message"] == f'namespaces "{missing.name}" not found'
    assert status["details"] == {"name": missing.name, "kind": "namespaces"}


def test_kind_of_the_body_must_match_the_path(api: Api, space: Space) -> None:
    status = api.post(space.core("configmaps"), builders.secret(), expect=400)
    assert status["reason"] == "BadRequest"
    assert "Secret in version" in status["message"]


def test_kind_of_the_body_may_be_left_out(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), {"metadata": {"name": "bare"}})
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")


def test_dry_run_validates_and_stores_nothing(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map("maybe"), expect=201, dryRun="All")
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    assert api.gone(space.core("configmaps", "maybe"))
    api.post(space.core("configmaps"), builders.config_map("Wrong"), expect=422, dryRun="All")


def test_dry_run_knows_only_all(api: Api, space: Space) -> None:
    status = api.post(space.core("configmaps"), builders.config_map(), expect=422, dryRun="Some")
    assert wire.causes(status) == [("FieldValueNotSupported", "dryRun")]


def test_strict_validation_refuses_unknown_and_duplicate_fields(api: Api, space: Space) -> None:
    unknown = builders.config_map() | {"dato": {}}
    status = api.post(space.core("configmaps"), unknown, expect=400, fieldValidation="Strict")
    assert status["reason"] == "BadRequest"
    assert 'strict decoding error: unknown field "dato"' in status["message"]
    twice = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1"},"data":{"a":"2"}}'
    status = api.post(space.core("configmaps"), twice, expect=400, fieldValidation="Strict")
    assert 'strict decoding error: duplicate field "data"' in status["message"]


def test_unknown_fields_deep_inside_are_named_with_their_path(api: Api, space: Space) -> None:
    pod = builders.pod(spec={"containers": [{"name": "main", "image": "x", "imag": "y"}]})
    status = api.post(space.core("pods"), pod, expect=400, fieldValidation="Strict")
    assert 'unknown field "spec.containers[0].imag"' in status["message"]


def test_warn_is_the_default_and_drops_the_unknown_field(api: Api, space: Space) -> None:
    answer = api.send("POST", space.core("configmaps"), builders.config_map() | {"dato": {}})
    assert answer.code == 201
    assert answer.warnings == '299 - "unknown field \\"dato\\""'
    assert "dato" not in answer.body


def test_ignore_is_silent(api: Api, space: Space) -> None:
    sent = builders.config_map() | {"dato": {}}
    answer = api.send("POST", space.core("configmaps"), sent, fieldValidation="Ignore")
    assert (answer.code, answer.warnings) == (201, "")
    assert "dato" not in answer.body


def test_field_validation_has_three_values(api: Api, space: Space) -> None:
    status = api.post(space.core("configmaps"), builders.config_map(), expect=422, fieldValidation="Lax")
    assert wire.causes(status) == [("FieldValueNotSupported", "fieldValidation")]


def test_null_is_the_same_as_absent(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), {"metadata": {"name": "null", "labels": None}, "data": None})
    assert "data" not in made
    assert "labels" not in made["metadata"]


def test_field_of_the_wrong_type_is_a_bad_request(api: Api, space: Space) -> None:
    status = api.post(space.core("configmaps"), {"metadata": {"name": "x"}, "data": {"a": 1}}, expect=400)
    assert status["reason"] == "BadRequest"
    assert "data" in status["message"]


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"a b": "c"}}, "metadata.labels"),
        ({"labels": {"ok": "not ok"}}, "metadata.labels"),
        ({"annotations": {"a b": "c"}}, "metadata.annotations"),
        ({"annotations": {"big": "x" * (256 * 1024)}}, "metadata.annotations"),
        ({"finalizers": ["no-domain"]}, "metadata.finalizers"),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x"}]}, "metadata.ownerReferences.uid"),
    ],
)
def test_metadata_is_validated(api: Api, space: Space, metadata: dict[str, Any], field: str) -> None:
    status = api.post(space.core("configmaps"), builders.config_map(**metadata), expect=422)
    assert any(path.startswith(field) for _, path in wire.causes(status)), status


def test_field_manager_is_recorded(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map(data={"a": "1"}), fieldManager="me")
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("me", "Update", "v1")
    assert entry["fieldsType"] == "FieldsV1"
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}
    assert TIMESTAMP.fullmatch(entry["time"])


def test_field_manager_defaults_to_the_first_word_of_the_user_agent(api: Api, space: Space) -> None:
    made = api.post(space.core("configmaps"), builders.config_map(data={"a": "1"}))
    assert [entry["manager"] for entry in made["metadata"]["managedFields"]] == ["contract"]


def test_put_to_a_missing_object_is_not_found(api: Api, space: Space) -> None:
    status = api.put(space.core("configmaps", "fresh"), builders.config_map("fresh"), expect=404)
    assert status["reason"] == "NotFound"


def test_put_of_a_lease_creates_it(api: Api, space: Space) -> None:
    answer = api.send("PUT", space.of("coordination.k8s.io/v1", "leases", "fresh"), builders.lease("fresh"))
    assert answer.code == 201
