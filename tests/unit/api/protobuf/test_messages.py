"""The numbers of protobuf and the names of the schema come from two sources; here they meet."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localpv.api import protobuf, resources, stored_resources
from localpv.api.protobuf import messages, wire
from localpv.api.protobuf.messages import MAGIC
from localpv.api.resources import Resource
from localpv.api.schema.catalogue import Catalogue
from localpv.api.translate import inline
from localpv.errors import BadRequest, UnsupportedMediaType

CATALOGUE = Catalogue()


def json_names(name: str) -> Iterator[str]:
    for field in messages.message(name).values():
        if field.inline:
            yield from json_names(field.type)
        else:
            yield field.name


def reached(name: str, seen: set[str]) -> set[str]:
    if name not in seen:
        seen.add(name)
        for field in messages.message(name).values():
            if field.is_message:
                reached(field.type, seen)
    return seen


@pytest.mark.parametrize("resource", (*stored_resources.EVERY, *resources.REVIEWS), ids=lambda item: item.qualified)
def test_kind_has_every_field_of_its_schema(resource: Resource) -> None:
    root = messages.name_of(resource.api_version, resource.kind)
    assert root == resource.schema
    for name in reached(root, set()):
        if name in CATALOGUE:
            # Our own field is translated before anything is stored, so it is never written.
            schema = set(CATALOGUE.openapi(name).get("properties", {})) - {inline.FIELD}
            # apiVersion and kind of an object travel in the envelope.
            assert set(json_names(name)) | {"apiVersion", "kind"} == schema | {"apiVersion", "kind"}, name


def test_options_are_the_same_message_in_every_group() -> None:
    assert messages.name_of("apps/v1", "DeleteOptions") == messages.name_of("v1", "DeleteOptions")


BODIES: dict[str, Any] = json.loads(Path(__file__).with_name("bodies.json").read_bytes())
RAW = [bytes.fromhex(body["body"]) for body in BODIES.values()]

text = wire.write_bytes
number = wire.write_number


def envelope(message: bytes, kind: str = "ConfigMap", api_version: str = "v1", more: bytes = b"") -> bytes:
    return MAGIC + text(1, text(1, api_version.encode()) + text(2, kind.encode())) + text(2, message) + more


@pytest.mark.parametrize("name", BODIES)
def test_body_of_go_becomes_the_json_of_go(name: str) -> None:
    assert protobuf.decode(bytes.fromhex(BODIES[name]["body"])) == BODIES[name]["object"]


def test_zero_stays_where_go_knows_it_from_absent() -> None:
    replicas, min_ready_seconds, deadline = (number(field, 0) for field in (1, 5, 9))
    found = protobuf.decode(envelope(text(2, replicas + min_ready_seconds + deadline), "Deployment", "apps/v1"))
    assert found["spec"] == {"replicas": 0, "progressDeadlineSeconds": 0}


def test_fields_that_nobody_knows_are_skipped() -> None:
    unknown = (
        number(1000, 7)
        + text(1001, b"text")
        + wire.write_varint(1002 << 3 | wire.FIXED64)
        + bytes(8)
        + wire.write_varint(1003 << 3 | wire.FIXED32)
        + bytes(4)
        + wire.write_varint(1004 << 3 | wire.START_GROUP)
        + number(1, 1)
        + wire.write_varint(1004 << 3 | wire.END_GROUP)
    )
    found = protobuf.decode(envelope(unknown + text(1, unknown + text(1, b"one")) + unknown, more=unknown))
    assert found == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}


def test_packed_and_single_numbers_read_the_same() -> None:
    def job(values: bytes) -> Any:
        rule = text(1, b"FailJob") + text(2, text(2, b"In") + values)
        found = protobuf.decode(envelope(text(2, text(11, text(1, rule))), "Job", "batch/v1"))
        return found["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"]

    assert job(number(3, 1) + number(3, 300)) == job(text(3, b"\x01\xac\x02")) == [1, 300]


def test_message_in_two_parts_is_merged_and_of_a_value_the_last_one_counts() -> None:
    parts = text(1, text(1, b"one") + text(3, b"there")) + text(1, text(3, b"here") + text(1, b""))
    assert protobuf.decode(envelope(parts))["metadata"] == {"namespace": "here"}


def test_entry_of_a_map_may_lack_a_key_or_a_value() -> None:
    found = protobuf.decode(envelope(text(2, text(1, b"bare")) + text(2, text(2, b"nameless")) + text(3, b"")))
    assert (found["data"], found["binaryData"]) == ({"bare": "", "": "nameless"}, {"": ""})


def test_json_may_travel_in_the_envelope() -> None:
    body = envelope(b'{"data":{"a":"b"}}', more=text(4, b"application/json"))
    assert protobuf.decode(body) == {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}


def test_kind_without_a_binary_form_is_told_to_come_as_json() -> None:
    with pytest.raises(UnsupportedMediaType, match="application/json"):
        protobuf.decode(envelope(b"", "LocalDisk", "localpv.dev/v1alpha1"))
    with pytest.raises(BadRequest, match='no kind "Pond"'):
        protobuf.decode(envelope(b"", "Pond"))


def nested_schema(levels: int) -> bytes:
    schema = b""
    for _ in range(levels):
        schema = text(28, schema)  # not: {not: {not: ...}}
    version = text(1, b"v1") + text(4, text(1, schema))
    return envelope(text(2, text(7, version)), "CustomResourceDefinition", "apiextensions.k8s.io/v1")


def test_nesting_has_an_end() -> None:
    assert protobuf.decode(nested_schema(100))["kind"] == "CustomResourceDefinition"
    for levels in (messages.MAX_DEPTH, 20_000):
        with pytest.raises(BadRequest, match="nested"):
            protobuf.decode(nested_schema(levels))


@pytest.mark.parametrize(
    ("body", "reason"),
    {
        "nothing": (b"", "begin"),
        "JSON": (b"{}", "begin"),
        "only the beginning": (MAGIC, "has no"),
        "no kind": (MAGIC + text(1, text(1, b"v1")), "no kind"),
        "kind is a number": (MAGIC + text(1, text(1, b"v1") + number(2, 1)), "must be a text"),
        "cut number": (MAGIC + b"\xff\xff", "middle of a number"),
        "endless number": (MAGIC + b"\xff" * 12, "64 bits"),
        "field zero": (envelope(b"\x02\x00"), "no field 0"),
        "unknown wire type": (envelope(b"\xfe\x3f"), "wire type 6"),
        "end of no group": (envelope(b"\xfc\x3f"), "wire type 4"),
        "group without end": (envelope(b"\xfb\x3f"), "middle of a number"),
        "cut fixed": (envelope(b"\xf9\x3f\x00"), "middle of a number"),
        "too long a value": (envelope(b"\x0a\x7f\x00"), "longer than the message"),
        "not UTF-8": (envelope(text(1, text(1, b"\xff"))), "UTF-8"),
        "number for a text": (envelope(text(1, number(1, 5))), "name"),
        "text for a number": (envelope(text(2, text(1, b"5")), "Deployment", "apps/v1"), "replicas"),
        "compressed": (envelope(b"", more=text(3, b"gzip")), "compressed"),
        "no object in the JSON": (envelope(b"[]", more=text(4, b"application/json")), "not an object"),
        "broken JSON": (envelope(b"{", more=text(4, b"application/json")), "JSON"),
        "time beyond the calendar": (envelope(text(1, text(8, number(1, 1 << 60)))), "year"),
    }.values(),
)
def test_malformed_body_is_a_bad_request(body: bytes, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        protobuf.decode(body)


@given(st.sampled_from(RAW), st.integers(0, 1 << 16), st.integers(0, 8), st.binary(max_size=8))
@settings(max_examples=400)
def test_damaged_body_is_read_or_refused(raw: bytes, place: int, cut: int, put: bytes) -> None:
    place %= len(raw)
    try:
        assert protobuf.decode(raw[:place] + put + raw[place + cut :])["kind"]
    except (BadRequest, UnsupportedMediaType) as refusal:
        assert refusal.message


@given(st.sampled_from(["Pod", "ConfigMap", "PersistentVolume", "Event"]), st.binary(max_size=200))
@settings(max_examples=200)
def test_noise_is_read_or_refused(kind: str, noise: bytes) -> None:
    try:
        assert protobuf.decode(envelope(noise, kind))["kind"] == kind
    except BadRequest as refusal:
        assert refusal.message


def test_server_without_binary_bodies_never_loads_the_tables() -> None:
    program = "import sys, localpv.engine.apiserver.body; sys.exit('localpv.api.protobuf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


HOLD_RAW_JSON = {"definition", "pod-every-volume"}
"""Spaces between the words of raw JSON inside these are up to the client."""


@pytest.mark.parametrize("name", sorted(BODIES.keys() - HOLD_RAW_JSON))
def test_object_is_written_as_go_writes_it(name: str) -> None:
    assert protobuf.encode(BODIES[name]["object"]).hex() == BODIES[name]["body"]


@pytest.mark.parametrize("name", sorted(BODIES))
def test_written_object_reads_as_itself(name: str) -> None:
    assert protobuf.decode(protobuf.encode(BODIES[name]["object"])) == BODIES[name]["object"]


def test_custom_kind_has_no_binary_form() -> None:
    with pytest.raises(UnsupportedMediaType):
        protobuf.encode({"apiVersion": "localpv.dev/v1alpha1", "kind": "LocalDisk"})


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_number_reads_as_it_was_written(value: int) -> None:
    raw = wire.write_varint(value)
    found, at = wire.varint(raw, 0, len(raw))
    assert (wire.int64(found), at) == (value, len(raw))
