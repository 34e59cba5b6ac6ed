"""What holds for every object that anyone could send."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localpv.api.schema import catalogue, structural, walk
from localpv.api.schema.node import Node, Type

CORE = "io.k8s.api.core.v1."
KINDS = [CORE + "PersistentVolume", CORE + "Secret", CORE + "Service", "io.k8s.api.coordination.v1.Lease"]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "10Gi", "1024Mi", "0.5", "YQ==", "YR==", "2024-01-01T00:00:00.5+01:00"])
    | st.sampled_from(["2024-01-01T00:00:00.123456Z", "2024-01-01T00:00:00Z", "-1", "1e3", "x y"])
    | st.text(max_size=5)
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


def values_of(node: Node, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that are mostly of the schema, and now and then are not."""
    if depth > 6:
        return scalars
    match node.type:
        case Type.STRUCT:
            names = st.lists(st.sampled_from([*node.fields, "unknown"]), max_size=4, unique=True)
            right = names.flatmap(
                lambda chosen: st.fixed_dictionaries(
                    {
                        name: values_of(node.fields[name], depth + 1) if name in node.fields else anything
                        for name in chosen
                    }
                )
            )
        case Type.MAP | Type.LIST if node.items is not None:
            inner = values_of(node.items, depth + 1)
            if node.type is Type.LIST:
                right = st.lists(inner, max_size=3)
            else:
                right = st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        case _:
            right = scalars
    return st.one_of(right, right, right, right, anything)


def objects_of(node: Node) -> st.SearchStrategy[dict[str, Any]]:
    return values_of(node).filter(lambda value: isinstance(value, dict))


names = st.sampled_from(["a", "b", "c", "spec", "metadata", "kind"])


def fields_and_more(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return (
        st.builds(lambda fields: {"type": "object", "properties": fields}, st.dictionaries(names, inner, max_size=3))
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda values: {"type": "object", "additionalProperties": values}, inner)
        | st.builds(lambda schema: {**schema, "nullable": True}, inner)
        | st.builds(lambda schema, default: {**schema, "default": default}, inner, anything)
        | st.just({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    )


schemas = st.recursive(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "integer", "minimum": 0},
            {"type": "number"},
            {"type": "boolean"},
            {"type": "string", "default": "d"},
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-preserve-unknown-fields": True},
        ]
    ),
    fields_and_more,
    max_leaves=8,
)
custom_kinds = st.dictionaries(st.sampled_from(["spec", "status", "a"]), schemas, max_size=3).map(
    lambda fields: {"type": "object", "properties": fields}
)


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@settings(max_examples=60)
def test_what_was_taken_in_once_is_not_changed_again(name: str, data: st.DataObject) -> None:
    node = catalogue.built_in().node(name)
    value = data.draw(objects_of(node))
    if walk.take_in(value, node).type_errors:
        return
    once = copy.deepcopy(value)

    assert walk.take_in(value, node) == walk.Taken()
    assert value == once
    assert json.dumps(value) == json.dumps(once)


@given(schema=custom_kinds, data=st.data())
@settings(max_examples=150)
def test_an_object_of_a_custom_kind_is_stable_once_taken_in_and_defaulted(
    schema: dict[str, Any], data: st.DataObject
) -> None:
    if structural.validate_schema(schema, "s"):
        return
    node = structural.build(schema)
    value = data.draw(objects_of(node))
    if walk.take_in(value, node).type_errors:
        return
    walk.apply_defaults(value, node)
    once = copy.deepcopy(value)

    assert walk.take_in(value, node) == walk.Taken()
    walk.apply_defaults(value, node)
    assert json.dumps(value) == json.dumps(once)


@given(schema=anything)
@settings(max_examples=100)
def test_no_schema_whatsoever_breaks_the_server(schema: Any) -> None:
    if not isinstance(schema, dict):
        schema = {"default": schema}
    if walk.take_in(schema, catalogue.built_in().node(catalogue.JSON_SCHEMA)).type_errors:
        return
    if not structural.validate_schema(schema, "s"):
        assert structural.build(schema).custom


@given(data=st.data())
@settings(max_examples=150)
def test_a_schema_is_refused_or_can_be_built(data: st.DataObject) -> None:
    shape = catalogue.built_in().node(catalogue.JSON_SCHEMA)
    schema = data.draw(objects_of(shape))
    if walk.take_in(schema, shape).type_errors:
        return
    schema["type"] = "object"
    if structural.validate_schema(schema, "s"):
        return
    node = structural.build(schema)
    value = data.draw(st.dictionaries(names, anything, max_size=3))
    if not walk.take_in(value, node).type_errors:
        walk.apply_defaults(value, node)
        assert isinstance(walk.check_values(value, node), list)


@given(value=anything)
@settings(max_examples=100)
def test_a_body_that_was_written_by_an_encoder_repeats_no_field(value: Any) -> None:
    assert walk.duplicate_fields(json.dumps(value).encode()) == []
