"""Every stable kind: its place in discovery, and, for those that our engine only stores, a whole life.

What is expected is what Kubernetes said (`observed.json`, written by `observe.py`).
"""

from __future__ import annotations

import json

import pytest
from tests.contract import wire
from tests.contract.builders import Object
from tests.contract.examples import CHANGES, EXAMPLES, STATUS, WRONG, WRONG_STATUS, merged
from tests.contract.observe import FILE, RESOURCES, body_of, causes, content, discovered, name_for, path_of, table_of
from tests.contract.spaces import Space
from tests.contract.wire import Api

from localpv.api.resources import REVIEWS
from localpv.api.stored_resources import EVERY

OBSERVED: Object = json.loads(FILE.read_text())
DISCOVERY: dict[str, Object] = OBSERVED["discovery"]
SEEN: dict[str, Object] = OBSERVED["kinds"]
SERVED = {f"{resource.path}/{resource.plural}" for resource in (*EVERY, *REVIEWS)}

LEFT_OUT = {
    "/api/v1/componentstatuses",
    "/apis/apiregistration.k8s.io/v1/apiservices",
    "/apis/autoscaling/v1/horizontalpodautoscalers",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
}
"""Kinds that our engine does not have (docs/limits.md)."""

WITHOUT = {
    *("nodes/proxy", "pods/attach", "pods/ephemeralcontainers", "pods/portforward", "pods/proxy", "pods/resize"),
    "services/proxy",
}
"""Subresources that it does not have."""

STORED_IN_ANOTHER_VERSION = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/storage.k8s.io/v1/volumeattributesclasses",
)
"""Kubernetes keeps these in etcd as v1beta1, for the sake of older servers, and discovery tells."""


@pytest.fixture(scope="module")
def entries(target: wire.Target) -> Object:
    client = wire.Api(target, target.token)
    found = discovered(client)
    client.close()
    return found


def test_every_stable_kind_is_served_or_known_to_be_left_out() -> None:
    kinds = {path for path, entry in DISCOVERY.items() if "/" not in entry["name"]}
    assert kinds - SERVED == LEFT_OUT
    assert list(EXAMPLES) == list(RESOURCES)


def test_discovery_says_what_kubernetes_says(entries: Object) -> None:
    expected = {
        path: entry
        for path, entry in DISCOVERY.items()
        if path.removesuffix(f"/{entry['name'].partition('/')[2]}") in SERVED and entry["name"] not in WITHOUT
    }
    for path in STORED_IN_ANOTHER_VERSION:
        expected[path] = {**expected[path], "storageVersionHash": entries[path]["storageVersionHash"]}
    assert {path: entries.get(path) for path in expected} == expected


@pytest.mark.parametrize("kind", EXAMPLES)
def test_an_object_of_every_stored_kind_lives(api: Api, space: Space, kind: str) -> None:
    seen, resource, name = SEEN[kind], RESOURCES[kind], name_for(kind)
    path = path_of(resource, space)
    made = api.post(path, body_of(kind, name))
    assert content(made) == seen["made"]
    assert made["metadata"].get("generation") == seen["generation"]
    assert content(api.get(f"{path}/{name}")) == seen["made"]
    assert name in [item["metadata"]["name"] for item in api.get(path)["items"]]
    assert table_of(api, path, name) == {"columns": seen["columns"], "cells": seen["cells"]}

    changed = api.merge(f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}})
    assert (changed["metadata"]["labels"], content(changed)) == ({"a": "b"}, seen["made"])
    assert content(put_back(api, f"{path}/{name}")) == seen["made"]
    assert "status" in resource.subresources or kind not in STATUS
    if kind in STATUS:
        told = api.merge(f"{path}/{name}/status", {"status": STATUS[kind]})
        assert merged(told.get("status") or {}, STATUS[kind]).keys() == (told.get("status") or {}).keys()
        assert content(told) == seen["made"]

    answer = api.delete(f"{path}/{name}")
    assert answer["kind"] == seen.get("deleted", answer["kind"])
    wire.eventually(lambda: api.gone(f"{path}/{name}"), "it is gone")


def put_back(api: Api, path: str) -> Object:
    """Write an object as it is; again, when a controller has written its status since it was read."""

    def written() -> Object | None:
        answer = api.send("PUT", path, api.get(path))
        assert answer.code in (200, 409), answer.raw
        return answer.body if answer.code == 200 else None

    return wire.eventually(written, f"{path} is written") or {}


@pytest.mark.parametrize(
    ("kind", "index"),
    [(kind, index) for kind, changes in WRONG.items() for index in range(len(changes))],
    ids=lambda value: str(value),
)
def test_a_wrong_object_is_refused(api: Api, space: Space, kind: str, index: int) -> None:
    body = merged(body_of(kind, name_for(kind)), WRONG[kind][index])
    status = api.post(path_of(RESOURCES[kind], space), body, expect=422)
    assert [list(each) for each in causes(status)] == SEEN[kind]["wrong"][index]


@pytest.mark.parametrize("kind", CHANGES)
def test_what_cannot_change_does_not(api: Api, space: Space, kind: str) -> None:
    name, path = name_for(kind), path_of(RESOURCES[kind], space)
    api.post(path, body_of(kind, name))
    told = [causes(api.merge(f"{path}/{name}", change, expect=422)) for change in CHANGES[kind]]
    assert [[list(each) for each in found] for found in told] == SEEN[kind]["changes"]


@pytest.mark.parametrize("kind", WRONG_STATUS)
def test_a_wrong_status_is_refused(api: Api, space: Space, kind: str) -> None:
    name, path = name_for(kind), path_of(RESOURCES[kind], space)
    api.post(path, body_of(kind, name))
    status = api.merge(f"{path}/{name}/status", {"status": WRONG_STATUS[kind]}, expect=422)
    assert [list(each) for each in causes(status)] == SEEN[kind]["wrong_status"]
