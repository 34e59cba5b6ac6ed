"""The paths that custom kinds write into their columns find what Kubernetes would show there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv.api import jsonpath

DISK = {
    "metadata": {"name": "d", "labels": {"example.com/a.b": "label"}},
    "spec": {"size": 5, "paths": ["p", "q", "r"], "ready": False, "dotted.key": "whole", "dotted2": {"key": "steps"}},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "weight": 1},
            {"type": "Clean", "status": "False", "weight": 2, "extra": {"x": "y"}},
        ],
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [5]), (".spec.ready", [False]), (".spec.zz", []), (".spec.size.zz", []), ("$.spec.size", [5]),
        (".spec.paths", [["p", "q", "r"]]), (".spec.paths[0]", ["p"]), (".spec.paths[-1]", ["r"]),
        (".spec.paths[9]", []),
        (".spec.paths[*]", ["p", "q", "r"]), (".spec.paths[1:]", ["q", "r"]), (".spec.paths[:1]", ["p"]),
        (".spec.paths[::2]", ["p", "r"]), (".spec.paths[0,2]", ["p", "r"]), (".spec.size[0]", []), (".spec[*]", []),
        (".spec['size']", [5]), ("['spec']['size']", [5]), (".spec['size','ready']", [5, False]),
        (".spec['dotted.key']", ["whole"]), (r".spec['dotted\.key']", ["whole"]), (r".spec.dotted\.key", ["whole"]),
        (".spec['dotted2.key']", ["steps"]), (r".metadata.labels.example\.com/a\.b", ["label"]),
        (".metadata.labels['example.com/a.b']", ["label"]), (".metadata.labels.*", ["label"]), (".", [DISK]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Ready')].status", ["True"]),
        ('.status.conditions[?( @.type != "Ready" )].status', ["False"]),
        ('.status.conditions[?(@.type=="zz")].status', []), ('.status.conditions[?(@.zz=="Ready")].status', []),
        (".status.conditions[?(@.weight>1)].type", ["Clean"]), (".status.conditions[?(@.weight<=1.5)].type", ["Ready"]),
        (".status.conditions[?(@.extra)].type", ["Clean"]), ('.status.conditions[?(@.extra.x=="y")].type', ["Clean"]),
        ('.status.conditions[?(@.weight=="1")].type', []), ('.status.conditions[?(@.type=="a)]")].type', []),
        (".status.conditions[?(@.status==@.status)].weight", [1, 2]), ('.spec[?(@.type=="Ready")]', []),
        (".status.conditions[*].type", ["Ready", "Clean"]), (".status.conditions.type", []), ("..x", ["y"]),
        (".status..type", ["Ready", "Clean"]),
    ],
)  # fmt: skip
def test_a_path_finds_its_values(path: str, found: list[Any]) -> None:
    assert jsonpath.compile(path).find(DISK) == found
    assert jsonpath.compile(path).first(DISK) == (found[0] if found else None)


@pytest.mark.parametrize(
    "path",
    [
        "", "spec", "spec.size", ".spec.", ".spec..", "...a", ".spec[", ".spec[]", ".spec[x]", ".spec[1", ".spec['a]",
        "[?(@.x)",
        ".spec[?(@.x==y)]", ".spec[?(x)]", ".spec[?(@.x==)]", ".spec[::0]", ".spec.{a}", ".spec.a b", ".spec[?(@.x)",
        ".a]", ".spec" + "[?(@.a" * 50,
    ],
)  # fmt: skip
def test_a_path_that_cannot_be_read_is_refused_with_a_sentence(path: str) -> None:
    with pytest.raises(ValueError, match="is not a JSON path"):
        jsonpath.compile(path)


def test_null_is_nothing() -> None:
    assert jsonpath.compile(".a").find({"a": None}) == []
    assert jsonpath.compile(".a[0]").find({"a": [None]}) == []


def test_scale_paths_are_fields_only() -> None:
    assert jsonpath.fields(".spec.replicas") == ("spec", "replicas")
    for path in ("", ".", "spec", ".spec.a[0]", ".spec..a", ".spec.*", ".spec['a']"):
        with pytest.raises(ValueError, match="field names only"):
            jsonpath.fields(path)


@given(st.lists(st.text("abcXYZ_0", min_size=1, max_size=4), min_size=1, max_size=4), st.integers())
def test_a_chain_of_fields_leads_to_the_value_at_its_end(names: list[str], value: int) -> None:
    obj: Any = value
    for name in reversed(names):
        obj = {name: obj}
    assert jsonpath.compile("".join(f".{name}" for name in names)).find(obj) == [value]
    assert jsonpath.compile("".join(f"['{name}']" for name in names)).find(obj) == [value]


@given(st.text(".[]*?()@'\"=<>ab0:,\\ $", max_size=15))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    try:
        path = jsonpath.Path(text)
    except ValueError as refusal:
        assert "JSON path" in str(refusal)
    else:
        assert isinstance(path.find({"a": {"b": [0, {"a": "b"}]}, "b": []}), list)
