"""Writes by several managers, replayed: what kube-apiserver 1.35 made of each is in sequences.json.

`result` is the object that the server stored, without what it fills in by itself (uid, resourceVersion, ...), and
`given` the object after defaults and before the server's own additions, where that differs. Times are counted in
seconds from the first write.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from localpv import errors
from localpv.api.managed import apply, track
from localpv.api.objects import Object
from localpv.api.resources import BUILT_IN
from localpv.api.schema.catalogue import built_in

_SEQUENCES = json.loads((Path(__file__).parent / "sequences.json").read_text(encoding="utf-8"))
_RESOURCES = {resource.kind: resource for resource in BUILT_IN if resource.group != "events.k8s.io"}


def _latest_time(result: Object) -> str:
    return max((entry.get("time", "") for entry in result["metadata"].get("managedFields", [])), default="")


def _missing_only(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where the two differ other than by fields that only the server has: those are defaults, filled in later."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            problem
            for key in ours
            for problem in (
                _missing_only(ours[key], theirs[key], f"{path}.{key}") if key in theirs else [f"{path}.{key} is extra"]
            )
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [problem for i, (a, b) in pairs for problem in _missing_only(a, b, f"{path}[{i}]")]
    return [] if ours == theirs else [f"{path}: {ours!r} is not {theirs!r}"]


def _without_owners(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "managedFields": None}}


@pytest.mark.parametrize("sequence", _SEQUENCES, ids=lambda sequence: sequence["title"])
def test_owners_and_objects_are_those_of_kubernetes(sequence: dict[str, Any]) -> None:
    resource = _RESOURCES[sequence["kind"]]
    node = built_in().node(resource.schema)
    live: Object | None = None
    for number, step in enumerate(sequence["steps"]):
        where = f"step {number}: {step['op']} by {step['manager']}"
        result = step.get("result")
        options = {
            "manager": step["manager"],
            "subresource": step.get("subresource", ""),
            "api_version": resource.api_version,
        }
        if step["op"] != "apply":
            new = copy.deepcopy(step.get("given") or result)
            if "given" not in step:
                new["metadata"].pop("managedFields", None)
            track.on_update(new, live, node, time=_latest_time(result), **options)
        elif "error" in step:
            with pytest.raises(errors.ApiError) as caught:
                apply.apply(live, step["applied"], node, force=False, time="", kind=resource.kind, **options)
            told: dict[str, Any] = {
                "code": caught.value.code,
                "reason": caught.value.reason,
                "message": caught.value.message,
            }
            if "causes" in step["error"]:
                told["causes"] = caught.value.details["causes"]
                step["error"]["causes"].sort(key=lambda cause: (cause["message"], cause["field"]))
                told["causes"].sort(key=lambda cause: (cause["message"], cause["field"]))
            assert told == step["error"], where
            continue
        else:
            before = copy.deepcopy(live)
            applied = copy.deepcopy(step["applied"])
            new = apply.apply(
                live,
                applied,
                node,
                force=step.get("force", False),
                time=_latest_time(result),
                kind=resource.kind,
                **options,
            )
            assert live == before, f"{where} changed the live object"
            assert applied == step["applied"], f"{where} changed what was applied"
            if live is not None:
                track.keep_times(new, live)
            assert _missing_only(_without_owners(new), _without_owners(result)) == [], where
        ours, theirs = new["metadata"].get("managedFields"), result["metadata"].get("managedFields")
        # As text, because the order in which fields are printed is part of it.
        assert json.dumps(ours, indent=1) == json.dumps(theirs, indent=1), where
        live = result
