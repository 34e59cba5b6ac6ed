"""No body that a client sends takes a parser, a patch or the tracking of owners more than its size is worth."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.linear import growth, kinds

from localpv.api import jsonpath, media_types, selectors, yamls
from localpv.api.managed import apply as server_side
from localpv.api.managed import entries, track
from localpv.api.patch import json_patch, merge_patch, strategic
from localpv.api.protobuf import encode
from localpv.api.schema import structural, walk
from localpv.engine.apiserver import body

LARGEST = 75_000
"""Bytes: a fortieth of what a body may have."""

MOST = 2_500
"""Values: a twentieth of what a body may have."""

ALIASES = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)

YAML: dict[str, Callable[[int], str]] = {
    "items": lambda size: "- a\n" * (size // 4),
    "keys": lambda size: "".join(f"k{number}: v\n" for number in range(size // 10)),
    "the same key": lambda size: "k: v\n" * (size // 5),
    "a flow of items": lambda size: "[" + "a," * (size // 2) + "]",
    "a flow of keys": lambda size: "{" + "a," * (size // 2) + "}",
    "brackets": lambda size: "[" * size,
    "braces": lambda size: "{" * size,
    "items in items": lambda size: "- " * (size // 2),
    "keys of keys": lambda size: "? " * (size // 2),
    "ever deeper keys": lambda size: "".join(" " * (number % 900) + "a:\n" for number in range(size // 450)),
    "anchors": lambda size: "".join(f"- &a{number} x\n" for number in range(size // 10)),
    "aliases": lambda size: "- &a x\n" + "- *a\n" * (size // 5),
    "aliases of aliases": lambda size: ALIASES + "#" * size,
    "merges": lambda size: "a: &a {b: 1}\nc: {<<: [" + "*a," * (size // 3) + "]}",
    "directives": lambda size: "".join(f"%TAG !a{number}! x\n" for number in range(size // 14)) + "--- a",
    "documents": lambda size: "---\n" * (size // 4),
    "a large number": lambda size: "a: " + "1" * size,
    "base sixty": lambda size: "a: 1" + ":1" * (size // 2),
    "a long fraction": lambda size: "a: 1." + "1" * size,
    "tags": lambda size: "- !!str x\n" * (size // 10),
    "a folded text": lambda size: "a: >\n" + " x\n" * (size // 3),
    "a text of empty lines": lambda size: "a: |\n" + "\n" * size,
}


@pytest.mark.parametrize("shape", YAML)
@pytest.mark.parametrize("read", [yamls.load, yamls.compose, lambda text: body.decode_yaml(text.encode())],
                         ids=["load", "compose", "body"])  # fmt: skip
def test_yaml_takes_time_in_proportion_to_its_length(shape: str, read: Callable[[str], object]) -> None:
    growth.check(YAML[shape], read, limit=LARGEST, what=f"YAML of {shape}")


JSON: dict[str, Callable[[int], str]] = {
    "items": lambda size: "[" + "0," * (size // 2) + "0]",
    "empty lists": lambda size: "[" + "[]," * (size // 3) + "0]",
    "brackets": lambda size: "[" * size + "]" * size,
    "braces": lambda size: '{"a":' * (size // 5),
    "keys": lambda size: "{" + ",".join(f'"k{number}":0' for number in range(size // 9)) + "}",
    "the same key": lambda size: "{" + ",".join(['"k":0'] * (size // 6)) + "}",
    "a key as long as all": lambda size: '{"' + "k" * size + '":{"a":0,"a":0}}',
    "twice in a long key": lambda size: '{"' + "k" * size + '":{' + ",".join(['"k":0,"k":0'] * (size // 100)) + "}}",
    "a large number": lambda size: "1" * size,
    "a long fraction": lambda size: "1." + "1" * size,
    "escapes": lambda size: '"' + "\\u0041" * (size // 6) + '"',
}


@pytest.mark.parametrize("shape", JSON)
@pytest.mark.parametrize("read", [body.decode_json, walk.duplicate_fields], ids=["decode", "duplicates"])
def test_json_takes_time_in_proportion_to_its_length(shape: str, read: Callable[[bytes], object]) -> None:
    growth.check(lambda size: JSON[shape](size).encode(), read, limit=LARGEST * 3, what=f"JSON of {shape}")


def test_what_a_strict_reader_finds_takes_time_in_proportion_to_the_body() -> None:
    node = kinds.find("pods").node

    def made(size: int) -> bytes:
        fields = ",".join(f'"k{number % 97}":"v"' for number in range(size))
        return f'{{"metadata":{{"labels":{{{fields}}}}},"odd":{{{fields}}},"spec":{{"a":[{{{fields}}}]}}}}'.encode()

    growth.check(made, lambda raw: walk.findings(raw, node), limit=MOST, what="repeated and unknown fields")


@pytest.mark.parametrize("plural", ["configmaps", "pods", "customresourcedefinitions"])
def test_protobuf_takes_time_in_proportion_to_its_length(plural: str) -> None:
    kind = kinds.find(plural)

    def made(size: int) -> bytes:
        obj: Any = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": {"name": "a"}}
        if plural == "configmaps":
            obj["data"] = {f"k{number}": "v" for number in range(size)}
        elif plural == "pods":
            obj["spec"] = {"containers": [{"name": f"c{number}"} for number in range(size)]}
        else:
            schema: Any = {"type": "string"}
            for _ in range(size):
                schema = {"type": "object", "properties": {"a": schema}}
            obj["spec"] = {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}
        return encode(obj)

    limit = MOST if plural != "customresourcedefinitions" else 100
    growth.check(made, lambda raw: body.decode(raw, media_types.PROTOBUF), limit=limit, what=f"protobuf of {plural}")


# -- objects of a custom kind, and changes to them ---------------------------------------------------------------------

FREE = structural.build({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
TYPED = structural.build(
    {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "string", "pattern": "^a+$", "enum": ["a", "b"]}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
            "any": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {
                "anyOf": [{"maximum": 3}, {"minimum": 10}], "oneOf": [{"multipleOf": 2}, {"multipleOf": 3}],
                "type": "integer"}}},
        },
    }
)  # fmt: skip


def _objects(size: int) -> dict[str, Any]:
    return {
        "list": {"list": ["a"] * size},
        "list of wrong values": {"list": ["c"] * size},
        "list of wrong types": {"list": [0] * size},
        "set": {"set": [f"a{number}" for number in range(size)]},
        "set of one value": {"set": ["a"] * size},
        "map": {"map": [{"name": f"a{number}"} for number in range(size)]},
        "map of one name": {"map": [{"name": "a"}] * size},
        "map without names": {"map": [{} for _ in range(size)]},
        "keys": {"any": {f"k{number}": {"a": 4} for number in range(size)}},
        "values below a long key": {"any": {"k" * size * 5: {f"k{number}": 7 for number in range(size)}}},
        "wrong types below a long key": {"any": {"k" * size * 5: {f"k{number}": "" for number in range(size)}}},
        "unknown fields": {f"k{number}": 0 for number in range(size)},
    }


def _metadata(**more: Any) -> dict[str, Any]:
    return {"name": "a", **more}


def _whole(obj: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "a/v1", "kind": "A", "metadata": _metadata(), **obj}


@pytest.mark.parametrize("shape", _objects(1))
@pytest.mark.parametrize("node", [FREE, TYPED], ids=["free", "typed"])
def test_taking_in_and_tracking_takes_time_in_proportion_to_the_object(shape: str, node: Any) -> None:
    def use(obj: dict[str, Any]) -> None:
        walk.take_in(obj, node)
        walk.apply_defaults(obj, node)
        walk.check_values(obj, node)
        if not shape.startswith(("list of wrong types", "map without names")):
            track.on_update(obj, None, node, manager="m", time="2026-01-01T00:00:00Z", api_version="a/v1")

    growth.check(lambda size: _whole(_objects(size)[shape]), use, limit=MOST, what=f"object with a {shape}")


@pytest.mark.parametrize("shape", _objects(1))
@pytest.mark.parametrize("node", [FREE, TYPED], ids=["free", "typed"])
def test_applying_takes_time_in_proportion_to_the_object(shape: str, node: Any) -> None:
    def use(applied: dict[str, Any]) -> None:
        rest = {"time": "2026-01-01T00:00:00Z", "api_version": "a/v1", "kind": "A"}
        live = server_side.apply(None, applied, node, manager="one", force=False, **rest)
        server_side.apply(live, {**applied}, node, manager="two", force=True, **rest)

    growth.check(lambda size: _whole(_objects(size)[shape]), use, limit=MOST // 2, what=f"apply of a {shape}")


PATCHES: dict[str, Callable[[int], tuple[Any, Any]]] = {
    "add at the front": lambda n: ({"a": [0] * n * 5}, [{"op": "add", "path": "/a/0", "value": 0}] * (n // 5)),
    "add at the end": lambda n: ({"a": []}, [{"op": "add", "path": "/a/-", "value": 0}] * n),
    "remove the first": lambda n: ({"a": [0] * n}, [{"op": "remove", "path": "/a/0"}] * n),
    "copy all": lambda n: ({"a": {"b": "c" * 9000}}, [{"op": "copy", "from": "/a", "path": "/a/d"}] * n),
    "test all": lambda n: ({"a": [0] * n}, [{"op": "test", "path": "/a", "value": [0] * n}]),
    "a long pointer": lambda n: ({"a": 0}, [{"op": "add", "path": "/a" * n, "value": 0}]),
    "tildes": lambda n: ({"a": 0}, [{"op": "add", "path": "/" + "~1~0" * n, "value": 0}]),
    "move around": lambda n: ({"a": {"b": 0}}, [{"op": "move", "from": "/a/b", "path": "/a/b"}] * n),
}


@pytest.mark.parametrize("shape", PATCHES)
def test_a_json_patch_takes_time_in_proportion_to_its_size(shape: str) -> None:
    growth.check(PATCHES[shape], lambda given: json_patch.apply(*given), limit=MOST, what=f"JSON patch: {shape}")


@pytest.mark.parametrize("shape", _objects(1))
def test_a_merge_patch_takes_time_in_proportion_to_its_size(shape: str) -> None:
    def made(size: int) -> tuple[Any, Any]:
        return _objects(size)[shape], _objects(size)[shape]

    growth.check(made, lambda given: merge_patch.apply(*given), limit=MOST * 4, what=f"merge patch of a {shape}")


STRATEGIC: dict[str, Callable[[int], Any]] = {
    "new names": lambda n: {"containers": [{"name": f"n{number}"} for number in range(n)]},
    "deletions": lambda n: {"containers": [{"$patch": "delete", "name": f"c{number}"} for number in range(n)]},
    "an order": lambda n: {"$setElementOrder/containers": [{"name": f"c{number}"} for number in range(n)]},
    "kept keys": lambda n: {"$retainKeys": [f"k{number}" for number in range(n)], **{f"k{i}": 0 for i in range(n)}},
    "a replacement": lambda n: {"containers": [{"$patch": "replace"}, *({"name": f"n{i}"} for i in range(n))]},
}


@pytest.mark.parametrize("shape", STRATEGIC)
def test_a_strategic_merge_patch_takes_time_in_proportion_to_its_size(shape: str) -> None:
    node = kinds.find("pods").node

    def made(size: int) -> tuple[Any, Any]:
        live = {"spec": {"containers": [{"name": f"c{number}"} for number in range(size)]}}
        return live, {"spec": STRATEGIC[shape](size)}

    growth.check(
        made, lambda given: strategic.strategic_merge(*given, node), limit=MOST, what=f"strategic merge: {shape}"
    )


@pytest.mark.parametrize("element", ["f:k{}", 'k:{{"name":"{}"}}', 'v:"{}"', "v:{}", "i:{}", "x{}", "v:" + "[" * 5000])
def test_reading_owners_takes_time_in_proportion_to_their_number(element: str) -> None:
    def made(size: int) -> list[Any]:
        fields = {element.format(number) if "{}" in element else element: {} for number in range(size)}
        return [
            {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
        ]

    growth.check(made, entries.read, limit=MOST * 2, what=f"fieldsV1 of {element[:20]}")


def test_many_entries_of_owners_take_time_in_proportion_to_their_number() -> None:
    def made(size: int) -> Any:
        owners = [
            {"manager": f"m{n}", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:data": {f"f:k{n}": {}}}} for n in range(size)
        ]  # fmt: skip
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata(managedFields=owners),
            "data": {f"k{n}": "v" for n in range(size * 2)},
        }

    def use(obj: Any) -> None:
        node = kinds.find("configmaps").node
        old = {**obj, "data": {}}
        track.on_update(obj, old, node, manager="m", time="2026-01-01T00:00:00Z", api_version="v1")

    growth.check(made, use, limit=MOST // 5, what="managedFields")


# -- definitions, columns, selectors -----------------------------------------------------------------------------------

SCHEMAS: dict[str, Callable[[int], Any]] = {
    "properties": lambda n: {"properties": {f"k{i}": {"type": "string"} for i in range(n)}},
    "anyOf": lambda n: {"anyOf": [{"required": [f"k{i}"]} for i in range(n)]},
    "allOf of allOf": lambda n: _nested(min(n // 100, 50)),
    "required": lambda n: {"required": [f"k{i}" for i in range(n)]},
    "an enum": lambda n: {"properties": {"a": {"type": "string", "enum": [f"k{i}" for i in range(n)]}}},
    "patterns": lambda n: {"properties": {f"k{i}": {"type": "string", "pattern": f"^a{i}$"} for i in range(n // 10)}},
    "wrong patterns": lambda n: {
        "properties": {f"k{i}": {"type": "string", "pattern": f"({i}"} for i in range(n // 10)}
    },
    "large patterns": lambda n: {
        "properties": {f"k{i}": {"type": "string", "pattern": f"\\pL{{{900 + i % 100}}}"} for i in range(n // 10)}
    },
    "defaults": lambda n: {"properties": {f"k{i}": {"type": "string", "default": "a"} for i in range(n)}},
}


def _nested(depth: int) -> Any:
    schema: Any = {"required": ["a"]}
    for _ in range(depth):
        schema = {"allOf": [schema], "anyOf": [{"required": ["b"]}]}
    return schema


@pytest.mark.parametrize("shape", SCHEMAS)
def test_the_schema_of_a_definition_takes_time_in_proportion_to_its_size(shape: str) -> None:
    def use(schema: Any) -> None:
        if not structural.validate_schema(schema):
            walk.check_values({"a": "b"}, structural.build(schema))

    growth.check(lambda n: {"type": "object", **SCHEMAS[shape](n)}, use, limit=MOST, what=f"schema with {shape}")


@pytest.mark.parametrize("path", ["..*" * 8, "..[*]" * 8, "[0,0,0]" * 12, ".*" * 30, "[?(@..a)]" * 5, ".a" * 100])
def test_a_column_takes_time_in_proportion_to_the_object(path: str) -> None:
    def made(size: int) -> Any:
        deep: Any = {"a": 1}
        for _ in range(min(size, 120)):
            deep = [deep, deep] if len(path) % 2 else [deep]
        return [deep, *[{"a": 1}] * size]

    if not path.startswith((".", "[")):
        path = "." + path
    growth.check(made, lambda obj: jsonpath.Path(path).find(obj), limit=MOST, what=f"column {path}")


def test_a_selector_in_an_object_takes_time_in_proportion_to_its_size() -> None:
    def made(size: int) -> Any:
        return {
            "matchLabels": {f"k{n}": "v" for n in range(size)},
            "matchExpressions": [{"key": f"e{n}", "operator": "In", "values": ["a", "b"]} for n in range(size)],
        }

    def use(selector: Any) -> None:
        assert not selectors.validate(selector, "a")
        selectors.from_object(selector).matches({"k0": "v"})

    growth.check(made, use, limit=MOST, what="LabelSelector")


def test_json_texts_are_what_they_say() -> None:
    """The shapes above that are meant to be valid are."""
    for shape in ("items", "empty lists", "keys", "the same key", "a key as long as all"):
        json.loads(JSON[shape](100))
