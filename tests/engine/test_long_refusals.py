"""Whatever is wrong with a request, however often and at whatever length: the answer is short and costs little."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import engine_process
from tests.contract import builders, custom, wire

LARGEST_ANSWER = 150 << 10
MOST_MEMORY = 60 << 20
"""Bytes that the server may grow by, through all of these requests; one answer to twice as much took 400 MB of old."""

LONG = "n" * 1100
FIELDS: dict[str, Any] = {f"u{number}": 1 for number in range(20_000)}
LONG_FIELDS: dict[str, Any] = {f"{number}{LONG}": 1 for number in range(700)}

Body = Callable[[Any], Any]
BODIES: dict[str, Body] = {
    "many unknown fields": lambda obj: {**obj, **FIELDS},
    "long unknown fields": lambda obj: {**obj, **LONG_FIELDS},
    "a long name": lambda obj: {**obj, "metadata": {"name": LONG * 450}},
    "a long kind": lambda obj: {**obj, "kind": LONG * 450},
    "a long version": lambda obj: {**obj, "apiVersion": LONG * 450},
    "unknown fields below a long name": lambda obj: {**obj, "spec": {"containers": [{"name": LONG, **FIELDS}]}},
    "texts for numbers": lambda obj: {**obj, "spec": {"replicas": LONG * 450, "minReadySeconds": LONG * 450}},
    "objects for texts": lambda obj: {**obj, "metadata": {"name": "one", "labels": {key: {} for key in FIELDS}}},
    "wrong labels": lambda obj: {**obj, "metadata": {"name": "one", "labels": dict.fromkeys(LONG_FIELDS, LONG)}},
    "wrong finalizers": lambda obj: {**obj, "metadata": {"name": "one", "finalizers": ["/" * 30] * 18_000}},
    "operations": lambda obj: [{"op": LONG * 10, "path": LONG, **LONG_FIELDS}],
    "no object": lambda obj: LONG * 900,
}
WAYS = (
    ("POST", "", "application/json"),
    ("POST", "", "application/yaml"),
    ("PUT", "/one", "application/json"),
    ("PATCH", "/one", wire.MERGE_PATCH),
    ("PATCH", "/one", wire.JSON_PATCH),
    ("PATCH", "/one", wire.STRATEGIC_PATCH),
    ("PATCH", "/one", wire.APPLY_PATCH),
    ("PATCH", "/one/status", wire.MERGE_PATCH),
    ("PUT", "/one/scale", "application/json"),
    ("PATCH", "/one/scale", wire.MERGE_PATCH),
    ("PATCH", "/one/scale", wire.JSON_PATCH),
    ("POST", "/one/eviction", "application/json"),
    ("POST", "/one/binding", "application/json"),
    ("DELETE", "/one", "application/json"),
)


@pytest.fixture(scope="module")
def engine() -> Iterator[engine_process.Engine]:
    with engine_process.running() as running:
        yield running
        assert "Traceback" not in running.log_tail(10_000_000)


def _memory(engine: engine_process.Engine) -> int:
    """The most that it ever had."""
    lines = Path(f"/proc/{engine.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def test_no_refusal_is_long(engine: engine_process.Engine) -> None:
    target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
    api = wire.Api(target, target.token)
    space = f"/namespaces/{api.post('/api/v1/namespaces', builders.namespace())['metadata']['name']}"
    kind = custom.Kind()
    custom.define(api, kind.definition())
    places = (
        (f"/api/v1{space}/pods", builders.pod("one")),
        (f"/apis/apps/v1{space}/deployments", builders.deployment("one")),
        (f"/apis/{kind.group}/v1{space}/{kind.plural}", kind.object("one")),
    )
    before = _memory(engine)
    for path, obj in places:
        for method, rest, content_type in WAYS:
            for how, body in BODIES.items():
                if api.send("GET", f"{path}/one").code == 404:
                    api.post(path, obj)
                options = {"fieldManager": "m"} if content_type == wire.APPLY_PATCH else {}
                answer = api.send(
                    method,
                    path + rest,
                    json.dumps(body(obj)).encode(),
                    content_type=content_type,
                    fieldValidation="Strict",
                    **options,
                )
                what = (method, path + rest, content_type, how, answer.code, len(answer.raw))
                assert answer.code < 400 or len(answer.raw) < LARGEST_ANSWER, what
    assert _memory(engine) - before < MOST_MEMORY
    api.close()
