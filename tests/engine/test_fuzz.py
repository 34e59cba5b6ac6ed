"""Malformed bodies, paths and options: always a Status, never a 500, never a crash."""

from __future__ import annotations

import copy
import json
import random
import string
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import engine_process
from tests.contract import builders, examples, wire

from localpv.api.resources import Resource
from localpv.api.stored_resources import EVERY

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
VOLUMES = "/api/v1/persistentvolumes"
PODS = "/api/v1/namespaces/default/pods"
PATCHES = [wire.JSON_PATCH, wire.MERGE_PATCH, wire.STRATEGIC_PATCH, wire.APPLY_PATCH]


@pytest.fixture(scope="module")
def api() -> Iterator[wire.Api]:
    with engine_process.running() as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        client = wire.Api(target, target.token)
        client.post(CONFIG_MAPS, builders.config_map("present", data={"a": "1"}))
        client.post(VOLUMES, builders.local_volume("present"))
        client.post(PODS, builders.pod("present"))
        yield client
        client.close()
        assert "Traceback" not in engine.log_tail(1_000_000)
        assert engine.process.poll() is None, "it is still there"


EXAMPLES = {
    example["kind"]: example
    for example in (
        builders.config_map(),
        builders.secret(),
        builders.namespace(),
        builders.service_account(),
        builders.node(),
        builders.pod(),
        builders.service(),
        builders.local_volume(),
        builders.claim(),
        builders.storage_class(),
        builders.deployment(),
        builders.stateful_set(),
        builders.job(),
        builders.lease(),
        builders.core_event("default"),
        builders.role(),
    )
}


def check(answer: wire.Answer, *, about: Any) -> None:
    """Whatever was asked, the answer is an object, and an error is a Status that says so."""
    assert answer.code < 500, (about, answer.raw[:500])
    body = json.loads(answer.raw)
    assert body["kind"]
    if answer.code >= 400:
        assert body["kind"] == "Status", (about, body)
        assert body["status"] == "Failure"
        assert body["code"] == answer.code
        assert body["message"]
        assert body["reason"]


def send(api: wire.Api, method: str, path: str, raw: bytes, content_type: str = "application/json") -> wire.Answer:
    return api.send(method, path, raw, content_type=content_type)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
FUZZ = settings(max_examples=150)


@FUZZ
@given(body=st.binary(max_size=200), method=st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]))
def test_bodies_that_are_no_json(api: wire.Api, body: bytes, method: str) -> None:
    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/present-not"
    check(send(api, method, path, body), about=(method, body))


@FUZZ
@given(body=JSON, path=st.sampled_from([CONFIG_MAPS, VOLUMES, PODS]))
def test_bodies_that_are_some_json(api: wire.Api, body: Any, path: str) -> None:
    check(send(api, "POST", path, json.dumps(body).encode()), about=body)
    check(send(api, "PUT", f"{path}/present", json.dumps(body).encode()), about=body)


@FUZZ
@given(body=JSON, kind=st.sampled_from(PATCHES), path=st.sampled_from([CONFIG_MAPS, VOLUMES, PODS]))
def test_patches_that_are_some_json(api: wire.Api, body: Any, kind: str, path: str) -> None:
    query = "?fieldManager=fuzz" if kind == wire.APPLY_PATCH else ""
    check(send(api, "PATCH", f"{path}/present{query}", json.dumps(body).encode(), kind), about=(kind, body))


@FUZZ
@given(
    operations=st.lists(
        st.fixed_dictionaries(
            {
                "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "", "frob"]),
                "path": st.sampled_from(
                    ["", "/", "/data", "/data/a", "/data/~2", "/metadata", "/metadata/name", "/spec/-"]
                )
                | st.text(max_size=8),
            },
            optional={"from": st.text(max_size=8), "value": JSON},
        ),
        max_size=4,
    )
)
def test_json_patches_of_all_sorts(api: wire.Api, operations: list[Any]) -> None:
    raw = json.dumps(operations).encode()
    check(send(api, "PATCH", f"{CONFIG_MAPS}/present", raw, wire.JSON_PATCH), about=operations)


@FUZZ
@given(
    segments=st.lists(
        st.sampled_from(["api", "apis", "v1", "namespaces", "default", "pods", "watch", "apps", "", "..", "%2F"])
        | st.text(alphabet=string.printable, max_size=8),
        max_size=8,
    ),
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
)
def test_paths_of_all_sorts(api: wire.Api, segments: list[str], method: str) -> None:
    path = "/" + "/".join(urllib.parse.quote(segment, safe="%") for segment in segments)
    answer = send(api, method, f"{path}?timeoutSeconds=1", b"{}")
    if answer.headers.get("content-type", "").startswith("application/json") or answer.code >= 400:
        if answer.code < 400 and "watch" in segments:
            return  # a watch that ended: a stream of events, not one object
        assert answer.code < 500, (path, answer.raw[:300])
        if answer.code >= 400:
            check(answer, about=path)


@FUZZ
@given(
    query=st.dictionaries(
        st.sampled_from(
            ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "pretty"]
        ),
        st.text(max_size=20) | st.sampled_from(["0", "-1", "1", "a in (b", "a=b,c", "metadata.name=x", "Exact", "e30"]),
        max_size=4,
    )
)
def test_options_of_all_sorts(api: wire.Api, query: dict[str, str]) -> None:
    check(send(api, "GET", f"{CONFIG_MAPS}?{urllib.parse.urlencode(query)}", b""), about=query)


def _spoil(value: Any, chance: random.Random) -> Any:
    """The same object with something wrong somewhere."""
    spoiled = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        place = spoiled
        while isinstance(place, dict | list) and place:
            key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
            if chance.random() < 0.3 or not isinstance(place[key], dict | list):
                place[key] = chance.choice(
                    [
                        None,
                        0,
                        -1,
                        1.5,
                        "",
                        "x" * 300,
                        [],
                        {},
                        [None],
                        {"": None},
                        True,
                        "../..",
                        2**70,
                        [[[]]],
                        "\u0000",
                        "-",
                    ]
                )
                break
            place = place[key]
    return spoiled


def _address(resource: Resource) -> str:
    scope = "/namespaces/default" if resource.namespaced else ""
    return f"{resource.path}{scope}/{resource.plural}"


@pytest.mark.parametrize("resource", EVERY, ids=lambda resource: resource.qualified)
def test_objects_of_every_kind_with_something_wrong_in_them(api: wire.Api, resource: Resource) -> None:
    chance = random.Random(resource.qualified)
    stored = {"metadata": {"name": "fuzz"}, **examples.EXAMPLES.get(resource.kind, {"spec": {"a": 1}})}
    good = EXAMPLES.get(resource.kind) or stored
    for _ in range(60):
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **_spoil(good, chance)}
        raw = json.dumps(body).encode()
        answer = send(api, "POST", f"{_address(resource)}?dryRun=All", raw)
        check(answer, about=body)


@pytest.mark.parametrize("depth", [100, 5_000, 100_000])
@pytest.mark.parametrize("opening", ['{"a":', "["])
def test_bodies_nested_without_end(api: wire.Api, depth: int, opening: str) -> None:
    check(send(api, "POST", CONFIG_MAPS, (opening * depth).encode()), about=depth)
    closing = "}" if opening.startswith("{") else "]"
    whole = opening * depth + "1" + closing * depth
    check(send(api, "POST", CONFIG_MAPS, whole.encode()), about=depth)
    schema = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"deep"}},"data":{whole}}}'
    check(send(api, "POST", CONFIG_MAPS, schema.encode()), about=depth)
