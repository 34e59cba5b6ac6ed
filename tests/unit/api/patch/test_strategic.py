"""Strategic merge patch gives what kube-apiserver gives for the same object and the same patch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv import errors
from localpv.api.patch.strategic import strategic_merge
from localpv.api.schema.node import Node, Type

STRING, NUMBER = Node(type=Type.STRING), Node(type=Type.INTEGER)


def struct(**fields: Node) -> Node:
    return Node(type=Type.STRUCT, fields=fields)


def merging(key: str, element: Node) -> Node:
    return Node(type=Type.LIST, items=element, patch_strategy=("merge",), patch_merge_key=key)


STRINGS = Node(type=Type.LIST, items=STRING)
MERGED_STRINGS = Node(type=Type.LIST, items=STRING, patch_strategy=("merge",))
LABELS = Node(type=Type.MAP, items=STRING)
CONTAINER = struct(
    name=STRING,
    image=STRING,
    args=STRINGS,
    env=merging("name", struct(name=STRING, value=STRING)),
    ports=merging("containerPort", struct(containerPort=NUMBER, protocol=STRING)),
)
POD = struct(
    metadata=struct(name=STRING, labels=LABELS, finalizers=MERGED_STRINGS),
    spec=struct(
        containers=merging("name", CONTAINER),
        volumes=Node(
            type=Type.LIST,
            items=struct(name=STRING, emptyDir=struct(), hostPath=struct(path=STRING)),
            patch_strategy=("merge", "retainKeys"),
            patch_merge_key="name",
        ),
        tolerations=Node(type=Type.LIST, items=struct(key=STRING)),
        strategy=struct(type=STRING, rollingUpdate=struct(maxSurge=NUMBER)),
    ),
)


def containers(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, "image": f"image-{name}", **more} for name in names]


def merged(original: dict[str, Any], patch: Any, node: Node = POD) -> dict[str, Any]:
    before = copy.deepcopy((original, patch))
    result = strategic_merge(original, patch, node)
    assert (original, patch) == before, "neither the original nor the patch may change"
    return result


def merged_spec(spec: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = merged({"spec": spec}, {"spec": patch})["spec"]
    return result


def merged_names(spec: dict[str, Any], patch: dict[str, Any]) -> list[str]:
    return [container["name"] for container in merged_spec(spec, patch)["containers"]]


def test_objects_merge_and_null_removes() -> None:
    original = {"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}}
    assert merged(original, {"metadata": {"labels": {"x": None, "z": "3"}}}) == {
        "metadata": {"name": "a", "labels": {"y": "2", "z": "3"}}
    }
    assert merged(original, {"metadata": {"labels": None}}) == {"metadata": {"name": "a"}}


def test_elements_merge_by_their_key() -> None:
    result = merged_spec({"containers": containers("a", "b")}, {"containers": [{"name": "b", "image": "new"}]})
    assert result["containers"] == [{"name": "a", "image": "image-a"}, {"name": "b", "image": "new"}]


def test_new_elements_come_first_and_known_ones_stay_where_they_are() -> None:
    spec = {"containers": containers("a", "b")}
    assert merged_names(spec, {"containers": containers("c")}) == ["c", "a", "b"]
    assert merged_names(spec, {"containers": containers("b", "c")}) == ["a", "b", "c"]
    assert merged_names(spec, {"containers": containers("b", "a")}) == ["b", "a"]


def test_lists_merge_inside_merged_elements() -> None:
    spec = {"containers": containers("a", env=[{"name": "E", "value": "1"}, {"name": "F", "value": "2"}])}
    patch = {"containers": [{"name": "a", "env": [{"name": "F", "value": "3"}]}]}
    assert merged_spec(spec, patch)["containers"][0]["env"] == [
        {"name": "E", "value": "1"},
        {"name": "F", "value": "3"},
    ]


def test_of_two_elements_with_the_same_key_the_first_is_patched() -> None:
    spec = {"containers": containers("a", ports=[{"containerPort": 53, "protocol": p} for p in ("TCP", "UDP")])}
    patch = {"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "SCTP"}]}]}
    assert [port["protocol"] for port in merged_spec(spec, patch)["containers"][0]["ports"]] == ["SCTP", "UDP"]


def test_lists_without_a_strategy_are_replaced() -> None:
    spec = {"containers": containers("a", args=["x", "y"]), "tolerations": [{"key": "a"}]}
    result = merged_spec(spec, {"containers": [{"name": "a", "args": ["z"]}], "tolerations": [{"key": "b"}]})
    assert (result["containers"][0]["args"], result["tolerations"]) == (["z"], [{"key": "b"}])


def test_plain_values_with_the_merge_strategy_are_united() -> None:
    original = {"metadata": {"finalizers": ["a", "b"]}}
    assert merged(original, {"metadata": {"finalizers": ["b", "c"]}})["metadata"]["finalizers"] == ["a", "b", "c"]


def test_values_can_be_deleted_from_a_list_of_plain_values() -> None:
    original = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}}
    assert merged(original, patch)["metadata"] == {"finalizers": ["c", "b"]}
    assert merged({"metadata": {}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}) == {"metadata": {}}


def test_elements_can_be_deleted_and_lists_replaced_by_directive() -> None:
    spec = {"containers": containers("a", "b")}
    assert merged_names(spec, {"containers": [{"name": "a", "$patch": "delete"}]}) == ["b"]
    assert merged_names(spec, {"containers": [{"name": "zz", "$patch": "delete"}]}) == ["a", "b"]
    assert merged_names(spec, {"containers": [{"$patch": "replace"}, *containers("c")]}) == ["c"]


def test_objects_can_be_replaced_and_emptied_by_directive() -> None:
    original = {"metadata": {"name": "a", "labels": {"x": "1"}}}
    assert merged(original, {"metadata": {"labels": {"$patch": "replace", "y": "2"}}})["metadata"]["labels"] == {
        "y": "2"
    }
    assert merged(original, {"metadata": {"labels": {"$patch": "delete"}}})["metadata"]["labels"] == {}


def test_retain_keys_clears_the_fields_it_leaves_out() -> None:
    spec = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    assert merged_spec(spec, {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}})["strategy"] == {
        "type": "Recreate"
    }
    volumes = {"volumes": [{"name": "v", "emptyDir": {}}]}
    patch = {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/a"}}]}
    assert merged_spec(volumes, patch)["volumes"] == [{"name": "v", "hostPath": {"path": "/a"}}]


def test_the_order_of_elements_can_be_set() -> None:
    spec = {"containers": containers("a", "b", "c")}
    order = [{"name": "c"}, {"name": "a"}]
    assert merged_names(spec, {"$setElementOrder/containers": order}) == ["b", "c", "a"]
    assert merged_names(spec, {"$setElementOrder/containers": [{"name": "c"}, {"name": "n"}],
                               "containers": containers("n")}) == ["a", "b", "c", "n"]  # fmt: skip
    assert merged(
        {"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"$setElementOrder/finalizers": ["b", "a"]}}
    ) == {"metadata": {"finalizers": ["b", "a"]}}


def test_an_element_that_replaces_a_deleted_one_comes_after_those_of_the_server() -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "new"}],
        "containers": [*containers("new"), {"name": "old", "$patch": "delete"}],
    }
    assert merged_names({"containers": containers("old", "sidecar")}, patch) == ["sidecar", "new"]


def test_what_was_not_there_is_added_without_nulls_and_directives() -> None:
    patch = {"containers": [{"name": "a", "image": None}, {"name": "b", "$patch": "delete"}]}
    assert merged_spec({}, patch) == {"containers": [{"name": "a"}]}
    assert merged({}, {"metadata": {"$patch": "replace", "name": "a"}}) == {}


def test_unknown_fields_merge_as_plain_objects() -> None:
    original = {"odd": {"a": 1, "list": [1]}}
    assert merged(original, {"odd": {"b": 2, "list": [2]}}) == {"odd": {"a": 1, "b": 2, "list": [2]}}


def test_no_patch_changes_nothing() -> None:
    original = {"spec": {"containers": containers("a")}}
    assert merged(original, None) == original == merged(original, {})


@pytest.mark.parametrize(
    "patch",
    [
        [],
        5,
        {"metadata": {"$patch": "frob"}},
        {"metadata": {"$retainKeys": 5}},
        {"metadata": {"$retainKeys": ["name"], "labels": {"a": "b"}}},
        {"metadata": {"$setElementOrder/finalizers": 5}},
        {"metadata": {"$setElementOrder": ["a"]}},
        {"metadata": {"$deleteFromPrimitiveList": ["a"]}},
        {"metadata": {"finalizers": ["c"], "$setElementOrder/finalizers": ["a"]}},
        {"metadata": {"finalizers": [["a"]]}},
        {"metadata": {"finalizers": [{"a": "b"}]}},
        {"metadata": {"finalizers": [None]}},
        {"metadata": {"$setElementOrder/labels": ["x"]}},
        {"metadata": {"$setElementOrder/finalizers": [["x"]]}},
        {"spec": {"containers": [{"image": "x"}]}},
        {"spec": {"containers": [{"name": {"a": "b"}}]}},
        {"spec": {"containers": [{"$patch": "delete"}]}},
        {"spec": {"containers": [{"name": "a", "$patch": "merge"}]}},
        {"spec": {"$setElementOrder/containers": [{"image": "a"}]}},
        {"spec": {"$deleteFromPrimitiveList/containers": [{"name": "a"}]}},
    ],
)
def test_a_patch_that_makes_no_sense_is_a_bad_request(patch: Any) -> None:
    original = {
        "metadata": {"name": "p", "labels": {"x": "y"}, "finalizers": ["a", "b"]},
        "spec": {"containers": containers("a")},
    }
    with pytest.raises(errors.BadRequest):
        merged(original, patch)


names = st.sampled_from("abcd")
elements = st.dictionaries(names, st.dictionaries(st.sampled_from(["image", "x"]), st.sampled_from("12"))).map(
    lambda found: [{"name": name, **fields} for name, fields in found.items()]
)


@given(elements, elements)
def test_merging_lists_is_merging_each_element_by_its_key(
    old: list[dict[str, Any]], patch: list[dict[str, Any]]
) -> None:
    result = merged_spec({"containers": old}, {"containers": patch})["containers"]
    expected = {each["name"]: each for each in old}
    for each in patch:
        expected[each["name"]] = {**expected.get(each["name"], {}), **each}
    assert {each["name"]: each for each in result} == expected
    assert len(result) == len(expected)


@given(elements, elements)
def test_a_merged_list_keeps_the_order_of_the_patch_and_of_the_rest(
    old: list[dict[str, Any]], patch: list[dict[str, Any]]
) -> None:
    result = merged_names({"containers": old}, {"containers": patch})
    named = [each["name"] for each in patch]
    assert [name for name in result if name in named] == named
    others = [each["name"] for each in old if each["name"] not in named]
    assert [name for name in result if name not in named] == others


@given(elements, elements)
def test_a_patch_applied_twice_is_a_patch_applied_once(old: list[dict[str, Any]], patch: list[dict[str, Any]]) -> None:
    once = merged({"spec": {"containers": old}}, {"spec": {"containers": patch}})
    assert merged(once, {"spec": {"containers": patch}}) == once
