"""Sets of fields as JSON, and the algebra on them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.api.managed.things import thing, thing_node

from localpv.api.managed import fieldset
from localpv.api.managed.fieldset import FieldSet
from localpv.api.schema.catalogue import built_in

NAMES = st.sampled_from(
    ["f:a", "f:b", "f:c", 'k:{"name":"x"}', 'k:{"port":80,"protocol":"TCP"}', 'k:{"port":9}', "v:1", 'v:"z"']
)
PATHS = st.lists(st.lists(NAMES, min_size=1, max_size=4).map(tuple), max_size=8).map(frozenset)


def from_paths(paths: frozenset[tuple[str, ...]]) -> FieldSet:
    built: FieldSet = {}
    for path in sorted(paths):
        one: FieldSet = {}
        for name in reversed(path):
            one = {name: one}
        built = fieldset.union(built, one)
    return built


def to_paths(fields: FieldSet) -> frozenset[tuple[str, ...]]:
    return frozenset(fieldset.paths(fields))


def is_printed_in_order(fields: FieldSet) -> bool:
    return list(fields) == list(fieldset.sort(fields)) and all(map(is_printed_in_order, fields.values()))


@given(PATHS)
def test_set_survives_the_wire(paths: frozenset[tuple[str, ...]]) -> None:
    fields = from_paths(paths)

    assert to_paths(fields) == paths
    assert fieldset.parse(fieldset.encode(fields)) == fields
    assert is_printed_in_order(fieldset.encode(fields))


@given(PATHS, PATHS)
def test_union_difference_and_intersection_are_those_of_sets(
    a: frozenset[tuple[str, ...]], b: frozenset[tuple[str, ...]]
) -> None:
    one, two = from_paths(a), from_paths(b)

    assert to_paths(fieldset.union(one, two)) == a | b
    assert to_paths(fieldset.difference(one, two)) == a - b
    assert to_paths(fieldset.intersection(one, two)) == a & b
    assert to_paths(one) == a, "sets do not change once made"
    assert to_paths(two) == b
    assert is_printed_in_order(fieldset.union(one, two))


@given(PATHS, PATHS)
def test_nothing_below_a_recursively_removed_field_is_left(
    a: frozenset[tuple[str, ...]], b: frozenset[tuple[str, ...]]
) -> None:
    left = to_paths(fieldset.recursive_difference(from_paths(a), from_paths(b)))

    assert left == {path for path in a if not any(path[: len(gone)] == gone for gone in b)}


@given(PATHS)
def test_difference_with_nothing_in_common_is_the_very_same_set(paths: frozenset[tuple[str, ...]]) -> None:
    fields = from_paths(paths)

    assert fieldset.difference(fields, {"f:other": {}}) is fields
    assert not fieldset.difference(fields, fields)


def test_elements_are_printed_numbers_before_text() -> None:
    names = ['v:"b"', "v:10", "v:9", 'k:{"port":443}', 'k:{"port":80}', "f:z", "i:2", ".", 'v:"a"', "v:true"]

    assert list(fieldset.sort({name: {} for name in names})) == [
        ".", "f:z", 'k:{"port":80}', 'k:{"port":443}', "v:9", "v:10", 'v:"a"', 'v:"b"', "v:true", "i:2",
    ]  # fmt: skip


def test_keys_are_read_in_any_order_and_written_in_one() -> None:
    fields = fieldset.parse({"f:ports": {'k:{"protocol":"TCP", "port":80}': {".": {}, "f:port": {}}}})

    assert fields == {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}}


def test_elements_of_an_unknown_kind_are_dropped() -> None:
    assert fieldset.parse({"x:new": {}, "f:a": {}, ".": {}}) == {"f:a": {}}


@pytest.mark.parametrize(
    "fields", [[], "f:a", {"a": {}}, {"fa": {}}, {"f:a": 1}, {"k:{": {}}, {"k:1": {}}, {"i:x": {}}]
)
def test_what_is_no_field_set_is_refused(fields: Any) -> None:
    with pytest.raises(fieldset.NotAFieldSet):
        fieldset.parse(fields)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a<b>&", r'v:"a\u003cb\u003e\u0026"'),
        ('say "hi"\n', r'v:"say \"hi\"\n"'),
        ("naïve", 'v:"naïve"'),
        (80, "v:80"),
        (80.0, "v:80"),
        (1.5, "v:1.5"),
        (True, "v:true"),
        (False, "v:false"),
    ],
)
def test_values_are_written_as_kubernetes_writes_them(value: Any, written: str) -> None:
    assert fieldset.by_value(value) == written
    assert fieldset.canonical(written) == written


def test_paths_are_shown_to_people() -> None:
    path = ("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}', "f:list", 'v:"x"', "i:3")

    assert fieldset.shown(path) == '.spec.ports[port=80,protocol="TCP"].list[="x"][3]'


def test_applied_object_mentions_its_leaves() -> None:
    spec = {
        "text": "t",
        "struct": {"x": "1"},
        "whole": {"x": "1"},
        "map": {"k": "v"},
        "list": ["a"],
        "set": ["b", "a"],
        "named": [{"name": "n", "value": "v"}],
        "ports": [{"port": 443}, {"port": 80, "protocol": "UDP"}],
        "free": {"deep": {"leaf": 1}, "list": [1]},
    }

    assert fieldset.of(thing(spec, labels={"l": "m"}, uid="u"), thing_node()) == {
        "f:metadata": {"f:labels": {"f:l": {}}},
        "f:spec": {
            "f:free": {"f:deep": {".": {}, "f:leaf": {}}, "f:list": {}},
            "f:list": {},
            "f:map": {"f:k": {}},
            "f:named": {'k:{"name":"n"}': {".": {}, "f:name": {}, "f:value": {}}},
            "f:ports": {
                'k:{"port":80,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}},
                'k:{"port":443,"protocol":"TCP"}': {".": {}, "f:port": {}},
            },
            "f:set": {'v:"a"': {}, 'v:"b"': {}},
            "f:struct": {"f:x": {}},
            "f:text": {},
            "f:whole": {},
        },
    }


def test_empty_maps_are_mentioned_and_empty_lists_of_elements_are_not() -> None:
    spec: dict[str, Any] = {"map": {}, "struct": {}, "set": [], "named": [], "list": [], "text": None}

    assert fieldset.of(thing(spec), thing_node()) == {
        "f:spec": {"f:list": {}, "f:map": {}, "f:struct": {}, "f:text": {}}
    }


def test_nobody_owns_what_makes_an_object_the_one_it_is() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "n", "namespace": "s", "uid": "u", "resourceVersion": "1", "generation": 1},
    }

    assert fieldset.of(obj, built_in().node("io.k8s.api.core.v1.ConfigMap")) == {}


def test_container_ports_are_named_by_the_defaulted_protocol() -> None:
    pod = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}], "imagePullSecrets": [{}]}}

    spec = fieldset.of(pod, built_in().node("io.k8s.api.core.v1.Pod"))["f:spec"]

    ports = spec["f:containers"]['k:{"name":"c"}']["f:ports"]
    assert list(ports) == ['k:{"containerPort":80,"protocol":"TCP"}']
    assert spec["f:imagePullSecrets"] == {'k:{"name":""}': {}}
