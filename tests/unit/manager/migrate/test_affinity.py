"""Volumes with the alpha annotation get the field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localpv.api.kinds.volumes import PersistentVolume
from localpv.api.node_selector import REQUIRED
from localpv.api.volume_affinity import ANNOTATION
from localpv.client.client import Client
from localpv.manager.migrate import affinity
from localpv.manager.migrate.affinity import Change, Problem
from localpv.testing.api import FakeApi

TERMS = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}]
SELECTOR = {"nodeSelectorTerms": TERMS}
FIELD = {"required": SELECTOR}


def a_volume(annotation: Any = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "pv", "uid": "u", "resourceVersion": "1"}
    if annotation is not None:
        text = annotation if isinstance(annotation, str) else json.dumps(annotation)
        metadata["annotations"] = {ANNOTATION: text, "other": "stays"}
    return {"metadata": metadata, "spec": spec}


@pytest.mark.seed("AFF-6")
def test_annotation_becomes_the_field_in_one_patch_that_names_the_volume_it_was_planned_for() -> None:
    change = affinity.plan(a_volume({REQUIRED: SELECTOR}))
    assert isinstance(change, Change)
    assert change.patch() == {
        "metadata": {"uid": "u", "resourceVersion": "1", "annotations": {ANNOTATION: None}},
        "spec": {"nodeAffinity": FIELD},
    }


def test_annotation_that_says_what_the_field_says_only_goes() -> None:
    change = affinity.plan(a_volume({REQUIRED: SELECTOR}, nodeAffinity=FIELD))
    assert isinstance(change, Change)
    assert "spec" not in change.patch()


def test_volume_without_the_annotation_is_left_alone() -> None:
    assert affinity.plan(a_volume(nodeAffinity=FIELD)) is None
    assert affinity.plan(a_volume()) is None


@pytest.mark.parametrize(
    ("annotation", "spec", "word"),
    [
        ("{", {}, "cannot be read"),
        ("[]", {}, "cannot be read"),
        ({}, {}, "has no"),
        ({REQUIRED: {"nodeSelectorTerms": []}}, {}, "wrong"),
        ({REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"operator": "Is"}]}]}}, {}, "wrong"),
        ({REQUIRED: {"nodeSelectorTerms": "n1"}}, {}, "cannot be read"),
        ({REQUIRED: SELECTOR}, {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}, "different"),
    ],
)  # fmt: skip
def test_volume_that_cannot_be_migrated_is_named_with_the_reason(annotation: Any, spec: Any, word: str) -> None:
    problem = affinity.plan(a_volume(annotation, **spec))
    assert isinstance(problem, Problem)
    assert word in problem.message


@pytest.mark.seed("AFF-6")
async def test_survey_changes_nothing_and_a_second_run_finds_nothing() -> None:
    api = FakeApi()
    path = "/api/v1/persistentvolumes/pv"
    volume = a_volume({REQUIRED: SELECTOR})
    volume["metadata"] = {"annotations": volume["metadata"]["annotations"]}
    before = api.put(path, volume)
    api.put("/api/v1/persistentvolumes/new", {"spec": {"nodeAffinity": FIELD}})
    volumes = Client(api, field_manager="test").untyped(PersistentVolume.resource)

    (change,) = [each async for each in affinity.survey(volumes)]
    assert api.objects[path] == before
    assert isinstance(change, Change)
    assert await affinity.apply(volumes, change) is None
    assert api.objects[path]["spec"]["nodeAffinity"] == FIELD
    assert api.objects[path]["metadata"]["annotations"] == {"other": "stays"}
    assert [each async for each in affinity.survey(volumes)] == []


async def test_volume_that_changed_since_the_survey_is_left_for_the_next_run() -> None:
    api = FakeApi()
    path = "/api/v1/persistentvolumes/pv"
    api.put(path, {"metadata": {"annotations": {ANNOTATION: json.dumps({REQUIRED: SELECTOR})}}})
    volumes = Client(api, field_manager="test").untyped(PersistentVolume.resource)
    (change,) = [each async for each in affinity.survey(volumes)]
    api.put(path, api.objects[path])
    assert isinstance(change, Change)
    problem = await affinity.apply(volumes, change)
    assert problem is not None and "run again" in problem.message
