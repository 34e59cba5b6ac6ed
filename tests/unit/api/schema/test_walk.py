"""Taking in objects of built-in kinds: as kube-apiserver reads them."""

from __future__ import annotations

from typing import Any

import pytest

from localpv.api.schema import catalogue, walk
from localpv.api.schema.node import Node

CORE = "io.k8s.api.core.v1."


def node_of(name: str) -> Node:
    return catalogue.built_in().node(name)


def a_volume(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk-1"},
        "spec": {"capacity": {"storage": "10Gi"}, "local": {"path": "/mnt/disk-1"}, **spec},
    }


def take_in(value: dict[str, Any], name: str = CORE + "PersistentVolume", **options: Any) -> walk.Taken:
    return walk.take_in(value, node_of(name), **options)


def refused(value: dict[str, Any], name: str = CORE + "PersistentVolume") -> list[str]:
    taken = take_in(value, name)
    assert taken.undecodable == bool(taken.type_errors)
    return [error.field for error in taken.type_errors]


def test_a_proper_volume_is_taken_as_it_is() -> None:
    volume = a_volume(accessModes=["ReadWriteOnce"], volumeMode="Block")

    assert take_in(volume) == walk.Taken()
    assert volume == a_volume(accessModes=["ReadWriteOnce"], volumeMode="Block")


def test_unknown_fields_are_dropped_and_named() -> None:
    volume = a_volume(foo=1, nodeAffinity={"required": {"nodeSelectorTerms": [{"bar": {"deep": 1}}]}})
    volume["spec"]["local"]["zip"] = 1
    volume["extra"] = {}

    assert take_in(volume).unknown == [
        "spec.local.zip",
        "spec.foo",
        "spec.nodeAffinity.required.nodeSelectorTerms[0].bar",
        "extra",
    ]
    assert volume == a_volume(nodeAffinity={"required": {"nodeSelectorTerms": [{}]}})


def test_names_of_fields_are_case_sensitive() -> None:
    assert take_in(a_volume(Local={})).unknown == ["spec.Local"]


def test_paths_begin_where_the_caller_says() -> None:
    assert take_in(a_volume(foo=1), path="items[3]").unknown == ["items[3].spec.foo"]


def test_null_means_absent() -> None:
    volume = a_volume(volumeMode=None, claimRef=None, accessModes=None)

    assert take_in(volume) == walk.Taken()
    assert volume == a_volume()


def test_null_inside_a_list_or_map_is_the_zero_of_its_type() -> None:
    volume = a_volume(accessModes=[None], capacity={"storage": None})
    volume["metadata"] |= {"labels": {"a": None}, "ownerReferences": [None]}
    secret: dict[str, Any] = {"data": {"a": None}, "stringData": {"b": None}}

    assert take_in(volume) == walk.Taken()
    assert take_in(secret, CORE + "Secret") == walk.Taken()
    assert volume["spec"]["accessModes"] == [""]
    assert volume["spec"]["capacity"] == {"storage": "0"}
    assert volume["metadata"]["labels"] == {"a": ""}
    assert volume["metadata"]["ownerReferences"] == [{}]
    assert secret == {"data": {"a": None}, "stringData": {"b": ""}}


def test_empty_lists_and_maps_are_nothing_unless_they_are_required() -> None:
    volume = a_volume(mountOptions=[], capacity={}, nodeAffinity={"required": {"nodeSelectorTerms": []}}, claimRef={})

    assert take_in(volume) == walk.Taken()
    assert volume["spec"] == {
        "local": {"path": "/mnt/disk-1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": []}},
        "claimRef": {},
    }


def test_empty_lists_and_maps_stay_in_an_applied_configuration() -> None:
    volume = a_volume(mountOptions=[], capacity={})

    assert take_in(volume, keep_empty=True) == walk.Taken()
    assert volume == a_volume(mountOptions=[], capacity={})


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"storageClassName": 5}, "spec.storageClassName"),
        ({"storageClassName": ["a"]}, "spec.storageClassName"),
        ({"accessModes": "ReadWriteOnce"}, "spec.accessModes"),
        ({"accessModes": [1]}, "spec.accessModes[0]"),
        ({"local": "/mnt"}, "spec.local"),
        ({"local": []}, "spec.local"),
        ({"capacity": []}, "spec.capacity"),
        ({"capacity": {"storage": True}}, "spec.capacity.storage"),
        ({"capacity": {"storage": "ten"}}, "spec.capacity.storage"),
        ({"capacity": {"storage": ""}}, "spec.capacity.storage"),
        (
            {"nodeAffinity": {"required": {"nodeSelectorTerms": ["x"]}}},
            "spec.nodeAffinity.required.nodeSelectorTerms[0]",
        ),
        ({"hostPath": {"path": "/x"}, "csi": {"readOnly": "true"}}, "spec.csi.readOnly"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(spec: dict[str, Any], field: str) -> None:
    assert refused(a_volume(**spec)) == [field]


def test_the_message_says_what_the_type_must_be() -> None:
    [error] = take_in(a_volume(storageClassName=5)).type_errors

    assert str(error) == "spec.storageClassName: Invalid value: 5: must be of type string, not integer"


def test_a_long_wrong_value_is_not_repeated() -> None:
    [error] = take_in(a_volume(capacity={"storage": "x" * 5000})).type_errors

    assert len(error.message) < 6000
    assert error.message.startswith('Invalid value: "string"')


@pytest.mark.parametrize(
    ("given", "stored"),
    [("1024Mi", "1Gi"), (1024, "1024"), (0.5, "500m"), ("10Gi", "10Gi")],
)
def test_quantities_are_stored_in_their_canonical_form(given: Any, stored: str) -> None:
    volume = a_volume(capacity={"storage": given})

    assert take_in(volume) == walk.Taken()
    assert volume["spec"]["capacity"] == {"storage": stored}


@pytest.mark.parametrize("given", [5.0, 1.5, True, "5", 2**63, -(2**63) - 1])
def test_an_integer_is_written_as_an_integer(given: Any) -> None:
    assert refused({"metadata": {"generation": given}}) == ["metadata.generation"]


def test_integers_have_the_range_of_their_format() -> None:
    lease = "io.k8s.api.coordination.v1.Lease"

    assert refused({"spec": {"leaseDurationSeconds": 2**31}}, lease) == ["spec.leaseDurationSeconds"]
    assert refused({"spec": {"leaseDurationSeconds": 2**31 - 1}}, lease) == []
    assert refused({"metadata": {"generation": 2**63 - 1}}, lease) == []


@pytest.mark.parametrize("given", [8080, "web", ""])
def test_a_port_is_a_number_or_a_name(given: Any) -> None:
    assert refused({"spec": {"ports": [{"port": 80, "targetPort": given}]}}, CORE + "Service") == []


@pytest.mark.parametrize("given", [8080.0, True, 2**31, {}])
def test_a_port_is_nothing_else(given: Any) -> None:
    service = {"spec": {"ports": [{"port": 80, "targetPort": given}]}}

    assert refused(service, CORE + "Service") == ["spec.ports[0].targetPort"]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("2024-01-01T00:00:00.987Z", "2024-01-01T00:00:00Z"),
        ("2024-01-01T00:00:00+02:00", "2023-12-31T22:00:00Z"),
    ],
)
def test_times_are_stored_in_utc_and_whole_seconds(given: str, stored: str) -> None:
    volume = a_volume()
    volume["metadata"]["creationTimestamp"] = given

    assert take_in(volume) == walk.Taken()
    assert volume["metadata"]["creationTimestamp"] == stored


@pytest.mark.parametrize("given", ["", "foo", "2024-01-01", "2024-13-01T00:00:00Z", "2024-01-01t00:00:00z", 5])
def test_what_is_no_time_is_refused(given: Any) -> None:
    assert refused({"metadata": {"creationTimestamp": given}}) == ["metadata.creationTimestamp"]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2024-01-01T00:00:00.123456Z", "2024-01-01T00:00:00.123456Z"),
        ("2024-01-01T00:00:00.123456+02:00", "2023-12-31T22:00:00.123456Z"),
        ("2024-01-01T00:00:00,123456Z", "2024-01-01T00:00:00.123456Z"),
    ],
)
def test_times_of_a_lease_have_microseconds(given: str, stored: str) -> None:
    lease = {"spec": {"renewTime": given}}

    assert take_in(lease, "io.k8s.api.coordination.v1.Lease") == walk.Taken()
    assert lease == {"spec": {"renewTime": stored}}


@pytest.mark.parametrize(
    "given", ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.1Z", "2024-01-01T00:00:00.1234567Z", ""]
)
def test_times_of_a_lease_without_microseconds_are_refused(given: str) -> None:
    assert refused({"spec": {"renewTime": given}}, "io.k8s.api.coordination.v1.Lease") == ["spec.renewTime"]


@pytest.mark.parametrize(("given", "stored"), [("YQ==", "YQ=="), ("YR==", "YQ=="), ("Y\nQ==", "YQ=="), ("", "")])
def test_bytes_are_stored_as_canonical_base64(given: str, stored: str) -> None:
    secret = {"data": {"a": given}}

    assert take_in(secret, CORE + "Secret") == walk.Taken()
    assert secret == {"data": {"a": stored}}


@pytest.mark.parametrize("given", ["YQ=", "Y Q==", "-_-_", "YQ", "ä", 5])
def test_what_is_not_base64_is_refused(given: Any) -> None:
    assert refused({"data": {"a": given}}, CORE + "Secret") == ["data.a"]


def test_managed_fields_stay_as_they_are() -> None:
    owned = {"f:data": {".": {}, "f:a": None}}
    config = {"metadata": {"managedFields": [{"manager": "x", "fieldsV1": owned}]}}

    assert take_in(config, CORE + "ConfigMap") == walk.Taken()
    assert config == {"metadata": {"managedFields": [{"manager": "x", "fieldsV1": {"f:data": {".": {}, "f:a": None}}}]}}


def test_a_schema_inside_a_definition_is_pruned_at_every_depth() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "string", "foo": 1}}},
        "additionalProperties": {"bar": 1},
        "default": {"anything": None},
        "not": {"zip": 1},
    }

    # Where a schema may be something else as well, it is not told of, as on Kubernetes.
    assert take_in(schema, catalogue.JSON_SCHEMA).unknown == ["not.zip"]
    assert schema == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "string"}}},
        "additionalProperties": {},
        "default": {"anything": None},
        "not": {},
    }


@pytest.mark.parametrize("schema", [{"additionalProperties": True}, {"items": [{"type": "string"}]}])
def test_a_schema_may_have_something_plain_in_place_of_a_schema(schema: dict[str, Any]) -> None:
    assert take_in(schema, catalogue.JSON_SCHEMA) == walk.Taken()


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({"additionalProperties": "x"}, "additionalProperties"),
        ({"additionalProperties": []}, "additionalProperties"),
        ({"items": True}, "items"),
        ({"items": ["x"]}, "items[0]"),
        ({"dependencies": {"a": [1]}}, "dependencies.a[0]"),
    ],
)
def test_a_schema_has_nothing_else_in_place_of_a_schema(schema: dict[str, Any], field: str) -> None:
    assert refused(schema, catalogue.JSON_SCHEMA) == [field]


def test_a_schema_nested_without_end_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"not": schema}

    [error] = take_in(schema, catalogue.JSON_SCHEMA).type_errors
    assert "nested too deeply" in error.message
    while schema:  # freed level by level, for the sake of the interpreter's stack
        schema = schema.pop("not", {})


def test_built_in_defaults_are_the_few_that_kubernetes_fills_in() -> None:
    pod = {
        "spec": {
            "containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 81, "protocol": ""}]}],
            "volumes": [{"name": "v", "iscsi": {"iqn": "x"}}, {"name": "e", "emptyDir": {}}],
        }
    }
    walk.apply_defaults(pod, node_of(CORE + "Pod"))

    assert pod == {
        "spec": {
            "containers": [
                {
                    "name": "a",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81, "protocol": "TCP"}],
                }
            ],
            "volumes": [
                {"name": "v", "iscsi": {"iqn": "x", "iscsiInterface": "default"}},
                {"name": "e", "emptyDir": {}},
            ],
        }
    }
