"""Printer columns of custom kinds. The cells are those that a Kubernetes 1.35 server gave."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.apiserver.tables import kinds

from localpv.engine.apiserver import tables

NOW = 1767225600.0 + 4000

CONDITIONS = [
    {"type": "Ready", "status": "True", "n": 1, "ok": True},
    {"type": "Other", "n": 2, "x": 0, "nested": {"a": "1"}},
    {"type": "a)]b", "n": 3},
]
THING: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Thing",
    "metadata": {"name": "one", "labels": {"l": "1"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {
        "text": "text",
        "whole": 5,
        "half": 1.5,
        "yes": True,
        "list": ["x", 1, {"b": 1, "a": "<&>"}],
        "map": {"z": 1, "a": [1.5, None]},
        "tiny": 0.00000123,
        "million": 1000000,
        "more": 1234567.25,
        "huge": 1.5e22,
        "html": "<a>&é",
        "dotted": {"a.b": "deep", "x": "X", "y": "Y"},
        "one.two": "12",
        "dash-ed": "d",
        "conds": CONDITIONS,
    },
}


def cell(path: str, type: str = "string", obj: dict[str, Any] = THING) -> Any:
    kind = kinds.custom(additionalPrinterColumns=[{"name": "It", "type": type, "jsonPath": path}])
    return tables.cells(kind, obj, now=NOW)[1]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (".spec.text", "text"),
        (".spec.whole", "5"),
        (".spec.half", "1.5"),
        (".spec.yes", "true"),
        (".spec.list", '["x",1,{"a":"\\u003c\\u0026\\u003e","b":1}]'),
        (".spec.map", '{"a":[1.5,null],"z":1}'),
        (".spec.tiny", "1.23e-06"),
        (".spec.million", "1000000"),
        (".spec.more", "1.23456725e+06"),
        (".spec.huge", "1.5e+22"),
        (".spec.html", "<a>&é"),
        (".metadata.labels", '{"l":"1"}'),
        (".apiVersion", "example.com/v1"),
    ],
)
def test_a_string_column_shows_any_value_as_text(path: str, shown: str) -> None:
    assert cell(path) == shown


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (".spec.missing.x", None),
        (".spec.yes.x", None),
        (".spec.dotted['a\\.b']", "deep"),
        (".spec.dotted.a\\.b", "deep"),
        (".spec.one\\.two", "12"),
        (".spec.dash-ed", "d"),
        (".spec.dotted['x']", "X"),
        (".spec.dotted['x','y']", "X"),
        (".spec.conds[0].type", "Ready"),
        (".spec.conds[-1].type", "a)]b"),
        (".spec.conds[-2].type", "Other"),
        (".spec.conds[9].type", None),
        (".spec.text[0]", None),
        (".spec.conds[0:2].type", "Ready"),
        (".spec.conds[1:].type", "Other"),
        (".spec.conds[:1].type", "Ready"),
        (".spec.conds[1::2].type", "Other"),
        (".spec.conds[2:1].n", None),
        (".spec.conds[1:1].n", None),
        (".spec.conds[*].n", "1"),
        (".spec.conds[1,0].type", "Other"),
        (".spec.conds..n", "1"),
        ("..type", "Ready"),
    ],
)
def test_paths_lead_to_the_first_value_they_mean(path: str, shown: str | None) -> None:
    assert cell(path) == shown


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ('@.type=="Ready"', "1"),
        ("@.type=='Ready'", "1"),
        ('@.type == "Ready" ', "1"),
        ('@.type=="a)]b"', "3"),
        ('@.type=="None"', None),
        ('@.type<"Z"', "1"),
        ("@.type==@.type", "1"),
        ("@.n>1", "2"),
        ("@.n>=1", "1"),
        ("@.n!=1", "2"),
        ("@.x", "2"),
        ("@.ok==true", "1"),
        ('@.nested.a=="1"', "2"),
        ("@.n==@.type", None),
    ],
)
def test_filters_choose_among_the_items_of_a_list(condition: str, found: str | None) -> None:
    assert cell(f".spec.conds[?({condition})].n") == found


def test_only_lists_can_be_filtered() -> None:
    assert cell('.spec.text[?(@.x=="y")]') is None


@pytest.mark.parametrize(
    ("type", "path", "shown"),
    [
        ("integer", ".spec.whole", 5),
        ("integer", ".spec.half", 1),
        ("integer", ".spec.huge", -(2**63)),
        ("integer", ".spec.text", None),
        ("integer", ".spec.yes", None),
        ("number", ".spec.half", 1.5),
        ("number", ".spec.whole", 5),
        ("number", ".spec.huge", 1.5e22),
        ("number", ".spec.text", None),
        ("boolean", ".spec.yes", True),
        ("boolean", ".spec.whole", None),
        ("date", ".metadata.creationTimestamp", "66m"),
        ("date", ".spec.text", "<invalid>"),
        ("date", ".spec.whole", None),
        ("date", ".spec.missing", None),
    ],
)
def test_a_typed_column_shows_only_values_of_its_type(type: str, path: str, shown: Any) -> None:
    found = cell(path, type)

    assert found == shown
    assert found.__class__ is shown.__class__


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("2026-01-01T01:00:00+01:00", "66m"),
        ("2026-01-01T00:00:00.5Z", "66m"),
        ("2026-01-01", "<invalid>"),
        ("2026-01-01 00:00:00Z", "<invalid>"),
        ("2026-02-30T00:00:00Z", "<invalid>"),
        ("2999-01-01T00:00:00Z", "<invalid>"),
        ("0001-01-01T00:00:00Z", "<unknown>"),
        ("null", "<unknown>"),
        ("", "<unknown>"),
    ],
)
def test_a_date_column_shows_an_age(value: str, shown: str) -> None:
    assert cell(".spec.when", "date", {"metadata": {"name": "a"}, "spec": {"when": value}}) == shown


def test_without_columns_of_its_own_a_kind_shows_name_and_age() -> None:
    kind = kinds.custom()

    assert [(each["name"], each["type"]) for each in tables.columns(kind)] == [("Name", "string"), ("Age", "date")]
    assert tables.cells(kind, THING, now=NOW) == ["one", "66m"]


def test_columns_keep_what_the_definition_says_of_them() -> None:
    wanted = {"name": "It", "type": "integer", "jsonPath": ".spec.i", "format": "int32", "priority": 1}
    said, unsaid = tables.columns(
        kinds.custom(additionalPrinterColumns=[{**wanted, "description": "Our words"}, wanted])
    )[1:]

    assert said == {"name": "It", "type": "integer", "format": "int32", "priority": 1, "description": "Our words"}
    assert ".spec.i" in unsaid["description"]


@pytest.mark.parametrize(
    "path",
    [
        ".spec[",
        ".spec[x]",
        ".spec[--1]",
        ".spec[-]",
        ".spec[1:2:3:4]",
        ".spec{b}",
        ".spec 1.2.3",
        ".spec.a[?(@.b==]",
        '.spec.a[?(@.b=="c"].d',
        ".spec.a[?(@.b=~1)].c",
    ],
)
def test_columns_end_before_a_path_that_cannot_be_read(path: str) -> None:
    wanted = [{"name": name, "type": "string", "jsonPath": at} for name, at in (("A", ".spec.text"), ("B", path))]
    kind = kinds.custom(additionalPrinterColumns=[*wanted, wanted[0]])

    assert [each["name"] for each in tables.columns(kind)] == ["Name", "A"]
    assert tables.cells(kind, THING, now=NOW) == ["one", "text"]
