"""JSON patch does what kube-apiserver does with it, and refuses the rest by name."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv import errors
from localpv.api.patch import json_patch

CONFIG = {"metadata": {"labels": {"a/b": "1", "c~d": "2"}, "finalizers": ["x", "y"]}, "data": {"k": "v"}}


def patched(*operations: dict[str, Any]) -> Any:
    before = copy.deepcopy((CONFIG, operations))
    result = json_patch.apply(CONFIG, list(operations))
    assert (CONFIG, operations) == before, "neither the original nor the patch may change"
    return result


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


def test_add_sets_a_key_and_inserts_into_a_list() -> None:
    assert patched(op("add", "/data/n", value="w"))["data"] == {"k": "v", "n": "w"}
    assert patched(op("add", "/metadata/finalizers/0", value="w"))["metadata"]["finalizers"] == ["w", "x", "y"]
    assert patched(op("add", "/metadata/finalizers/2", value="w"))["metadata"]["finalizers"] == ["x", "y", "w"]
    assert patched(op("add", "/metadata/finalizers/-", value="w"))["metadata"]["finalizers"] == ["x", "y", "w"]
    assert patched(op("add", "/metadata/finalizers/-1", value="w"))["metadata"]["finalizers"] == ["x", "y", "w"]


def test_remove_takes_a_key_or_an_element_away() -> None:
    assert patched(op("remove", "/data/k"))["data"] == {}
    assert patched(op("remove", "/metadata/finalizers/0"))["metadata"]["finalizers"] == ["y"]


def test_replace_sets_a_value_even_where_there_was_no_key() -> None:
    assert patched(op("replace", "/data/k", value="w"))["data"] == {"k": "w"}
    assert patched(op("replace", "/data/n", value="w"))["data"] == {"k": "v", "n": "w"}
    assert patched(op("replace", "/metadata/finalizers/1", value="w"))["metadata"]["finalizers"] == ["x", "w"]
    assert patched(op("replace", "", value={"a": 1})) == {"a": 1}


def test_move_and_copy_carry_values_around() -> None:
    assert patched(op("move", "/data/n", **{"from": "/data/k"}))["data"] == {"n": "v"}
    assert patched(op("copy", "/data/n", **{"from": "/data/k"}))["data"] == {"k": "v", "n": "v"}
    assert patched(op("copy", "/data/n", **{"from": "/data/zz"}))["data"] == {"k": "v", "n": None}


def test_a_copy_leads_its_own_life() -> None:
    result = patched(op("copy", "/other", **{"from": "/data"}), op("add", "/other/x", value="y"))
    assert (result["data"], result["other"]) == ({"k": "v"}, {"k": "v", "x": "y"})


def test_pointers_escape_slash_and_tilde() -> None:
    result = patched(op("remove", "/metadata/labels/a~1b"), op("replace", "/metadata/labels/c~0d", value="3"))
    assert result["metadata"]["labels"] == {"c~d": "3"}


def test_a_test_that_holds_lets_the_rest_through() -> None:
    assert patched(op("test", "/data", value={"k": "v"}), op("remove", "/data/k"))["data"] == {}
    assert patched(op("test", "/data/zz", value=None)) == CONFIG
    assert patched(op("test", "/data/zz")) == CONFIG
    assert patched(op("test", "", value=CONFIG)) == CONFIG


@pytest.mark.parametrize(
    "operation",
    [
        op("test", "/data/k", value="w"),
        op("test", "/zz/zz", value=1),
        op("remove", "/data/zz"),
        op("add", "/zz/zz", value=1),
        op("add", "/metadata/finalizers/5", value="w"),
        op("remove", "/metadata/finalizers/x"),
        op("remove", "/metadata/finalizers/-"),
        op("replace", "/metadata/finalizers/2", value="w"),
        op("add", "", value={}),
        op("remove", ""),
        op("replace", "", value="x"),
        op("frob", "/data/k"),
        {"path": "/data/k"},
        {"op": "add", "value": 1},
        op("move", "/data/n"),
        op("move", "/data/n", **{"from": "/data/zz"}),
        op("add", "data/k", value="w"),
        op("move", "/data/k/in", **{"from": "/data"}),
        op("add", "/data/k/deeper", value=1),
        op("copy", "/a", **{"from": ""}),
    ],
)
def test_a_patch_that_does_not_fit_is_invalid_and_names_the_operation(operation: dict[str, Any]) -> None:
    with pytest.raises(errors.Invalid, match="operation 1"):
        patched(op("add", "/data/first", value="1"), operation)


@pytest.mark.parametrize("patch", [{}, {"op": "add"}, 5, "x", [1], [None], [op("add", 5, value=1)], [{"op": 1}]])  # type: ignore[arg-type]
def test_a_patch_of_another_form_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(errors.BadRequest):
        json_patch.apply(CONFIG, patch)


def test_no_operations_change_nothing() -> None:
    assert json_patch.apply(CONFIG, []) == CONFIG
    assert json_patch.apply(CONFIG, None) == CONFIG
    assert json_patch.apply(CONFIG, []) is not CONFIG


def test_true_is_not_one() -> None:
    with pytest.raises(errors.Invalid):
        json_patch.apply({"a": True}, [op("test", "/a", value=1)])


def test_too_many_operations_are_too_large() -> None:
    with pytest.raises(errors.TooLarge):
        json_patch.apply({}, [op("test", "/a")] * 10_001)


def test_copying_cannot_fill_the_memory() -> None:
    doubling = [op("copy", f"/a/{index}", **{"from": "/a"}) for index in range(64)]
    with pytest.raises(errors.Invalid, match="too much"):
        json_patch.apply({"a": {"x": "y"}}, doubling)


def test_endless_nesting_is_a_bad_request() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(errors.BadRequest, match="nested"):
        json_patch.apply({}, [op("add", "/a", value=deep)])
    while deep:  # taken apart by hand: letting go of it at once would recurse as deeply
        deep = deep["a"]


scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text("ab/~", max_size=3))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
)
objects = st.dictionaries(st.text("ab/~", max_size=2), values, max_size=4)


def difference(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """Operations that make `new` out of `old`."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in sorted(old.keys() | new.keys()):
            at = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in new:
                found.append(op("remove", at))
            elif key not in old:
                found.append(op("add", at, value=new[key]))
            else:
                found.extend(difference(old[key], new[key], at))
        return found
    if isinstance(old, list) and isinstance(new, list):
        removed = [op("remove", f"{path}/0")] * len(old)
        return removed + [op("add", f"{path}/-", value=value) for value in new]
    return [op("replace", path, value=new)]


@given(objects, objects)
def test_the_difference_of_two_objects_makes_one_out_of_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = copy.deepcopy(old)
    operations = difference(old, new)
    assert json_patch.apply(old, operations) == new
    assert old == before


@given(
    objects,
    st.lists(
        st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])},
            optional={"path": st.text("/ab01-~", max_size=6), "from": st.text("/ab01-", max_size=6), "value": values},
        ),
        max_size=4,
    ),
)
def test_any_patch_works_or_is_refused_and_never_touches_its_input(
    original: dict[str, Any], patch: list[dict[str, Any]]
) -> None:
    before = copy.deepcopy((original, patch))
    try:
        result = json_patch.apply(original, patch)
    except errors.Invalid as refusal:
        assert "operation" in refusal.message
    else:
        assert result is not original
    assert (original, patch) == before
