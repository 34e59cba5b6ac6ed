"""Errors are Status objects, whatever went wrong."""

from __future__ import annotations

import gzip
import json

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api


@pytest.mark.parametrize("path", ["/api/v1/wonders", "/api/v1/namespaces/default/wonders", "/apis/apps/v1/wonders"])
def test_unknown_resource_is_not_found(api: Api, path: str) -> None:
    status = api.get(path, expect=404)
    assert (status["kind"], status["reason"]) == ("Status", "NotFound")
    assert status["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize("path", ["/apis/unknown.localpv.dev/v1/things", "/api/v2/pods", "/nowhere", "/apis/apps/v9"])
def test_unknown_path_is_not_found(api: Api, path: str) -> None:
    assert api.send("GET", path).code == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_method_that_a_collection_lacks_is_not_allowed(api: Api, space: Space, method: str) -> None:
    status = api.call(method, space.core("configmaps"), {}, content_type="application/json", expect=405)
    assert (status["reason"], status["code"]) == ("MethodNotAllowed", 405)
    assert status["message"] == "the server does not allow this method on the requested resource"


def test_post_to_an_object_is_not_allowed(api: Api, space: Space) -> None:
    status = api.post(space.core("configmaps", "one"), builders.config_map("one"), expect=405)
    assert status["reason"] == "MethodNotAllowed"


def test_create_across_all_namespaces_is_not_allowed(api: Api) -> None:
    assert api.post("/api/v1/configmaps", builders.config_map(), expect=405)["reason"] == "MethodNotAllowed"


def test_unknown_accept_is_not_acceptable(api: Api, space: Space) -> None:
    status = api.get(space.core("configmaps"), accept="text/html", expect=406)
    assert (status["reason"], status["code"]) == ("NotAcceptable", 406)
    assert "application/json" in status["message"]


def test_unknown_content_type_is_unsupported(api: Api, space: Space) -> None:
    status = api.post(space.core("configmaps"), b"x", content_type="text/plain", expect=415)
    assert (status["reason"], status["code"]) == ("UnsupportedMediaType", 415)


def test_yaml_body_is_taken(api: Api, space: Space) -> None:
    text = b"metadata:\n  name: one\ndata:\n  a: b\n"
    made = api.post(space.core("configmaps"), text, content_type="application/yaml", expect=201)
    assert made["data"] == {"a": "b"}


def test_dates_in_a_yaml_body_are_strings_and_aliases_are_followed(api: Api, space: Space) -> None:
    text = b"metadata: {name: one}\ndata:\n  a: &a 2026-01-02\n  b: *a\n  c: 1:30\n  d: 2026-01-02T03:04:05Z\n"
    made = api.post(space.core("configmaps"), text, content_type="application/yaml", expect=201)
    assert made["data"] == {"a": "2026-01-02", "b": "2026-01-02", "c": "1:30", "d": "2026-01-02T03:04:05Z"}


@pytest.mark.parametrize("content_type", ["application/yaml", wire.APPLY_PATCH])
def test_a_yaml_body_whose_aliases_stand_for_very_much_is_a_bad_request(
    api: Api, space: Space, content_type: str
) -> None:
    aliases = "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    text = f"kind: ConfigMap\napiVersion: v1\nmetadata: {{name: one}}\na: &a [x,x,x,x,x,x,x,x,x]\n{aliases}".encode()
    method, path = ("POST", space.core("configmaps"))
    if content_type == wire.APPLY_PATCH:
        method, path = "PATCH", f"{space.core('configmaps', 'one')}?fieldManager=me"
    status = api.call(method, path, text, content_type=content_type, expect=400)
    assert status["reason"] == "BadRequest"
    assert "alias" in status["message"]


@pytest.mark.parametrize("body", [b"{", b"", b"[]", b"null", b'"text"', b'{"metadata": 1}', b"\xff\xfe", b"not json"])
def test_malformed_body_is_a_bad_request(api: Api, space: Space, body: bytes) -> None:
    answer = api.send("POST", space.core("configmaps"), body)
    status = answer.body
    assert (status["kind"], status["status"]) == ("Status", "Failure")
    assert answer.code == status["code"]
    assert answer.code in (400, 422), status


def test_body_that_is_too_large_is_refused(api: Api, space: Space) -> None:
    body = builders.config_map("one", data={"a": "x" * (3 * 1024 * 1024 + 100_000)})
    status = api.post(space.core("configmaps"), body, expect=413)
    assert (status["reason"], status["code"]) == ("RequestEntityTooLarge", 413)


def test_object_that_is_too_large_is_invalid(api: Api, space: Space) -> None:
    body = builders.config_map("one", data={"a": "x" * (1024 * 1024 + 1)})
    status = api.post(space.core("configmaps"), body, expect=422)
    assert [reason for reason, _ in wire.causes(status)] == ["FieldValueTooLong"]


def test_invalid_object_lists_all_its_causes(api: Api) -> None:
    body = builders.local_volume(capacity=None, accessModes=None)
    status = api.post("/api/v1/persistentvolumes", body, expect=422)
    name = body["metadata"]["name"]
    assert (status["reason"], status["code"]) == ("Invalid", 422)
    assert (status["details"]["name"], status["details"]["kind"]) == (name, "PersistentVolume")
    assert {field for _, field in wire.causes(status)} == {"spec.capacity", "spec.accessModes"}
    assert status["message"].startswith(f'PersistentVolume "{name}" is invalid: [')
    first = status["details"]["causes"][0]
    assert first["message"].startswith("Required value")


def test_every_answer_has_the_headers_that_clients_and_proxies_read(api: Api, space: Space) -> None:
    answer = api.send("GET", space.core("configmaps"))
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-cache, private"
    assert answer.headers["audit-id"]


def test_large_list_may_be_compressed_for_who_accepts_it(api: Api, space: Space) -> None:
    for index in range(3):
        api.post(space.core("secrets"), builders.secret(f"s{index}", data={"a": "eHh4" * 50_000}))
    plain = api.send("GET", space.core("secrets"))
    assert "content-encoding" not in plain.headers
    asked = api.send("GET", space.core("secrets"), headers={"Accept-Encoding": "gzip"})
    assert asked.headers.get("content-encoding", "gzip") == "gzip"
    raw = gzip.decompress(asked.raw) if "content-encoding" in asked.headers else asked.raw
    assert json.loads(raw)["items"] == plain.body["items"]


def test_numbers_in_the_query_must_be_numbers(api: Api, space: Space) -> None:
    assert api.send("GET", space.core("configmaps"), limit="many").code == 400
    assert api.send("GET", space.core("configmaps"), timeoutSeconds="soon").code == 400


@pytest.mark.parametrize("filler", ["", "x" * 40_000], ids=["short", "long"])
def test_a_key_that_a_yaml_body_has_twice_is_told(api: Api, space: Space, filler: str) -> None:
    path, text = space.core("configmaps"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice}\n"
    raw = f"{text}data:\n  f: '{filler}'\n  a: b\n  a: c\n".encode()
    strict = api.send("POST", path, raw, content_type="application/yaml", fieldValidation="Strict")
    assert (strict.code, strict.body["reason"]) == (400, "BadRequest")
    assert "strict decoding error" in strict.body["message"]
    assert 'key "a" already set in' in strict.body["message"]
    warned = api.send("POST", path, raw, content_type="application/yaml", fieldValidation="Warn")
    assert (warned.code, warned.body["data"]["a"]) == (201, "c")
    assert 'key \\"a\\" already set in' in warned.warnings
    applied = raw.replace(b"twice", b"applied")
    refused = api.send(
        "PATCH",
        f"{path}/applied",
        applied,
        content_type=wire.APPLY_PATCH,
        fieldManager="me",
        fieldValidation="Strict",
    )
    assert refused.code == 400
    assert 'key "a" already set in' in refused.body["message"]
