"""Which schemas a definition may have. Field by field what kube-apiserver 1.35 answers."""

from __future__ import annotations

from typing import Any

import pytest

from localpv.api.schema import structural

TEXT = {"type": "string"}
THING = {"type": "object"}


def fields_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def a_list(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **{f"x-kubernetes-{key.replace('_', '-')}": v for key, v in more.items()}}


def wrong(spec: dict[str, Any]) -> set[str]:
    """The places that are wrong, seen from the schema of `spec`."""
    prefix = "s.properties[spec]"
    errors = structural.validate_schema(fields_of(spec=spec), "s")
    if not errors:
        structural.build(fields_of(spec=spec))
    assert all(error.field.startswith(prefix) for error in errors)
    return {error.field.removeprefix(prefix).removeprefix(".") for error in errors}


@pytest.mark.parametrize(
    "spec",
    [
        fields_of(a=TEXT),
        {**fields_of(a=TEXT), "additionalProperties": True},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "additionalProperties": True},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"x-kubernetes-int-or-string": True},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {
            "x-kubernetes-int-or-string": True,
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "a"}],
        },
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        {**fields_of(a=TEXT), "anyOf": [{"properties": {"a": {"minLength": 1}}}]},
        {**fields_of(a=TEXT), "anyOf": [{"properties": {"b": {"minLength": 1}}}]},
        {**fields_of(a=TEXT), "anyOf": [{"required": ["b"]}]},
        a_list(TEXT, list_type="set"),
        a_list({**THING, "x-kubernetes-map-type": "atomic"}, list_type="set"),
        a_list(a_list(TEXT), list_type="set"),
        a_list({**fields_of(a=TEXT), "required": ["a"]}, list_type="map", list_map_keys=["a"]),
        a_list(fields_of(a={**TEXT, "default": "x"}), list_type="map", list_map_keys=["a"]),
        {"type": "string", "default": "x"},
        {"type": "integer", "default": 1.0},
        {"type": "object", "additionalProperties": {**TEXT, "default": "x"}},
        a_list({**TEXT, "default": "x"}),
        {"type": "string", "pattern": "^[a-z]+$"},
        {"type": "string", "format": "of-our-own"},
    ],
)
def test_a_structural_schema_is_accepted(spec: dict[str, Any]) -> None:
    assert wrong(spec) == set()


@pytest.mark.parametrize(
    ("spec", "places"),
    [
        ({}, {"type"}),
        ({"type": "null"}, {"type"}),
        ({"type": "text"}, {"type"}),
        ({"type": "array"}, {"items"}),
        (a_list({}), {"items.type"}),
        ({"type": "object", "additionalProperties": {}}, {"additionalProperties.type"}),
        ({**fields_of(a=TEXT), "additionalProperties": TEXT}, {"additionalProperties"}),
        (fields_of(a={}), {"properties[a].type"}),
        ({**THING, "$ref": "#/x"}, {"$ref"}),
        ({**THING, "$schema": "x"}, {"$schema"}),
        ({**THING, "id": "x"}, {"id"}),
        ({**THING, "definitions": {"a": TEXT}}, {"definitions"}),
        ({**THING, "patternProperties": {"a": TEXT}}, {"patternProperties"}),
        ({**THING, "dependencies": {"a": ["b"]}}, {"dependencies"}),
        ({**a_list(TEXT), "additionalItems": False}, {"additionalItems"}),
        ({**a_list(TEXT), "uniqueItems": True}, {"uniqueItems"}),
        ({**THING, "x-kubernetes-preserve-unknown-fields": False}, {"x-kubernetes-preserve-unknown-fields"}),
        (
            {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
            {"x-kubernetes-preserve-unknown-fields"},
        ),
        ({"type": "object", "x-kubernetes-embedded-resource": True}, {"properties"}),
        ({"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}, {"type"}),
        ({**fields_of(kind={"type": "integer"}), "x-kubernetes-embedded-resource": True}, {"properties[kind].type"}),
        ({"type": "string", "pattern": "("}, {"pattern"}),
        ({"type": "string", "pattern": "(?=a)"}, {"pattern"}),
        ({"type": "string", "pattern": r"(a)\1"}, {"pattern"}),
        ({"type": "string", "pattern": "a++"}, {"pattern"}),
    ],
)
def test_what_gives_no_shape_or_is_not_supported_is_refused(spec: dict[str, Any], places: set[str]) -> None:
    assert wrong(spec) == places


@pytest.mark.parametrize(
    ("spec", "places"),
    [
        ({**fields_of(a=TEXT), "anyOf": [{"type": "object"}]}, {"anyOf[0].type"}),
        ({**fields_of(a=TEXT), "anyOf": [{"description": "x"}]}, {"anyOf[0].description"}),
        (
            {**fields_of(a=TEXT), "allOf": [{"properties": {"a": {"default": "x"}}}]},
            {"allOf[0].properties[a].default"},
        ),
        ({"type": "string", "not": {"type": "string"}}, {"not.type"}),
        ({**fields_of(a=TEXT), "allOf": [{"nullable": True}]}, {"allOf[0].nullable"}),
        ({**fields_of(metadata=THING), "allOf": [{"properties": {"metadata": {}}}]}, {"allOf[0].properties[metadata]"}),
        ({"type": "object", "additionalProperties": TEXT, "oneOf": [{"additionalProperties": {"minLength": 1}}]},
         {"oneOf[0].additionalProperties"}),
    ],
)  # fmt: skip
def test_rules_must_not_give_a_shape(spec: dict[str, Any], places: set[str]) -> None:
    assert wrong(spec) == places


@pytest.mark.parametrize(
    ("spec", "places"),
    [
        (a_list(THING, list_type="set"), {"items.x-kubernetes-map-type"}),
        (a_list(a_list(TEXT, list_type="set"), list_type="set"), {"items.x-kubernetes-list-type"}),
        (a_list({**TEXT, "nullable": True}, list_type="set"), {"items.nullable"}),
        (a_list(TEXT, list_type="bag"), {"x-kubernetes-list-type"}),
        ({**THING, "x-kubernetes-list-type": "set"}, {"type"}),
        ({**THING, "x-kubernetes-map-type": "loose"}, {"x-kubernetes-map-type"}),
        ({**TEXT, "x-kubernetes-map-type": "atomic"}, {"type"}),
        (a_list(fields_of(a=TEXT), list_type="map"), {"x-kubernetes-list-map-keys"}),
        (a_list(fields_of(a=TEXT), list_type="map", list_map_keys=["a"]), {"items.properties[a].default"}),
        (a_list(fields_of(a=TEXT), list_type="map", list_map_keys=["b"]), {"x-kubernetes-list-map-keys"}),
        (a_list(TEXT, list_type="map", list_map_keys=["a"]), {"items.type"}),
        (a_list(TEXT, list_map_keys=["a"]), {"x-kubernetes-list-type"}),
        (a_list(TEXT, list_type="set", list_map_keys=["a"]), {"x-kubernetes-list-type"}),
        (
            a_list({**fields_of(a=THING), "required": ["a"]}, list_type="map", list_map_keys=["a"]),
            {"items.properties[a].type"},
        ),
        (
            a_list(
                {**fields_of(a={**TEXT, "nullable": True}), "required": ["a"]}, list_type="map", list_map_keys=["a"]
            ),
            {"items.properties[a].nullable"},
        ),
    ],
)
def test_lists_and_maps_must_say_how_they_merge(spec: dict[str, Any], places: set[str]) -> None:
    assert wrong(spec) == places


@pytest.mark.parametrize(
    ("spec", "places"),
    [
        ({"type": "string", "default": 5}, {"default"}),
        ({"type": "string", "enum": ["a"], "default": "b"}, {"default"}),
        ({"type": "integer", "minimum": 3, "default": 1}, {"default"}),
        ({**fields_of(a=TEXT), "default": {"b": 1}}, {"default"}),
        ({**fields_of(a=TEXT), "default": {"a": None}}, {"default"}),
        ({"type": "object", "additionalProperties": TEXT, "default": {"a": None}}, {"default"}),
        ({**fields_of(a=TEXT), "required": ["a"], "default": {}}, {"default.a"}),
        ({**fields_of(a={**TEXT, "default": "q"}), "required": ["a"], "default": {}}, {"default.a"}),
    ],
)
def test_a_default_must_be_a_value_of_its_schema(spec: dict[str, Any], places: set[str]) -> None:
    assert wrong(spec) == places


@pytest.mark.parametrize(
    ("root", "places"),
    [
        ({}, {"type"}),
        (TEXT, {"type"}),
        ({"type": "object", "nullable": True}, {"nullable"}),
        ({"type": "object", "additionalProperties": TEXT}, {"additionalProperties"}),
        (fields_of(kind={"type": "integer"}), {"properties[kind].type"}),
        (fields_of(metadata=TEXT), {"properties[metadata].type"}),
        (fields_of(metadata=fields_of(name={"type": "string", "maxLength": 5})), set()),
        (fields_of(metadata=fields_of(labels=THING)), {"properties[metadata]"}),
        (fields_of(metadata={"type": "object", "default": {}}), {"properties[metadata].default"}),
        (fields_of(kind={"type": "string", "default": "x"}), {"properties[kind].default"}),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, set()),
        ({"type": "object", "default": {}}, {"default.apiVersion", "default.kind"}),
        ({**fields_of(spec=THING), "anyOf": [{"required": ["spec"]}]}, set()),
        ({**fields_of(spec=THING), "anyOf": [{"properties": {"size": {"minimum": 1}}}]}, {"properties[size]"}),
    ],
)
def test_the_root_is_an_object_with_the_metadata_of_every_kind(root: dict[str, Any], places: set[str]) -> None:
    assert {error.field.removeprefix("s.") for error in structural.validate_schema(root, "s")} == places


def test_with_a_status_subresource_the_root_has_no_rules_across_the_object() -> None:
    root = {**fields_of(spec=THING), "anyOf": [{"required": ["spec"]}]}

    [error] = structural.validate_schema(root, "s", status_subresource=True)
    assert error.field == "s.anyOf"
    assert structural.validate_schema(fields_of(spec=THING), "s", status_subresource=True) == []


def test_rules_in_cel_are_refused_by_name_with_what_to_do() -> None:
    schema = fields_of(spec={**fields_of(a=TEXT), "x-kubernetes-validations": [{"rule": "self.a != ''"}]})

    [error] = structural.validate_schema(schema, "s")
    assert error.field == "s.properties[spec].x-kubernetes-validations"
    assert error.message.startswith("Forbidden: rules in CEL are not supported")
    assert "leave them out" in error.message


def test_a_schema_nested_without_end_is_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(3000):
        schema = {"type": "array", "items": schema}

    [error] = structural.validate_schema(fields_of(spec=schema), "s")
    assert "nested too deeply" in error.message
    while "items" in schema:
        schema = schema.pop("items")
