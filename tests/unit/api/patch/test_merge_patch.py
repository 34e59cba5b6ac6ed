"""Merge patch follows RFC 7386, with the one habit of kube-apiserver that objects inside lists lose their nulls."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv import errors
from localpv.api.patch import merge_patch


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "foo"}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({}, {"a": [{"b": None, "c": 1}, None]}, {"a": [{"c": 1}, None]}),
        ({"a": {"b": 1}}, {}, {"a": {"b": 1}}),
    ],
)
def test_a_patch_gives_the_result_that_kubernetes_gives(
    original: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]
) -> None:
    assert merge_patch.apply(original, patch) == result


@pytest.mark.parametrize("patch", [None, [], 5, "x"])
def test_a_patch_that_is_no_object_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(errors.BadRequest):
        merge_patch.apply({}, patch)


scalars = st.one_of(st.booleans(), st.integers(-3, 3), st.text("ab", max_size=2))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)
)
objects = st.dictionaries(st.text("ab", max_size=2), values, max_size=4)
with_nulls = st.dictionaries(st.text("ab", max_size=2), st.none() | values, max_size=4)


@given(objects, objects)
def test_the_difference_of_two_objects_makes_one_out_of_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = copy.deepcopy((old, new))
    assert merge_patch.apply(old, merge_patch.diff(old, new)) == new
    assert merge_patch.diff(old, old) == {}
    assert (old, new) == before


@given(objects, with_nulls)
def test_a_patch_applied_twice_is_a_patch_applied_once(original: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch.apply(original, patch)
    assert merge_patch.apply(once, patch) == once


def containers(value: Any) -> set[int]:
    if isinstance(value, dict):
        return {id(value)}.union(*map(containers, value.values()))
    return {id(value)}.union(*map(containers, value)) if isinstance(value, list) else set()


@given(objects, with_nulls)
def test_the_result_shares_nothing_that_could_be_changed(original: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((original, patch))
    result = merge_patch.apply(original, patch)
    assert not containers(result) & (containers(original) | containers(patch))
    assert (original, patch) == before


@given(objects, with_nulls)
def test_written_into_an_object_a_patch_gives_the_same(original: dict[str, Any], patch: dict[str, Any]) -> None:
    expected = merge_patch.apply(original, patch)
    assert merge_patch.apply_to(original, patch) == expected
