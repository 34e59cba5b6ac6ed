"""Rows as a Kubernetes 1.35 server gave them for the same objects: `observed.json` keeps both."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests import steps
from tests.unit.engine.apiserver.tables import kinds

from localpv.api.resources import BUILT_IN, Resource
from localpv.engine.apiserver import tables
from localpv.engine.apiserver.registry import Kind

OBSERVED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "observed.json").read_text())


def kind_of(observed: dict[str, Any]) -> Kind:
    if "version" in observed:
        return kinds.custom(**observed["version"])
    return kinds.built_in(observed["group"], observed["kind"])


def names(observed: dict[str, Any]) -> str:
    return f"{observed['kind']}.{observed['group']}".rstrip(".")


@pytest.mark.parametrize("observed", OBSERVED, ids=names)
def test_columns_are_those_of_kubernetes(observed: dict[str, Any]) -> None:
    ours = tables.columns(kind_of(observed))

    assert [[each["name"], each["type"], each["format"], each["priority"]] for each in ours] == observed["columns"]
    assert all(each["description"] for each in ours)


@pytest.mark.parametrize("observed", OBSERVED, ids=names)
def test_cells_are_those_of_kubernetes(observed: dict[str, Any]) -> None:
    kind = kind_of(observed)

    ours = [tables.cells(kind, row["object"], now=observed["now"]) for row in observed["rows"]]

    assert ours == [row["cells"] for row in observed["rows"]]
    assert ours


@pytest.mark.parametrize("observed", OBSERVED, ids=names)
def test_only_rows_of_ended_pods_say_so(observed: dict[str, Any]) -> None:
    kind = kind_of(observed)
    for row in observed["rows"]:
        ours = tables.conditions(kind, row["object"])
        without_sentence = [{key: each[key] for key in ("type", "status", "reason")} for each in ours]
        assert without_sentence == row.get("conditions", [])


@pytest.mark.parametrize("resource", BUILT_IN, ids=lambda resource: resource.qualified)
def test_every_built_in_kind_has_a_table_that_was_compared(resource: Resource) -> None:
    assert (resource.group, resource.kind) in tables.LAYOUTS
    assert any(each["rows"] for each in OBSERVED if (each["group"], each["kind"]) == (resource.group, resource.kind))


def test_an_object_without_status_has_a_row() -> None:
    metadata = {"name": "fresh", "creationTimestamp": "2026-01-01T00:00:00Z"}
    now = 1767225660.0
    volume = {"metadata": metadata, "spec": {"capacity": {"storage": "1Gi"}}}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "a"}]}}

    assert tables.cells(kinds.built_in("", "PersistentVolume"), volume, now=now)[4:10] == [
        "",
        "",
        "",
        "<unset>",
        "",
        "60s",
    ]
    assert tables.cells(kinds.built_in("", "Pod"), pod, now=now)[:5] == ["fresh", "0/1", "", "0", "60s"]
    assert tables.cells(kinds.built_in("", "Node"), {"metadata": metadata}, now=now)[1] == "Unknown"


def test_ages_are_those_of_this_moment() -> None:
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 7260))
    account = {"metadata": {"name": "a", "creationTimestamp": made}}

    assert tables.cells(kinds.built_in("", "ServiceAccount"), account) == ["a", "121m"]


def test_a_row_takes_few_steps() -> None:
    """About eighty, so that ten thousand volumes take a fraction of a second."""
    kind = kinds.built_in("", "PersistentVolume")
    observed = next(each for each in OBSERVED if each["kind"] == "PersistentVolume")
    volume = next(row["object"] for row in observed["rows"] if row["object"]["spec"].get("claimRef"))

    tables.cells(kind, volume)
    assert steps.of(lambda: tables.cells(kind, volume)) < 300
