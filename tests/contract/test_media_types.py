"""The binary form of objects: kubectl sends it for what it creates from flags, and reads JSON where that is offered."""

from __future__ import annotations

from tests.contract import builders
from tests.contract.spaces import Space
from tests.contract.wire import Api

PROTOBUF = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"


def _field(number: int, value: bytes | str) -> bytes:
    """One length-delimited field of a message; short enough that every length fits into one byte."""
    raw = value.encode() if isinstance(value, str) else value
    assert len(raw) < 128
    return bytes([number << 3 | 2, len(raw)]) + raw


def _envelope(api_version: str, kind: str, message: bytes) -> bytes:
    return MAGIC + _field(1, _field(1, api_version) + _field(2, kind)) + _field(2, message)


def test_binary_body_is_taken_and_json_answered(api: Api, space: Space) -> None:
    message = _field(1, _field(1, "one")) + _field(2, _field(1, "color") + _field(2, "red"))
    body = _envelope("v1", "ConfigMap", message)
    made = api.post(space.core("configmaps"), body, content_type=PROTOBUF, expect=201)
    assert (made["metadata"]["name"], made["data"]) == ("one", {"color": "red"})


def test_binary_delete_options_are_taken(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one", finalizers=["localpv.dev/wait"]))
    body = _envelope("v1", "DeleteOptions", _field(4, "Foreground"))
    held = api.delete(space.core("configmaps", "one"), body, content_type=PROTOBUF)
    assert "foregroundDeletion" in held["metadata"]["finalizers"]


def test_malformed_binary_body_is_a_bad_request(api: Api, space: Space) -> None:
    for body in (b"", MAGIC, MAGIC + b"\xff\xff\xff", b"{}"):
        answer = api.send("POST", space.core("configmaps"), body, content_type=PROTOBUF)
        assert answer.code in (400, 422), answer.raw
        assert answer.body["kind"] == "Status"


def test_binary_or_json_is_answered_to_who_reads_both(api: Api, space: Space) -> None:
    answer = api.send("GET", space.core("configmaps"), accept=f"{PROTOBUF},application/json")
    assert answer.code == 200
    if answer.headers["content-type"] == PROTOBUF:
        assert answer.raw.startswith(MAGIC)
    else:
        assert answer.body["kind"] == "ConfigMapList"
