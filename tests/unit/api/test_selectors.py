"""Selectors choose the objects that kube-apiserver would choose, and refuse what it refuses."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv import errors
from localpv.api import selectors
from localpv.api.selectors import FieldSelector, FieldTerm, LabelSelector, Operator, Requirement


@pytest.mark.parametrize(
    ("text", "labels", "chosen"),
    [
        ("a=b", {"a": "b"}, True), ("a==b", {"a": "b"}, True), ("a=b", {"a": "c"}, False), ("a=b", {}, False),
        ("a!=b", {"a": "c"}, True), ("a!=b", {}, True), ("a!=b", {"a": "b"}, False), ("a=", {"a": ""}, True),
        ("a in (x,y)", {"a": "y"}, True), ("a in (x,y)", {"a": "z"}, False), ("a in (x,y)", {}, False),
        ("a notin (x)", {"a": "y"}, True), ("a notin (x)", {}, True), ("a notin (x)", {"a": "x"}, False),
        ("a in ()", {"a": ""}, True), ("a in (,x)", {"a": ""}, True), ("a in (x,)", {"a": "x"}, True),
        ("a", {"a": ""}, True), ("a", {}, False), ("!a", {}, True), ("!a", {"a": ""}, False), ("! a", {}, True),
        ("a>5", {"a": "6"}, True), ("a>5", {"a": "5"}, False), ("a<5", {"a": "4"}, True), ("a>5", {"a": "x"}, False),
        ("a>5", {}, False), ("a=b,c", {"a": "b", "c": ""}, True), ("a=b,c", {"a": "b"}, False),
        ("in in (in,notin)", {"in": "notin"}, True), ("example.com/a=b", {"example.com/a": "b"}, True),
        ("", {}, True), ("  ", {"a": "b"}, True), (" a = b , ! c ", {"a": "b"}, True),
    ],
)  # fmt: skip
def test_label_selectors_choose_by_labels(text: str, labels: dict[str, str], chosen: bool) -> None:
    assert selectors.parse(text).matches(labels) is chosen


@pytest.mark.parametrize(
    "text",
    [
        ",", "a,", ",a", "=b", "a=b=c", "a b", "a in", "a in x", "a in (x", "a in (x y)", "a=(b)", "!a=b", "!!a", "!",
        "a===b", "a>x", "a>", "a>99999999999999999999", "-a", "a=-b", "a=ä", "a/b/c=d", "a=" + "x" * 64,
        "a in (x))", "()",
    ],
)  # fmt: skip
def test_label_selectors_that_make_no_sense_are_bad_requests(text: str) -> None:
    with pytest.raises(errors.BadRequest) as refusal:
        selectors.parse(text)
    assert text in refusal.value.message


def test_an_object_without_labels_is_one_with_no_labels() -> None:
    assert selectors.parse("!a").matches(None)
    assert not selectors.parse("a").matches(None)


def test_an_index_can_use_equality_only() -> None:
    selector = selectors.parse("a=b,c in (d),e in (f,g),h!=i")
    assert [selector.requires(key) for key in "acehz"] == ["b", "d", None, None, None]


def test_only_a_selector_without_conditions_is_empty() -> None:
    assert selectors.parse("").empty and selectors.parse(None).empty and selectors.from_object({}).empty
    assert not selectors.parse("a").empty
    assert not selectors.NOTHING.empty


def test_no_selector_in_an_object_chooses_nothing_and_an_empty_one_everything() -> None:
    assert not selectors.from_object(None).matches({"a": "b"})
    assert selectors.from_object({}).matches({"a": "b"})
    assert selectors.from_labels(None).matches({})
    assert selectors.from_labels({"a": "b"}).requires("a") == "b"


def test_a_selector_in_an_object_needs_labels_and_expressions() -> None:
    selector = selectors.from_object(
        {
            "matchLabels": {"a": "b"},
            "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["x", "y"]},
                {"key": "d", "operator": "DoesNotExist"},
                {"key": "e", "operator": "Exists"},
                {"key": "f", "operator": "NotIn", "values": ["z"]},
            ],
        }
    )
    assert selector.matches({"a": "b", "c": "x", "e": ""})
    assert not selector.matches({"a": "b", "c": "x", "e": "", "f": "z"})
    assert not selector.matches({"a": "b", "c": "x", "e": "", "d": ""})
    assert str(selector) == "a=b,c in (x,y),!d,e,f notin (z)"


@pytest.mark.parametrize(
    ("selector", "field", "reason"),
    [
        ({"matchLabels": {"-": "a"}}, "s.matchLabels", "FieldValueInvalid"),
        ({"matchLabels": {"a": "-"}}, "s.matchLabels", "FieldValueInvalid"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "s.matchExpressions[0].values", "FieldValueRequired"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
         "s.matchExpressions[0].values", "FieldValueForbidden"),
        ({"matchExpressions": [{"key": "a", "operator": "Gt"}]}, "s.matchExpressions[0].operator", "FieldValueInvalid"),
        ({"matchExpressions": [{"key": "", "operator": "Exists"}]}, "s.matchExpressions[0].key", "FieldValueInvalid"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["a", "-"]}]},
         "s.matchExpressions[0].values[1]", "FieldValueInvalid"),
    ],
)  # fmt: skip
def test_a_wrong_selector_in_an_object_names_the_field(selector: dict[str, Any], field: str, reason: str) -> None:
    assert [(error.field, error.reason) for error in selectors.validate(selector, "s")] == [(field, reason)]


def test_a_sound_selector_in_an_object_passes() -> None:
    assert selectors.validate(None, "s") == []
    assert selectors.validate({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, "s") == []


@pytest.mark.parametrize(
    ("text", "values", "chosen"),
    [
        ("metadata.name=x", {"metadata.name": "x"}, True), ("metadata.name==x", {"metadata.name": "y"}, False),
        ("a!=x", {"a": "y"}, True), ("a!=x", {"a": "x"}, False), ("a!=x", {}, True), ("a=", {}, True),
        ("a=x,b!=y", {"a": "x", "b": "y"}, False), (r"a=x\,y\=z\\", {"a": "x,y=z\\"}, True),
        (",,a=x,", {"a": "x"}, True),
        ("=", {"a": "x"}, True),
    ],
)  # fmt: skip
def test_field_selectors_choose_by_fields(text: str, values: dict[str, str], chosen: bool) -> None:
    assert selectors.parse_fields(text).matches(values) is chosen


@pytest.mark.parametrize("text", ["a", "a,b=c", r"a=\b", "a=b=c", "a=b\\", "\\"])
def test_field_selectors_that_make_no_sense_are_bad_requests(text: str) -> None:
    with pytest.raises(errors.BadRequest):
        selectors.parse_fields(text)


def test_a_field_that_a_kind_does_not_offer_is_refused_by_name() -> None:
    selectors.parse_fields("metadata.name=a").check(["metadata.name"])
    with pytest.raises(errors.BadRequest, match='"foo" is not a known field selector'):
        selectors.parse_fields("foo=a").check(["metadata.name"])


def test_a_field_selector_tells_the_value_it_insists_on() -> None:
    selector = selectors.parse_fields("metadata.name=a,b!=c")
    assert selector.requires("metadata.name") == "a"
    assert selector.requires("b") is None
    assert selectors.parse_fields("").empty and selectors.parse_fields(None).empty


keys = st.sampled_from(["a", "b", "in", "notin", "example.com/c"])
values = st.sampled_from(["", "x", "y", "in", "1", "10"])
label_sets = st.dictionaries(keys, values)
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(Requirement, keys, st.sampled_from([Operator.EQUALS, Operator.NOT_EQUALS]),
              values.map(lambda value: frozenset({value}))),
    st.builds(Requirement, keys, st.sampled_from([Operator.GREATER, Operator.LESS]), st.just(frozenset({"5"}))),
    st.builds(Requirement, keys, st.sampled_from([Operator.IN, Operator.NOT_IN]), st.frozensets(values, min_size=1)),
)  # fmt: skip


@given(st.lists(requirements).map(LabelSelector))
def test_a_label_selector_survives_being_written_and_read(selector: LabelSelector) -> None:
    assert selectors.parse(str(selector)).requirements == selector.requirements


@given(st.lists(requirements), label_sets)
def test_a_selector_is_the_conjunction_of_its_requirements(each: list[Requirement], labels: dict[str, str]) -> None:
    assert LabelSelector(each).matches(labels) is all(requirement.matches(labels) for requirement in each)


@given(keys, st.frozensets(values, min_size=1), label_sets)
def test_opposite_operators_split_all_objects_in_two(key: str, some: frozenset[str], labels: dict[str, str]) -> None:
    for one, other in [(Operator.IN, Operator.NOT_IN), (Operator.EXISTS, Operator.DOES_NOT_EXIST)]:
        assert Requirement(key, one, some).matches(labels) is not Requirement(key, other, some).matches(labels)


@given(st.text("ab=!(),<> \\inot.-1", max_size=20), label_sets)
def test_no_text_does_more_than_be_refused(text: str, labels: dict[str, str]) -> None:
    for parse in (selectors.parse, selectors.parse_fields):
        try:
            selector = parse(text)
        except errors.BadRequest as refusal:
            assert text in refusal.message
        else:
            assert selector.matches(labels) in (True, False)


@given(st.lists(st.builds(FieldTerm, st.text("ab.", min_size=1), st.text("x,=\\ä"), st.booleans())))
def test_a_field_selector_survives_being_written_and_read(terms: list[FieldTerm]) -> None:
    selector = FieldSelector(tuple(terms))
    assert set(selectors.parse_fields(str(selector)).terms) == set(terms)


@pytest.mark.parametrize("text", [" " * 100_000, "a" + " " * 100_000, "a in (" + "\t" * 100_000])
def test_spaces_cost_no_more_than_their_number(text: str) -> None:
    began = time.thread_time()
    with contextlib.suppress(errors.BadRequest):
        selectors.parse(text)
    assert time.thread_time() - began < 1


def test_many_requirements_cost_no_more_than_their_number() -> None:
    began = time.thread_time()
    assert len(selectors.parse(",".join(f"k{number}=v" for number in range(20_000))).equalities()) == 20_000
    assert time.thread_time() - began < 5
