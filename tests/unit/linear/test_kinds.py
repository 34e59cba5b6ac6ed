"""Wherever a built-in kind has a list or a map, many elements there take time in proportion to their number."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from tests.unit.linear import growth, kinds

from localpv.api import names, status
from localpv.api.managed import track
from localpv.api.patch import strategic
from localpv.api.patch.merge_patch import copied
from localpv.engine.apiserver import body
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.registry import Kind

MOST = 1_000
"""Elements. A rule that compares all with all shows with as many (test_growth)."""

LARGE_BYTES = 500
"""An element of more than this takes long by itself: what compares all of it with all others shows with a quarter of
them, and what compares their names alone shows when they have little else."""

PLURALS = sorted({kind.resource.plural for kind in kinds.served().all() if kind.to_stored is None})


def where(plural: str) -> list[kinds.Path]:
    """The places of a kind; what many share is looked at in one of them: metadata, the template of pods, and what is in
    containers of any sort."""
    found = []
    for path in kinds.places(kinds.find(plural).node):
        steps = [name for name, _ in path]
        if steps[0] == "metadata" and plural != "configmaps":
            continue
        if "template" in steps and plural != "pods":
            continue
        if {"initContainers", "ephemeralContainers"} & {*steps[:-1]}:
            continue
        found.append(path)
    return found


def _sizes(kind: Kind, path: kinds.Path) -> dict[int, int]:
    """How many elements are looked at, filled to which depth."""
    one, two = (len(msgspec.json.encode(kinds.obj(kind, path, size, same=True))) for size in (1, 2))
    return {MOST: 2} if two - one <= LARGE_BYTES else {MOST // 4: 2, MOST: 1}


def written(kind: Kind, obj: dict[str, Any]) -> None:
    """What a create, an update and a patch do with a body before anything is stored."""
    call = Call(kind=kind, namespace="d", field_validation="Warn")
    body.take_in(obj, call, msgspec.json.encode(obj))
    strategy, api_version = kind.strategy, kind.resource.api_version
    strategy.default(obj)
    track.on_update(obj, None, kind.node, manager="m", time="2026-01-01T00:00:00Z", api_version=api_version)
    strategy.prepare_for_create(obj)
    wrong = names.validate_object_meta(
        obj["metadata"], namespaced=kind.resource.namespaced, check_name=strategy.validate_name
    )
    wrong += [*strategy.validate(obj), *strategy.validate_create(obj)]
    status.invalid(kind.resource.kind, kind.resource.group, "a", wrong)
    strategy.warnings(obj)
    old = copied(obj)
    new = strategic.strategic_merge(old, obj, kind.node)
    strategy.prepare_for_update(new, old)
    names.validate_object_meta_update(new["metadata"], old["metadata"])
    strategy.validate_update(new, old)
    strategy.validate_status_update(new, old)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plural", PLURALS)
def test_many_elements_take_time_in_proportion_to_their_number(plural: str) -> None:
    kind = kinds.find(plural)
    for path in where(plural):
        place = ".".join(name for name, _ in path)
        for same, (limit, depth) in itertools.product((False, True), _sizes(kind, path).items()):
            growth.check(
                lambda size, path=path, same=same, depth=depth: kinds.obj(kind, path, size, same=same, depth=depth),
                lambda obj: written(kind, obj),
                limit=limit,
                what=f"{plural} with many {'equal ' if same else ''}{place}",
            )
