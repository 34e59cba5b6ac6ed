"""Node affinity chooses the nodes that the scheduler of Kubernetes would choose."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv.api import node_selector
from localpv.api.node_selector import NodeSelector

NODE = {"kubernetes.io/hostname": "n1", "disk": "nvme", "size": "10"}


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(operator: str, *values: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


def selector(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeSelectorTerms": list(terms)}


def fits(*terms: dict[str, Any]) -> bool:
    return NodeSelector(selector(*terms)).matches(NODE, "n1")


def test_terms_are_alternatives_and_requirements_are_not() -> None:
    both = {
        "matchExpressions": term("disk", "In", "nvme")["matchExpressions"] + term("a", "Exists")["matchExpressions"]
    }
    assert fits(term("disk", "In", "hdd"), term("disk", "In", "nvme"))
    assert not fits(both)


def test_a_selector_or_a_term_with_nothing_in_it_selects_no_node() -> None:
    assert not NodeSelector({}).matches(NODE)
    assert not NodeSelector(selector()).matches(NODE)
    assert not fits({})
    assert not fits({"matchExpressions": []})
    assert fits({}, term("disk", "Exists"))


@pytest.mark.parametrize(
    ("one", "chosen"),
    [
        (term("disk", "NotIn", "hdd"), True), (term("disk", "NotIn", "nvme"), False),
        (term("zone", "NotIn", "a"), True),
        (term("zone", "DoesNotExist"), True), (term("disk", "DoesNotExist"), False),
        (term("size", "Gt", "9"), True), (term("size", "Gt", "10"), False), (term("size", "Lt", "11"), True),
        (term("disk", "Gt", "1"), False), (term("zone", "Lt", "1"), False), (named("In", "n1"), True),
        (named("In", "n2"), False), (named("NotIn", "n2"), True), (named("NotIn", "n1"), False),
    ],
)  # fmt: skip
def test_each_operator_decides_as_kubernetes_does(one: dict[str, Any], chosen: bool) -> None:
    assert fits(one) is chosen


@pytest.mark.parametrize(
    "one",
    [
        term("disk", "In"), term("disk", "NotIn"), term("disk", "Exists", "nvme"), term("size", "Gt", "x"),
        term("size", "Gt", "1", "2"), term("disk", "Is", "nvme"), named("In", "n1", "n2"), named("Exists"),
    ],
)  # fmt: skip
def test_a_term_that_makes_no_sense_selects_no_node(one: dict[str, Any]) -> None:
    assert not fits(one)


@pytest.mark.parametrize(
    ("one", "field", "reason"),
    [
        (term("a", "In"), "matchExpressions[0].values", "FieldValueRequired"),
        (term("a", "Exists", "b"), "matchExpressions[0].values", "FieldValueForbidden"),
        (term("a", "Gt"), "matchExpressions[0].values", "FieldValueRequired"),
        (term("a", "Is", "b"), "matchExpressions[0].operator", "FieldValueInvalid"),
        (term("", "Exists"), "matchExpressions[0].key", "FieldValueInvalid"),
        (term("a", "In", "-"), "matchExpressions[0].values[0]", "FieldValueInvalid"),
        (named("Exists"), "matchFields[0].operator", "FieldValueInvalid"),
        (named("In"), "matchFields[0].values", "FieldValueRequired"),
        (named("In", "A"), "matchFields[0].values[0]", "FieldValueInvalid"),
        ({"matchFields": [{"key": "a", "operator": "In", "values": ["b"]}]}, "matchFields[0].key", "FieldValueInvalid"),
    ],
)
def test_a_wrong_term_names_the_field(one: dict[str, Any], field: str, reason: str) -> None:
    found = node_selector.validate(selector(term("ok", "Exists"), one), "required")
    assert [(error.field, error.reason) for error in found] == [(f"required.nodeSelectorTerms[1].{field}", reason)]


def test_a_selector_needs_a_term_but_a_term_may_be_empty() -> None:
    (error,) = node_selector.validate({}, "required")
    assert (error.field, error.reason) == ("required.nodeSelectorTerms", "FieldValueRequired")
    assert node_selector.validate(selector({}), "required") == []


operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
terms = st.builds(
    lambda key, operator, value: term(key, operator, *([] if "Exist" in operator else [value])),
    st.sampled_from("ab"),
    operators,
    st.sampled_from(["1", "5", "x"]),
)


@given(st.lists(terms, min_size=1), st.dictionaries(st.sampled_from("ab"), st.sampled_from(["1", "3", "x"])))
def test_a_selector_matches_when_one_of_its_terms_does(many: list[dict[str, Any]], labels: dict[str, str]) -> None:
    one_by_one = any(NodeSelector(selector(each)).matches(labels) for each in many)
    assert NodeSelector(selector(*many)).matches(labels) is one_by_one
