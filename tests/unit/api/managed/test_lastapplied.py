"""Where server-side apply by kubectl meets the annotation of client-side apply. The usual way is in sequences.json."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localpv import errors
from localpv.api import well_known
from localpv.api.managed import apply as applying
from localpv.api.managed import track
from localpv.api.objects import Object
from localpv.api.schema.catalogue import built_in

NODE = built_in().node("io.k8s.api.core.v1.ConfigMap")
TIME = "2025-01-01T00:00:00Z"


def config_map(data: Any, **annotations: str) -> Object:
    metadata: Object = {"name": "it"}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def client_side(data: dict[str, str], last: str) -> Object:
    made = config_map(data, **{well_known.LAST_APPLIED: last})
    track.on_update(made, None, NODE, manager="kubectl-client-side-apply", time=TIME, api_version="v1")
    return made


def server_side(live: Object, data: dict[str, str], manager: str = "kubectl") -> Object:
    return applying.apply(live, config_map(data), NODE, manager=manager, force=False, time=TIME, api_version="v1")


def test_kubectl_takes_over_what_client_side_apply_set() -> None:
    live = client_side({"a": "1"}, json.dumps(config_map({"a": "1"})))

    moved = server_side(live, {"a": "2"})

    assert moved["data"] == {"a": "2"}
    assert json.loads(moved["metadata"]["annotations"][well_known.LAST_APPLIED]) == config_map({"a": "2"})


def test_other_managers_meet_the_conflict() -> None:
    live = client_side({"a": "1"}, json.dumps(config_map({"a": "1"})))

    with pytest.raises(errors.Conflict):
        server_side(live, {"a": "2"}, manager="somebody")


@pytest.mark.parametrize(
    "last",
    [
        "{",
        "[]",
        json.dumps(config_map({"a": "0"})),
        json.dumps({**config_map({"a": "1"}), "apiVersion": "v0"}),
        json.dumps(config_map(["a"])),
    ],
    ids=["not json", "not an object", "changed since", "another version", "not of the schema"],
)
def test_annotation_that_does_not_tell_the_live_value_excuses_nothing(last: str) -> None:
    with pytest.raises(errors.Conflict, match=r"\.data\.a"):
        server_side(client_side({"a": "1"}, last), {"a": "2"})


def test_annotation_that_would_not_fit_is_dropped() -> None:
    live = client_side({"a": "1"}, json.dumps(config_map({"a": "1"})))

    moved = server_side(live, {"a": "x" * 300_000})

    assert well_known.LAST_APPLIED not in moved["metadata"]["annotations"]
