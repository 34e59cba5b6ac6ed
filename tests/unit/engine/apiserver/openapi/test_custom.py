"""How the schema of a CustomResourceDefinition is published."""

from __future__ import annotations

from typing import Any

from localpv.api.resources import Resource
from localpv.engine.apiserver.openapi import documents

WIDGET = Resource(
    group="example.com", version="v1", kind="Widget", plural="widgets", namespaced=True, schema="", custom=True
)


def v3(spec: dict[str, Any]) -> Any:
    schema = {"type": "object", "properties": {"spec": spec}}
    return documents.of_kind(WIDGET, schema)["properties"]["spec"]


def v2(spec: dict[str, Any]) -> Any:
    schema = {"type": "object", "properties": {"spec": spec}}
    return documents.of_kind_v2(WIDGET, schema)["properties"]["spec"]


def test_a_kind_without_a_schema_lists_no_fields() -> None:
    assert "properties" not in documents.of_kind(WIDGET, None)
    assert "properties" not in documents.of_kind_v2(WIDGET, None)


def test_the_administrators_schema_is_not_changed() -> None:
    spec = {"type": "object", "x-kubernetes-embedded-resource": True, "nullable": True, "properties": {"a": {}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    before = repr(schema)
    documents.of_kind(WIDGET, schema)
    documents.of_kind_v2(WIDGET, schema)
    assert repr(schema) == before


def test_v3_keeps_everything_that_was_written() -> None:
    spec = {
        "type": "object",
        "description": "Words.",
        "nullable": True,
        "oneOf": [{"required": ["a"]}],
        "properties": {"a": {"type": "string", "default": "x", "pattern": "^x"}},
        "x-kubernetes-validations": [{"rule": "true"}],
    }
    assert v3(spec) == spec


def test_an_embedded_object_has_the_fields_that_every_object_has() -> None:
    spec = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"data": {"type": "string"}}}
    found = v3(spec)
    assert set(found["properties"]) == {"apiVersion", "kind", "metadata", "data"}
    assert sorted(found["required"]) == ["apiVersion", "kind"]


def test_int_or_string_is_spelled_out_in_v3() -> None:
    assert v3({"x-kubernetes-int-or-string": True})["anyOf"] == [{"type": "integer"}, {"type": "string"}]


def test_v2_shows_nothing_of_an_object_that_may_have_more_fields() -> None:
    """kubectl would refuse the fields that are not listed."""
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}}
    assert v2(spec) == {"x-kubernetes-preserve-unknown-fields": True}


def test_v2_of_a_kind_that_preserves_unknown_fields_is_any_object() -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"spec": {}}}
    found = documents.of_kind_v2(WIDGET, schema)
    assert set(found) == {"type", "x-kubernetes-group-version-kind"}


def test_v2_has_no_type_for_what_may_be_null_and_does_not_require_it() -> None:
    spec = {
        "type": "object",
        "required": ["count", "name"],
        "properties": {"count": {"type": "integer", "nullable": True}, "name": {"type": "string"}},
    }
    found = v2(spec)
    assert found["properties"]["count"] == {}
    assert found["required"] == ["name"]


def test_v2_has_no_type_for_a_list_of_unknown_things() -> None:
    assert "type" not in v2(
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-preserve-unknown-fields": True}
    )


def test_v2_leaves_out_alternatives_and_defaults_at_every_depth() -> None:
    inner = {"type": "string", "default": "x", "anyOf": [{"pattern": "x"}], "not": {"pattern": "y"}, "maxLength": 5}
    found = v2({"type": "object", "additionalProperties": {"type": "array", "items": inner}})
    assert found["additionalProperties"]["items"] == {"type": "string", "maxLength": 5}
