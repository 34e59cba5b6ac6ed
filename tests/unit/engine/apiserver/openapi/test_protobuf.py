"""The protocol buffers that Go clients read, taken apart again with the field numbers of the specification."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from localpv.api.resources import BUILT_IN
from localpv.api.schema.catalogue import Catalogue
from localpv.engine.apiserver.openapi import Documents, protobuf

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
Fields = dict[int, list[Any]]


def decode(data: bytes) -> Fields:
    """A message's fields by number."""
    found: Fields = defaultdict(list)
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        match tag & 7:
            case 0:
                found[tag >> 3].append(varint())
            case 1:
                found[tag >> 3].append(struct.unpack("<d", data[at : at + 8])[0])
                at += 8
            case 2:
                length = varint()
                assert at + length <= len(data)
                found[tag >> 3].append(data[at : at + length])
                at += length
            case kind:
                raise AssertionError(kind)
    return found


def named(entries: list[bytes]) -> dict[str, Fields]:
    pairs = (decode(entry) for entry in entries)
    return {pair[1][0].decode(): decode(pair[2][0]) for pair in pairs}


def members(document: Fields, number: int, inner: int) -> dict[str, Fields]:
    """All of a message that is written in several pieces."""
    return named([entry for piece in document[number] for entry in decode(piece)[inner]])


def get(documents: Documents, accept: str) -> bytes:
    answer = documents.respond("/openapi/v2", accept=accept)
    assert answer is not None
    return answer.body


def test_the_document_has_the_paths_and_definitions_of_the_json_one() -> None:
    documents = Documents(lambda: BUILT_IN, Catalogue(), lambda resource: None)
    written, expected = decode(get(documents, PROTOBUF)), json.loads(get(documents, "application/json"))

    assert written[1] == [b"2.0"]
    paths, definitions = members(written, 8, 2), members(written, 9, 1)
    assert list(paths) == list(expected["paths"])
    assert list(definitions) == list(expected["definitions"])
    for name, schema in expected["definitions"].items():
        properties = members(definitions[name], 25, 1)
        assert list(properties) == list(schema.get("properties", {}))
        assert [text.decode() for text in definitions[name][19]] == schema.get("required", [])


def test_a_patch_can_be_found_by_the_kind_it_is_for() -> None:
    """kubectl looks for the media types of a patch this way."""
    documents = Documents(lambda: BUILT_IN, Catalogue(), lambda resource: None)
    item = members(decode(get(documents, PROTOBUF)), 8, 2)["/api/v1/persistentvolumes/{name}"]
    patch = decode(item[8][0])
    extensions = {name: json.loads(value[2][0]) for name, value in named(patch[13]).items()}
    assert extensions["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "PersistentVolume"}
    assert b"application/strategic-merge-patch+json" in patch[7]
    queries = [decode(decode(decode(decode(each)[1][0])[2][0])[3][0]) for each in patch[8][:-1]]
    assert {query[4][0] for query in queries} >= {b"dryRun", b"fieldValidation"}
    body = decode(decode(decode(patch[8][-1])[1][0])[1][0])
    assert body[3] == [b"body"]


def test_a_schema_keeps_its_limits_and_its_extensions() -> None:
    found = decode(
        protobuf.schema(
            {
                "type": "integer",
                "format": "int32",
                "minimum": 1.5,
                "maxLength": 300,
                "uniqueItems": True,
                "enum": ["a", 1],
                "default": {"a": None},
                "additionalProperties": False,
                "x-kubernetes-list-map-keys": ["name"],
            }
        )
    )
    assert decode(found[22][0])[1] == [b"integer"]
    assert found[2] == [b"int32"]
    assert found[9] == [1.5]
    assert found[11] == [300]
    assert found[16] == [1]
    assert [json.loads(decode(each)[2][0]) for each in found[20]] == ["a", 1]
    assert json.loads(decode(found[5][0])[2][0]) == {"a": None}
    assert decode(found[21][0])[2] == [0]
    assert json.loads(named(found[31])["x-kubernetes-list-map-keys"][2][0]) == ["name"]


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_any_whole_number_survives(number: int) -> None:
    (found,) = decode(protobuf.schema({"minLength": number}))[12]
    assert (found if found < 2**63 else found - 2**64) == number


@given(st.text())
def test_any_text_survives(text: str) -> None:
    assert decode(protobuf.schema({"description": text}))[4] == [text.encode()]
