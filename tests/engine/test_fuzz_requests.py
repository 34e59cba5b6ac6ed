"""All methods, paths, options and bodies on kept-alive connections: no answer is a 5xx, and none is out of step."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from tests import engine_process
from tests.contract import builders, custom, wire
from tests.engine import odd_requests, raw_http

SECONDS = float(os.environ.get("LOCALPV_FUZZ_SECONDS", "0"))
FIRST = int(os.environ.get("LOCALPV_FUZZ_FIRST", "0"))
"""A request that failed is made again by its number, the first of a run: what came before it may matter."""

ENOUGH = 3000
"""At least so many: the same ones every time, however slow the machine is."""

EXCEPTIONS = {
    500: "failed to create typed patch object",
    503: "nobody runs pods on this machine",
    504: "Too large resource version",
}
"""Answers of Kubernetes itself: what server-side apply cannot read by the schema is a 500 there, without a node nothing
can be read from a pod, and a version that is not there yet is waited for."""


@pytest.fixture(scope="module")
def engine() -> Iterator[engine_process.Engine]:
    with engine_process.running() as running:
        target = wire.read_kubeconfig(running.kubeconfig, controllers=True)
        admin = wire.Api(target, target.token)
        admin.post("/api/v1/namespaces", builders.namespace(odd_requests.SPACE))
        custom.define(admin, custom.Kind().definition())
        for example in odd_requests.EXAMPLES:
            resource = next(r for r in odd_requests.RESOURCES if r.kind == example["kind"])
            scope = f"/namespaces/{odd_requests.SPACE}" if resource.namespaced else ""
            admin.post(f"{resource.path}{scope}/{resource.plural}", {"apiVersion": resource.api_version, **example})
        admin.close()
        yield running
        assert running.process.poll() is None, "it is still there"
        assert "Traceback" not in running.log_tail(10_000_000)


def test_every_request_is_answered_and_no_connection_gets_out_of_step(engine: engine_process.Engine) -> None:
    target = wire.read_kubeconfig(engine.kubeconfig)
    authorization = (b"Authorization", f"Bearer {target.token}".encode())
    host = (b"Host", b"x")
    connection = raw_http.Connection(target)
    codes: Counter[int] = Counter()
    deadline, number = time.monotonic() + SECONDS, FIRST
    while time.monotonic() < deadline or number - FIRST < ENOUGH:
        odd = odd_requests.make(number)
        about = f"request {number}: {odd.method} {odd.target[:300]!r} {odd.headers} {odd.body[:500]!r}"
        raw = raw_http.request(odd.method.encode(), odd.target, (host, authorization, *odd.headers), odd.body)
        try:
            answer = connection.ask(raw, head=odd.method == "HEAD")
            plain = f"/api/v1/namespaces/{odd_requests.SPACE}/configmaps/step-{number}".encode()
            step = connection.ask(raw_http.request(b"GET", plain, (host, authorization), b""))
        except raw_http.OutOfStep as error:
            raise AssertionError(f"{error}; {about}") from None
        codes[answer.code] += 1
        assert answer.code < 500 or EXCEPTIONS.get(answer.code, "\0").encode() in answer.body, (about, answer)
        assert (step.code, json.loads(step.body)["details"]["name"]) == (404, f"step-{number}"), (about, step)
        number += 1
    connection.close()
    # It is worth something only if much of it gets through.
    assert codes[200] > 10 and codes[201] > 3 and codes[422] > 3 and codes[400] > 10 and codes[405] > 5, codes
