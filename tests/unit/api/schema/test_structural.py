"""Objects of custom kinds: pruned, defaulted and checked by the schema of their definition, as kube-apiserver does."""

from __future__ import annotations

from typing import Any

import pytest

from localpv.api.schema import structural, walk
from localpv.api.schema.node import ListKind, Node, Type

TEXT = {"type": "string"}

SPEC: dict[str, Any] = {
    "need": TEXT,
    "size": {"type": "integer", "minimum": 1, "maximum": 10},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "list": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3},
    "nulls": {"type": "array", "items": {"type": "string", "nullable": True}},
    "filled": {"type": "array", "items": {"type": "string", "default": "d"}},
    "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    "disks": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": TEXT, "mode": {"type": "string", "default": "Block"}},
        },
    },
    "map": {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2},
    "nullable": {"type": "string", "nullable": True},
    "default": {"type": "string", "default": "D"},
    "both": {"type": "string", "nullable": True, "default": "D"},
    "object": {"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "A"}}},
    "port": {"x-kubernetes-int-or-string": True},
    "phase": {"type": "string", "enum": ["Available", "Bound"]},
    "level": {"type": "integer", "enum": [1, 2]},
    "name": {"type": "string", "pattern": "^a+$", "minLength": 2, "maxLength": 4},
    "open": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"known": {"type": "object", "properties": {"a": TEXT}}},
    },
    "anything": {"x-kubernetes-preserve-unknown-fields": True},
    "template": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"spec": {"type": "object", "properties": {"a": TEXT}}},
    },
    "half": {"type": "number", "multipleOf": 0.5},
    "between": {"type": "number", "minimum": 1, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": True},
    "one": {
        "type": "object",
        "properties": {"a": TEXT, "b": TEXT},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "any": {
        "type": "object",
        "properties": {"a": TEXT, "b": TEXT},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "all": {"type": "string", "allOf": [{"minLength": 2}, {"pattern": "^a"}]},
    "not": {"type": "string", "not": {"enum": ["x"]}},
    "when": {"type": "string", "format": "date-time"},
}

SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "required": ["need"], "properties": SPEC}}}

FILLED_IN = {"default": "D", "both": "D", "object": {"a": "A"}}


@pytest.fixture(scope="module")
def node() -> Node:
    assert structural.validate_schema(SCHEMA) == []
    return structural.build(SCHEMA)


def an_object(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Disk",
        "metadata": {"name": "x"},
        "spec": {"need": "n", **spec},
    }


def stored(node: Node, **spec: Any) -> dict[str, Any]:
    """The spec as the server keeps it, without what is always filled in."""
    obj = an_object(**spec)
    taken = walk.take_in(obj, node)
    walk.apply_defaults(obj, node)
    assert taken.type_errors + walk.check_values(obj, node) == []
    return {key: value for key, value in obj["spec"].items() if key != "need" and (key, value) not in FILLED_IN.items()}


def refused(node: Node, **spec: Any) -> list[str]:
    """What is wrong, as `field reason`."""
    obj = an_object(**spec)
    taken = walk.take_in(obj, node)
    assert not taken.undecodable
    walk.apply_defaults(obj, node)
    errors = taken.type_errors + walk.check_values(obj, node)
    return [f"{error.field} {error.reason.removeprefix('FieldValue')}" for error in errors]


def test_defaults_are_filled_in_at_every_depth(node: Node) -> None:
    obj = an_object(disks=[{"name": "a"}])
    walk.apply_defaults(obj, node)

    assert obj["spec"] == {"need": "n", **FILLED_IN, "disks": [{"name": "a", "mode": "Block"}]}


def test_a_default_is_not_shared_between_objects(node: Node) -> None:
    first, second = an_object(), an_object()
    walk.apply_defaults(first, node)
    first["spec"]["object"]["a"] = "changed"
    walk.apply_defaults(second, node)

    assert second["spec"]["object"] == {"a": "A"}


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"size": None}, {}),
        ({"default": None}, {}),
        ({"nullable": None}, {"nullable": None}),
        ({"both": None}, {"both": None}),
        ({"object": None}, {}),
        ({"object": {"a": None}}, {}),
        ({"object": {"b": 1}}, {}),
        ({"nulls": [None]}, {"nulls": [None]}),
        ({"filled": [None]}, {"filled": ["d"]}),
        ({"map": {"a": None, "b": 1}}, {"map": {"b": 1}}),
        ({"anything": None}, {}),
        ({"anything": {"a": None}}, {"anything": {"a": None}}),
        ({"anything": [None, 1.5]}, {"anything": [None, 1.5]}),
        ({"open": {"x": None, "known": {"b": 1}}}, {"open": {"x": None, "known": {}}}),
        ({"size": 1.0}, {"size": 1}),
        ({"level": 1.0}, {"level": 1}),
        ({"number": 1}, {"number": 1}),
        ({"port": 80}, {"port": 80}),
        ({"port": "web"}, {"port": "web"}),
        ({"half": 1.5}, {"half": 1.5}),
        ({"between": 3}, {"between": 3}),
        ({"one": {"a": "x"}}, {"one": {"a": "x"}}),
        ({"all": "ab"}, {"all": "ab"}),
        ({"not": "y"}, {"not": "y"}),
        ({"disks": [{"name": "a", "x": 1}]}, {"disks": [{"name": "a", "mode": "Block"}]}),
    ],
)
def test_what_is_allowed_is_kept_and_the_rest_pruned(node: Node, spec: dict[str, Any], kept: dict[str, Any]) -> None:
    assert stored(node, **spec) == kept


@pytest.mark.parametrize("given", ["string", 1.5, True, {}, [], 2**63])
def test_a_size_is_an_integer(node: Node, given: Any) -> None:
    assert "spec.size TypeInvalid" in refused(node, size=given)


def test_the_message_of_a_wrong_type_is_that_of_kubernetes(node: Node) -> None:
    [error] = walk.take_in(an_object(size="big"), node).type_errors

    assert error.message == 'Invalid value: "string": spec.size in body must be of type integer: "string"'


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"need": None}, ["spec.need Required"]),
        ({"size": 0}, ["spec.size Invalid"]),
        ({"size": 11}, ["spec.size Invalid"]),
        ({"number": "x"}, ["spec.number TypeInvalid"]),
        ({"flag": 1}, ["spec.flag TypeInvalid"]),
        ({"list": "a"}, ["spec.list TypeInvalid"]),
        ({"list": ["a", 1]}, ["spec.list[1] TypeInvalid"]),
        ({"list": [None]}, ["spec.list[0] TypeInvalid"]),
        ({"list": []}, ["spec.list Invalid"]),
        ({"list": ["a"] * 4}, ["spec.list TooMany"]),
        ({"set": ["a", "b", "a", "a"]}, ["spec.set[2] Duplicate"]),
        ({"disks": [{"name": "a"}, {"name": "a"}]}, ["spec.disks[1] Duplicate"]),
        ({"disks": [{}]}, ["spec.disks[0].name Required"]),
        ({"disks": ["x"]}, ["spec.disks[0] TypeInvalid"]),
        ({"map": {"a": "x"}}, ["spec.map.a TypeInvalid"]),
        ({"map": {"a": None}}, ["spec.map Invalid"]),
        ({"map": {"a": 1, "b": 2, "c": 3}}, ["spec.map TooMany"]),
        ({"map": []}, ["spec.map TypeInvalid"]),
        ({"nullable": 5}, ["spec.nullable TypeInvalid"]),
        ({"port": 1.5}, ["spec.port TypeInvalid"]),
        ({"port": True}, ["spec.port TypeInvalid"]),
        ({"phase": "Lost"}, ["spec.phase NotSupported"]),
        ({"phase": 5}, ["spec.phase TypeInvalid", "spec.phase NotSupported"]),
        ({"level": 3}, ["spec.level NotSupported"]),
        ({"level": True}, ["spec.level TypeInvalid", "spec.level NotSupported"]),
        ({"name": "b"}, ["spec.name Invalid"]),
        ({"name": "bb"}, ["spec.name Invalid"]),
        ({"name": "aaaaa"}, ["spec.name TooLong"]),
        ({"name": "aa\n"}, ["spec.name Invalid"]),
        ({"half": 0.75}, ["spec.half Invalid"]),
        ({"between": 1}, ["spec.between Invalid"]),
        ({"between": 5}, ["spec.between Invalid"]),
        ({"one": {}}, ["spec.one Invalid", "spec.one.a Required"]),
        ({"one": {"a": "x", "b": "y"}}, ["spec.one Invalid"]),
        ({"any": {}}, ["spec.any Invalid", "spec.any.a Required"]),
        ({"all": "b"}, ["spec.all Invalid", "spec.all Invalid"]),
        ({"not": "x"}, ["spec.not Invalid"]),
        ({"when": "today"}, ["spec.when TypeInvalid"]),
        ({"template": {}}, ["spec.template.apiVersion Required", "spec.template.kind Required"]),
    ],
)
def test_what_breaks_a_rule_is_refused(node: Node, spec: dict[str, Any], errors: list[str]) -> None:
    assert refused(node, **spec) == errors


def test_unknown_fields_are_dropped_and_named_in_order(node: Node) -> None:
    obj = {**an_object(zip=1, disks=[{"name": "a", "y": 1}]), "foo": 1}
    obj["metadata"]["bar"] = 1

    assert walk.take_in(obj, node).unknown == ["metadata.bar", "foo", "spec.disks[0].y", "spec.zip"]
    assert obj == an_object(disks=[{"name": "a"}])


@pytest.mark.parametrize("metadata", ["x", {"name": 5}, {"labels": {"a": 1}}, {"creationTimestamp": "foo"}])
def test_wrong_metadata_makes_the_whole_body_unreadable(node: Node, metadata: Any) -> None:
    taken = walk.take_in({**an_object(), "metadata": metadata}, node)

    assert taken.undecodable
    assert len(taken.type_errors) == 1


def test_an_object_inside_an_object_has_metadata_of_its_own(node: Node) -> None:
    inner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "foo": 1},
        "spec": {"a": "b", "c": 1},
        "zip": 1,
    }
    obj = an_object(template=inner)

    assert walk.take_in(obj, node).unknown == [
        "spec.template.spec.c",
        "spec.template.zip",
        "spec.template.metadata.foo",
    ]
    assert obj["spec"]["template"] == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"a": "b"}}
    assert walk.take_in(an_object(template={"apiVersion": 1, "kind": "Pod"}), node).undecodable


def test_apiversion_kind_and_metadata_are_always_known() -> None:
    node = structural.build({"type": "object"})
    obj = {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x", "labels": {"a": None}}, "spec": {}}

    assert walk.take_in(obj, node).unknown == ["spec"]
    assert obj == {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x", "labels": {"a": ""}}}


def test_a_schema_may_narrow_the_name() -> None:
    name = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}
    node = structural.build({"type": "object", "properties": {"metadata": name}})

    [error] = walk.check_values({"metadata": {"name": "long"}}, node)
    assert error.field == "metadata.name"
    assert walk.check_values({"metadata": {"name": "abc"}}, node) == []


def test_a_whole_object_may_keep_unknown_fields() -> None:
    node = structural.build({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    obj = {"metadata": {"name": "x", "foo": 1}, "spec": {"a": None}}

    assert walk.take_in(obj, node).unknown == ["metadata.foo"]
    assert obj == {"metadata": {"name": "x"}, "spec": {"a": None}}


def test_nodes_know_how_lists_and_maps_merge(node: Node) -> None:
    spec = node.fields["spec"].fields

    assert (spec["disks"].list_kind, spec["disks"].list_keys) == (ListKind.MAP, ("name",))
    assert spec["set"].list_kind is ListKind.SET
    assert spec["list"].list_kind is ListKind.ATOMIC
    assert spec["map"].type is Type.MAP
    atomic = structural.build(
        {"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-map-type": "atomic"}}}
    )
    assert atomic.fields["a"].atomic
    assert not spec["object"].atomic
